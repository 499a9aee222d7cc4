import { counted, type Finding } from "@kit/core/toolkit";
import { numberOf } from "../node.js";
import { type Check, ok, onEachNode, problem, warning } from "./check.js";

export const connections: Check = {
  id: "connections",
  look: (server) =>
    onEachNode(server, async (node) => {
      const info = await node.info();
      const clients = numberOf(info, "connected_clients");
      const most = info.has("maxclients")
        ? numberOf(info, "maxclients")
        : Number((await node.config("maxclients")).get("maxclients"));
      const rejected = numberOf(info, "rejected_connections");
      const share = Math.round((clients / most) * 100);
      const figures = `${String(clients)} of ${String(most)} connections ${clients === 1 ? "is" : "are"} open`;
      const fix = "Share one client per process, close unused connections, or raise maxclients.";
      const found: Finding[] = [];
      if (share >= 95) found.push(problem(`${figures}: the server will soon reject new ones`, fix));
      else if (share > 80) found.push(warning(figures, fix));
      if (rejected > 0)
        found.push(
          warning(`${counted(rejected, "connection")} rejected since the server started: maxclients was reached`, fix),
        );
      return found.length > 0 ? found : [ok(figures)];
    }),
};
