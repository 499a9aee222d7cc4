// The Redis behind the shop: one server of its own by default, or a Cluster, or a master with replicas and Sentinels.
import { type RedisNode, startRedis as startServers } from "@kit/testing";
import { setTimeout as sleep } from "node:timers/promises";
import type { Failover } from "./faults.js";
import { startRedis } from "./redis-server.js";

const modes = ["single", "cluster", "sentinel"] as const;
export type Mode = (typeof modes)[number];

export const isMode = (text: string): text is Mode => modes.some((mode) => mode === text);

export interface Servers {
  readonly url: string;
  /** The port of a single server, which the wire forwards to; null otherwise. */
  readonly port: number | null;
  readonly failover: Failover | null;
  /** Rejects when a server ends and `stop` was not called. */
  readonly lost: Promise<never> | null;
  stop(): Promise<void>;
}

const failoverLimitMs = 30_000;
const backMs = 4_000;
/** A key in the market's slot. On a Cluster, the failover kills the master that serves it. */
const marketTag = "{main}";

export const startBehind = async (mode: Mode, home: string): Promise<Servers> => {
  if (mode === "single") {
    const { url, port, lost, stop } = await startRedis(home);
    return { url, port, lost, stop, failover: null };
  }
  const servers = await startServers(mode === "cluster" ? { mode, replicas: 1 } : { mode, downAfterMs: 1_000 });
  const all = (): RedisNode[] => [...new Set([...servers.nodes, ...servers.replicas])];
  const masterOf = mode === "cluster" ? () => masterOfSlot(all()) : () => servers.master();
  const failover: Failover = {
    run: async () => {
      const old = await masterOf();
      await old.kill();
      const end = performance.now() + failoverLimitMs;
      let next: RedisNode | null = null;
      while (!next && performance.now() < end) {
        const found = await masterOf().catch(() => null);
        if (found && found.port !== old.port) next = found;
        else await sleep(100);
      }
      // The old master returns as a replica, so that the fault can be repeated.
      setTimeout(() => void old.start().catch(() => undefined), backMs).unref();
      return next
        ? `The master at port ${old.port} was killed; the replica at port ${next.port} took over.`
        : `The master at port ${old.port} was killed, but no replica took over.`;
    },
  };
  return { url: servers.url, port: null, failover, lost: null, stop: () => servers.stop() };
};

/** The node of the Cluster that serves the market's slot, as the first running node reports it. */
const masterOfSlot = async (nodes: readonly RedisNode[]): Promise<RedisNode> => {
  for (const node of nodes) {
    if (node.state !== "running") continue;
    const slot = Number(await node.call("CLUSTER", "KEYSLOT", marketTag));
    const ranges = (await node.call("CLUSTER", "SLOTS")) as [number, number, [string, number]][];
    const port = ranges.find(([first, last]) => slot >= first && slot <= last)?.[2][1];
    const found = nodes.find((one) => one.port === port && one.state === "running");
    if (found) return found;
  }
  throw new Error("no node serves the market");
};
