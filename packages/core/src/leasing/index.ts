// For packages that lease something to one or to several at a time.
export { type AcquireReply, type Attempt, type HeartbeatReply, LeasingCommands } from "./commands.js";
export { aliveMs, firstTermMs, pushedTermMs } from "./commands.js";
export { lastWords, lossWords, shown } from "./errors.js";
export { Lease } from "./lease.js";
export { Leaser, parseLease } from "./leaser.js";
export { resolveAcquire, leaseNames, leaserNames, leaserSettings } from "./options.js";
export { waitQueueSource } from "./scripts/index.js";

export type { Giving, NotGranted, ReleaseReply, Renewal, Seen, WaiterState } from "./commands.js";
export type { LossReason } from "./errors.js";
export type { LeaseMaker } from "./holding.js";
export type { Grant, LeaseKeeper, ReleaseOutcome, RenewState, SerialisedLease } from "./lease.js";
export type { LeaserEvents, SavedLease } from "./leaser.js";
export type {
  ResolvedAcquire,
  LeaseOptions,
  LeaserOptions,
  LeaserSettings,
  ResolvedLease,
  WaitOptions,
} from "./options.js";
