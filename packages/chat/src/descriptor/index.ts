import type { PackageDescriptor } from "@kit/core/toolkit";
import { chatInspector } from "./inspect.js";
import { tailCommand } from "./tail.js";

/** The contribution of this package to the command line. */
export const descriptor: PackageDescriptor = {
  name: "chat",
  things: "chats",
  permissions: {
    tried: (key) => [
      ["EXISTS", key],
      ["HDEL", key, "f"],
      ["HEXISTS", key, "f"],
      ["HGET", key, "f"],
      ["HGETALL", key],
      ["HKEYS", key],
      ["HLEN", key],
      ["HMGET", key, "f"],
      ["HSCAN", key, 0],
      ["PEXPIRE", key, 1],
      ["UNLINK", key],
      ["XADD", key, "NOMKSTREAM", "*", "f", ""],
      ["XINFO", "STREAM", key],
      ["XLEN", key],
      ["XRANGE", key, "-", "+", "COUNT", 1],
      ["XREAD", "STREAMS", key, 0],
      ["XREVRANGE", key, "+", "-", "COUNT", 1],
      ["XTRIM", key, "MAXLEN", 1],
      ["ZADD", key, "XX", 0, "m"],
      ["ZCARD", key],
      ["ZRANGE", key, 0, 0],
      ["ZREM", key, "m"],
      ["ZREVRANGE", key, 0, 0],
      ["ZSCAN", key, 0],
      ["ZSCORE", key, "m"],
    ],
    asked: (key) => [
      ["HINCRBY", key, "f", 0],
      ["HSET", key, "f", ""],
    ],
  },
  endlessKeys: [{ key: /^\{.*\}:(layout|heads|activity|(member|meta|messages|positions|mailbox):.*)$/s }],
  inspectors: [chatInspector],
  commands: [tailCommand],
};
