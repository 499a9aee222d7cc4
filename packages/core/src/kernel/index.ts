// All entries of the package share this module. It is loaded once, and is not an entry itself.
export { detached, detachedTimeout, OwnAbortController, ownContext } from "./base/async-context.js";
export { Deadline, atDeadline, onAbort } from "./base/deadline.js";
export { holdErrors, inTime, type Limit, type Settle, settled, untilAborted } from "./base/settle.js";
export { TypedEmitter } from "./base/emitter.js";
export {
  asKitError,
  isForbidden,
  isReplyError,
  isSlotMoving,
  passes,
  KitClosedError,
  KitConflictError,
  KitError,
  KitKeyTypeError,
  KitUnavailableError,
  KitUnknownOutcomeError,
  originOf,
  reasonOf,
  replyOf,
  safeCause,
  serverError,
  withCaller,
} from "./base/errors.js";
export { decodedName, keyspace, nameIn, slotOf } from "./base/keyspace.js";
export { clientRules, closeTimeoutMs } from "./base/options.js";
export {
  boolean,
  choice,
  custom,
  defaultsOf,
  integer,
  integerOption,
  matching,
  nested,
  nullable,
  optionsObject,
  required,
  resolve,
  signal,
  signalOption,
  stored,
  text,
  textOption,
} from "./base/rules.js";
export { OutageReporter } from "./base/outage.js";
export { backoffMs, pause, retry } from "./base/retry.js";
export { newToken } from "./base/token.js";
export { carryTraces, onTraced, traceCarrier, traced } from "./base/tracing.js";
export {
  addressOf,
  assertConnections,
  connectionsOf,
  destroySocket,
  duplicateNode,
  isClusterClient,
  isReady,
  ownClusterSettings,
  ownSettings,
} from "./connection/client.js";
export { answered, reconnectMs } from "./connection/dedicated.js";
export { addListeners } from "./connection/listeners.js";
export { noAnswer } from "./connection/no-answer.js";
export { isOwned, superviseClient } from "./connection/supervision.js";
export { lowerBoundMs } from "./context/clock.js";
export { attach, ClientContext, withContext } from "./context/context.js";
export { expiryOf } from "./context/expiry.js";
export { ObjectLife } from "./context/life.js";
export { defineScript } from "./script/script.js";

export type { CoreErrorCode, KitErrorCode, KitErrorCodes } from "./base/errors.js";
export type { Keyspace } from "./base/keyspace.js";
export type { ClientOptions, CloseOptions } from "./base/options.js";
export type { RetryOptions } from "./base/retry.js";
export type { Resolved, Rule, RulesOf } from "./base/rules.js";
export type { Address, NodeClient, RedisArgument, RedisLike } from "./connection/client.js";
export type { ServerClock } from "./context/clock.js";
export type { ExpiryScheduler, ScheduledLease } from "./context/expiry.js";
export type { Inbox } from "./context/inbox.js";
export { reading } from "./execution/executor.js";
export type { Call } from "./execution/executor.js";
export type { ExclusiveConnection } from "./execution/pool.js";
export type { RunOptions, Script, ScriptSpec } from "./script/script.js";
