// The client of Redis on which our packages are measured.
import type { RedisLike } from "@kit/core";
import { type ClientName, connectNodeRedis } from "@tooling/lab";
import { connected } from "./loops/caller.js";
import { alsoOnNodeRedis } from "./sent.js";

/** Connects a client that our packages take. */
export type Connect = (url: string) => Promise<RedisLike>;

const onNodeRedis: Connect = async (url) => {
  await alsoOnNodeRedis();
  return await connectNodeRedis(url);
};

export const connectOf = (client: ClientName = "ioredis"): Connect => (client === "ioredis" ? connected : onNodeRedis);
