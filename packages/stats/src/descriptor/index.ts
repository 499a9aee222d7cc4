import type { PackageDescriptor } from "@kit/core/toolkit";
import { statsInspector } from "./inspect.js";
import { showCommand } from "./show.js";
import { tailCommand } from "./tail.js";
import { topCommand } from "./top.js";

/** The contribution of this package to the command line. */
export const descriptor: PackageDescriptor = {
  name: "stats",
  things: "statistics",
  permissions: {
    tried: (key) => [
      ["PING"],
      ["GET", key],
      ["HDEL", key, "f"],
      ["HGET", key, "f"],
      ["HGETALL", key],
      ["HKEYS", key],
      ["HLEN", key],
      ["HMGET", key, "f"],
      ["PEXPIRE", key, 1],
      ["PEXPIREAT", key, 1],
      ["SET", key, "", "XX", "PX", 1],
      ["XADD", key, "NOMKSTREAM", "*", "f", ""],
      ["XREAD", "STREAMS", key, 0],
      ["XREVRANGE", key, "+", "-", "COUNT", 1],
      ["ZADD", key, "XX", 0, "m"],
      ["ZCARD", key],
      ["ZRANGE", key, 0, 0],
      ["ZREM", key, "m"],
      ["ZREMRANGEBYRANK", key, 0, 0],
      ["ZREMRANGEBYSCORE", key, 0, 0],
      ["ZREVRANGE", key, 0, 0],
      ["ZSCORE", key, "m"],
    ],
    asked: (key) => [
      ["HINCRBY", key, "f", 0],
      ["HSET", key, "f", ""],
      ["ZINCRBY", key, 0, "m"],
    ],
  },
  inspectors: [statsInspector],
  commands: [topCommand, showCommand, tailCommand],
};
