import { replyOf } from "../base/errors.js";
import { isClusterClient, type NodeClient, type RedisLike } from "./client.js";

/** Members of ioredis' Cluster client that its types leave out. Both majors have them. */
interface Routing extends RedisLike {
  refreshSlotsCache?(): void;
  handleError?(error: Error, redirections: unknown, handlers: { defaults(): void }): void;
  readonly connectionPool?: { reset(nodes: readonly unknown[]): void };
}

/** The minimum time between two reads of the slot map, in milliseconds. A Cluster that is down refuses every command. */
const refreshEveryMs = 250;

const refreshedAt = new WeakMap<RedisLike, number>();

/** Makes a Cluster client read the slot map again. */
export const refreshSlots = (client: RedisLike): void => {
  const now = performance.now();
  if (!isClusterClient(client) || now - (refreshedAt.get(client) ?? -Infinity) < refreshEveryMs) return;
  refreshedAt.set(client, now);
  (client as Routing).refreshSlotsCache?.();
};

/**
 * Makes a kit Cluster client read the slot map when a node refuses with CLUSTERDOWN. A node that lost its slots and was reset does
 * that. ioredis reads the map only with `retryDelayOnClusterDown`, which would also resend the command without the executor. At
 * TRYAGAIN ioredis would resend it sixteen times, and the executor would not see the reason for the wait.
 */
export const followTopology = (client: RedisLike): void => {
  const routing = client as Routing;
  const { handleError, connectionPool } = routing;
  if (!handleError || !connectionPool) return;
  routing.handleError = (error, redirections, handlers) => {
    const reply = replyOf(error.message);
    if (reply.startsWith("CLUSTERDOWN")) refreshSlots(client);
    if (reply.startsWith("TRYAGAIN")) handlers.defaults();
    else handleError.call(client, error, redirections, handlers);
  };
  const reset = connectionPool.reset.bind(connectionPool);
  // A node that was removed and reset has an empty map, which would end the connections to all others.
  connectionPool.reset = (nodes) => {
    if (nodes.length > 0 || client.status !== "ready") reset(nodes);
    // The next read may go to another node; no other event may cause it.
    else setTimeout(() => client.status === "ready" && refreshSlots(client), refreshEveryMs).unref();
  };
};

/** The method that sends ASKING. */
interface Asking extends NodeClient {
  asking?(...args: unknown[]): Promise<unknown>;
}

const guarded = new WeakSet<object>();

/**
 * Guards against a bug in ioredis: it sends ASKING before a redirected command and drops the promise. If the node is lost at that
 * moment, the unhandled rejection would end the process.
 */
export const guardNode = (node: unknown): void => {
  const connection = node as Asking;
  const { asking } = connection;
  if (!asking || guarded.has(connection)) return;
  guarded.add(connection);
  connection.asking = (...args) => {
    const asked = asking.apply(connection, args);
    asked.catch(() => undefined);
    return asked;
  };
};
