import { createHash } from "node:crypto";
import { type Connection, connect } from "@kit/core";
import { createPrefixIndex } from "@kit/autocomplete";
import type { LogRecord, RunHistory, State } from "./history.js";
import { Lab, prefix } from "../../lab/lab.js";

type Rows = Record<"rows" | "ranked", string[]>;

/** The rank of a weight: seven digits to base 94, as specified in the package's DESIGN.md. */
const rankOf = (weight: string, isExact: boolean): string => {
  let left = 9_999_999_999_999n - BigInt(weight) + (isExact ? 0n : 10_000_000_000_000n);
  let digits = "";
  for (; digits.length < 7; left /= 94n) digits = String.fromCharCode(33 + Number(left % 94n)) + digits;
  return digits;
};

/** The rows that a record must have. The names of this workload are ASCII. */
const rowsOf = (id: string, record: string, rules: string): Rows => {
  const [, weight = "", starts = "", fold = "", text = "", payload = ""] = record.split("\0");
  const isRanked = rules.includes("order=weight");
  const tag = createHash("sha1").update(rules).digest("hex").slice(0, 8);
  const found: Rows = { rows: [], ranked: [] };
  for (const start of starts.split(",")) {
    const suffix = fold.slice(Number(start));
    const row = `${suffix}\0${start === "0" ? "0" : "1"}${id}`;
    found.rows.push(isRanked ? row : `${tag}${row}\0${weight}\0${text}\0${payload}`);
    for (let length = 1; isRanked && length <= Math.min(3, suffix.length); length++) {
      const beginning = suffix.slice(0, length);
      const isExact = start === "0" && `${beginning.trimEnd()} ` === suffix;
      found.ranked.push(`${beginning}\0${rankOf(weight, isExact)}${row.slice(length)}`);
    }
  }
  return found;
};

/** A server, workers that put, delete, touch, rebuild and search, and the injections. */
export class AutocompleteLab extends Lab<LogRecord> {
  async end(): Promise<RunHistory> {
    const facts = await this.facts();
    await using client = await connect({ url: this.ownUrl, deadlineMs: 10_000 });
    return { ...facts, wrong: { P2: await this.#wrong(client) }, found: await this.#found(client, facts.workers) };
  }

  /** Rows without a record, records without a row, and data of a dead rebuild without expiry. */
  async #wrong(client: Connection): Promise<string[]> {
    const wrong: string[] = [];
    const lives = await this.lives();
    for (const [key, ms] of lives) {
      const isTemporary = /:(?:staged:\w+|live|ops)$/.test(key);
      if (isTemporary !== ms >= 0) wrong.push(`${key} has ${String(ms)} ms left`);
    }
    for (const key of lives.keys()) {
      const base = /^(.*:)index$/.exec(key)?.[1];
      if (base === undefined) continue;
      for (const generation of ["", "staged:"]) {
        const rules = await client.hget(key, generation === "" ? "settings" : "staged");
        const { "": _, ...records } = await client.hgetall(`${base}${generation}items`);
        for (const part of ["rows", "ranked"] as const) {
          const there = new Set(await client.zrange(`${base}${generation}${part}`, "0", "-1"));
          const wanted = new Set(Object.entries(records).flatMap(([id, one]) => rowsOf(id, one, rules ?? "")[part]));
          for (const row of there)
            if (!wanted.has(row)) wrong.push(`${base}${generation}${part}: ${row} has no record`);
          for (const row of wanted) if (!there.has(row)) wrong.push(`${base}${generation}${part}: no row ${row}`);
        }
      }
    }
    return wrong.map((what) => what.replaceAll("\0", "|"));
  }

  /** Each entry that a worker may have put, as the package itself finds it. */
  async #found(client: Connection, workers: RunHistory["workers"]): Promise<Record<string, State>> {
    const found: Record<string, State> = {};
    for (const { records } of workers)
      for (const record of records) if (record.kind === "intends") found[`${record.index} ${record.id}`] = null;
    for (const key of Object.keys(found)) {
      const [name = "", id = ""] = key.split(" ");
      await using index = createPrefixIndex(client, name, {
        prefix,
        deadlineMs: 10_000,
        order: name === "names" ? "weight" : "alphabetical",
      });
      const { items } = await index.suggest(`${id} `);
      const [first] = items;
      if (items.length > 1) found[key] = { text: items.map(({ text }) => text).join(), weight: -1 };
      else if (first) found[key] = { text: first.text, weight: first.weight };
    }
    return found;
  }
}
