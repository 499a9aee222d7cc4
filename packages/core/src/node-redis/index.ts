import type { RedisLike } from "../index.js";
import { BorrowedClient } from "./borrowed.js";
import { ClusterClient } from "./cluster.js";
import { SentinelClient } from "./sentinel.js";
import type { NodeRedisClient, NodeRedisCluster, NodeRedisSentinel } from "./types.js";

const wrapped = new WeakMap<object, RedisLike>();

/**
 * Makes a client of node-redis (`redis` or `@redis/client`, from 5.1 on) one that every package of kit takes in the place of an ioredis
 * client: of `createClient()`, `createCluster()` or `createSentinel()`. It has no connection of its own; the same client gives the same
 * object.
 *
 * It stays the caller's, who connects it, ends it, and listens to its `error` events: without a listener node-redis ends the process. A
 * client that is not connected yet is connected by its first call, but not by what works on connections of its own (a worker, `isolate`).
 *
 * @throws {TypeError} it is not such a client.
 *
 * @example
 * import { createClient } from "redis";
 *
 * const client = await createClient({ url: "redis://127.0.0.1:6379" }).on("error", console.error).connect();
 * const redis = fromNodeRedis(client);
 */
export const fromNodeRedis = (client: NodeRedisClient | NodeRedisCluster | NodeRedisSentinel): RedisLike => {
  const known = wrapped.get(client);
  if (known) return known;
  const made = wrap(client);
  wrapped.set(client, made);
  return made;
};

const wrap = (client: NodeRedisClient | NodeRedisCluster | NodeRedisSentinel): RedisLike => {
  if (typeof client === "object" && client !== null) {
    // Events of nodes came with the same version as that method.
    if ("nodeClient" in client && "resubscribeAllPubSubListeners" in client) return new ClusterClient(client);
    if ("getMasterNode" in client) return new SentinelClient(client);
    if ("socketEpoch" in client) return new BorrowedClient(client);
  }
  throw new TypeError(
    "Expected `client` to be of createClient() or createSentinel() of node-redis from 5.1 on, or of createCluster() from 5.9 on",
  );
};

export type { NodeRedisClient, NodeRedisCluster, NodeRedisSentinel } from "./types.js";
