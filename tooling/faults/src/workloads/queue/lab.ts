import { connect, type RedisLike } from "@kit/core";
import { createQueue, type Job } from "@kit/queue";
import { inspectQueue, listJobs, promoteJob, resumeQueue, setLimits } from "@kit/queue/manage";
import { createSchedules } from "@kit/queue/schedules";
import { eventually } from "@kit/testing";
import { patience } from "../../patience.js";
import { Lab, type LabOptions } from "../../lab/lab.js";
import type { Surroundings } from "../../lab/surroundings.js";
import type { Echo } from "../../lab/tap.js";
import type { Worker } from "../../lab/worker.js";
import { clock } from "@tooling/lab";
import type { Progress } from "../../work.js";
import { progressIn } from "./checker.js";
import { listedMs } from "./listed.js";
import {
  type CopiedTake,
  type Death,
  type JobRecord,
  type Letter,
  type LogRecord,
  maxAttempts,
  type RunHistory,
  type Spec,
  type WorkerHistory,
} from "./history.js";

const plain = { isDurable: false, isPaused: false, isLimited: false };
const maxCrashes = 1_000_000;
const specs: readonly Spec[] = [
  { ...plain, name: "ahead", work: { concurrency: 5, maxCrashes } },
  { ...plain, name: "strict", isDurable: true, work: { concurrency: 5, maxCrashes: 4, strict: true, ack: "each" } },
  { ...plain, name: "paused", isPaused: true, work: { concurrency: 3, maxCrashes } },
  { ...plain, name: "limited", isLimited: true, work: { concurrency: 3, maxCrashes } },
];
/** Jobs of this name have limits of their own; all others are named `job`. */
const otherName = "other";
/** The queue with schedules. */
const scheduled = "ahead";
/** As the workers make it of the key of a job. */
const ownId = (key: string): string => `own-${key}`;
const keyOf = (name: string, part: string): string => `kit:queue:{${name}}:${part}`;

/** The reply to a copy of a step; empty for other commands. */
const copiedTakeOf = ({ command, reply }: Echo): CopiedTake[] => {
  const keys = command.slice(3, 3 + Number(command[2]));
  const fence = command[3 + keys.length] ?? "";
  if (!keys.some((key) => key.endsWith(":revoked")) || !Array.isArray(reply)) return [];
  return [{ fence, entries: String(reply.at(-5)).split("\n").filter(Boolean) }];
};

/** A clock was set back: jobs that were delayed before that are due long after the run, and their groups wait for them. */
const promoteAll = async (client: RedisLike, queue: string): Promise<void> => {
  const delayed = { state: "delayed", count: 100 } as const;
  // A job that waits for the end of the active job of its key stays delayed, as the last one in the list.
  const promoted = new Set<string>();
  const next = async (): Promise<string[]> => {
    const { jobs } = await eventually(() => listJobs(client, { queue }, delayed));
    return jobs.map(({ id }) => id).filter((id) => !promoted.has(id));
  };
  for (let ids = await next(); ids.length > 0; ids = await next())
    for (const id of ids) {
      await eventually(() => promoteJob(client, { queue }, id));
      promoted.add(id);
    }
};

/** A server, processes that add and run jobs, and the injections. */
export class QueueLab extends Lab<LogRecord> {
  override readonly leaseMs: number;
  override readonly deadlineMs: number;
  protected override readonly heard = ["access", "ran"];
  readonly deaths: Death[] = [];
  /** Jobs with a running handler, by worker, as `queue key`. */
  readonly #running = new Map<Worker, Set<string>>();
  readonly #own: LogRecord[] = [];
  /** One worker at a time changes whole queues. */
  #manager: Worker | undefined;
  /** With a heartbeat thread. */
  readonly #threaded = new Set<Worker>();
  #blocks = 0;

  constructor(options: LabOptions, around: Surroundings) {
    super(options, around);
    this.leaseMs = [400, 500, 700][Math.floor(this.random() * 3)] ?? 500;
    this.deadlineMs = this.server.mode === "single" ? 500 : 1_500;
  }

  protected override settings(): object {
    const replicas = this.server.replicas.length / this.server.nodes.length;
    const durable = { replicas, fsync: replicas > 0 ? "none" : "local", timeoutMs: 300 };
    // Nobody has a copy, nor a disk, where nodes come and go.
    const isManaging = this.#manager?.hasEnded ?? true;
    // Each run that a jump of the clock leaves out would add its job.
    const schedules = this.setting === "shifted" ? {} : { scheduled };
    return {
      specs,
      maxAttempts,
      otherName,
      heartbeat: this.#nextHasThread ? "thread" : "loop",
      isManaging,
      ...schedules,
      loops: 3,
      restMs: 25,
      ...(this.setting !== "resharded" && { durable }),
    };
  }

  /** Each other worker. A thread has a client of ioredis, and cannot look for the master behind sentinels. */
  get #nextHasThread(): boolean {
    return this.clientName === "ioredis" && this.server.mode !== "sentinel" && this.all.length % 2 === 1;
  }

  override spawn(): Worker {
    const isManaging = this.#manager?.hasEnded ?? true;
    const hasThread = this.#nextHasThread;
    const worker = super.spawn();
    if (isManaging) this.#manager = worker;
    if (hasThread) this.#threaded.add(worker);
    return worker;
  }

  /** The first one and each other has a thread, and has worked longest, so that every run judges `renewed`. */
  override toBlock(): Worker | undefined {
    const wantsThread = this.#blocks++ % 2 === 0;
    const eligible = this.workers.filter((one) => this.#threaded.has(one) === wantsThread);
    return eligible.toSorted((one, other) => other.logged("access") - one.logged("access"))[0];
  }

  protected override progressIn(record: LogRecord): readonly Progress[] {
    return progressIn(record);
  }

  protected override awaited(): readonly string[] {
    // A failover may concern one slot only, so every queue must go on.
    const always = specs.filter(({ isPaused, isLimited }) => !isPaused && !isLimited).map(({ name }) => name);
    return this.server.mode === "single" ? [""] : always;
  }

  protected override hear(record: LogRecord, worker: Worker): void {
    super.hear(record, worker);
    const running = this.#running.get(worker) ?? new Set();
    this.#running.set(worker, running);
    if (record.kind === "access") running.add(`${record.name} ${record.key}`);
    else if (record.kind === "ran") running.delete(`${record.name} ${record.key}`);
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
      const ids = members.map((member) => member.slice(12).replace(/^!-?\d+(?:@[^!]+)?!/, ""));
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

  override async victim(): Promise<Worker> {
    return await eventually(
      async () => {
        const worker = this.pick(this.workers);
        if (!worker || (await this.#held(worker)).length === 0) throw new Error("it holds nothing");
        return worker;
      },
      // On a busy machine short jobs end before their leases are read.
      { intervalMs: 2, timeoutMs: 25_000 * patience },
    );
  }

  override async claimsOf(worker: Worker): Promise<ReadonlySet<string>> {
    return new Set((await this.#held(worker)).map(({ member }) => member));
  }

  override async died(worker: Worker, kind: string): Promise<number> {
    const held = await this.#held(worker);
    for (const { job, endsAt } of held) {
      const [name = "", key = ""] = job.split(" ");
      this.deaths.push({ name, key, worker: worker.id, endsAt });
      this.marks.push({ kind, at: clock(), name: key });
    }
    await this.#age(worker);
    return held.length;
  }

  /** Lets 30 s pass for the records of a worker that was killed. */
  async #age({ pid }: Worker): Promise<void> {
    for (const { name } of specs) {
      const key = keyOf(name, "workers");
      for (const id of (await this.ask("HKEYS", key)) as string[]) {
        const record = String(await this.ask("HGET", key, id));
        if (!record.includes(`"pid":${String(pid)},`)) continue;
        const older = record.replace(/^\d+/, (at) => String(Number(at) - listedMs));
        await this.ask("HSET", key, id, older);
        for (const slot of ["0", "1", "2"]) await this.ask("PEXPIRE", keyOf(name, `taken:${id}${slot}`), "500000");
      }
    }
  }

  // ── the end of a run ──────────────────────────────────────────────────────────────────────────────────────────────

  async end(isStuck: boolean): Promise<RunHistory> {
    const facts = await this.facts();
    const letters = new Map<string, readonly Letter[]>();
    const leftovers: string[] = [];
    const scheduledUntil = isStuck || this.setting === "shifted" ? undefined : await this.#endSchedules();
    for (const { name } of specs) if (!isStuck) letters.set(name, await this.#workOff(name, leftovers, facts.workers));
    return {
      ...facts,
      specs,
      // Jobs that the lab itself ran are recorded as those of a worker.
      workers: [...facts.workers, { id: "lab", records: this.#own, killedAt: clock(), printed: "", end: "exit 0" }],
      deaths: this.deaths,
      isShifted: this.setting === "shifted",
      letters,
      leftovers,
      scheduledUntil,
      copiedTakes: this.around.tap?.echoes.flatMap(copiedTakeOf) ?? [],
    };
  }

  /** The ids of jobs that nobody may have promoted. They are due long after the end of the run. */
  #unpromoted(name: string, workers: readonly WorkerHistory[]): string[] {
    const records = workers.flatMap((worker) => worker.records);
    const promoted = records.flatMap((one) => ("said" in one && one.said === "ready" ? [one.key] : []));
    return records.flatMap((one) => {
      if (one.kind !== "asked" || one.what !== "promote" || one.name !== name || one.key === undefined) return [];
      return this.losses.length > 0 || !promoted.includes(one.key) ? [ownId(one.key)] : [];
    });
  }

  /** Adds the jobs of all runs that are due, and removes the schedules. Resolves with the instant until which they ran. */
  async #endSchedules(): Promise<number> {
    await using client = await connect(this.ownUrl);
    await using schedules = createSchedules(client, scheduled);
    schedules.on("error", () => undefined);
    const until = clock();
    await eventually(() => schedules.runDue());
    for (const { id } of await eventually(() => schedules.list())) await eventually(() => schedules.remove(id));
    return until;
  }

  async #freeName(client: RedisLike, name: string): Promise<void> {
    const about = { kind: "asked", name, jobName: otherName } as const;
    this.#own.push({ ...about, what: "resume", at: clock() });
    await eventually(() => resumeQueue(client, { queue: name }, { name: otherName }));
    this.#own.push({ ...about, what: "limit", concurrency: null, at: clock() });
    await eventually(() => setLimits(client, { queue: name }, { names: { [otherName]: null } }));
  }

  /** Runs the remaining jobs, then returns the dead letters and adds all other remains to `leftovers`. */
  async #workOff(name: string, leftovers: string[], workers: readonly WorkerHistory[]): Promise<Letter[]> {
    await using client = await connect(this.ownUrl);
    const queue = createQueue(client, name, { maxAttempts });
    this.#own.push({ kind: "asked", what: "resume", name, at: clock() });
    await eventually(() => resumeQueue(client, { queue: name }));
    const unlimited = { concurrency: null, rate: null };
    this.#own.push({ kind: "asked", what: "limit", name, ...unlimited, at: clock() });
    await eventually(() => setLimits(client, { queue: name }, unlimited));
    await this.#freeName(client, name);
    for (const id of this.#unpromoted(name, workers)) await eventually(() => promoteJob(client, { queue: name }, id));
    if (this.setting === "shifted") await promoteAll(client, name);
    const note = (kind: JobRecord["kind"] | "access", job: Job, facts: object = {}): void => {
      const { key = job.id, version } = job.data as { key?: string; version?: number };
      const { name: jobName, attempt, crashes, snoozes, takenAt } = job;
      const about = { kind, name, jobName, key, version, attempt, crashes, snoozes, takenAt };
      this.#own.push({ ...about, at: clock(), ...facts } as LogRecord);
    };
    const handler = (job: Job): void => {
      note("access", job);
      const isFailing = job.attempt <= (job.data as { fails: number }).fails;
      note("ran", job, { how: isFailing ? "failed" : "ok" });
      if (isFailing) throw new Error("fails on purpose");
    };
    const worker = queue.work(
      { job: handler, [otherName]: handler },
      { leaseMs: this.leaseMs, backoff: { firstMs: 30 } },
    );
    worker.on("completed", ({ job }) => note("done", job));
    worker.on("expired", ({ job }) => note("expired", job));
    worker.on("error", () => undefined);
    const left = async (): Promise<string> => {
      const { jobs, dead, waiting, prioritised, grouped, groups, delayed, active } = await inspectQueue(client, {
        queue: name,
      });
      const counts = { jobs: jobs - dead, waiting, prioritised, grouped, groups, delayed, active };
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
