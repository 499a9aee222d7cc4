import type { RedisLike } from "../index.js";
import { BorrowedClient } from "./borrowed.js";
import { ClusterClient } from "./cluster.js";
import { SentinelClient } from "./sentinel.js";
import type { NodeRedisClient, NodeRedisCluster, NodeRedisSentinel } from "./types.js";

const wrapped = new WeakMap<object, RedisLike>();

/**
 * Wraps a node-redis client (`redis` or `@redis/client`, 5.1 or later), so that every kit package accepts it in place of an ioredis
 * client. Pass the result of `createClient()`, `createCluster()` (5.9 or later) or `createSentinel()`. The wrapper opens no
 * connection. The same client always gives the same wrapper.
 *
 * You still own the client: connect it, end it, and listen to its `error` events. Without an `error` listener, node-redis ends the
 * process. If the client is not connected yet, its first call connects it. Features with dedicated connections, such as a worker or
 * `isolate`, don't connect it.
 *
 * @throws {TypeError} it is not a node-redis client.
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
    "Expected `client` to be from createClient() or createSentinel() of node-redis 5.1+, or from createCluster() of 5.9+",
  );
};

export type { NodeRedisClient, NodeRedisCluster, NodeRedisSentinel } from "./types.js";
