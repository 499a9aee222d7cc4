export { connect } from "./connect/connect.js";
export { health } from "./connect/health.js";
export {
  defineScript,
  keyspace,
  KitClosedError,
  KitConflictError,
  KitError,
  KitKeyTypeError,
  KitUnavailableError,
  KitUnknownOutcomeError,
  retry,
} from "./kernel/index.js";
export { optimistic } from "./transaction/optimistic.js";

export type { Connection, ConnectOptions } from "./connect/connect.js";
export type { Health } from "./connect/health.js";
export type {
  Keyspace,
  CoreErrorCode,
  KitErrorCode,
  KitErrorCodes,
  RedisArgument,
  RedisLike,
  RetryOptions,
  RunOptions,
  Script,
  ScriptSpec,
} from "./kernel/index.js";
export type { OptimisticOptions, OptimisticResult, Transaction } from "./transaction/optimistic.js";
