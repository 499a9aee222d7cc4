import {
  connectionsOf,
  destroySocket,
  hasEnded,
  hasSentinels,
  isAbandoned,
  isClusterClient,
  type NodeClient,
  type RedisLike,
} from "./client.js";
import { detached } from "../base/async-context.js";
import { KitClosedError, replyOf } from "../base/errors.js";
import { reconnectMs, watchHandshake } from "./dedicated.js";
import { addListeners, listenTo } from "./listeners.js";
import { watchSentinels } from "./sentinel.js";
import { followTopology } from "./topology.js";

/** The methods with which ioredis ends a client. Both majors, and their Cluster clients, have them. */
interface Endable extends RedisLike {
  setStatus(status: "end"): void;
  flushQueue(error: Error): void;
}

/** The clients that kit made. The value is true while the client is open. */
const made = new WeakMap<RedisLike, boolean>();

/** Whether kit made this client and has not closed it. kit may then destroy its silent sockets and reconnect it. */
export const isOwned = (client: RedisLike): boolean => made.get(client) === true;

/** How a client ended that accepts no more commands, for messages. Empty if it has not ended. */
export const endOf = (client: RedisLike): string => {
  if (made.get(client) === false) return "was closed";
  return (client.status === "end" || isAbandoned(client)) && !isOwned(client) ? "has ended" : "";
};

/** How often kit checks a client that lost its connection, in milliseconds. Its owner may end it without an event. */
const lookEveryMs = 250;
/** States in which no event is missing. */
const known = /^(ready|wait|end)$/;

/** Calls `listener` when a client has ended, even if ioredis emits no event. Returns a function that removes it. */
export const listenToEnd = (client: RedisLike, listener: () => void): (() => void) => {
  let timer: NodeJS.Timeout | undefined;
  const stop = (): void => {
    clearInterval(timer);
    timer = undefined;
  };
  const look = (): void => {
    const isOver = isAbandoned(client);
    if (isOver || known.test(client.status)) stop();
    if (isOver) listener();
  };
  const watch = (): void => {
    timer ??= detached(() => setInterval(look, lookEveryMs)).unref();
  };
  if (!known.test(client.status)) watch();
  const undo = [listenTo(client, "close", watch), listenTo(client, "end", () => listener()), stop];
  return () => undo.forEach((each) => each());
};

/** Calls `listener` when the owner of a client ends it. Returns a function that removes it. */
export const onEnded = (client: RedisLike, listener: () => void): (() => void) =>
  listenToEnd(client, () => {
    // A supervised client that ended is connected again, unless we ended it.
    if (!isOwned(client)) listener();
  });

/** The minimum time between two reconnections, in milliseconds: the server that refuses writes may be the only one. */
const reconnectEveryMs = 500;

/**
 * Makes a kit client reconnect when its server rejects a write because it is a replica, to find the new master. The old connection
 * is half-closed first, so that commands in flight still receive their refusals. A caller's own `reconnectOnError` replaces this.
 */
const leaveReplicas = ({ options }: NodeClient): void => {
  if (options.reconnectOnError) return;
  let leftAt = -Infinity;
  options.reconnectOnError = (error) => {
    const now = performance.now();
    const isDue = replyOf(error.message).startsWith("READONLY") && now - leftAt >= reconnectEveryMs;
    if (isDue) leftAt = now;
    return isDue;
  };
};

/**
 * Supervises a client: if it ends without `close()`, kit reconnects it with backoff. ioredis gives up for good in some failovers,
 * and when its retry strategy does not return a number. Returns a function that ends the client.
 */
export const superviseClient = (client: RedisLike): (() => void) => {
  made.set(client, true);
  let attempt = 0;
  let timer: NodeJS.Timeout | undefined;
  const watches = new Map<unknown, () => void>();
  const ignore = (): void => undefined;
  const listeners = {
    ready: () => {
      attempt = 0;
    },
    end: () => {
      timer = setTimeout(() => {
        if (hasEnded(client)) client.connect().catch(ignore);
      }, reconnectMs(++attempt));
    },
    // Nodes of a Cluster come and go.
    "+node": (node: unknown) => void watches.set(node, watchHandshake(node as NodeClient)),
    "-node": (node: unknown) => {
      watches.get(node)?.();
      watches.delete(node);
    },
  };
  // This stays also while no package is attached, and after the end: without a listener ioredis prints.
  client.on("error", ignore);
  const stopListening = addListeners(client, listeners);
  connectionsOf(client).forEach(listeners["+node"]);
  if (isClusterClient(client)) followTopology(client);
  else leaveReplicas(client as NodeClient);
  const unwatchSentinels = hasSentinels(client) ? watchSentinels(client) : undefined;
  return () => {
    if (!isOwned(client)) return;
    made.set(client, false);
    unwatchSentinels?.();
    clearTimeout(timer);
    stopListening();
    watches.forEach((stop) => stop());
    const connections = connectionsOf(client);
    const isWaiting = client.status === "reconnecting";
    client.disconnect();
    const error = new KitClosedError("The client");
    // ioredis may have a second timer that would connect it again: a `connect()` during the back-off leaves the first timer.
    client.connect = () => Promise.reject(error);
    // Without its timer it would not end, and keep its unsent commands for ever.
    if (isWaiting) {
      (client as Endable).setStatus("end");
      (client as Endable).flushQueue(error);
    }
    // Closing does not wait for the other side.
    for (const connection of connections) destroySocket(connection);
  };
};
