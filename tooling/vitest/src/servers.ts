import { once } from "node:events";
import { createServer, type AddressInfo } from "node:net";
import { expect, vi } from "vitest";

/** The members of a server process that the helpers use. */
export interface Node {
  call(command: string, ...args: string[]): Promise<unknown>;
}

/** How long the helpers wait for servers. */
export const patience = { timeout: 20_000, interval: 10 };

/** A port without a listener (tcpmux, which is out of use). A merely free port may be taken the next moment. */
export const closedPort = 1;

/** A loopback port that is free at this moment. */
export const freePort = async (): Promise<number> => {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, "close");
  return port;
};

/** The number of times that a node ran a command. Commands inside scripts are counted under their own names. */
export const callsOf = async (node: Node, command: string): Promise<number> => {
  const stats = String(await node.call("INFO", "commandstats"));
  return Number(new RegExp(`cmdstat_${command}:calls=(\\d+)`).exec(stats)?.[1] ?? 0);
};

/** The number of script calls by clients. */
export const scriptCalls = async (nodes: readonly Node[]): Promise<number> => {
  const counts = await Promise.all(nodes.map((node) => callsOf(node, "evalsha")));
  return counts.reduce((sum, count) => sum + count, 0);
};

/** The node that serves a slot in a new Cluster of three: slots 0 to 5460, 5461 to 10921, or the rest. */
export const firstServing = (slot: number): number => Math.min(2, Math.floor(slot / 5_461));

/** The server process that serves a key. */
export const nodeOf = async <N extends Node>(nodes: readonly N[], key: string): Promise<N> => {
  for (const node of nodes) {
    const serves = await node.call("EXISTS", key).then(
      () => true,
      () => false,
    );
    if (serves) return node;
  }
  throw new Error("no node serves the key");
};

/**
 * Takes a node out of a Cluster as operators do: its slots go to `heir`, the others forget it, and it is reset. It runs on,
 * alone, and serves nothing. Keys that it held are gone.
 */
export const removeNode = async (nodes: readonly Node[], victim: Node, heir: Node): Promise<void> => {
  const id = String(await victim.call("CLUSTER", "MYID"));
  const ranges = (await victim.call("CLUSTER", "SLOTS")) as [number, number, [string, number, string]][];
  const own = ranges.filter(([, , master]) => master[2] === id);
  const others = nodes.filter((node) => node !== victim);
  await victim.call("FLUSHALL");
  for (const node of others) await node.call("CLUSTER", "FORGET", id);
  await victim.call("CLUSTER", "RESET", "HARD");
  const slots = own.flatMap(([from, to]) => Array.from({ length: to - from + 1 }, (_, at) => String(from + at)));
  for (let at = 0; at < slots.length; at += 2_000)
    await heir.call("CLUSTER", "ADDSLOTS", ...slots.slice(at, at + 2_000));
  await vi.waitFor(async () => {
    const infos = await Promise.all(others.map((node) => node.call("CLUSTER", "INFO")));
    for (const info of infos) expect(String(info)).toMatch(/cluster_state:ok[^]*cluster_slots_ok:16384/);
  }, patience);
};

/** The number of subscribed inboxes. */
export const inboxes = async (nodes: readonly Node[]): Promise<number> => {
  const lists = await Promise.all(nodes.map((node) => node.call("CLIENT", "LIST", "TYPE", "pubsub")));
  return lists.reduce<number>((sum, list) => sum + (String(list).match(/name=kit:inbox/g)?.length ?? 0), 0);
};

/** Resolves once the replicas have all data that the master has now. */
export const inStep = async (master: Node, replicas: readonly Node[]): Promise<void> => {
  const offset = async (node: Node, field: string): Promise<number> =>
    Number(new RegExp(`${field}:(\\d+)`).exec(String(await node.call("INFO", "replication")))?.[1]);
  const wanted = await offset(master, "master_repl_offset");
  for (const replica of replicas)
    await vi.waitFor(
      async () => expect(await offset(replica, "slave_repl_offset")).toBeGreaterThanOrEqual(wanted),
      patience,
    );
};

/** The move of a slot from one node to another. */
export interface SlotMove<N extends Node> {
  readonly slot: string;
  readonly from: N;
  readonly to: N & { readonly host: string; readonly port: number };
  /** The arguments with which MIGRATE logs in. */
  readonly login: readonly string[];
}

/** How many slots {@link moveSlot} moves at this moment. */
export const slotMoves = { running: 0 };

/** The epoch of the node `id`, as `node` reports it. */
const epochOf = async (node: Node, id: string): Promise<string | undefined> =>
  String(await node.call("CLUSTER", "NODES"))
    .split("\n")
    .find((line) => line.startsWith(id))
    ?.split(" ")[6];

/**
 * Moves a slot with all its keys, and returns the keys. Waits until every node reports the new epoch. Before that, a node
 * that takes the slot back could choose the same epoch, and the two nodes would then decide the slot's owner between them.
 */
export const moveSlot = async <N extends Node>(nodes: readonly N[], move: SlotMove<N>): Promise<string[]> => {
  slotMoves.running++;
  try {
    return await moveKeys(nodes, move);
  } finally {
    slotMoves.running--;
  }
};

const moveKeys = async <N extends Node>(
  nodes: readonly N[],
  { slot, from, to, login }: SlotMove<N>,
): Promise<string[]> => {
  // Where a node stood still for a while, the others may count it as failed, and refuse keys until they hear of it again.
  await vi.waitFor(async () => {
    for (const node of [from, to]) expect(String(await node.call("CLUSTER", "INFO"))).toContain("cluster_state:ok");
  }, patience);
  const [fromId, toId] = [String(await from.call("CLUSTER", "MYID")), String(await to.call("CLUSTER", "MYID"))];
  await to.call("CLUSTER", "SETSLOT", slot, "IMPORTING", fromId);
  await from.call("CLUSTER", "SETSLOT", slot, "MIGRATING", toId);
  const keys = (await from.call("CLUSTER", "GETKEYSINSLOT", slot, "100")) as string[];
  await from.call("MIGRATE", to.host, String(to.port), "", "0", "5000", ...login, "KEYS", ...keys);
  for (const node of [to, ...nodes]) await node.call("CLUSTER", "SETSLOT", slot, "NODE", toId);
  await vi.waitFor(async () => {
    const epochs = await Promise.all([to, ...nodes].map((node) => epochOf(node, toId)));
    if (new Set(epochs).size > 1) throw new Error(`the nodes report different epochs: ${epochs.join()}`);
  }, patience);
  return keys;
};

/** Waits for the end of the connections over which servers moved keys, which last ten seconds. */
export const endMigrations = async (nodes: readonly Node[]): Promise<void> => {
  for (const node of nodes) {
    const list = String(await node.call("CLIENT", "LIST"));
    for (const [, id = ""] of list.matchAll(/^id=(\d+) .*cmd=restore-asking/gm))
      await node.call("CLIENT", "KILL", "ID", id);
  }
};

/** Makes a key expire now, on the server. */
export const lapse = async (
  db: { pexpire(key: string, ms: number): Promise<number>; exists(key: string): Promise<number> },
  key: string,
): Promise<void> => {
  if ((await db.pexpire(key, 1)) !== 1) throw new Error(`there is no ${key} to expire`);
  await vi.waitFor(async () => {
    if ((await db.exists(key)) === 1) throw new Error(`${key} has not expired`);
  }, patience);
};

/**
 * Sends a call twice, as by a network that loses a connection but not the data sent on it. One copy is sent over a
 * connection that the client gives up, and reaches the server some milliseconds later. The other is sent over the next
 * connection.
 */
export const sentTwice = async <T>(
  proxy: { readonly up: { latencyMs: number }; readonly stats: { readonly slowedChunks: number } },
  client: object,
  lateMs: number,
  call: () => Promise<T>,
): Promise<T> => {
  const before = proxy.stats.slowedChunks;
  proxy.up.latencyMs = lateMs;
  const calling = call();
  await vi.waitFor(() => expect(proxy.stats.slowedChunks).toBeGreaterThan(before), { ...patience, interval: 1 });
  proxy.up.latencyMs = 0;
  const { stream } = client as { readonly stream: { destroy(error: Error): void } };
  stream.destroy(new Error("given up"));
  return await calling;
};

/** A connection that hears all commands of the server, for one test. */
export const aMonitor = async <M extends { disconnect(): void }>(redis: {
  connect(): { ping(): Promise<unknown>; monitor(): Promise<M> };
  defer(close: () => unknown): void;
}): Promise<M> => {
  const client = redis.connect();
  // ioredis cannot read a command of another client that comes together with the reply to MONITOR, so none is under way.
  await client.ping();
  const monitor = await client.monitor();
  redis.defer(() => monitor.disconnect());
  return monitor;
};
