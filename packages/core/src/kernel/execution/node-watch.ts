import { detached } from "../base/async-context.js";
import { destroySocket, isClusterClient, isReady, type NodeClient, type RedisLike } from "../connection/client.js";
import { answered } from "../connection/dedicated.js";
import { isOwned } from "../connection/supervision.js";
import { refreshSlots } from "../connection/topology.js";

/** How often the nodes of watched connections are checked, in milliseconds. */
const everyMs = 6_000;
/** At every fifth check a master is asked, one after the other. It knows of failovers, and of nodes that were removed. */
const otherTurns = 5;
/** A node without a reply for this long, in milliseconds, is silent. */
const answerMs = 500;

type ClusterClient = RedisLike & { nodes(role: "all" | "master"): NodeClient[] };

const keyOf = ({ options }: NodeClient): string => `${String(options.host)}:${String(options.port)}`;

/** All watched connections of this process, each with its client, and with what it had received at the last check. */
const watched = new Map<NodeClient, { readonly client: ClusterClient; received: number | undefined }>();
/** The last reply of each node, and the nodes that gave none. */
const states = new Map<string, string>();
const silent = new Set<string>();
let timer: NodeJS.Timeout | undefined;
let turn = 0;

/**
 * Watches the Cluster node of a kit connection. To a connection that only listens, a silent or removed node looks like a node
 * without messages. CLUSTER INFO goes to each such node that has sent nothing for a while, once for all connections of this process,
 * and less often to one master after the other. It travels on the connections of a client. Returns a function that ends the watch.
 */
export const watchNode = (client: RedisLike, connection: NodeClient): (() => void) => {
  if (!isClusterClient(client)) return () => undefined;
  watched.set(connection, { client, received: connection.stream?.bytesRead });
  timer ??= detached(() => setInterval(look, everyMs)).unref();
  return () => {
    watched.delete(connection);
    if (watched.size > 0) return;
    clearInterval(timer);
    timer = undefined;
  };
};

const look = (): void => {
  /** The nodes to ask, each with a client that reaches it. */
  const asking = new Map<string, ClusterClient>();
  const heard = new Set<string>();
  for (const [connection, watch] of watched) {
    const received = connection.stream?.bytesRead;
    if (received !== watch.received) heard.add(keyOf(connection));
    watch.received = received;
    if (isReady(watch.client)) asking.set(keyOf(connection), watch.client);
  }
  const clients = new Set(asking.values());
  for (const key of heard) asking.delete(key);
  if (turn++ % otherTurns === 0)
    for (const client of clients) {
      const masters = client.nodes("master").filter(isReady);
      const next = masters[turn % masters.length];
      if (next) asking.set(keyOf(next), client);
    }
  for (const [key, client] of asking) void ask(key, client);
};

/** Lets all clients read their maps of slots again. */
const refresh = (): void => {
  for (const { client } of watched.values()) refreshSlots(client);
};

const ask = async (key: string, client: ClusterClient): Promise<void> => {
  const node = client.nodes("all").find((one) => keyOf(one) === key);
  // The client has dropped the node, or is about to reconnect to it.
  if (!node || !(isReady(node) || node.status === "wait")) return refreshSlots(client);
  // No commands accumulate on a link that we cannot end.
  if (silent.has(key) && !isOwned(client)) return;
  // A rejection is also a reply.
  const state = node.call("CLUSTER", "INFO").then(stateOf, String);
  void state.then(() => silent.delete(key));
  const onSilence = (): void => {
    // That link carries the callers' commands, and a server may be busy for a moment.
    if (silent.has(key) && isOwned(client)) destroySocket(node);
    silent.add(key);
    for (const connection of watched.keys()) if (keyOf(connection) === key) destroySocket(connection);
    refresh();
  };
  await answered(state, onSilence, answerMs);
  const reply = await state;
  if (reply !== states.get(key)) refresh();
  states.set(key, reply);
};

/** Changes with every failover, added or removed node, and moved slot. */
const stateOf = (info: unknown): string =>
  String(String(info).match(/cluster_(state|known_nodes|size|current_epoch):\S+/g));
