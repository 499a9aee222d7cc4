import { backoffMs } from "../toolkit/index.js";
import type { NodeRedisClient } from "./types.js";

/** The settings that core changes for a dedicated connection, by their ioredis names. */
export interface Overrides {
  readonly connectionName?: string;
  readonly connectTimeout?: number;
  readonly db?: number;
  readonly host?: string;
  readonly port?: number;
}

/** The options of a kit connection: the caller's options, without any that would send a command later or twice. */
export const duplicateOptions = (
  { options = {} }: NodeRedisClient,
  { connectionName, connectTimeout, host, port }: Overrides,
  database: number,
  signal: AbortSignal,
): object => {
  const { path, ...socket } = (options.socket ?? {}) as { path?: string };
  const server = host === undefined ? (path === undefined ? {} : { path }) : { host, port };
  return {
    // The other options have its parts already. node-redis would read them from the URL again.
    url: undefined,
    ...(connectionName === undefined ? {} : { name: connectionName }),
    database,
    disableOfflineQueue: true,
    readonly: false,
    clientSideCache: undefined,
    emitInvalidate: false,
    maintNotifications: "disabled",
    // A blocked read and a subscriber are silent for long; core itself finds out when one is dead. The signal ends a connection also
    // while it is being made.
    socket: { ...socket, ...server, connectTimeout, socketTimeout: undefined, reconnectStrategy: false, signal },
  };
};

/**
 * Changes for a Cluster or Sentinel client that kit makes. They match the changes for single connections, except that node-redis
 * reconnects the clients of nodes.
 */
export const groupOptions = (nodes: { readonly socket?: object } = {}): object => ({
  ...nodes,
  disableOfflineQueue: true,
  clientSideCache: undefined,
  emitInvalidate: false,
  socket: {
    ...nodes.socket,
    connectTimeout: 2_000,
    socketTimeout: undefined,
    reconnectStrategy: (retries: number) => backoffMs(retries + 2, 50, 2_000),
  },
});

/**
 * A worker thread cannot connect with a node-redis client. Code that copies options for a thread finds this entry, which cannot be
 * copied.
 */
export const notForThreads = { "library (node-redis)": (): boolean => true } as const;

/** The server of a client, from its options. */
export const serverOf = ({ options }: NodeRedisClient): { host?: string; port?: number; path?: string } => {
  const { host, port, path } = (options?.socket ?? {}) as { host?: string; port?: number; path?: string };
  return path === undefined ? { ...(host && { host }), ...(port && { port }) } : { path };
};
