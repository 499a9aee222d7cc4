/** A job as its handler sees it. */
export interface Job<Name extends string = string, Data = unknown> {
  readonly id: string;
  readonly name: Name;
  readonly data: Data;
  /** The number of this attempt, from 1. A crash is not an attempt. */
  readonly attempt: number;
  readonly maxAttempts: number;
  /** How often a worker died, or did not renew its lease, while it had this job. */
  readonly crashes: number;
  /** How often a handler snoozed this job; see SnoozeError. */
  readonly snoozes: number;
  readonly priority: number;
  /** The group of the job. Undefined if it has none. */
  readonly group: string | undefined;
  /** The span that added the job, as a W3C traceparent. Undefined if its producer was not traced. */
  readonly traceparent: string | undefined;
  /** When the job was added, in epoch ms: the producer's estimate of the server's time. */
  readonly addedAt: number;
  /** When this worker took the job, in epoch ms of the server's clock. */
  readonly takenAt: number;
  /**
   * Aborts immediately when the worker starts to close. Throw `closing.reason`, or pass this signal to a wait or request and let that
   * reject. The worker then hands the job back to the front of the queue, without counting an attempt. Other handlers can continue until
   * `signal` aborts.
   */
  readonly closing: AbortSignal;
  /**
   * Aborts when the handler should stop. The reason is one of these errors:
   *
   * - JobLeaseLostError: the lease is lost.
   * - JobCancelledError: the job was cancelled.
   * - JobTimeoutError: the handler timed out.
   * - KitClosedError: the worker has been closing for `timeoutMs`. The job stays leased until the handler has finished, for up to
   *   `abortGraceMs`.
   */
  readonly signal: AbortSignal;
}
