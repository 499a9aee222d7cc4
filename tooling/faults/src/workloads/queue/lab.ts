import { connect } from "@kit/core";
import { createQueue, type Job } from "@kit/queue";
import { inspectQueue } from "@kit/queue/manage";
import { eventually } from "@kit/testing";
import { patience } from "../../patience.js";
import type { Subject } from "../../lab/control.js";
import { Lab, type LabOptions, type Loss as LossKind, type Surroundings } from "../../lab/lab.js";
import type { Echo } from "../../lab/tap.js";
import type { Worker } from "../../lab/worker.js";
import { clock } from "@tooling/lab";
import {
  type AccessRecord,
  type CopiedTake,
  type Death,
  type JobRecord,
  type Letter,
  type LogRecord,
  type Loss,
  maxAttempts,
  type RunHistory,
  type Spec,
} from "./history.js";

const specs: readonly Spec[] = [
  { name: "ahead", isDurable: false, work: { concurrency: 5, maxCrashes: 1_000_000 } },
  { name: "strict", isDurable: true, work: { concurrency: 5, maxCrashes: 4, strict: true, ack: "each" } },
];
const keyOf = (name: string, part: string): string => `kit:queue:{${name}}:${part}`;

/** The reply to a copy of a step; empty for other commands. */
const copiedTakeOf = ({ command, reply }: Echo): CopiedTake[] => {
  const keys = command.slice(3, 3 + Number(command[2]));
  const fence = command[3 + keys.length] ?? "";
  if (!keys.some((key) => key.endsWith(":revoked")) || !Array.isArray(reply)) return [];
  return [{ fence, entries: String(reply.at(-5)).split("\n").filter(Boolean) }];
};

export interface QueueLabOptions extends LabOptions {
  readonly subject: Subject;
}

/** A server, processes that add and run jobs, and the injections. */
export class QueueLab extends Lab {
  readonly leaseMs: number;
  readonly deaths: Death[] = [];
  readonly losses: Loss[] = [];
  readonly #options: QueueLabOptions;
  /** Jobs with a running handler, by worker, as `queue key`. */
  readonly #running = new Map<Worker, Set<string>>();
  readonly #lastAccess = new Map<string, number>();
  readonly #own: LogRecord[] = [];

  constructor(options: QueueLabOptions, around: Surroundings) {
    super(options, around);
    this.#options = options;
    this.leaseMs = [400, 500, 700][Math.floor(this.random() * 3)] ?? 500;
  }

  spawn(): Worker {
    const number = this.all.length + 1;
    const replicas = this.server.replicas.length / this.server.nodes.length;
    const settings = {
      // Nobody has a copy, nor a disk, where nodes come and go.
      durable:
        this.setting !== "resharded" ? { replicas, fsync: replicas > 0 ? "none" : "local", timeoutMs: 300 } : undefined,
      url: this.url,
      specs,
      leaseMs: this.leaseMs,
      deadlineMs: this.server.mode === "single" ? 500 : 1_500,
      maxAttempts,
      seed: this.#options.seed + 1_000 * number,
      loops: 3,
      restMs: 25,
      ...this.#options.subject,
    };
    const running = new Set<string>();
    const worker = this.hire("queue", settings, (line) => {
      const record = JSON.parse(line) as AccessRecord | JobRecord;
      const job = `${record.name} ${record.key}`;
      if (record.kind === "access") {
        running.add(job);
        this.#lastAccess.set(record.name, Math.max(this.#lastAccess.get(record.name) ?? 0, record.at));
      } else if (record.kind === "ran") running.delete(job);
    });
    this.#running.set(worker, running);
    return worker;
  }

  // ── the state of the server ───────────────────────────────────────────────────────────────────────────────────────

  /** By job, as `queue key`: its member in the sorted set of leases, and the end of its lease. */
  async #leases(): Promise<Map<string, { readonly member: string; readonly endsAt: number }>> {
    const found = new Map<string, { member: string; endsAt: number }>();
    for (const { name } of specs) {
      const scored = (await this.ask("ZRANGE", keyOf(name, "leases"), "0", "-1", "WITHSCORES")) as unknown[];
      // By RESP3 the reply is nested pairs.
      const flat = scored.flat().map(String);
      const members = flat.filter((_, index) => index % 2 === 0);
      if (members.length === 0) continue;
      const ids = members.map((member) => member.slice(12).replace(/^!-?\d+!/, ""));
      const blobs = (await this.ask("HMGET", keyOf(name, "jobs"), ...ids)) as (string | null)[];
      for (const [index, member] of members.entries()) {
        const key = /"key":"([^"]+)"/.exec(blobs[index] ?? "")?.[1];
        if (key !== undefined) found.set(`${name} ${key}`, { member, endsAt: Number(flat[2 * index + 1]) });
      }
    }
    return found;
  }

  async #held(worker: Worker): Promise<{ job: string; member: string; endsAt: number }[]> {
    worker.logged("access");
    const leases = await this.#leases();
    return [...(this.#running.get(worker) ?? [])].flatMap((job) => {
      const lease = leases.get(job);
      return lease ? [{ job, ...lease }] : [];
    });
  }

  async victim(): Promise<Worker> {
    return await eventually(
      async () => {
        const worker = this.pick(this.workers);
        if (!worker || (await this.#held(worker)).length === 0) throw new Error("it holds nothing");
        return worker;
      },
      { intervalMs: 2 },
    );
  }

  async claimsOf(worker: Worker): Promise<ReadonlySet<string>> {
    return new Set((await this.#held(worker)).map(({ member }) => member));
  }

  async died(worker: Worker, kind: string): Promise<number> {
    const held = await this.#held(worker);
    for (const { job, endsAt } of held) {
      const [name = "", key = ""] = job.split(" ");
      this.deaths.push({ name, key, worker: worker.id, endsAt });
      this.marks.push({ kind, at: clock(), name: key });
    }
    return held.length;
  }

  lostData(from: number, to: number, what: LossKind): void {
    const sparesDurable = what === "unreplicated" || what === "unsynced";
    this.losses.push({ from, to, isTotal: what !== "unreplicated", sparesDurable });
  }

  async resumed(at: number): Promise<void> {
    // A failover may concern one slot only, so every queue must go on.
    const isEach = this.server.mode !== "single";
    await eventually(
      () => {
        this.logged("access");
        const goesOn = ({ name }: Spec): boolean => (this.#lastAccess.get(name) ?? 0) > at;
        if (!(isEach ? specs.every(goesOn) : specs.some(goesOn))) throw new Error("no work goes on");
      },
      { timeoutMs: 15_000 * patience },
    );
  }

  // ── the end of a run ──────────────────────────────────────────────────────────────────────────────────────────────

  async end(isStuck: boolean): Promise<RunHistory> {
    const workers = await this.dismiss<LogRecord>();
    const letters = new Map<string, readonly Letter[]>();
    const leftovers: string[] = [];
    for (const { name } of specs) if (!isStuck) letters.set(name, await this.#workOff(name, leftovers));
    return {
      leaseMs: this.leaseMs,
      specs,
      // Jobs that the lab itself ran are recorded as those of a worker.
      workers: [...workers, { id: "lab", records: this.#own, killedAt: clock(), printed: "", end: "exit 0" }],
      heals: this.marks.filter(({ name }) => name === undefined).map(({ at, dueMs }) => ({ at, dueMs })),
      deaths: this.deaths,
      losses: this.losses,
      outages: this.outages,
      isShifted: this.setting === "shifted",
      letters,
      leftovers,
      echoes: this.around.tap?.echoes.length ?? 0,
      copiedTakes: this.around.tap?.echoes.flatMap(copiedTakeOf) ?? [],
    };
  }

  /** Runs the remaining jobs, then returns the dead letters and adds all other remains to `leftovers`. */
  async #workOff(name: string, leftovers: string[]): Promise<Letter[]> {
    await using client = await connect(this.ownUrl);
    const queue = createQueue(client, name, { maxAttempts });
    const note = (kind: JobRecord["kind"] | "access", job: Job, facts: object = {}): void => {
      const { key } = job.data as { key: string };
      const { attempt, crashes, takenAt } = job;
      this.#own.push({ kind, name, key, attempt, crashes, takenAt, at: clock(), ...facts } as LogRecord);
    };
    const handler = (job: Job): void => {
      note("access", job);
      const isFailing = job.attempt <= (job.data as { fails: number }).fails;
      note("ran", job, { how: isFailing ? "failed" : "ok" });
      if (isFailing) throw new Error("fails on purpose");
    };
    const worker = queue.work({ job: handler }, { leaseMs: this.leaseMs, backoff: { firstMs: 30 } });
    worker.on("completed", ({ job }) => note("done", job));
    worker.on("error", () => undefined);
    const left = async (): Promise<string> => {
      const { jobs, dead, waiting, prioritised, delayed, active } = await inspectQueue(client, { queue: name });
      const counts = { jobs: jobs - dead, waiting, prioritised, delayed, active };
      return Object.values(counts).every((count) => count === 0) ? "" : `${name}: left are ${JSON.stringify(counts)}`;
    };
    const untilNone = async (): Promise<void> => {
      if ((await left()) !== "") throw new Error("some jobs have not run yet");
    };
    const slowly = { timeoutMs: 10_000 * patience, intervalMs: 50 };
    await eventually(untilNone, slowly).catch(async () => leftovers.push(await left()));
    const letters: Letter[] = [];
    for (let found = await queue.deadLetters({ count: 100 }); found.length > 0;) {
      for (const { data, attempts, crashes } of found)
        letters.push({ key: (data as { key?: string } | undefined)?.key ?? "?", attempts, crashes });
      found = await queue.deadLetters({ before: found.at(-1), count: 100 });
    }
    await queue.close({ timeoutMs: 1_000 });
    return letters;
  }
}
