export { LockLostError, LockQueueFullError, LockTimeoutError } from "./errors.js";
export { createLock } from "./lock.js";

export type { LockErrorCode, LossReason } from "./errors.js";
export type { Lease, ReleaseOutcome } from "./lease.js";
export type { Lock, LockEvents, LockInspection } from "./lock.js";
export type { AcquireOptions, CloseOptions, LeaseOptions, LockOptions, TryOptions } from "./options.js";
