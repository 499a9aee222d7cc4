import type { PackageDescriptor } from "@kit/core/toolkit";
import { endlessParts } from "../job/keys.js";
import { adoptCommand } from "./adopt.js";
import { cleanCommand, purgeCommand } from "./clean.js";
import { commands } from "./commands.js";
import { editCommand, rescheduleCommand } from "./edit.js";
import { flowInspector, flowsCheck } from "./flows.js";
import { groupsCheck } from "./groups.js";
import { jobInspector, queueInspector } from "./inspect.js";
import { limitCommand } from "./limit.js";
import { pausedCheck } from "./paused.js";
import { scheduleCommands, scheduleInspector, schedulesCheck, schedulesCommand } from "./schedules.js";
import { handlersCheck, longJobsCheck, workersCommand } from "./workers.js";

/** The contribution of this package to the command line. */
export const descriptor: PackageDescriptor = {
  name: "queue",
  things: "queues",
  permissions: {
    channels: ["inbox:*", "queue:*"],
    tried: (key) => [
      // The key does not exist: the pop times out after a millisecond.
      ["BZPOPMIN", key, 0.001],
      ["EXISTS", key],
      ["GET", key],
      ["HDEL", key, "f"],
      ["HEXISTS", key, "f"],
      ["HGET", key, "f"],
      ["HLEN", key],
      ["HMGET", key, "f"],
      ["HRANDFIELD", key],
      ["HSTRLEN", key, "f"],
      ["LLEN", key],
      ["LINSERT", key, "AFTER", "m", "m"],
      ["LPOS", key, "m"],
      ["LRANGE", key, 0, 0],
      ["LTRIM", key, 0, -1],
      ["PEXPIRE", key, 1],
      ["PEXPIREAT", key, 1],
      ["PTTL", key],
      ["STRLEN", key],
      ["XADD", key, "NOMKSTREAM", "*", "e", ""],
      ["XLEN", key],
      ["XRANGE", key, "-", "+"],
      ["XREAD", "STREAMS", key, "0"],
      ["XREVRANGE", key, "+", "-"],
      ["ZADD", key, "XX", 0, "m"],
      ["ZCARD", key],
      ["ZLEXCOUNT", key, "-", "+"],
      ["ZMSCORE", key, "m"],
      ["ZRANGE", key, 0, 0],
      ["ZRANGEBYSCORE", key, 0, 0],
      ["ZREM", key, "m"],
      ["ZREMRANGEBYRANK", key, 0, 0],
      ["ZREMRANGEBYSCORE", key, 0, 0],
      ["ZREVRANGEBYSCORE", key, 0, 0],
      ["ZSCORE", key, "m"],
    ],
    asked: (key) => [
      ["HINCRBY", key, "f", 0],
      ["HSET", key, "f", ""],
      ["LPUSH", key, ""],
      ["RPUSH", key, ""],
      ["SET", key, ""],
    ],
  },
  endlessKeys: [{ key: new RegExp(`^\\{.*\\}:(?:${endlessParts.join("|")})$`, "s") }],
  inspectors: [queueInspector, jobInspector, flowInspector, scheduleInspector],
  commands: [
    ...commands,
    rescheduleCommand,
    editCommand,
    limitCommand,
    workersCommand,
    cleanCommand,
    purgeCommand,
    schedulesCommand,
    ...scheduleCommands,
    adoptCommand,
  ],
  checks: [pausedCheck, groupsCheck, schedulesCheck, flowsCheck, longJobsCheck, handlersCheck],
};
