import type { KitError } from "@kit/core";
import type { AnyJob, AnyJobs } from "./handlers.js";

/** Events of a worker. Each is emitted once the server has recorded it. */
export interface WorkerEvents<Jobs = AnyJobs> {
  readonly completed: readonly [event: { readonly job: AnyJob<Jobs> }];
  /** An attempt failed; it is tried again after `retryInMs`, or given up. */
  readonly failed: readonly [
    event: { readonly job: AnyJob<Jobs>; readonly error: unknown; readonly retryInMs: number | undefined },
  ];
  /** The job is a dead letter now. */
  readonly dead: readonly [event: { readonly job: AnyJob<Jobs>; readonly error: unknown }];
  /** A job was taken back from a worker that died or fell silent: it is ready again, or dead. */
  readonly crashed: readonly [event: { readonly id: string; readonly crashes: number; readonly isDead: boolean }];
  /** The lease of a job ended while its handler ran: another worker may run it, too. */
  readonly lost: readonly [event: { readonly job: AnyJob<Jobs> }];
  /**
   * A background operation failed. The worker tries on until it is closed, whatever the server says: an outage, or a refusal such as a
   * missing right, emits one error when it begins, and one with the code `KIT_RECOVERED` when it is over.
   */
  readonly error: readonly [error: KitError];
}
