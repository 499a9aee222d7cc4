// The client of Redis on which our packages are measured.
import type { RedisLike } from "@kit/core";
import { Redis } from "ioredis";
import { type ClientName, connectNodeRedis } from "@tooling/lab";
import { alsoOnNodeRedis } from "./sent.js";

/** A client that connects as soon as it is used. */
export const reconnecting = (url: string): Redis => {
  const redis = new Redis(url);
  redis.on("error", () => undefined);
  return redis;
};

export const connected = async (url: string): Promise<Redis> => {
  const redis = reconnecting(url);
  await redis.ping();
  return redis;
};

/** Connects a client that our packages take. */
export type Connect = (url: string) => Promise<RedisLike>;

const onNodeRedis: Connect = async (url) => {
  await alsoOnNodeRedis();
  return await connectNodeRedis(url);
};

export const connectOf = (client: ClientName = "ioredis"): Connect => (client === "ioredis" ? connected : onNodeRedis);
