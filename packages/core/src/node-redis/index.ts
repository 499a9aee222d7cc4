import type { RedisLike } from "../index.js";
import { BorrowedClient } from "./borrowed.js";
import type { NodeRedisClient } from "./types.js";

const wrapped = new WeakMap<NodeRedisClient, BorrowedClient>();

/**
 * Makes a client of node-redis (`redis` or `@redis/client`, 5 or 6) one that every package of kit takes in the place of an ioredis
 * client. It has no connection of its own; the same client gives the same object.
 *
 * A client that is not connected yet is connected by the first call. It stays the caller's, who ends it.
 *
 * @throws {TypeError} it is not a client of node-redis.
 *
 * @example
 * import { createClient } from "redis";
 *
 * const client = await createClient({ url: "redis://127.0.0.1:6379" }).connect();
 * const redis = fromNodeRedis(client);
 */
export const fromNodeRedis = (client: NodeRedisClient): RedisLike => {
  let known = wrapped.get(client);
  if (!known) wrapped.set(client, (known = new BorrowedClient(client)));
  return known;
};

export type { NodeRedisClient } from "./types.js";
