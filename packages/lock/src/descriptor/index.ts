import type { PackageDescriptor } from "@kit/core/toolkit";
import { lockInspector } from "./inspect.js";
import { releaseCommand } from "./release.js";

/** The description of this package for the command line. */
export const descriptor: PackageDescriptor = {
  name: "lock",
  things: "locks",
  permissions: {
    channels: ["inbox:*"],
    tried: (key) => [
      ["DEL", key],
      ["EXISTS", key],
      ["GET", key],
      ["HDEL", key, "f"],
      ["HGET", key, "f"],
      ["HMGET", key, "f"],
      ["HRANDFIELD", key, 1],
      ["PEXPIRE", key, 1],
      ["PTTL", key],
      ["SET", key, "", "XX", "PX", 1],
      ["ZADD", key, "XX", 0, "m"],
      ["ZCARD", key],
      ["ZCOUNT", key, 0, 0],
      ["ZRANGE", key, 0, 0],
      ["ZRANGEBYSCORE", key, 0, 0],
      ["ZRANK", key, "m"],
      ["ZREM", key, "m"],
      ["ZSCORE", key, "m"],
    ],
    asked: (key) => [
      ["HINCRBY", key, "f", 0],
      ["HSET", key, "f", ""],
    ],
  },
  endlessKeys: [
    {
      key: /^\{.*\}:lease$/s,
      problem: {
        text: "held locks without an expiry",
        fix: "PERSIST or a restore removed their expiry. If the holder no longer runs: kit lock release NAME.",
      },
    },
  ],
  inspectors: [lockInspector],
  commands: [releaseCommand],
};
