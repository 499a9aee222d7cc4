import { backoffMs } from "../toolkit/index.js";
import type { NodeRedisClient } from "./types.js";

/** The settings that core changes for a connection of its own, by their names in ioredis. */
export interface Overrides {
  readonly connectionName?: string;
  readonly connectTimeout?: number;
  readonly db?: number;
  readonly host?: string;
  readonly port?: number;
}

/** The options of a connection of ours: the caller's, without all that would send a command later or twice. */
export const duplicateOptions = (
  { options = {} }: NodeRedisClient,
  { connectionName, connectTimeout, host, port }: Overrides,
  database: number,
  signal: AbortSignal,
): object => {
  const { path, ...socket } = (options.socket ?? {}) as { path?: string };
  const server = host === undefined ? (path === undefined ? {} : { path }) : { host, port };
  return {
    // Its parts are in the other options, and would be read from it again.
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

/** Changes for a Cluster or Sentinel client of ours: the same, except that node-redis connects the clients of nodes again. */
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

/** A thread cannot connect as a client of node-redis does: code that copies options for one finds here what cannot be copied. */
export const notForThreads = { "library (node-redis)": (): boolean => true } as const;

/** The server of a client by its options. */
export const serverOf = ({ options }: NodeRedisClient): { host?: string; port?: number; path?: string } => {
  const { host, port, path } = (options?.socket ?? {}) as { host?: string; port?: number; path?: string };
  return path === undefined ? { ...(host && { host }), ...(port && { port }) } : { path };
};
