import type { PackageDescriptor } from "@kit/core/toolkit";
import { semaphoreInspector } from "./inspect.js";

/** The description of this package for the command line. */
export const descriptor: PackageDescriptor = {
  name: "semaphore",
  things: "semaphores",
  permissions: {
    channels: ["inbox:*"],
    tried: (key) => [
      ["EXISTS", key],
      ["HDEL", key, "f"],
      ["HGET", key, "f"],
      ["HKEYS", key],
      ["HLEN", key],
      ["HMGET", key, "f"],
      ["HRANDFIELD", key, 1],
      ["PEXPIRE", key, 1],
      ["PTTL", key],
      ["ZADD", key, "XX", 0, "m"],
      ["ZCARD", key],
      ["ZCOUNT", key, "-inf", "+inf"],
      ["ZLEXCOUNT", key, "-", "+"],
      ["ZMSCORE", key, "m"],
      ["ZRANGE", key, 0, 0],
      ["ZRANGEBYLEX", key, "-", "+"],
      ["ZRANGEBYSCORE", key, 0, 0],
      ["ZRANK", key, "m"],
      ["ZREM", key, "m"],
      ["ZSCORE", key, "m"],
    ],
    asked: (key) => [
      ["HINCRBY", key, "f", 0],
      ["HSET", key, "f", ""],
      ["ZINCRBY", key, 0, "m"],
    ],
  },
  inspectors: [semaphoreInspector],
};
