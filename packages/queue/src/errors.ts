import { KitError } from "@kit/core";
import type { StoredError } from "./failure.js";

/**
 * Codes of the queue's own errors.
 *
 * - `KIT_QUEUE_PAYLOAD`: the data of a job cannot be stored, is too large, or does not fit its schema
 * - `KIT_QUEUE_FULL`: too many adds wait to be sent
 * - `KIT_QUEUE_EVICTION`: the server may evict any key, and with it jobs
 * - `KIT_JOB_LEASE_LOST`: a job's lease ended while its handler ran; it may run elsewhere
 * - `KIT_JOB_TIMEOUT`: a handler took longer than its job allows
 * - `KIT_JOB_UNRECOVERABLE`: a handler threw an UnrecoverableError: the job is not retried
 * - `KIT_JOB_BACKOFF`: a worker's `backoff` threw, or gave no number of milliseconds
 * - `KIT_JOB_FAILED`: a job that was called failed for good
 * - `KIT_JOB_OUTCOME_LOST`: a job that was called is gone, and so is its outcome
 * - `KIT_QUEUE_CALL_TIMEOUT`: a job that was called has no outcome in time
 */
export type QueueErrorCode =
  | "KIT_QUEUE_PAYLOAD"
  | "KIT_QUEUE_FULL"
  | "KIT_QUEUE_EVICTION"
  | "KIT_JOB_LEASE_LOST"
  | "KIT_JOB_TIMEOUT"
  | "KIT_JOB_UNRECOVERABLE"
  | "KIT_JOB_BACKOFF"
  | "KIT_JOB_FAILED"
  | "KIT_JOB_OUTCOME_LOST"
  | "KIT_QUEUE_CALL_TIMEOUT";

declare module "@kit/core" {
  interface KitErrorCodes {
    queue: QueueErrorCode;
  }
}

const shown = (text: string): string => JSON.stringify(text.length > 80 ? `${text.slice(0, 80)}…` : text);

/** The data of a job cannot be stored, and nothing was added; or the result of a handler cannot be sent to its caller. */
export class JobPayloadError extends KitError {
  /** @internal */
  static override readonly brand: string = "JobPayloadError";
  /** The job's name. */
  readonly job: string;

  constructor(job: string, reason: string, cause?: unknown, what: "data" | "result" = "data") {
    super("KIT_QUEUE_PAYLOAD", `The ${what} of a ${shown(job)} job ${reason}`, { cause });
    this.job = job;
  }
}

/** `maxPending` adds already wait to be sent: the server cannot keep up, or is away. Nothing was added. */
export class QueueFullError extends KitError {
  /** @internal */
  static override readonly brand: string = "QueueFullError";
  readonly queue: string;
  readonly maxPending: number;

  constructor(queue: string, maxPending: number) {
    super("KIT_QUEUE_FULL", `Queue ${shown(queue)} has ${String(maxPending)} adds waiting to be sent`, {
      retryable: true,
    });
    this.queue = queue;
    this.maxPending = maxPending;
  }
}

/** The server that has the queue may evict any key under memory pressure, and with it jobs. */
export class QueueEvictionError extends KitError {
  /** @internal */
  static override readonly brand: string = "QueueEvictionError";
  readonly queue: string;
  /** The server's `maxmemory-policy`. */
  readonly policy: string;

  constructor(queue: string, policy: string) {
    super(
      "KIT_QUEUE_EVICTION",
      `Queue ${shown(queue)} would lose jobs: the server's maxmemory-policy is ${policy}, not noeviction`,
    );
    this.queue = queue;
    this.policy = policy;
  }
}

/** The lease of a running job ended: another worker may run it, too. The reason of `job.signal`. */
export class JobLeaseLostError extends KitError {
  /** @internal */
  static override readonly brand: string = "JobLeaseLostError";
  readonly job: string;
  readonly id: string;

  constructor(job: string, id: string) {
    super("KIT_JOB_LEASE_LOST", `The lease of ${shown(job)} job ${shown(id)} ended while it ran`);
    this.job = job;
    this.id = id;
  }
}

/** A handler took longer than `timeoutMs`. The reason of `job.signal`, and the error of the attempt. */
export class JobTimeoutError extends KitError {
  /** @internal */
  static override readonly brand: string = "JobTimeoutError";
  readonly job: string;
  readonly timeoutMs: number;

  constructor(job: string, timeoutMs: number) {
    super("KIT_JOB_TIMEOUT", `A ${shown(job)} job took longer than ${String(timeoutMs)} ms`);
    this.job = job;
    this.timeoutMs = timeoutMs;
  }
}

/**
 * Thrown by a handler: the job goes to the dead letters at once, whatever attempts it has left.
 *
 * @example
 * throw new UnrecoverableError("There is no such address");
 */
export class UnrecoverableError extends KitError {
  /** @internal */
  static override readonly brand: string = "UnrecoverableError";

  constructor(message: string, options: { readonly cause?: unknown } = {}) {
    super("KIT_JOB_UNRECOVERABLE", message, options);
  }
}

/**
 * A worker's `backoff` threw (`cause`), or gave no number of milliseconds and not -1. The job waits by the default. An `error` event of
 * the worker.
 */
export class JobBackoffError extends KitError {
  /** @internal */
  static override readonly brand: string = "JobBackoffError";
  readonly job: string;

  constructor(job: string, cause: unknown) {
    super("KIT_JOB_BACKOFF", `The back-off of a ${shown(job)} job failed`, { cause });
    this.job = job;
  }
}

/** An error of `call()` about a job that was added. */
abstract class CallError extends KitError {
  readonly job: string;
  readonly id: string;

  constructor(code: QueueErrorCode, job: string, id: string, what: string) {
    super(code, `The ${shown(job)} job ${shown(id)} ${what}`);
    this.job = job;
    this.id = id;
  }
}

/** A job that was called has failed for good: it is a dead letter now. Rejects `call()`. */
export class JobFailedError extends CallError {
  /** @internal */
  static override readonly brand: string = "JobFailedError";
  /** How often it ran and failed. */
  readonly attempts: number;
  /** How often its worker died, or stopped renewing its lease, while it had the job. */
  readonly crashes: number;
  /** The error of the last attempt; undefined if no attempt failed and only its workers crashed. */
  readonly error: StoredError | undefined;

  constructor(
    job: string,
    id: string,
    of: { readonly attempts: number; readonly crashes: number; readonly error: StoredError | undefined },
  ) {
    super("KIT_JOB_FAILED", job, id, "failed for good");
    this.attempts = of.attempts;
    this.crashes = of.crashes;
    this.error = of.error;
  }
}

/**
 * A job that was called is not in the queue and has no outcome: it was deleted, the server lost data, or this process could not
 * reach the server for ten minutes after the end of the job. Rejects `call()`.
 */
export class JobOutcomeLostError extends CallError {
  /** @internal */
  static override readonly brand: string = "JobOutcomeLostError";

  constructor(job: string, id: string) {
    super("KIT_JOB_OUTCOME_LOST", job, id, "is gone without an outcome");
  }
}

/** There was no outcome within `waitMs`. The job stays in the queue; it may have run, or may still run. Rejects `call()`. */
export class CallTimeoutError extends CallError {
  /** @internal */
  static override readonly brand: string = "CallTimeoutError";
  readonly waitMs: number;

  constructor(job: string, id: string, waitMs: number) {
    super("KIT_QUEUE_CALL_TIMEOUT", job, id, `has no outcome within ${String(waitMs)} ms`);
    this.waitMs = waitMs;
  }
}
