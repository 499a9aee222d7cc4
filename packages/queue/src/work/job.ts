/** A job as its handler sees it. */
export interface Job<Name extends string = string, Data = unknown> {
  readonly id: string;
  readonly name: Name;
  readonly data: Data;
  /** Which attempt this is, counted from 1. A crash is no attempt. */
  readonly attempt: number;
  readonly maxAttempts: number;
  /** How often a worker died, or stopped renewing its lease, while it had this job. */
  readonly crashes: number;
  readonly priority: number;
  /** When it was added: epoch ms of the server's clock as its producer knew it. */
  readonly addedAt: number;
  /** When this worker took it: epoch ms of the server's clock. */
  readonly takenAt: number;
  /**
   * Aborts at once when the worker begins to close. A handler that then throws `closing.reason`, or whose wait or request on this signal
   * rejects, hands its job back to the front of the queue: no attempt is counted. Others may go on until `signal` aborts.
   */
  readonly closing: AbortSignal;
  /**
   * Aborts when the handler should stop: its lease is lost (JobLeaseLostError), it timed out (JobTimeoutError), or the worker has been
   * closing for `timeoutMs` (KitClosedError). In the last case the job stays leased until the handler has ended, `abortGraceMs` at most.
   */
  readonly signal: AbortSignal;
}
