import type { Finding } from "@kit/core/toolkit";
import { type Check, ok, onEachNode, warning } from "./check.js";

const leastMs = 1_000;
const mostMs = 10_000;

export const scriptLimits: Check = {
  id: "script-limits",
  look: (server) =>
    onEachNode(server, async (node): Promise<readonly Finding[]> => {
      // The first is the name since 7.0, the second the older one, which stays as an alias.
      const settings = await node.config("busy-reply-threshold", "lua-time-limit");
      const value = settings.get("busy-reply-threshold") ?? settings.get("lua-time-limit");
      if (value === undefined) return [ok("the server has no busy-reply-threshold")];
      const limit = Number(value);
      const fix = "Run CONFIG SET busy-reply-threshold 5000, the default (lua-time-limit before 7.0).";
      if (limit <= 0 || limit > mostMs)
        return [
          warning(
            `an endless script blocks the server ${limit <= 0 ? "permanently" : `for ${String(limit / 1_000)} s before you can kill it`}`,
            fix,
          ),
        ];
      if (limit < leastMs)
        return [warning(`scripts over ${String(limit)} ms make the server reply BUSY to other clients`, fix)];
      return [ok(`scripts over ${String(limit / 1_000)} s make the server reply BUSY to other clients`)];
    }),
};
