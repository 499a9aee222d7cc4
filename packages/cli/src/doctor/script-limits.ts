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
      if (value === undefined) return [ok("the server has no such limit")];
      const limit = Number(value);
      const fix = "CONFIG SET busy-reply-threshold 5000 (lua-time-limit before 7.0), which is the default.";
      if (limit <= 0 || limit > mostMs)
        return [
          warning(
            `a script that never ends blocks the server ${limit <= 0 ? "for good" : `for ${String(limit / 1_000)} s`} before it can be killed`,
            fix,
          ),
        ];
      if (limit < leastMs) return [warning(`after ${String(limit)} ms of any script all others get BUSY`, fix)];
      return [ok(`others get BUSY after ${String(limit / 1_000)} s of one script`)];
    }),
};
