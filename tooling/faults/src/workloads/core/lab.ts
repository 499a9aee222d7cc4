import { pause } from "@kit/core/toolkit";
import { eventually } from "@kit/testing";
import { patience } from "../../patience.js";
import { clock } from "@tooling/lab";
import { Lab, type LabOptions, prefix } from "../../lab/lab.js";
import type { Surroundings } from "../../lab/surroundings.js";
import type { Worker } from "../../lab/worker.js";
import type { Span } from "../../records.js";
import type { Progress } from "../../work.js";
import { progressIn } from "./checker.js";
import type { Entry, LogRecord, NamedVersion, RunHistory, Version } from "./history.js";

const rolledName = "rolled";
const wiredName = "wired";
const names = ["limits", "texts", rolledName, wiredName];

/** More than twice the bound of readers. A reader that is later breaks an invariant or was stalled. */
const newestMs = 5_000;
/** Longer than any PING takes on an idle machine. */
const slowMs = 30;

/** What the readers of a worker show. */
interface Heard {
  readonly shows: Map<string, Version | undefined>;
  readonly states: Map<string, string>;
}

/** A server, workers that read their configuration from it and write to it, and the injections. */
export class CoreLab extends Lab<LogRecord> {
  protected override readonly heard = ["call", "shows", "state"];
  readonly policyChanges: number[] = [];
  readonly #keys: readonly string[];
  readonly #readers = new Map<Worker, Heard>();
  readonly #sights = new Map<number, readonly NamedVersion[]>();
  readonly #slow: Span[] = [];
  #isOver = false;

  constructor(options: LabOptions, around: Surroundings) {
    super(options, around);
    this.#keys = Array.from({ length: 6 }, (_, index) => `effects:{${String(index + 1)}}`);
  }

  /** The replicas of each master. */
  get #replicas(): number {
    return this.server.replicas.length / this.server.nodes.length;
  }

  protected override settings(): object {
    return {
      names,
      rolledName,
      wiredName,
      keys: this.#keys,
      replicas: this.#replicas,
      // Some deadlines are much shorter than an outage, others are longer.
      deadlinesMs: this.#replicas > 0 ? [400, 1_500, 8_000] : [300, 1_000],
      loops: 4,
      restMs: 30,
    };
  }

  protected override progressIn(record: LogRecord): readonly Progress[] {
    return progressIn(record);
  }

  protected override awaited(): readonly string[] {
    return ["config", "durable"];
  }

  protected override hear(record: LogRecord, worker: Worker): void {
    super.hear(record, worker);
    const { shows, states } = this.#readers.get(worker) ?? { shows: new Map(), states: new Map() };
    this.#readers.set(worker, { shows, states });
    if (record.kind === "shows") shows.set(record.name, record.version);
    if (record.kind === "state") states.set(record.name, record.state);
  }

  // ── the state of the server ───────────────────────────────────────────────────────────────────────────────────────

  /** The matching keys of all masters. */
  async #keysLike(pattern: string): Promise<Set<string>> {
    const found = await Promise.all((await this.masters()).map((node) => node.call("KEYS", pattern)));
    return new Set((found as string[][]).flat());
  }

  async #versionOf(name: string): Promise<Version | undefined> {
    const found = await this.ask("HMGET", `${prefix}:config:{${name}}:entry`, "epoch", "revision", "at");
    const [epoch, revision, at] = found as (string | null)[];
    return typeof epoch === "string" ? versionOf(epoch, revision ?? "", at ?? "") : undefined;
  }

  /** The entries as they are now. */
  async entries(): Promise<readonly NamedVersion[]> {
    const found = await Promise.all(names.map(async (name) => ({ name, version: await this.#versionOf(name) })));
    return found.flatMap(({ name, version }) => (version ? [{ name, version }] : []));
  }

  async #entry(name: string): Promise<Entry> {
    const kept = (await this.ask("LRANGE", `${prefix}:config:{${name}}:history`, "0", "-1")) as string[];
    return {
      name,
      version: await this.#versionOf(name),
      kept: kept.map((line) => {
        const [epoch, revision, at, , , value = ""] = line.split("\t");
        return { version: versionOf(epoch, revision, at), id: (JSON.parse(value) as { id: string }).id };
      }),
    };
  }

  async #effects(): Promise<Map<string, number>> {
    const found = new Map<string, number>();
    const add = (id: string): void => void found.set(id, (found.get(id) ?? 0) + 1);
    for (const key of this.#keys)
      for (const id of (await this.ask("LRANGE", `${key}:list`, "0", "-1")) as string[]) add(id);
    for (const single of await this.#keysLike("effects:*:set:*")) add(single.slice(single.lastIndexOf(":") + 1));
    return found;
  }

  async #counters(): Promise<Map<string, number>> {
    const counters = this.#keys.map((key) => `${key}:counter`);
    const found = await Promise.all(counters.map((key) => this.ask("GET", key)));
    return new Map(counters.map((key, at) => [key, Number(found[at] ?? 0)]));
  }

  /** Only entries and effects may stay for ever. */
  async #leftovers(): Promise<string[]> {
    const found: string[] = [];
    for (const key of await this.#keysLike(`${prefix}:*`))
      if (!/^kit:config:\{\w+\}:(entry|history)$/.test(key) && Number(await this.ask("PTTL", key)) === -1)
        found.push(`${key} stays for ever`);
    return found;
  }

  // ── the progress of workers ───────────────────────────────────────────────────────────────────────────────────────

  override async set(...settings: readonly (readonly [name: string, value: string | number])[]): Promise<void> {
    if (settings.some(([name]) => name === "appendfsync")) this.policyChanges.push(clock());
    await super.set(...settings);
  }

  // The next fault waits until all readers could show the newest entry. The checker judges whether they were in time.
  override async healed(kind: string): Promise<void> {
    const isTimed = this.marks.some((mark) => mark.kind === kind && mark.dueMs !== undefined);
    // With a bound of its own the outage counts from the injection, so the heal is only a note.
    await super.healed(isTimed ? `${kind}: all back` : kind);
    const mark = this.marks.at(-1);
    const entries = await this.entries();
    if (mark) this.#sights.set(mark.at, entries);
    await eventually(
      () => {
        this.logged("started");
        for (const [{ id, hasEnded }, { shows, states }] of this.#readers)
          for (const { name, version } of hasEnded ? [] : entries) {
            if ((shows.get(name)?.at ?? 0) < version.at) throw new Error(`${id} shows an old ${name}`);
            if (states.get(name) !== "fresh") throw new Error(`${name} of ${id} is ${states.get(name) ?? "not there"}`);
          }
      },
      { timeoutMs: newestMs * patience },
    );
  }

  // ── the end of a run ──────────────────────────────────────────────────────────────────────────────────────────────

  override async begin(workers: number): Promise<void> {
    await super.begin(workers);
    void this.#keepPace();
  }

  /** Sends PING repeatedly, on a connection that no fault affects, to measure how busy the machine is. */
  async #keepPace(): Promise<void> {
    while (!this.#isOver) {
      const from = clock();
      const node = [...this.server.sentinels, ...this.server.nodes].find(({ state }) => state === "running");
      // Without a running server nothing is measured.
      const isAnswered = await node?.call("PING").then(
        () => true,
        () => false,
      );
      const to = clock();
      if (isAnswered && to - from > slowMs) this.#slow.push({ from, to });
      await pause(20);
    }
  }

  async end(): Promise<RunHistory> {
    const facts = await this.facts();
    return {
      ...facts,
      heals: this.marks.map((mark) => ({ ...mark, entries: this.#sights.get(mark.at) ?? [] })),
      policyChanges: this.policyChanges,
      replicas: this.#replicas,
      hasFile: this.server.mode === "single" && this.setting !== "address",
      rolledName,
      effects: await this.#effects(),
      counters: await this.#counters(),
      entries: await Promise.all(names.map((name) => this.#entry(name))),
      leftovers: await this.#leftovers(),
      slow: this.#slow,
    };
  }

  override async stop(): Promise<void> {
    this.#isOver = true;
    await super.stop();
  }
}

const versionOf = (epoch = "", revision = "", micros = ""): Version => ({
  epoch,
  revision: Number(revision),
  at: Number(micros) / 1_000,
});
