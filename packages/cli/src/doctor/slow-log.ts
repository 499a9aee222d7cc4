import { counted, type Finding } from "@kit/core/toolkit";
import { type Check, ok, onEachNode, warning } from "./check.js";

/** While a command runs, the server serves no other client, so renewals of leases wait. */
const longMs = 100;
const recentSeconds = 3_600;

export const slowLog: Check = {
  id: "slow-log",
  look: (server) =>
    onEachNode(server, async (node): Promise<readonly Finding[]> => {
      const entries = (await node.call("SLOWLOG", "GET", 128)) as readonly [number, number, number, string[]][];
      const [seconds] = (await node.call("TIME")) as [string];
      const recent = entries.filter(([, at]) => Number(seconds) - at <= recentSeconds);
      const long = recent.filter(([, , micros]) => micros >= longMs * 1_000);
      if (long.length === 0) return [ok(`the slow log has no command over ${String(longMs)} ms from the last hour`)];
      const longestMs = Math.round(Math.max(...long.map(([, , micros]) => micros)) / 1_000);
      // Arguments may be private data.
      const names = [...new Set(long.map(([, , , [command = "?"]]) => command.toUpperCase()))].slice(0, 5);
      return [
        warning(
          `${counted(long.length, "command")} took over ${String(longMs)} ms in the last hour, up to ${String(longestMs)} ms: ${names.join(", ")}`,
          "SLOWLOG GET shows them. Split commands on large keys. Use SCAN instead of KEYS, and UNLINK instead of DEL.",
        ),
      ];
    }),
};
