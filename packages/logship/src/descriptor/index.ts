import type { PackageDescriptor } from "@kit/core/toolkit";
import { receiveCommand, shipCommand } from "./commands.js";
import { logshipInspector } from "./inspect.js";

/** The contribution of this package to the command line. */
export const descriptor: PackageDescriptor = {
  name: "logship",
  things: "log jobs and channels",
  permissions: {
    channels: ["inbox:*", "logship:*"],
    tried: (key) => [
      ["HDEL", key, "f"],
      ["HGET", key, "f"],
      ["HGETALL", key],
      ["HLEN", key],
      ["HMGET", key, "f"],
      ["HRANDFIELD", key, 1],
      ["MGET", key],
      ["PERSIST", key],
      ["PTTL", key],
      ["SET", key, "", "XX", "PX", 1],
      ["STRLEN", key],
      ["UNLINK", key],
      ["ZADD", key, "XX", 0, "m"],
      ["ZCARD", key],
      ["ZRANGE", key, 0, 0],
      ["ZRANGEBYSCORE", key, 0, 0],
      ["ZREM", key, "m"],
      ["ZSCORE", key, "m"],
    ],
    asked: (key) => [
      ["HINCRBY", key, "f", 0],
      ["HSET", key, "f", ""],
      ["HSETNX", key, "f", ""],
      ["SADD", key, "m"],
      ["ZINCRBY", key, 0, "m"],
    ],
  },
  // A chunk without expiry is committed; all other keys are permanent until they are deleted.
  endlessKeys: [{ key: /^\{.*\}:/s }],
  inspectors: [logshipInspector],
  commands: [shipCommand, receiveCommand],
};
