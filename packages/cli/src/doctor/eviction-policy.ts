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
        "CONFIG SET maxmemory-policy noeviction; the same line belongs in redis.conf. Put caches on a server of their own.";
      const queues = policy.startsWith("allkeys")
        ? "; meanwhile queues refuse to add and to work, unless they have allowEviction"
        : "";
      if (policy === "noeviction") return [ok("noeviction: a full server refuses writes, and drops nothing")];
      if (limit > 0)
        return [
          problem(
            `${policy}: a full server drops locks and other data that somebody relies on${evicted > 0 ? `; it has dropped ${counted(evicted, "key")}` : ""}${queues}`,
            fix,
          ),
        ];
      return [warning(`${policy} would drop locks and other data as soon as maxmemory is set${queues}`, fix)];
    }),
};
