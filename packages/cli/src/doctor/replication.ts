import { attachedReplicas, counted, type Finding } from "@kit/core/toolkit";
import { numberOf, Refused } from "../node.js";
import type { Server } from "../server.js";
import { type Check, ok, onEachNode, problem, warning } from "./check.js";

/** Replicas and masters exchange messages each second. */
const lateSeconds = 10;

type Info = ReadonlyMap<string, string>;

const ofReplica = (info: Info): readonly Finding[] => {
  const master = `${info.get("master_host") ?? "?"}:${info.get("master_port") ?? "?"}`;
  const found: Finding[] = [
    problem(
      `this server is a replica of ${master}: it rejects writes`,
      "Use the address of the master, or of the Sentinels: redis+sentinel://host:port/name.",
    ),
  ];
  if (info.get("master_link_status") !== "up")
    found.push(
      problem(
        `its link to ${master} is down: its data is stale`,
        "Check that the master runs, and that masterauth and masteruser are correct.",
      ),
    );
  else if (numberOf(info, "master_last_io_seconds_ago") > lateSeconds)
    found.push(
      warning(
        `it has received nothing from ${master} for ${info.get("master_last_io_seconds_ago") ?? "?"} s`,
        "Check the network between the two.",
      ),
    );
  return found;
};

const ofMaster = (info: Info, wanted: number, { topology }: Server): readonly Finding[] => {
  const replicas = attachedReplicas(info);
  const found: Finding[] = [];
  const good = info.has("min_slaves_good_slaves") ? numberOf(info, "min_slaves_good_slaves") : replicas.length;
  if (wanted > good)
    found.push(
      problem(
        `min-replicas-to-write is ${String(wanted)} with ${counted(good, "replica")} in sync: the server rejects every write`,
        "Restart the replicas, or lower min-replicas-to-write.",
      ),
    );
  else if (replicas.length === 0 && topology === "sentinel")
    found.push(
      warning("the master has no replica: the Sentinels cannot fail over", "Start a replica: REPLICAOF host port."),
    );
  for (const { host, port, state, lagSeconds } of replicas)
    if (state !== "online" || lagSeconds > lateSeconds)
      found.push(
        warning(
          `the replica ${host}:${String(port)} lags (${state === "online" ? `silent for ${String(lagSeconds)} s` : state})`,
          "Check the network between the two, and client-output-buffer-limit replica.",
        ),
      );
  return found.length > 0
    ? found
    : [
        ok(
          replicas.length === 0
            ? "a master without replicas"
            : `a master with ${counted(replicas.length, "replica")}, all up to date`,
        ),
      ];
};

export const replication: Check = {
  id: "replication",
  look: (server) =>
    onEachNode(server, async (node) => {
      const info = await node.info();
      if (info.get("role") === "slave") return ofReplica(info);
      const settings = await node.config("min-replicas-to-write").catch((error: unknown) => {
        if (error instanceof Refused) return undefined;
        throw error;
      });
      return ofMaster(info, Number(settings?.get("min-replicas-to-write") ?? 0), server);
    }),
};
