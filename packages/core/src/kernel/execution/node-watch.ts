import { detached } from "../base/async-context.js";
import { destroySocket, isClusterClient, isReady, type NodeClient, type RedisLike } from "../connection/client.js";
import { answered } from "../connection/dedicated.js";
import { isOwned } from "../connection/supervision.js";
import { refreshSlots } from "../connection/topology.js";

/** How often the nodes are asked while a read may be blocked on one of them, in milliseconds. */
const everyMs = 1_000;
/** While no read is blocked, nodes of subscribed connections are asked once every this many intervals. */
const idleTurns = 5;
/** A node without a reply for this long, in milliseconds, is silent. */
const answerMs = 500;

const keyOf = ({ options }: NodeClient): string => `${String(options.host)}:${String(options.port)}`;

interface Watch {
  /** For each connection: whether a read may be blocked on it. */
  readonly watched: Map<NodeClient, boolean>;
  timer?: NodeJS.Timeout | undefined;
}

const watches = new WeakMap<RedisLike, Watch>();

/**
 * Watches the Cluster node of a kit connection. To a connection that only listens, a silent or removed node looks like a node
 * without messages. CLUSTER INFO goes to each such node, and to one master in turn, over the client's own connections. Returns a
 * function that ends the watch.
 */
export const watchNode = (client: RedisLike, connection: NodeClient, isBlocked: boolean): (() => void) => {
  if (!isClusterClient(client)) return () => undefined;
  const watch = watches.get(client) ?? { watched: new Map<NodeClient, boolean>() };
  watches.set(client, watch);
  watch.watched.set(connection, isBlocked);
  watch.timer ??= detached(() => look(client, watch.watched)).unref();
  return () => {
    watch.watched.delete(connection);
    if (watch.watched.size > 0) return;
    clearInterval(watch.timer);
    watch.timer = undefined;
  };
};

const look = (client: RedisLike & { nodes(role: string): NodeClient[] }, watched: Watch["watched"]): NodeJS.Timeout => {
  const states = new Map<string, string>();
  const silent = new Set<string>();
  let turn = 0;
  let asked = 0;

  const ask = async (key: string): Promise<void> => {
    const node = client.nodes("all").find((one) => keyOf(one) === key);
    // The client has dropped the node, or is about to reconnect to it.
    if (!node || !(isReady(node) || node.status === "wait")) return refreshSlots(client);
    // No commands accumulate on a link that we cannot end.
    if (silent.has(key) && !isOwned(client)) return;
    // A refusal is a reply, too.
    const state = node.call("CLUSTER", "INFO").then(stateOf, String);
    void state.then(() => silent.delete(key));
    const onSilence = (): void => {
      // That link carries the callers' commands, and a server may be busy for a moment.
      if (silent.has(key) && isOwned(client)) destroySocket(node);
      silent.add(key);
      for (const connection of watched.keys()) if (keyOf(connection) === key) destroySocket(connection);
      refreshSlots(client);
    };
    await answered(state, onSilence, answerMs);
    const known = states.get(key);
    states.set(key, await state);
    if (known !== states.get(key)) refreshSlots(client);
  };

  return setInterval(() => {
    if (!isReady(client) || (turn++ % idleTurns > 0 && ![...watched.values()].includes(true))) return;
    const masters = client.nodes("master").filter(isReady);
    const other = masters[asked++ % masters.length];
    for (const key of new Set([...watched.keys(), ...(other ? [other] : [])].map(keyOf))) void ask(key);
  }, everyMs);
};

/** Changes with every failover, added or removed node, and moved slot. */
const stateOf = (info: unknown): string =>
  String(String(info).match(/cluster_(state|known_nodes|size|current_epoch):\S+/g));
