import type { PackageDescriptor } from "@kit/core/toolkit";
import { importCommand, lookupCommand, rollbackCommand } from "./commands.js";
import { geoIpInspector } from "./inspect.js";

/** The contribution of this package to the command line. */
export const descriptor: PackageDescriptor = {
  name: "geoip",
  things: "IP databases",
  permissions: {
    channels: ["inbox:*", "geoip:*"],
    tried: (key) => [
      ["EXISTS", key],
      ["HGET", key, "f"],
      ["HMGET", key, "f"],
      ["PERSIST", key],
      ["PEXPIRE", key, 1],
      ["PTTL", key],
      ["UNLINK", key],
    ],
    asked: (key) => [["HSET", key, "f", ""]],
  },
  endlessKeys: [
    { key: /^\{[^{}]*\}:(?:current|version:[0-9a-f]+)$/s },
    { key: /^\{[^{}]*\.[0-9a-f]+\.(?:v4|v6|places|names)\.\d+\}:shard$/s },
  ],
  inspectors: [geoIpInspector],
  commands: [importCommand, lookupCommand, rollbackCommand],
};
