import { parseRecord } from "../failure.js";
import { partsOf } from "../add/ids.js";
import type { Job } from "./job.js";
import type { JobHeader, StoredJob } from "../add/payload.js";

/**
 * The state of a taken job. `held`: its handler has not begun. `running`: the handler decides its fate. `retrying`: the caller's
 * `backoff` decides. `ending`: its end waits for the server. `ended`: its lease is no longer this worker's.
 */
export type JobState = "held" | "running" | "retrying" | "ending" | "ended";

/** The state that the jobs of one take share. */
export interface Take {
  readonly takeId: string;
  /** Epoch ms of the server's clock. */
  readonly takenAt: number;
  /** The other instants are on our own monotonic clock. */
  readonly leaseUntil: number;
  readonly receivedAt: number;
}

/** A job that this worker has taken. Its signal is created when the handler first reads it. */
export class TakenJob implements Job {
  readonly id: string;
  readonly entry: string;
  /** Its member of `leases`. */
  readonly member: string;
  readonly header: JobHeader;
  readonly blob: Buffer;
  /** Where the payload begins in `blob`. */
  readonly start: number;
  readonly addedAt: number;
  readonly takenAt: number;
  /** Attempts that have failed. */
  readonly failures: number = 0;
  readonly crashes: number = 0;
  data: unknown;
  state: JobState = "held";
  /** Its handler has begun and has not ended, whatever became of the job meanwhile. */
  hasHandler = false;
  /** Its data does not fit its schema: the handler did not run. */
  isInvalid = false;
  /** Its end was sent before, in a call whose reply was lost. */
  isRepeat = false;
  /** The lower bound of the lease's end, on our own monotonic clock. */
  leaseUntil: number;
  /** When its handler was started; until then, when it was taken. */
  startedAt: number;
  cancelTimer: (() => void) | undefined;
  /** Its index among the leases of its worker; -1 if it is not among them. */
  leaseIndex = -1;
  /** Counts the jobs of its worker in the order in which they were taken. */
  readonly order: number;
  #controller: AbortController | undefined;
  #reason: Error | undefined;
  #closing: AbortController | undefined;
  #closingReason: Error | undefined;

  constructor(
    entry: string,
    blob: Buffer,
    { header, start, addedAt }: StoredJob,
    take: Take,
    record: string,
    order: number,
  ) {
    const { id } = partsOf(entry);
    this.id = id;
    this.entry = entry;
    this.member = take.takeId + entry;
    this.header = header;
    this.order = order;
    this.blob = blob;
    this.start = start;
    this.addedAt = addedAt;
    this.takenAt = take.takenAt;
    this.leaseUntil = take.leaseUntil;
    this.startedAt = take.receivedAt;
    if (record === "") return;
    ({ attempts: this.failures, crashes: this.crashes } = parseRecord(record));
  }

  get name(): string {
    return this.header.name;
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

  get closing(): AbortSignal {
    return (this.#closing ??= controllerOf(this.#closingReason)).signal;
  }

  get signal(): AbortSignal {
    return (this.#controller ??= controllerOf(this.#reason)).signal;
  }

  /** Why its handler should stop; undefined if it should not. */
  get stopReason(): Error | undefined {
    return this.#reason;
  }

  /** Its worker begins to close. */
  announceClosing(reason: Error): void {
    this.#closingReason = reason;
    this.#closing?.abort(reason);
  }

  /** Whether its handler handed it over, since its worker closes. The functions of Node give the reason of a signal as a cause. */
  isHandedOver(error: unknown): boolean {
    const { cause } = Object(error) as { readonly cause?: unknown };
    return this.#closingReason !== undefined && [error, cause].includes(this.#closingReason);
  }

  /** Aborts the handler's signal. The first reason counts. */
  stop(reason: Error): void {
    if (this.#reason) return;
    this.#reason = reason;
    this.#controller?.abort(reason);
  }
}

/** Aborted if there is a reason. */
const controllerOf = (reason: Error | undefined): AbortController => {
  const controller = new AbortController();
  if (reason) controller.abort(reason);
  return controller;
};
