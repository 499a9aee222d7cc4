export { createReadWriteLock } from "./read-write-lock.js";

export type { LeaseOptions, LossReason, ReleaseOutcome } from "@kit/core/leasing";
export type { CloseOptions } from "@kit/core/toolkit";
export type { AcquireOptions, TryOptions } from "../index.js";
export type { ReadWriteLockOptions } from "../options.js";
export type { ReadWriteLease, WriteLease } from "./lease.js";
export type { LockMode } from "./lock-mode.js";
export type { ReadWriteInspection, ReadWriteLock, ReadWriteLockEvents } from "./read-write-lock.js";
