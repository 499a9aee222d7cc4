import { replyOf } from "../base/errors.js";
import { isClusterClient, type NodeClient, type RedisLike } from "./client.js";

/** Members of ioredis' Cluster client that its types leave out; both majors have them. */
interface Routing extends RedisLike {
  refreshSlotsCache?(): void;
  handleError?(error: Error, redirections: unknown, handlers: { defaults(): void }): void;
  readonly connectionPool?: { reset(nodes: readonly unknown[]): void };
}

/** While a Cluster is down every command is refused: its map of slots is not asked for more often than this. */
const refreshEveryMs = 250;

const refreshedAt = new WeakMap<RedisLike, number>();

/** Has a Cluster client read the map of slots again. */
export const refreshSlots = (client: RedisLike): void => {
  const now = performance.now();
  if (!isClusterClient(client) || now - (refreshedAt.get(client) ?? -Infinity) < refreshEveryMs) return;
  refreshedAt.set(client, now);
  (client as Routing).refreshSlotsCache?.();
};

/**
 * Has a Cluster client of ours read the map of slots when a node refuses with CLUSTERDOWN, as one does that lost its slots and
 * was reset. ioredis does so only with `retryDelayOnClusterDown`, which would also send the command again, behind the
 * executor. So it does at TRYAGAIN, sixteen times: the executor would not learn what the call waits for.
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
  // A node that was removed and reset knows of no slots: its empty map would end the connections to all others.
  connectionPool.reset = (nodes) => {
    if (nodes.length > 0 || client.status !== "ready") reset(nodes);
    // The next time another node may be asked; nothing else may be a reason to.
    else setTimeout(() => client.status === "ready" && refreshSlots(client), refreshEveryMs).unref();
  };
};

/** ASKING, as ioredis' nodes have it. */
interface Asking extends NodeClient {
  asking?(...args: unknown[]): Promise<unknown>;
}

const guarded = new WeakSet<object>();

/**
 * ioredis sends ASKING before a redirected command and drops its promise. When the node is lost then, the rejection would
 * be nobody's, and end the process.
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
