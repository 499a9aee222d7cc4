// For packages that lease something to one or several callers at a time.
export { lastWords, lossWords, shown } from "./errors.js";
export { grantOf } from "./grant.js";
export { HeldLeases } from "./held-leases.js";
export { aliveMs, firstTermMs, pushedTermMs } from "./kind.js";
export { Lease } from "./lease.js";
export { Leaser } from "./leaser.js";
export { leaseRules, leaserRules, waitRules } from "./options.js";
export { releaseReply, renewReply } from "./replies.js";
export { runAndRelease } from "./run-and-release.js";
export { renewalSource, waitQueueSource } from "./scripts/index.js";
export { parseLease } from "./serialised.js";

export type { LossReason } from "./errors.js";
export type { Grant } from "./grant.js";
export type { HeldLease, ReleaseOutcome } from "./held.js";
export type { HeldEvents } from "./held-leases.js";
export type {
  AcquireReply,
  Attempt,
  HeartbeatReply,
  LeaseKind,
  LeaseRequest,
  Release,
  ReleaseReply,
  Renewal,
  RenewReply,
  RenewState,
  Seen,
  WaiterState,
} from "./kind.js";
export type {
  ResolvedAcquire,
  LeaseOptions,
  LeaserOptions,
  LeaserSettings,
  ResolvedLease,
  WaitOptions,
} from "./options.js";
export type { LeaseStore } from "./store.js";
