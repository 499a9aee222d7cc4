export { createCompatibleLock } from "./compatible-lock.js";

export type { LossReason, ReleaseOutcome } from "@kit/core/leasing";
export type { CloseOptions } from "@kit/core/toolkit";
export type { CompatibleLock, CompatibleLockEvents } from "./compatible-lock.js";
export type { CompatibleLease } from "./lease.js";
export type { CompatibleAcquireOptions, CompatibleLockOptions, CompatibleTryOptions } from "./options.js";
