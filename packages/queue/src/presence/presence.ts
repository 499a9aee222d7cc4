import { hostname } from "node:os";
import { asKitError, type Deadline } from "@kit/core/toolkit";
import { workerWidth } from "../job/take-id.js";
import type { QueueCommands } from "../store/commands.js";
import { mostJobs, namesLine, recordOf, type WorkerState } from "../workers/record.js";
import { present } from "../workers/scripts/index.js";
import type { Vitals } from "./health.js";

/** How often it looks whether the server has to get the record, in milliseconds. */
const lookEveryMs = 5_000;
/** A worker counts as alive for 30 s after a sign of life. An idle worker takes every 15 s. */
const mostSilentMs = 20_000;
/** If a job has run for longer than this, the record that names it is no older than this. */
const longMs = 15_000;
/** The server keeps records for 15 minutes. */
const mostAgeMs = 300_000;
/** A worker without a reply for this many looks, though it wants jobs and no call has failed, needs a restart. */
const mostUnanswered = 9;

/** Replaced by the build. */
declare const KIT_VERSION: string | undefined;
const version = typeof KIT_VERSION === "string" ? KIT_VERSION : "source";

/** The worker of now. */
export interface WorkerNow {
  /** The start of its take ids. */
  readonly id: string;
  readonly name: string;
  readonly concurrency: number;
  readonly running: number;
  readonly state: WorkerState;
  /** The queue is open, as far as the worker knows. */
  readonly isOpen: boolean;
  /** A handler is free, and the worker may take a job for it. */
  readonly isWanting: boolean;
}

/** A job that the worker has. */
interface HeldJob {
  /** Its member of `leases`. */
  readonly member: string;
  /** Whether its handler is running. */
  readonly hasHandler: boolean | undefined;
  /** When its handler started, on our own clock, and on the server's clock. */
  readonly startedAt: number;
  readonly begunAt: number;
}

/** The leases of the worker. */
interface HeldLeases {
  readonly jobs: readonly HeldJob[];
  /** When the next heartbeat is due, on our own clock. */
  readonly renewAt: number;
}

/**
 * Keeps the record of a worker on the server, and knows when the server last answered. Takes are signs of life, and heartbeats carry the
 * record. A separate call shows a worker that has just started, or that neither takes jobs nor sends heartbeats.
 */
export class Presence {
  readonly #commands: QueueCommands;
  readonly #leases: HeldLeases;
  readonly #now: () => WorkerNow;
  readonly #host = hostname();
  readonly #names: string;
  #timer: NodeJS.Timeout | undefined;
  readonly #since: number;
  /** Instants of our own clock, in milliseconds. 0: never. */
  readonly #at = { step: 0, take: 0, heartbeat: 0, shown: 0, look: performance.now() };
  /** How late the last look was. */
  #lateMs = 0;
  #unanswered = 0;
  #isRefused = false;

  /** `handled`: the names of its handlers. `since`: when it started, in epoch ms of the server's clock. */
  constructor(
    commands: QueueCommands,
    leases: HeldLeases,
    handled: readonly string[],
    since: number,
    now: () => WorkerNow,
  ) {
    this.#commands = commands;
    this.#leases = leases;
    this.#now = now;
    this.#names = namesLine(handled);
    this.#since = since;
    this.#timer = setInterval(() => this.look(), lookEveryMs).unref();
    commands.life.onClosed(
      commands.context.executor.onReady(() => this.changed()),
      () => clearInterval(this.#timer),
    );
    void this.#show("1");
  }

  /** The record is out of date, or the server may have lost it. */
  changed(): void {
    if (this.#timer) void this.#show("");
  }

  /** The server has answered a step. `isTake`: other processes see the step. */
  stepped(isTake: boolean): void {
    this.#at.step = performance.now();
    if (isTake) this.#at.take = this.#at.step;
  }

  /** The server has answered a heartbeat that carried the record. */
  shown(): void {
    this.#at.shown = this.#at.heartbeat = performance.now();
  }

  /** The record of now. */
  record(): string {
    const { name, concurrency, state } = this.#now();
    const facts = { host: this.#host, pid: process.pid, name, concurrency, since: this.#since, version, state };
    const running = this.#leases.jobs.filter(({ hasHandler }) => hasHandler);
    running.sort((one, other) => one.startedAt - other.startedAt);
    const jobs = running
      .slice(0, mostJobs)
      .map(({ member, begunAt }) => `${member.slice(workerWidth)}\t${String(begunAt)}`);
    return recordOf(facts, this.#names, jobs);
  }

  /** The worker has closed: removes the record. If the server does not answer, the record expires. */
  async leave(deadline: Deadline): Promise<void> {
    const deadlineMs = Math.ceil(deadline.remainingMs);
    if (!this.#timer || deadlineMs < 1) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
    const args = { worker: this.#now().id, record: "", sweeps: "" };
    await this.#commands.run(present, args, deadlineMs).catch(() => undefined);
  }

  /** Every few seconds: shows the worker if nothing else has shown it for a while. */
  look(): void {
    const now = performance.now();
    const { step, take, shown, look } = this.#at;
    this.#lateMs = now - look - lookEveryMs;
    this.#at.look = now;
    const isUnanswered = now - step >= mostSilentMs && this.#now().isWanting && !this.#commands.outage.failure;
    this.#unanswered = isUnanswered ? this.#unanswered + 1 : 0;
    const hasLong = ({ hasHandler, startedAt }: HeldJob): boolean => !!hasHandler && now - startedAt >= longMs;
    const isDue = now - shown >= longMs && (now - take >= mostSilentMs || this.#leases.jobs.some(hasLong));
    if (isDue || now - shown >= mostAgeMs) void this.#show("");
  }

  /** What the worker knows of its health. */
  vitals(): Vitals {
    const now = performance.now();
    const { state, running, isOpen } = this.#now();
    const { step, heartbeat, look } = this.#at;
    const { jobs, renewAt } = this.#leases;
    return {
      isTaking: isOpen && state === "running",
      isPaused: state === "paused",
      running,
      isStuck: this.#unanswered >= mostUnanswered,
      stepAt: step,
      heartbeatAt: heartbeat,
      behindMs: Math.max(0, this.#lateMs, now - look - lookEveryMs, jobs.length && now - renewAt),
    };
  }

  async #show(sweeps: "" | "1"): Promise<void> {
    try {
      await this.#commands.run(present, { worker: this.#now().id, record: this.record(), sweeps });
      this.#isRefused = false;
      this.shown();
    } catch (reason) {
      const error = asKitError(reason, "Showing the worker");
      // The worker's other calls report an outage.
      if (error.retryable || this.#isRefused) return;
      this.#isRefused = true;
      this.#commands.outage.report(error);
    }
  }
}
