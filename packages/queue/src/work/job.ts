/** A job as its handler sees it. */
export interface Job<Name extends string = string, Data = unknown> {
  readonly id: string;
  readonly name: Name;
  readonly data: Data;
  /** The number of this attempt, from 1. A crash is not an attempt. */
  readonly attempt: number;
  readonly maxAttempts: number;
  /** How often a worker died, or stopped renewing its lease, while it had this job. */
  readonly crashes: number;
  /** How often a handler snoozed this job, see SnoozeError. */
  readonly snoozes: number;
  readonly priority: number;
  /** The span that added the job, as a W3C traceparent; undefined: its producer was not traced. */
  readonly traceparent: string | undefined;
  /** When the job was added, in epoch ms: the server's time as its producer estimated it. */
  readonly addedAt: number;
  /** When this worker took the job, in epoch ms of the server's clock. */
  readonly takenAt: number;
  /**
   * Aborts at once when the worker begins to close. A handler that then throws `closing.reason`, or lets a wait or request on this signal
   * reject, hands its job back to the front of the queue: no attempt is counted. Other handlers may go on until `signal` aborts.
   */
  readonly closing: AbortSignal;
  /**
   * Aborts when the handler should stop. Reasons: the lease is lost (JobLeaseLostError), the job was cancelled (JobCancelledError), the
   * handler timed out (JobTimeoutError), or the worker has been closing for `timeoutMs` (KitClosedError). In the last case the job stays leased until the handler has ended, for
   * `abortGraceMs` at most.
   */
  readonly signal: AbortSignal;
}
