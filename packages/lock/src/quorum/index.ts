export { QuorumError, SameServerError } from "./errors.js";
export { createQuorumLock } from "./quorum-lock.js";

export type { LeaseOptions, LossReason, ReleaseOutcome } from "@kit/core/leasing";
export type { CloseOptions } from "@kit/core/toolkit";
export type { AcquireOptions, TryOptions } from "../index.js";
export type { QuorumErrorCode } from "./errors.js";
export type { QuorumLease } from "./lease.js";
export type { QuorumLockOptions } from "./options.js";
export type { QuorumInspection, QuorumLock, QuorumLockEvents } from "./quorum-lock.js";
export type { Vote } from "./votes.js";
