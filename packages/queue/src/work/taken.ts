import { OwnAbortController } from "@kit/core/toolkit";
import type { QueueCommands } from "../store/commands.js";
import type { JobRefusedError } from "../job/errors.js";
import { isFresh, parseRecord } from "../job/failure.js";
import { partsOf } from "../job/ids.js";
import { reportsAbort } from "./aborted.js";
import type { Job } from "../job/job.js";
import { expiresAt } from "../job/expiry.js";
import { type JobHeader, parseBlob, type StoredJob } from "../job/payload.js";
import type { StepReply } from "../store/scripts/index.js";

/**
 * The state of a taken job.
 *
 * - `held`: its handler has not started.
 * - `running`: the handler decides its outcome.
 * - `retrying`: the caller's `backoff` decides.
 * - `ending`: its end waits for the server.
 * - `ended`: its lease no longer belongs to this worker.
 */
export type JobState = "held" | "running" | "retrying" | "ending" | "ended";

/** The state that all jobs of one take share. */
export interface Take {
  readonly takeId: string;
  /** In epoch ms of the server's clock. */
  readonly takenAt: number;
  /** This time and the next are on our own monotonic clock, in milliseconds. */
  readonly leaseUntil: number;
  readonly receivedAt: number;
  /** The queue had limits. */
  readonly isLimited: boolean;
  /** The commands of the worker. */
  readonly commands: QueueCommands;
}

/** The notes that a job's handler made; see `progress/`. */
export interface Notes {
  /** Notes in progress. The end of the job waits for them. */
  readonly settled: Promise<void> | undefined;
  /** The job is done. */
  close(): void;
}

/** A job that this worker has taken. Its signals are created when the handler first reads them. */
export class TakenJob implements Job {
  readonly id: string;
  readonly entry: string;
  /** Its member of `leases`. */
  readonly member: string;
  readonly header: JobHeader;
  readonly blob: Buffer;
  readonly traceparent: string | undefined;
  /** Where the payload starts in `blob`. */
  readonly start: number;
  readonly addedAt: number;
  readonly takenAt: number;
  /** The number of failed attempts. */
  readonly failures: number = 0;
  readonly crashes: number = 0;
  readonly snoozes: number = 0;
  /** How often workers that cannot run it have passed it on. */
  readonly passes: number = 0;
  /** Its header cannot be read. */
  readonly isDamaged: boolean;
  /** It has neither run nor crashed. */
  readonly isFresh: boolean;
  /** No worker that can run it took it in time. A job that is not fresh has run before, or was taken by a worker that died. */
  readonly isExpired: boolean;
  data: unknown;
  state: JobState = "held";
  /** Whether its handler is running, whatever happened to the job since. Undefined if the handler has not started. */
  hasHandler: boolean | undefined;
  /** Its data does not fit its schema: the handler did not run. */
  refusal: JobRefusedError | undefined;
  /** Its end was sent before, by a call whose reply was lost. */
  isRepeat = false;
  /** The lower bound of the lease's end, on our own monotonic clock. */
  leaseUntil: number;
  /** When its handler started, or before that, when the job was taken. On our own clock, in milliseconds. */
  startedAt: number;
  /** How long its handler ran, once it has finished. */
  ranMs: number | undefined;
  cancelTimer: (() => void) | undefined;
  /** Its index among the leases of its worker. -1 if it is not among them. */
  leaseIndex = -1;
  /** Its number among all jobs that its worker took, in order. */
  readonly order: number;
  /** Undefined until its handler makes notes. */
  declare notes?: Notes;
  readonly #take: Take;
  #controller: AbortController | undefined;
  #reason: Error | undefined;
  #closing: AbortController | undefined;
  #closingReason: Error | undefined;

  constructor(entry: string, blob: Buffer, stored: StoredJob, take: Take, record: string, order: number) {
    const { header, traceparent, start, addedAt } = stored;
    const { id } = partsOf(entry);
    this.isDamaged = stored === damaged;
    this.id = id;
    this.entry = entry;
    this.member = take.takeId + entry;
    this.header = header;
    this.traceparent = traceparent;
    this.order = order;
    this.blob = blob;
    this.start = start;
    this.addedAt = addedAt;
    this.takenAt = take.takenAt;
    this.#take = take;
    this.leaseUntil = take.leaseUntil;
    this.startedAt = take.receivedAt;
    this.isFresh = isFresh(record);
    this.isExpired = this.isFresh && take.takenAt > (expiresAt(addedAt, header) ?? Infinity);
    if (record === "") return;
    const { attempts, crashes, snoozes, passes } = parseRecord(record);
    [this.failures, this.crashes, this.snoozes, this.passes] = [attempts, crashes, snoozes, passes];
  }

  get isLimited(): boolean {
    return this.#take.isLimited;
  }

  /** The commands of its worker. Not a field, so that a job can be printed. */
  get commands(): QueueCommands {
    return this.#take.commands;
  }

  get name(): string {
    return this.header.name;
  }

  /** When its handler started, in epoch ms of the server's clock. */
  get begunAt(): number {
    return Math.round(this.takenAt + this.startedAt - this.#take.receivedAt);
  }

  get attempt(): number {
    return this.failures + 1;
  }

  get maxAttempts(): number {
    return this.header.maxAttempts;
  }

  get priority(): number {
    return this.header.priority;
  }

  get group(): string | undefined {
    return this.header.group;
  }

  get closing(): AbortSignal {
    return (this.#closing ??= controllerOf(this.#closingReason)).signal;
  }

  get signal(): AbortSignal {
    return (this.#controller ??= controllerOf(this.#reason)).signal;
  }

  /** Why its handler should stop. Undefined while it can continue. */
  get stopReason(): Error | undefined {
    return this.#reason;
  }

  /** Its worker starts to close: aborts `closing`. */
  announceClosing(reason: Error): void {
    this.#closingReason = reason;
    this.#closing?.abort(reason);
  }

  /** Whether its handler stopped because its worker closes: `closing` has aborted, and the error reports an abort. */
  isHandedOver(error: unknown): boolean {
    return this.#closingReason !== undefined && reportsAbort(error, this.#closingReason);
  }

  /** The facts that its handler can read, without its signals. Logs show these facts, as JSON and on the console. */
  toJSON(): Omit<Job, "closing" | "signal"> {
    const { id, name, data, attempt, maxAttempts, crashes, snoozes, priority, group } = this;
    const { traceparent, addedAt, takenAt } = this;
    return { id, name, data, attempt, maxAttempts, crashes, snoozes, priority, group, traceparent, addedAt, takenAt };
  }

  [Symbol.for("nodejs.util.inspect.custom")](): object {
    return this.toJSON();
  }

  /** Aborts the handler's signal. Only the first reason counts. */
  stop(reason: Error): void {
    if (this.#reason) return;
    this.#reason = reason;
    this.#controller?.abort(reason);
  }
}

/** A controller that is aborted if there is a reason. */
const controllerOf = (reason: Error | undefined): AbortController => {
  const controller = new OwnAbortController();
  if (reason) controller.abort(reason);
  return controller;
};

/** A job whose header cannot be read: it has no name. */
const damaged: StoredJob = parseBlob(Buffer.from("0  y\n"));

const parse = (blob: Buffer): StoredJob => {
  try {
    return parseBlob(blob);
  } catch {
    return damaged;
  }
};

/** The jobs of a take. `order`: the number of the first job. */
export const jobsOf = (
  { blobs, entries, records }: Pick<StepReply, "blobs" | "entries" | "records">,
  take: Take,
  order: number,
): TakenJob[] =>
  blobs.map(
    (blob, index) => new TakenJob(entries[index] ?? "", blob, parse(blob), take, records[index] ?? "", order + index),
  );
