import type { Finding } from "@kit/core/toolkit";
import { numberOf } from "../node.js";
import { type Check, megabytes, ok, onEachNode, problem, warning } from "./check.js";

/** Below this a server's own structures outweigh the data, and the ratio is meaningless. */
const leastForRatioBytes = 100 * 1_048_576;

export const memory: Check = {
  id: "memory",
  look: (server) =>
    onEachNode(server, async (node) => {
      const info = await node.info();
      const used = numberOf(info, "used_memory");
      const limit = numberOf(info, "maxmemory");
      const machine = numberOf(info, "total_system_memory");
      const found: Finding[] = [];
      if (limit > 0) {
        const share = Math.round((used / limit) * 100);
        const text = `${megabytes(used)} of ${megabytes(limit)} (maxmemory) used, ${String(share)} %`;
        const fix = "Raise maxmemory, remove data, or add a master.";
        const refuses = info.get("maxmemory_policy") === "noeviction";
        const full = `the server is full and ${refuses ? "rejects writes" : "drops keys or rejects writes"}`;
        if (share >= 95) found.push(problem(`${text}: ${used < limit ? "the server is almost full" : full}`, fix));
        else if (share > 80) found.push(warning(text, fix));
      } else if (used > machine * 0.8)
        found.push(
          problem(
            `maxmemory is not set, and ${megabytes(used)} of the machine's ${megabytes(machine)} are used`,
            "Set maxmemory below the machine's memory. Otherwise the system kills the server when memory runs out.",
          ),
        );
      else
        found.push(
          warning(
            "maxmemory is not set: when memory runs out, the system kills the server",
            "Set maxmemory to two thirds of the available memory, with CONFIG SET and in redis.conf.",
          ),
        );
      const ratio = numberOf(info, "mem_fragmentation_ratio");
      if (used > leastForRatioBytes && ratio > 1.5)
        found.push(
          warning(
            `fragmentation: the process uses ${ratio.toFixed(1)} times the memory of its data`,
            "Run CONFIG SET activedefrag yes, or restart the server when load is low.",
          ),
        );
      if (used > leastForRatioBytes && ratio < 0.9)
        found.push(
          problem(
            `the system swapped out part of the data (resident / used = ${ratio.toFixed(2)})`,
            "Add memory to the machine, or remove data.",
          ),
        );
      return found.length > 0 ? found : [ok(`${megabytes(used)} of ${megabytes(limit)} used`)];
    }),
};
