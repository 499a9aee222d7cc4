import { eventually } from "./eventually.js";
import type { ServerNode } from "./node.js";
import { checkReplication } from "./replication.js";

const SLOTS = 16_384;
// A master stays read-only for its first two seconds, so this is ten times what a quiet machine needs.
const READY_TIMEOUT_MS = 20_000;
// ADDSLOTS needs one argument per slot. This number stays below any limit of the query buffer.
const ADDSLOTS_CHUNK = 2_000;

/**
 * Makes one Cluster of fresh, separate nodes, and waits until every node sees all of it and serves its slots. The first
 * replicas belong to the first master, and so on.
 */
export async function formCluster(masters: readonly ServerNode[], replicas: readonly ServerNode[]): Promise<void> {
  await Promise.all(masters.map((node, index) => giveSlots(node, index, masters.length)));
  const [first, ...others] = [...masters, ...replicas];
  for (const other of others) await first?.call("CLUSTER", "MEET", other.host, String(other.port));
  await Promise.all(replicas.map((replica, index) => follow(replica, masterOf(index, masters, replicas))));
  await eventually(() => checkCluster(masters, replicas), { timeoutMs: READY_TIMEOUT_MS });
}

const masterOf = (index: number, masters: readonly ServerNode[], replicas: readonly ServerNode[]): ServerNode =>
  masters[Math.floor((index * masters.length) / replicas.length)] as ServerNode;

async function follow(replica: ServerNode, master: ServerNode): Promise<void> {
  const id = String(await master.call("CLUSTER", "MYID"));
  // A replica learns of its master by gossip, and refuses REPLICATE until then.
  await eventually(() => replica.call("CLUSTER", "REPLICATE", id), { timeoutMs: READY_TIMEOUT_MS });
}

async function giveSlots(node: ServerNode, index: number, count: number): Promise<void> {
  // Different epochs from the start: nodes that meet with equal ones would first have to resolve that.
  await node.call("CLUSTER", "SET-CONFIG-EPOCH", String(index + 1));
  const from = Math.floor((SLOTS * index) / count);
  const to = Math.floor((SLOTS * (index + 1)) / count) - 1;
  const slots = Array.from({ length: to - from + 1 }, (_, offset) => String(from + offset));
  // Not ADDSLOTSRANGE, which came with 7.0: this works everywhere and costs a few milliseconds.
  for (let at = 0; at < slots.length; at += ADDSLOTS_CHUNK) {
    await node.call("CLUSTER", "ADDSLOTS", ...slots.slice(at, at + ADDSLOTS_CHUNK));
  }
}

/** Throws unless all nodes agree on the original slots and roles, and every replica is in step. */
export async function checkCluster(masters: readonly ServerNode[], replicas: readonly ServerNode[]): Promise<void> {
  const nodes = [...masters, ...replicas];
  const views = await Promise.all(
    nodes.map(async (node) => {
      const info = String(await node.call("CLUSTER", "INFO"));
      const wanted = ["cluster_state:ok", `cluster_slots_ok:${SLOTS}`, `cluster_known_nodes:${nodes.length}`];
      const missing = wanted.filter((line) => !info.includes(`${line}\r\n`));
      if (missing.length > 0) throw new Error(`Node ${node.port} does not report ${missing.join(", ")} yet`);
      return slotMap((await node.call("CLUSTER", "SLOTS")) as unknown[][]);
    }),
  );
  if (new Set(views).size > 1) throw new Error("The nodes do not yet agree on the owners of the slots");
  const perMaster = replicas.length / masters.length;
  await Promise.all(
    masters.map((master, index) =>
      checkReplication(master, replicas.slice(index * perMaster, (index + 1) * perMaster)),
    ),
  );
}

/** CLUSTER SLOTS as one text that is equal on nodes that agree: from, to and ports of each range, in order. */
function slotMap(ranges: readonly unknown[][]): string {
  return ranges
    .map(([from, to, ...servers]) => {
      const [master, ...others] = servers.map(portOf);
      return { from: Number(from), text: [`${String(from)}-${String(to)}@${master}`, ...others.sort()].join("+") };
    })
    .sort((a, b) => a.from - b.from)
    .map(({ text }) => text)
    .join(" ");
}

const portOf = (server: unknown): string => String((server as unknown[])[1]);
