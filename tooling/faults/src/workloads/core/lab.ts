import { pause } from "@kit/core/toolkit";
import { eventually, type RedisServer } from "@kit/testing";
import { patience } from "../../patience.js";
import { clock } from "@tooling/lab";
import { Lab, type LabOptions, type Loss, type Surroundings } from "../../lab/lab.js";
import type { Worker } from "../../lab/worker.js";
import type { Span } from "../../records.js";
import type { Subject } from "../../lab/control.js";
import type { DataLoss, Entry, Heal, LogRecord, RunHistory, Version } from "./history.js";

const prefix = "kit";
const rolledName = "rolled";
const wiredName = "wired";
const names = ["limits", "texts", rolledName, wiredName];

/** More than twice the bound of readers. A reader that is later breaks an invariant or was stalled. */
const newestMs = 5_000;
/** Longer than any PING takes on an idle machine. */
const slowMs = 30;

export interface CoreLabOptions extends LabOptions {
  readonly subject: Subject;
}

/** The newest records of a worker. */
interface Heard {
  /** By kind of work: the start of the newest successful call. */
  readonly wellSince: Map<"config" | "durable", number>;
  readonly shows: Map<string, Version | undefined>;
  readonly states: Map<string, string>;
}

/** A server, workers that read their configuration from it and write to it, and the injections. */
export class CoreLab extends Lab {
  readonly leaseMs = 400;
  readonly losses: DataLoss[] = [];
  readonly policyChanges: number[] = [];
  readonly #options: CoreLabOptions;
  readonly #keys: readonly string[];
  readonly #heard = new Map<Worker, Heard>();
  readonly #sights = new Map<number, Heal["entries"]>();
  readonly #slow: Span[] = [];
  #isOver = false;
  #look: ReturnType<RedisServer["client"]> | undefined;

  constructor(options: CoreLabOptions, around: Surroundings) {
    super(options, around);
    this.#options = options;
    this.#keys = Array.from({ length: 6 }, (_, index) => `effects:{${String(index + 1)}}`);
  }

  /** The replicas of each master. */
  get #replicas(): number {
    return this.server.replicas.length / this.server.nodes.length;
  }

  spawn(): Worker {
    const { seed, subject } = this.#options;
    const number = this.all.length + 1;
    const settings = {
      url: this.url,
      prefix,
      names,
      rolledName,
      wiredName,
      keys: this.#keys,
      replicas: this.#replicas,
      // Some deadlines are much shorter than an outage, others are longer.
      deadlinesMs: this.#replicas > 0 ? [400, 1_500, 8_000] : [300, 1_000],
      leaseMs: this.leaseMs,
      seed: seed + 1_000 * number,
      loops: 4,
      restMs: 30,
      ...subject,
    };
    const heard: Heard = { wellSince: new Map(), shows: new Map(), states: new Map() };
    const worker = this.hire("core", settings, (line) => hear(heard, JSON.parse(line) as LogRecord));
    this.#heard.set(worker, heard);
    return worker;
  }

  // ── the state of the server ───────────────────────────────────────────────────────────────────────────────────────

  /** Sends a command to the node that serves the key now. */
  async #ask(command: string, key: string, ...args: string[]): Promise<unknown> {
    const { mode } = this.server;
    if (mode === "single") return await this.node.call(command, key, ...args);
    if (mode === "sentinel") return await (await this.server.master()).call(command, key, ...args);
    // After a failover the client's commands are refused until it has found the new master.
    this.#look ??= this.server.client();
    return await eventually(() => this.#look?.call(command, key, ...args));
  }

  /** The matching keys of all masters. */
  async #keysLike(pattern: string): Promise<string[]> {
    const found: string[] = [];
    for (const node of [...this.server.nodes, ...this.server.replicas]) {
      if (!String(await node.call("INFO", "replication")).includes("role:master\r\n")) continue;
      let cursor = "0";
      do {
        const reply = await node.call("SCAN", cursor, "MATCH", pattern, "COUNT", "1000");
        const [next, some] = reply as [string, string[]];
        found.push(...some);
        cursor = next;
      } while (cursor !== "0");
    }
    return [...new Set(found)];
  }

  async #versionOf(name: string): Promise<Version | undefined> {
    const found = await this.#ask("HMGET", `${prefix}:config:{${name}}:entry`, "epoch", "revision", "at");
    const [epoch, revision, at] = found as (string | null)[];
    return typeof epoch === "string" ? versionOf(epoch, revision ?? "", at ?? "") : undefined;
  }

  /** The entries as they are now. */
  async entries(): Promise<Heal["entries"]> {
    const found = await Promise.all(names.map(async (name) => ({ name, version: await this.#versionOf(name) })));
    return found.flatMap(({ name, version }) => (version ? [{ name, version }] : []));
  }

  async #entry(name: string): Promise<Entry> {
    const kept = (await this.#ask("LRANGE", `${prefix}:config:{${name}}:history`, "0", "-1")) as string[];
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
      for (const id of (await this.#ask("LRANGE", `${key}:list`, "0", "-1")) as string[]) add(id);
    for (const single of await this.#keysLike("effects:*:set:*")) add(single.slice(single.lastIndexOf(":") + 1));
    return found;
  }

  async #counters(): Promise<Map<string, number>> {
    const counters = this.#keys.map((key) => `${key}:counter`);
    const found = await Promise.all(counters.map((key) => this.#ask("GET", key)));
    return new Map(counters.map((key, at) => [key, Number(found[at] ?? 0)]));
  }

  /** Only entries and effects may stay for ever. */
  async #leftovers(): Promise<string[]> {
    const found: string[] = [];
    for (const key of await this.#keysLike(`${prefix}:*`))
      if (!/^kit:config:\{\w+\}:(entry|history)$/.test(key) && Number(await this.#ask("PTTL", key)) === -1)
        found.push(`${key} stays for ever`);
    return found;
  }

  // ── the progress of workers ───────────────────────────────────────────────────────────────────────────────────────

  #lookAround(): readonly (readonly [Worker, Heard])[] {
    const living = [...this.#heard].filter(([worker]) => !worker.hasEnded);
    // `logged` reads the new lines of the log, which update the records.
    return living.filter(([worker]) => worker.logged("started") > 0);
  }

  async victim(): Promise<Worker> {
    return await eventually(() => {
      const [worker] = this.pick(this.#lookAround()) ?? [];
      if (!worker) throw new Error("nobody works");
      return worker;
    });
  }

  /** There are no claims. The newest writes take their place, since a stopped worker does not see them. */
  async claimsOf(): Promise<ReadonlySet<string>> {
    const entries = await this.entries();
    return new Set(entries.map(({ name, version }) => `${name} ${String(version.at)}`));
  }

  async died(): Promise<number> {
    return 1;
  }

  lostData(from: number, to: number, what: Loss): void {
    this.losses.push({ from, to, what });
  }

  override async set(...settings: readonly (readonly [name: string, value: string | number])[]): Promise<void> {
    if (settings.some(([name]) => name === "appendfsync")) this.policyChanges.push(clock());
    await super.set(...settings);
  }

  async resumed(at: number): Promise<void> {
    await eventually(
      () => {
        for (const what of ["config", "durable"] as const)
          if (!this.#lookAround().some(([, { wellSince }]) => (wellSince.get(what) ?? 0) > at))
            throw new Error(`no ${what} call succeeds`);
      },
      { timeoutMs: 15_000 * patience },
    );
  }

  override async settled(): Promise<void> {
    const at = clock();
    await eventually(
      () => {
        for (const [{ id }, { wellSince }] of this.#lookAround())
          if (Math.min(wellSince.get("config") ?? 0, wellSince.get("durable") ?? 0) < at)
            throw new Error(`${id} does nothing yet`);
      },
      { timeoutMs: 15_000 * patience },
    );
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
        for (const [{ id }, { shows, states }] of this.#lookAround())
          for (const { name, version } of entries) {
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

  /** Ends all workers, and returns all records. */
  async end(): Promise<RunHistory> {
    const workers = await this.dismiss<LogRecord>();
    return {
      workers,
      heals: this.marks.map(({ kind, at, dueMs }) => ({ kind, at, dueMs, entries: this.#sights.get(at) ?? [] })),
      losses: this.losses,
      policyChanges: this.policyChanges,
      replicas: this.#replicas,
      losesNothing: this.losesNothing,
      hasFile: this.server.mode === "single" && this.setting !== "address",
      rolledName,
      effects: await this.#effects(),
      counters: await this.#counters(),
      entries: await Promise.all(names.map((name) => this.#entry(name))),
      leftovers: await this.#leftovers(),
      slow: this.#slow,
      echoes: this.around.tap?.echoes.length ?? 0,
    };
  }

  override async stop(): Promise<void> {
    this.#isOver = true;
    await super.stop();
  }
}

const configCalls: readonly string[] = ["set", "rollback", "get", "history"];

const hear = ({ wellSince, shows, states }: Heard, record: LogRecord): void => {
  if (record.kind === "shows") shows.set(record.name, record.version);
  if (record.kind === "state") states.set(record.name, record.state);
  if (record.kind !== "call" || record.outcome !== "ok") return;
  const isDurable = record.what === "durable";
  if (isDurable ? record.answer === "unknown" : !configCalls.includes(record.what)) return;
  const what = isDurable ? "durable" : "config";
  wellSince.set(what, Math.max(wellSince.get(what) ?? 0, record.startedAt));
};

const versionOf = (epoch = "", revision = "", micros = ""): Version => ({
  epoch,
  revision: Number(revision),
  at: Number(micros) / 1_000,
});
