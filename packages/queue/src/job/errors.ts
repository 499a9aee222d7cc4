import { KitError } from "@kit/core";
import { longestWaitMs, msOption } from "./backoff.js";
import type { StoredError } from "./failure.js";

/**
 * Codes of the queue's errors. Two codes have no class:
 *
 * - `KIT_JOB_CHILD_FAILED`: the stored error of a dead letter whose child did not complete; see `@kit/queue/flows`. Its `cause` is the
 *   error of the job that failed first.
 * - `KIT_QUEUE_HEARTBEAT`: an `error` event of a worker with `heartbeat: "thread"` or `"auto"`. The heartbeat thread could not start, could
 *   not connect as the client does (the message names the option), or stopped. From then on only the main loop renews the leases.
 */
export type QueueErrorCode =
  | "KIT_QUEUE_PAYLOAD"
  | "KIT_QUEUE_FULL"
  | "KIT_QUEUE_EVICTION"
  | "KIT_JOB_LEASE_LOST"
  | "KIT_JOB_CANCELLED"
  | "KIT_JOB_EXPIRED"
  | "KIT_JOB_TIMEOUT"
  | "KIT_JOB_UNRECOVERABLE"
  | "KIT_JOB_SNOOZED"
  | "KIT_JOB_RATE_LIMITED"
  | "KIT_JOB_BACKOFF"
  | "KIT_JOB_REFUSED"
  | "KIT_JOB_FAILED"
  | "KIT_JOB_RESULT"
  | "KIT_JOB_OUTCOME_LOST"
  | "KIT_QUEUE_CALL_TIMEOUT"
  | "KIT_QUEUE_SCHEDULE"
  | "KIT_QUEUE_ADOPTION"
  | "KIT_QUEUE_FLOW"
  | "KIT_JOB_CHILD_FAILED"
  | "KIT_JOB_WAITING"
  | "KIT_QUEUE_HEARTBEAT";

declare module "@kit/core" {
  interface KitErrorCodes {
    queue: QueueErrorCode;
  }
}

const shown = (text: string): string => JSON.stringify(text.length > 80 ? `${text.slice(0, 80)}…` : text);

/**
 * The data of a job cannot be stored, is larger than `maxPayloadBytes`, or does not fit its schema. Nothing was added. As the `error` of a
 * JobResultError it means that a handler's result cannot be sent to the caller.
 */
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

/**
 * `maxPending` adds already wait to be sent, because the server is slow or unreachable. Nothing was added. Add the job again later.
 * Retryable.
 */
export class QueueFullError extends KitError {
  /** @internal */
  static override readonly brand: string = "QueueFullError";
  readonly queue: string;
  readonly maxPending: number;

  constructor(queue: string, maxPending: number) {
    super("KIT_QUEUE_FULL", `Queue ${shown(queue)} has ${String(maxPending)} unsent adds. Wait, or raise maxPending`, {
      retryable: true,
    });
    this.queue = queue;
    this.maxPending = maxPending;
  }
}

/**
 * The server's `maxmemory-policy` is `allkeys-…`: it can evict jobs when its memory is full. Nothing was added. Set the policy to
 * `noeviction`, or set `allowEviction`. The queue checks the policy before its first command and after each lost connection.
 */
export class QueueEvictionError extends KitError {
  /** @internal */
  static override readonly brand: string = "QueueEvictionError";
  readonly queue: string;
  /** The server's `maxmemory-policy`. */
  readonly policy: string;

  constructor(queue: string, policy: string) {
    super(
      "KIT_QUEUE_EVICTION",
      `Queue ${shown(queue)} may lose jobs: the server's maxmemory-policy is ${policy}. Set noeviction, or pass allowEviction`,
    );
    this.queue = queue;
    this.policy = policy;
  }
}

/**
 * The lease of a running job ended. This error is the reason of `job.signal`. Another worker may run the job, so the handler should stop.
 */
export class JobLeaseLostError extends KitError {
  /** @internal */
  static override readonly brand: string = "JobLeaseLostError";
  readonly job: string;
  readonly id: string;

  constructor(job: string, id: string) {
    super(
      "KIT_JOB_LEASE_LOST",
      `The ${shown(job)} job ${shown(id)} lost its lease while it ran. Another worker may run it`,
    );
    this.job = job;
    this.id = id;
  }
}

/** A handler ran longer than `timeoutMs`. This error is the reason of `job.signal`, and the error of the failed attempt. */
export class JobTimeoutError extends KitError {
  /** @internal */
  static override readonly brand: string = "JobTimeoutError";
  readonly job: string;
  readonly timeoutMs: number;

  constructor(job: string, timeoutMs: number) {
    super("KIT_JOB_TIMEOUT", `A ${shown(job)} job ran longer than timeoutMs, ${String(timeoutMs)} ms`);
    this.job = job;
    this.timeoutMs = timeoutMs;
  }
}

/**
 * Throw or return this error in a handler to make the job a dead letter immediately, even if it has attempts left.
 *
 * @example
 * throw new UnrecoverableError("There is no such address");
 */
export class UnrecoverableError extends KitError {
  /** @internal */
  static override readonly brand: string = "UnrecoverableError";

  constructor(message: string, options: { readonly cause?: unknown } = {}) {
    super("KIT_JOB_UNRECOVERABLE", message, { ...options, quotesOthers: true });
  }
}

/**
 * Throw or return this error in a handler to run its job again after `retryAfterMs` without using an attempt, for example when an API
 * replies with 429 and Retry-After. A job can be snoozed `maxSnoozes` times (an option of the worker). Each further snooze is a failed
 * attempt.
 *
 * @example
 * if (reply.status === 429) throw new SnoozeError(1_000 * (Number(reply.headers.get("retry-after")) || 60));
 */
export class SnoozeError extends KitError {
  /** @internal */
  static override readonly brand: string = "SnoozeError";
  /** How long the job waits, in milliseconds of the server's clock. Fractions are rounded up. */
  readonly retryAfterMs: number;

  /**
   * @throws {TypeError | RangeError} `retryAfterMs` is not a number from 0. If a handler lets this error through, the attempt fails as with
   *   any error.
   */
  constructor(retryAfterMs: number, options: { readonly cause?: unknown } = {}) {
    super("KIT_JOB_SNOOZED", `The job was snoozed for ${String(retryAfterMs)} ms`, options);
    this.retryAfterMs = msOption("retryAfterMs", retryAfterMs, 0, longestWaitMs);
  }
}

/**
 * Throw or return this error in a handler when an API rejects all jobs of the queue for a while. No worker starts a job for `retryAfterMs`.
 * This job then runs first, without using an attempt. It counts as snoozed, see SnoozeError. Running handlers continue. With `group`, only
 * jobs of this job's group wait. If the job has no group, the whole queue waits.
 *
 * @example
 * if (reply.status === 429) throw new RateLimitError(1_000 * (Number(reply.headers.get("retry-after")) || 60));
 */
export class RateLimitError extends KitError {
  /** @internal */
  static override readonly brand: string = "RateLimitError";
  /** How long no job starts, in milliseconds of the server's clock. Fractions are rounded up. */
  readonly retryAfterMs: number;
  /** Whether only jobs of its group wait. */
  readonly group: boolean;

  /**
   * @throws {TypeError | RangeError} `retryAfterMs` is not a number from 0. If a handler lets this error through, the attempt fails as with
   *   any error.
   */
  constructor(retryAfterMs: number, options: { readonly cause?: unknown; readonly group?: boolean } = {}) {
    super("KIT_JOB_RATE_LIMITED", `No job starts for ${String(retryAfterMs)} ms`, options);
    this.retryAfterMs = msOption("retryAfterMs", retryAfterMs, 0, longestWaitMs);
    this.group = options.group === true;
  }
}

/**
 * An `error` event of a worker: its `backoff` threw (see `cause`), or returned neither -1 nor a number of milliseconds. The job uses the
 * default backoff instead.
 */
export class JobBackoffError extends KitError {
  /** @internal */
  static override readonly brand: string = "JobBackoffError";
  readonly job: string;

  constructor(job: string, cause: unknown) {
    super("KIT_JOB_BACKOFF", `The \`backoff\` function of a ${shown(job)} job failed`, { cause });
    this.job = job;
  }
}

/**
 * A worker cannot run a job: it has no handler of this name, the data does not fit its schema, or the data cannot be read. The worker
 * passes the job on to other workers, and emits one `error` event per name. After 100 passes, which take more than an hour, each further
 * pass is a failed attempt.
 */
export class JobRefusedError extends KitError {
  /** @internal */
  static override readonly brand: string = "JobRefusedError";
  readonly job: string;

  constructor(job: string, reason: string) {
    super("KIT_JOB_REFUSED", `A ${shown(job)} job cannot run here: ${reason}`);
    this.job = job;
  }
}

/** An error that `call()` reports about a job that was added. */
abstract class CallError extends KitError {
  readonly job: string;
  readonly id: string;

  constructor(code: QueueErrorCode, job: string, id: string, what: string, quotesOthers = false) {
    super(code, `The ${shown(job)} job ${shown(id)} ${what}`, { quotesOthers });
    this.job = job;
    this.id = id;
  }
}

/** `call()` rejects with this error when the job has become a dead letter. The job's last error is in `error`. */
export class JobFailedError extends CallError {
  /** @internal */
  static override readonly brand: string = "JobFailedError";
  /** How often it ran and failed. */
  readonly attempts: number;
  /** How often its worker died, or did not renew its lease, while it had the job. */
  readonly crashes: number;
  /** The error of the last attempt. Undefined if no attempt failed and only workers crashed. */
  readonly error: StoredError | undefined;

  constructor(
    job: string,
    id: string,
    of: { readonly attempts: number; readonly crashes: number; readonly error: StoredError | undefined },
  ) {
    super("KIT_JOB_FAILED", job, id, `became a dead letter${of.error ? `: ${of.error.message}` : ""}`, true);
    this.attempts = of.attempts;
    this.crashes = of.crashes;
    this.error = of.error;
  }
}

/**
 * `call()` rejects with this error when the job is done, but its result cannot be sent. The job does not run again. The reason is in
 * `error`.
 */
export class JobResultError extends CallError {
  /** @internal */
  static override readonly brand: string = "JobResultError";
  readonly error: StoredError;

  constructor(job: string, id: string, error: StoredError) {
    super("KIT_JOB_RESULT", job, id, `completed, but its result cannot be sent: ${error.message}`, true);
    this.error = error;
  }
}

/** The job was cancelled, see `cancelJob()`. This error is the reason of `job.signal`, and `call()` rejects with it. */
export class JobCancelledError extends CallError {
  /** @internal */
  static override readonly brand: string = "JobCancelledError";

  constructor(job: string, id: string) {
    super("KIT_JOB_CANCELLED", job, id, "was cancelled");
  }
}

/** `call()` rejects with this error when no worker took the job within its `expiresMs`. The job has not run, and is deleted. */
export class JobExpiredError extends CallError {
  /** @internal */
  static override readonly brand: string = "JobExpiredError";

  constructor(job: string, id: string) {
    super("KIT_JOB_EXPIRED", job, id, "expired: no worker started it within expiresMs");
  }
}

/**
 * `call()` rejects with this error when neither the job nor its outcome exists. The job was deleted, the server lost data, or this process
 * could not reach the server for ten minutes after the job ended. The job may have run.
 */
export class JobOutcomeLostError extends CallError {
  /** @internal */
  static override readonly brand: string = "JobOutcomeLostError";

  constructor(job: string, id: string) {
    super("KIT_JOB_OUTCOME_LOST", job, id, "has no stored outcome: it was removed, or the server lost its data");
  }
}

/**
 * `call()` rejects with this error when there was no outcome within `waitMs`. The job stays in the queue. It may have run, or may still
 * run.
 */
export class CallTimeoutError extends CallError {
  /** @internal */
  static override readonly brand: string = "CallTimeoutError";
  readonly waitMs: number;

  constructor(job: string, id: string, waitMs: number) {
    super("KIT_QUEUE_CALL_TIMEOUT", job, id, `has no outcome after ${String(waitMs)} ms. The job was not cancelled`);
    this.waitMs = waitMs;
  }
}
