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
        const text = `${megabytes(used)} of ${megabytes(limit)} (maxmemory) are used, ${String(share)} %`;
        const fix = "Raise maxmemory, remove data, or add a master.";
        const refuses = info.get("maxmemory_policy") === "noeviction";
        const full = `it is full, and ${refuses ? "refuses writes" : "drops keys or refuses writes"}`;
        if (share >= 95) found.push(problem(`${text}: ${used < limit ? "it is full soon" : full}`, fix));
        else if (share > 80) found.push(warning(text, fix));
      } else if (used > machine * 0.8)
        found.push(
          problem(
            `no maxmemory, and ${megabytes(used)} of the machine's ${megabytes(machine)} are used`,
            "Set maxmemory below what the machine has, or the system ends the server when memory runs out.",
          ),
        );
      else
        found.push(
          warning(
            "no maxmemory: when memory runs out the system ends the server, instead of writes being refused",
            "CONFIG SET maxmemory to two thirds of what the machine can spare; the same line belongs in redis.conf.",
          ),
        );
      const ratio = numberOf(info, "mem_fragmentation_ratio");
      if (used > leastForRatioBytes && ratio > 1.5)
        found.push(
          warning(
            `the process takes ${ratio.toFixed(1)} times what its data needs: fragmentation`,
            "CONFIG SET activedefrag yes, or restart it at a quiet hour.",
          ),
        );
      if (used > leastForRatioBytes && ratio < 0.9)
        found.push(
          problem(
            `a part of the data has been swapped out (resident / used = ${ratio.toFixed(2)})`,
            "Give the machine more memory, or the server less data.",
          ),
        );
      return found.length > 0 ? found : [ok(`${megabytes(used)} of ${megabytes(limit)} are used`)];
    }),
};
