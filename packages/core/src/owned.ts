import { connectionsOf, destroySocket, hasEnded, hasSentinels, type NodeClient, type RedisLike } from "./client.js";
import { reconnectMs, watchHandshake } from "./lane.js";
import { watchSentinels } from "./sentinel.js";

const owned = new WeakSet<RedisLike>();

/** Whether we made this client and have not closed it: then we may kill its silent sockets and connect it again. */
export const isOwned = (client: RedisLike): boolean => owned.has(client);

/**
 * Takes a client into our care: if it ends without our doing, it is connected again with back-off (ioredis gives up for
 * good in some failovers, and when its retry strategy says so). Returns what ends it.
 */
export const superviseClient = (client: RedisLike): (() => void) => {
  owned.add(client);
  let closed = false;
  let attempt = 0;
  let timer: NodeJS.Timeout | undefined;
  const watches = new Map<unknown, () => void>();
  const watch = (node: unknown): void => {
    if (!watches.has(node)) watches.set(node, watchHandshake(node as NodeClient));
  };
  const unwatch = (node: unknown): void => {
    watches.get(node)?.();
    watches.delete(node);
  };
  const ignore = (): void => undefined;
  const onReady = (): void => {
    attempt = 0;
  };
  const onEnd = (): void => {
    if (closed) return;
    timer = setTimeout(() => {
      if (hasEnded(client)) client.connect().catch(ignore);
    }, reconnectMs(++attempt));
  };
  // Also while nobody retains it, and after its end: without a listener ioredis prints.
  client.on("error", ignore);
  client.on("ready", onReady);
  client.on("end", onEnd);
  // Of a Cluster only.
  client.on("+node", watch);
  client.on("-node", unwatch);
  for (const connection of connectionsOf(client)) watch(connection);
  const unwatchSentinels = hasSentinels(client) ? watchSentinels(client) : undefined;
  return () => {
    closed = true;
    unwatchSentinels?.();
    owned.delete(client);
    clearTimeout(timer);
    client.off("ready", onReady);
    client.off("end", onEnd);
    client.off("+node", watch);
    client.off("-node", unwatch);
    for (const node of [...watches.keys()]) unwatch(node);
    const connections = connectionsOf(client);
    client.disconnect();
    // Who closes does not wait for the other side to do so, too.
    for (const connection of connections) destroySocket(connection);
  };
};
