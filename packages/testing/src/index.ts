export { startRedis } from "./server.js";
export type {
  RedisClient,
  RedisClientOptions,
  RedisClusterOptions,
  RedisMode,
  RedisServer,
  StartRedisOptions,
} from "./server.js";
export type { RedisNode, RedisNodeState } from "./node.js";
export { eventually } from "./eventually.js";
export type { EventuallyOptions } from "./eventually.js";
export { FaultProxy } from "./proxy.js";
export type { FaultProxyOptions, ProxyFaults, ProxyStats } from "./proxy.js";
export { useRedis } from "./use-redis.js";
export type { TestHook, TestHooks, TestRedis, UseRedisOptions } from "./use-redis.js";
export { contract } from "./contract.js";
export type { CommandRunner, ScriptContract } from "./contract.js";
