export { PermitLostError, SemaphoreQueueFullError, SemaphoreTimeoutError, SemaphoreWeightError } from "./errors.js";
export { createSemaphore } from "./semaphore.js";

export type { LeaseOptions, LossReason, ReleaseOutcome } from "@kit/core/leasing";
export type { CloseOptions } from "@kit/core/toolkit";
export type { SemaphoreErrorCode } from "./errors.js";
export type { AcquireOptions, InspectOptions, Limits, NewLimits, SemaphoreOptions, TryOptions } from "./options.js";
export type { Permit } from "./permit.js";
export type { HolderOrWaiter, Semaphore, SemaphoreEvents, SemaphoreInspection } from "./semaphore.js";
