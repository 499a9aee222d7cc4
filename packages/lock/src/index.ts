export {
  LockLostError,
  LockNotDurableError,
  LockQueueFullError,
  LockSelfDeadlockError,
  LockTimeoutError,
} from "./errors.js";
export { createLock } from "./lock.js";

export type { LeaseOptions, LossReason, ReleaseOutcome } from "@kit/core/leasing";
export type { CloseOptions } from "@kit/core/toolkit";
export type { LockErrorCode } from "./errors.js";
export type { Lease } from "./lease.js";
export type { LeaseSet } from "./lease-set.js";
export type { Lock, LockEvents, LockInspection } from "./lock.js";
export type { AcquireOptions, DurableOption, LockOptions, TryOptions } from "./options.js";
