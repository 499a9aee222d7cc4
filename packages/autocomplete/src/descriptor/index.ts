import type { PackageDescriptor } from "@kit/core/toolkit";
import { bookInspector, indexInspector } from "./inspect.js";

/** The contribution of this package to the command line. */
export const descriptor: PackageDescriptor = {
  name: "autocomplete",
  things: "prefix indexes and contact books",
  permissions: {
    tried: (key) => [
      ["HDEL", key, "f"],
      ["HGET", key, "f"],
      ["HLEN", key],
      ["HMGET", key, "f"],
      ["PERSIST", key],
      ["PEXPIRE", key, 1],
      ["PTTL", key],
      ["SCARD", key],
      ["SISMEMBER", key, "m"],
      ["UNLINK", key],
      ["ZADD", key, "XX", 0, "m"],
      ["ZCARD", key],
      ["ZLEXCOUNT", key, "-", "+"],
      ["ZRANGE", key, 0, 0],
      ["ZRANGEBYLEX", key, "-", "+"],
      ["ZREM", key, "m"],
      ["ZREMRANGEBYRANK", key, 0, 0],
      ["ZREMRANGEBYSCORE", key, 0, 0],
      ["ZREVRANGE", key, 0, 0],
      ["ZSCORE", key, "m"],
    ],
    asked: (key) => [
      ["HSET", key, "f", ""],
      ["HSETNX", key, "f", ""],
      ["RENAME", key, key],
      ["SADD", key, "m"],
    ],
  },
  // An index is permanent data, and a book may be kept for ever.
  endlessKeys: [{ key: /^\{.*\}:(?:index|rows|ranked|items)$/s }, { key: /^\{.*\}:(?:book|contacts|cards|blocked)$/s }],
  inspectors: [indexInspector, bookInspector],
};
