export { connect } from "./connect.js";
export { health } from "./health.js";
export { keyspace, slotOf } from "./keyspace.js";
export { optimistic } from "./optimistic.js";
export { retry } from "./retry.js";
export { retain } from "./runtime.js";
export { defineScript } from "./script.js";
export {
  KitClosedError,
  KitConflictError,
  KitError,
  KitKeyTypeError,
  KitUnavailableError,
  KitUnknownOutcomeError,
} from "./errors.js";

// For packages that build on core.
export { addressOf } from "./client.js";
export { surely } from "./clock.js";
export { atDeadline, Deadline, onAbort } from "./deadline.js";
export { isReplyError, serverError } from "./errors.js";
export { TypedEmitter } from "./emitter.js";
export { booleanOption, integerOption, optionsObject, signalOption, textOption } from "./options.js";
export { backoffMs, pause } from "./retry.js";
export { withRuntime } from "./runtime.js";
export { newToken } from "./token.js";
export { onTraced, traced } from "./tracing.js";

export type { Address, NodeClient, RedisArgument, RedisLike } from "./client.js";
export type { ServerClock } from "./clock.js";
export type { Connection, ConnectOptions } from "./connect.js";
export type { KitErrorCode } from "./errors.js";
export type { Call, Gate } from "./gate.js";
export type { Health } from "./health.js";
export type { Inbox } from "./inbox.js";
export type { Keyspace } from "./keyspace.js";
export type { LeaseScheduler, ScheduledLease } from "./leases.js";
export type { OptimisticOptions, OptimisticResult, Transaction } from "./optimistic.js";
export type { ExclusiveConnection } from "./pool.js";
export type { RetryOptions } from "./retry.js";
export type { RetainOptions, Runtime } from "./runtime.js";
export type { RunOptions, Script, ScriptSpec } from "./script.js";
