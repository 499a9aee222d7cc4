import { appendFileSync, readFileSync, renameSync, truncateSync, unlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { useRedis } from "@kit/testing";
import * as fc from "fast-check";
import type { Redis } from "ioredis";
import * as vitest from "vitest";
import { expect, it } from "vitest";
import { BadDataError } from "../src/index.js";
import { fixtureOf } from "./harness.js";

const redis = useRedis(vitest, { permanentKeys: ["*"] });
const fixture = fixtureOf(redis);

const plan = fc.record({
  way: fc.constantFrom("create" as const, "copytruncate" as const, "copytruncate" as const),
  compress: fc.constantFrom("no" as const, "now" as const, "later" as const),
  headerBytes: fc.constantFrom(0, 20, 1_024, 1_500, 4_096),
  /** Lines of each period. */
  periods: fc.array(fc.constantFrom(0, 0, 3, 60, 200), { minLength: 3, maxLength: 5 }),
  /** The sizes of the pieces in which a file is copied or compressed, again and again. The first one of a copy is at least 1 KiB. */
  pieces: fc.tuple(fc.constantFrom(1, 100, 1_000, 1_024, 1_025), fc.constantFrom(1_024, 3_072, 4_096, 4_097)),
  /** How many steps of the writer come before each command of the reader, again and again. Many: the reader stalls. */
  pace: fc
    .array(fc.constantFrom(0, 0, 1, 2, 3, 4, 16), { minLength: 1, maxLength: 40 })
    .filter((steps) => steps.some((count) => count > 0)),
  /** After how many commands each reader is killed, and whether its last command arrives. */
  kills: fc.array(fc.record({ after: fc.integer({ min: 3, max: 60 }), arrives: fc.boolean() }), { maxLength: 4 }),
  concurrency: fc.constantFrom(1, 1, 2),
});
type Plan = typeof plan extends fc.Arbitrary<infer T> ? T : never;

/** The single steps of a writer and its rotations; true: it must go on soon, since the text is there twice. */
function* writerOf(
  path: string,
  { way, compress, headerBytes, periods, pieces }: Plan,
  written: string[],
): Generator<boolean> {
  const header = headerBytes > 0 ? `${"#".repeat(headerBytes - 1)}\n` : "";
  let last = 0;
  const gz = new Set<number>();
  const nameOf = (number: number): string => `${path}.${String(number)}${gz.has(number) ? ".gz" : ""}`;
  const copy = function* (bytes: Buffer, to: string, least: number): Generator<boolean> {
    writeFileSync(to, "");
    yield true;
    for (let [at, piece] = [0, 0]; at < bytes.length; piece++) {
      const end = Math.max(least, at + pieces[piece % pieces.length]!);
      appendFileSync(to, bytes.subarray(at, end));
      at = end;
      yield true;
    }
  };
  writeFileSync(path, "");
  yield false;
  appendFileSync(path, header);
  yield false;
  for (const count of periods) {
    for (let left = count; left > 0; left -= 50) {
      const lines = Array.from({ length: Math.min(left, 50) }, () => {
        const line = `line ${String(written.length)} ${"x".repeat(20)}`;
        written.push(line);
        return `${line}\n`;
      });
      appendFileSync(path, lines.join(""));
      yield false;
    }
    for (let number = last; number > 0; number--) {
      const before = nameOf(number);
      if (gz.delete(number)) gz.add(number + 1);
      renameSync(before, nameOf(number + 1));
      yield false;
    }
    last++;
    const rotated = `${path}.1`;
    if (way === "create") {
      renameSync(path, rotated);
      yield false;
      writeFileSync(path, "");
    } else {
      // A copy with less than 1 KiB of a longer file counts as a new file.
      yield* copy(readFileSync(path), rotated, 1_024);
      truncateSync(path);
    }
    yield false;
    const number = compress === "now" ? 1 : 2;
    if (compress !== "no" && number <= last) {
      yield* copy(gzipSync(readFileSync(nameOf(number))), `${nameOf(number)}.gz`, 1);
      unlinkSync(nameOf(number));
      gz.add(number);
      yield false;
    }
    appendFileSync(path, header);
    yield false;
  }
}

/** Plays a plan; resolves with the lines that are not counted once, and all events. */
const play = async (plan: Plan, name: string): Promise<{ wrong: string[]; events: string[] }> => {
  const directory = await fixture.directory();
  const written: string[] = [];
  const events: string[] = [];
  const writer = writerOf(join(directory, "a.log"), plan, written);
  let [isOver, isUrgent, commands, steppedAt] = [false, false, 0, performance.now()];
  const step = (): void => {
    const { value, done = false } = writer.next();
    [isOver, isUrgent, steppedAt] = [done, value === true, performance.now()];
  };
  step();
  const kills = [...plan.kills];
  const db = fixture.connect() as Redis;
  for (;;) {
    const isLast = isOver && kills.length === 0;
    if (!isOver) step();
    const { after, arrives } = kills.shift() ?? { after: Infinity, arrives: true };
    const killed = new AbortController();
    let left = after;
    const client = Object.create(db) as Redis;
    const call = db.call.bind(db) as (...args: unknown[]) => Promise<unknown>;
    const stepping = async (...args: unknown[]): Promise<unknown> => {
      for (let more = plan.pace[commands++ % plan.pace.length]!; more > 0 && !isOver; more--) step();
      if (isUrgent && performance.now() - steppedAt > 200) step();
      const isDead = killed.signal.aborted;
      if (--left < 0) killed.abort(new Error("killed"));
      if (isDead || (killed.signal.aborted && !arrives)) throw new Error("killed");
      const reply = await call(...args);
      if (killed.signal.aborted) throw new Error("killed");
      return reply;
    };
    Object.defineProperty(client, "call", { value: stepping });
    const timing = { leaseMs: 100, deadlineMs: 2_000, flushLines: 20 };
    const job = fixture.job({ ...timing, name, client, directory, match: /^a\.log/, lastLine: "leave" });
    for (const event of ["gap", "copy", "moved", "again", "file", "done"] as const)
      job.on(event, (fact) => events.push(`${event} ${JSON.stringify(fact)}`));
    const { concurrency } = plan;
    const failed = await job
      .run(
        (lines, results) => {
          for (const line of lines) if (!line.startsWith("#")) results.increment("lines", line);
        },
        { concurrency, signal: killed.signal },
      )
      .then(
        () => false,
        (error: unknown) => {
          events.push(`ended ${String(error)}`);
          // A compressed file may not be complete yet.
          expect(killed.signal.aborted || (!isLast && error instanceof BadDataError), events.join("\n")).toBe(true);
          return true;
        },
      );
    const counts = isLast && !failed ? await job.results("lines") : undefined;
    await job.close({ timeoutMs: 1_000 });
    if (counts) return { wrong: written.filter((line) => counts.get(line) !== "1"), events };
  }
};

it("counts each line once, wherever the writer and the killed readers are in their work", async () => {
  // `KIT_MODEL_RUNS=500` for a long run.
  const plans = fc.sample(plan, Number(process.env["KIT_MODEL_RUNS"] ?? 16));
  for (let from = 0; from < plans.length; from += 16) {
    const some = plans.slice(from, from + 16);
    const played = await Promise.all(some.map((one, index) => play(one, `job ${String(from + index)}`)));
    for (const [index, { wrong, events }] of played.entries())
      expect(wrong, `${JSON.stringify(some[index])}\n${events.join("\n")}`).toEqual([]);
  }
}, 600_000);
