import { counted } from "@kit/core/toolkit";
import { numberOf } from "../node.js";
import { type Check, ok, onEachNode, problem, warning } from "./check.js";

export const evictionPolicy: Check = {
  id: "eviction-policy",
  look: (server) =>
    onEachNode(server, async (node) => {
      const info = await node.info();
      const policy = info.get("maxmemory_policy") ?? "unknown";
      const limit = numberOf(info, "maxmemory");
      const evicted = numberOf(info, "evicted_keys");
      const fix =
        "Run CONFIG SET maxmemory-policy noeviction, and set it in redis.conf. Put caches on a separate server.";
      const queues = policy.startsWith("allkeys")
        ? ". Queues reject adds and workers unless they set allowEviction"
        : "";
      if (policy === "noeviction") return [ok("noeviction: a full server rejects writes and drops no data")];
      if (limit > 0)
        return [
          problem(
            `${policy}: a full server drops locks and other data of kit${evicted > 0 ? ` (${counted(evicted, "key")} so far)` : ""}${queues}`,
            fix,
          ),
        ];
      return [
        warning(`${policy}: once you set maxmemory, a full server drops locks and other data of kit${queues}`, fix),
      ];
    }),
};
