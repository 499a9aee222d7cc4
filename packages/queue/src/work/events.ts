import type { KitError } from "@kit/core";
import type { AnyJob, AnyJobs } from "../job/types.js";

/** Events of a worker. Events about the end of a job are emitted once the server has recorded it. */
export interface WorkerEvents<Jobs = AnyJobs> {
  /** The handler succeeded, and the job is done. */
  readonly completed: readonly [event: { readonly job: AnyJob<Jobs> }];
  /** An attempt failed. The job runs again after `retryInMs`. If `retryInMs` is undefined, the job is dead. */
  readonly failed: readonly [
    event: { readonly job: AnyJob<Jobs>; readonly error: unknown; readonly retryInMs: number | undefined },
  ];
  /**
   * A handler threw a SnoozeError, or this worker cannot run the job and passes it on (JobRefusedError). Neither counts as an attempt. The
   * job is tried again after `retryInMs`. With a WaitForChildren it is tried again when its children have ended: `retryInMs` is Infinity.
   */
  readonly snoozed: readonly [
    event: { readonly job: AnyJob<Jobs>; readonly error: unknown; readonly retryInMs: number },
  ];
  /** The job became a dead letter. */
  readonly dead: readonly [event: { readonly job: AnyJob<Jobs>; readonly error: unknown }];
  /** The server deleted dead letters that were less than one hour old, because there were more than `deadLetters` allows. */
  readonly dropped: readonly [event: { readonly count: number }];
  /** The server took a job back, because its worker died or did not renew the lease. The job is ready again, or dead. */
  readonly crashed: readonly [event: { readonly id: string; readonly crashes: number; readonly isDead: boolean }];
  /** The lease of a job ended while its handler ran. Another worker may be running the job. */
  readonly lost: readonly [event: { readonly job: AnyJob<Jobs> }];
  /**
   * A job was cancelled after its handler had started. The handler's signal has aborted. The worker ignores what the handler returns or
   * throws.
   */
  readonly cancelled: readonly [event: { readonly job: AnyJob<Jobs> }];
  /** No worker took the job within its `expiresMs`. The job has not run, and is deleted. */
  readonly expired: readonly [event: { readonly job: AnyJob<Jobs> }];
  /**
   * A background operation failed. The worker retries after any error, until it is closed. Outages and refusals (such as a missing
   * permission) emit one error at their start, and one with the code `KIT_RECOVERED` at their end.
   */
  readonly error: readonly [error: KitError];
}
