import { KitUnavailableError } from "../base/errors.js";

/** An argument of a command. Buffers keep their bytes; numbers must be safe integers. */
export type RedisArgument = string | number | Buffer;

/**
 * The few members of a client that kit uses.
 *
 * Any ioredis `Redis` or `Cluster` (5.4+ or 6) fits. The type is structural, so several installed copies of ioredis don't conflict.
 */
export interface RedisLike {
  readonly status: string;
  call(command: string, ...args: RedisArgument[]): Promise<unknown>;
  /** Like `call`, but texts in the reply are Buffers. ioredis has a method for each command instead, such as `getBuffer`. */
  callForBytes?(command: string, ...args: RedisArgument[]): Promise<unknown>;
  /** True if kit cannot open additional connections: `duplicate()` throws. */
  readonly isConnectionless?: boolean;
  connect(): Promise<void>;
  disconnect(): void;
  duplicate(...overrides: never[]): RedisLike;
  on(event: string, listener: (...args: unknown[]) => void): unknown;
  off(event: string, listener: (...args: unknown[]) => void): unknown;
}

/** A single-server client with the members that only core uses. ioredis' `Redis` has all of them. */
export interface NodeClient extends RedisLike {
  readonly options: {
    readonly host?: string;
    readonly port?: number;
    readonly path?: string;
    readonly keyPrefix?: string;
    readonly sentinels?: readonly { readonly host?: string; readonly port?: number }[] | null;
    readonly name?: string;
    readonly role?: string;
    readonly natMap?: unknown;
    readonly sentinelUsername?: string;
    readonly sentinelPassword?: string;
    readonly sentinelTLS?: object;
    db?: number;
    reconnectOnError?: ((error: Error) => boolean | 1 | 2) | null;
    enableReadyCheck?: boolean;
  };
  /** The state of the connection. Until the connection is ready, `prevCondition` is the state of the one before. */
  readonly condition?: Condition | null;
  readonly prevCondition?: Condition | null;
  readonly stream?:
    | {
        destroy(): void;
        unref?(): unknown;
        cork?(): void;
        uncork?(): void;
        readonly destroyed?: boolean;
        readonly writable?: boolean;
        readonly bytesRead?: number;
        readonly remoteAddress?: string | undefined;
        readonly remotePort?: number | undefined;
      }
    | undefined;
  /** Whether QUIT was sent. The server resets the connection at any later command, and then the reply to QUIT is lost as well. */
  readonly manuallyClosing?: boolean;
  subscribe(channel: string): Promise<unknown>;
}

interface Condition {
  /** The database. */
  select: number;
}

/** The address at which a server listens. */
export interface Address {
  readonly host: string;
  readonly port: number;
}

interface ClusterClient extends RedisLike {
  readonly options: { readonly keyPrefix?: string; readonly natMap?: unknown; readonly redisOptions?: object };
  /** The nodes of each slot, the master first, as `host:port`. */
  readonly slots: readonly (readonly string[] | undefined)[];
  nodes(role: "all" | "master"): NodeClient[];
}

/** Whether the caller's client routes by slot. `ClientContext.isCluster` reports whether the *server* is a Cluster. */
export const isClusterClient = (client: RedisLike): client is ClusterClient =>
  typeof (client as Partial<ClusterClient>).nodes === "function";

/**
 * Call this before starting work that needs a dedicated connection, so that nothing has to be undone.
 *
 * @throws {KitError} `KIT_UNSUPPORTED`: the client has no connections.
 */
export const assertConnections = (client: RedisLike): void => {
  if ((client as RedisLike | undefined)?.isConnectionless) client.duplicate();
};

/** The connections of a client: the client itself, or one per known node. */
export const connectionsOf = (client: RedisLike): NodeClient[] =>
  isClusterClient(client) ? client.nodes("all") : [client as NodeClient];

/** Sockets of clients that were connected again after a `disconnect()` while they had no connection. */
const reopened = new WeakSet<object>();

/**
 * Call this at the event `connect`. If ioredis had no connection to close at a `disconnect()`, it keeps `manuallyClosing`. On a new
 * connection QUIT cannot have been sent yet.
 */
export const noticeReopened = (client: RedisLike): void => {
  const { stream, manuallyClosing } = client as NodeClient;
  if (manuallyClosing && stream) reopened.add(stream);
};

/**
 * Whether the client sends a command immediately. After the server hangs up, a client may report itself ready for a moment, and
 * would keep the command for its next connection.
 */
export const isReady = (client: RedisLike): boolean => {
  const { stream, manuallyClosing } = client as NodeClient;
  if (client.status !== "ready" || stream?.writable === false) return false;
  return isClusterClient(client) || !manuallyClosing || (stream !== undefined && reopened.has(stream));
};

/**
 * Whether the client has given up. A Cluster client that ended may have the status `close`, because each of its connections reports
 * again after the end. It also has that status right after a connection loss, so use its events where they are available.
 */
export const hasEnded = (client: RedisLike): boolean =>
  client.status === "end" || (client.status === "close" && isClusterClient(client)) || isAbandoned(client);

/**
 * Whether the owner called `disconnect()` or `quit()` on an ioredis client that was waiting to reconnect. ioredis cancels the
 * reconnection, stays in its state forever, and emits no `end`.
 */
export const isAbandoned = (client: RedisLike): boolean =>
  isClusterClient(client)
    ? client.status === "disconnecting" && client.nodes("all").length === 0
    : client.status === "reconnecting" && (client as NodeClient).manuallyClosing === true;

/** The prefix that the client adds to the start of each key. */
export const keyPrefixOf = (client: RedisLike): string =>
  (client as Partial<ClusterClient | NodeClient>).options?.keyPrefix ?? "";

/** The database of the client's commands, which its owner may change with `select()`. Always 0 on a Cluster. */
export const databaseOf = (client: RedisLike): number => {
  const { prevCondition, condition, options } = client as Partial<NodeClient>;
  return (prevCondition ?? condition)?.select ?? options?.db ?? 0;
};

/** Moves a client that kit made to another database, including the connections that it opens later. */
export const selectDatabase = (client: NodeClient, db: number): void => {
  if (databaseOf(client) === db) return;
  client.options.db = db;
  // ioredis returns to the database of the previous connection, whatever was selected in between.
  if (client.prevCondition) client.prevCondition.select = db;
  if (client.condition) client.call("select", db).catch(() => undefined);
};

/** The node that serves `slot` according to the client's slot map, as `host:port`. Empty on a single server. */
export const nodeOfSlot = (client: RedisLike, slot: number): string =>
  isClusterClient(client) ? (client.slots[slot]?.[0] ?? "") : "";

/** Translates an address from a Cluster node or a Sentinel to the address at which this client reaches it. */
export const reachable = (client: RedisLike, address: Address): Address => {
  const map = (client as Partial<NodeClient>).options?.natMap;
  const announced = `${address.host}:${String(address.port)}`;
  const found: unknown =
    typeof map === "function"
      ? (map as (key: string) => unknown)(announced)
      : (map as Record<string, unknown> | undefined)?.[announced];
  return (found as Address | null | undefined) ?? address;
};

/** `host:port` (or the socket path) of a client's server, for messages. Never contains credentials. */
export const addressOf = (client: RedisLike): string => {
  const [node] = connectionsOf(client);
  if (!node) return "the cluster";
  const { path, host, port, sentinels, name } = node.options;
  // Behind Sentinels only the socket has the master's address.
  if (sentinels?.length)
    return peerOf(node) || `"${String(name)}" at the Sentinels ${sentinels.map(hostAndPort).join(", ")}`;
  return path ?? `${host ?? "127.0.0.1"}:${String(port ?? 6379)}`;
};

const hostAndPort = ({ host = "127.0.0.1", port = 26_379 }: Partial<Address>): string => `${host}:${String(port)}`;

/**
 * Whether the client gets its master's address from Sentinels. A client for replicas may lead to any replica, so it does not count.
 */
export const hasSentinels = (client: RedisLike): client is NodeClient => {
  const { sentinels, role } = (client as Partial<NodeClient>).options ?? {};
  return !isClusterClient(client) && !!sentinels?.length && role !== "slave";
};

/**
 * The address of a connection, read from its socket, because with Sentinels the options do not have it. Empty if there is no
 * socket.
 */
export const peerOf = ({ stream }: NodeClient): string =>
  stream?.remotePort === undefined ? "" : `${stream.remoteAddress ?? ""}:${String(stream.remotePort)}`;

/** Whether a kit connection leads to a node that the caller's Cluster client has dropped or replaced. */
export const isForsaken = ({ options }: NodeClient, client: RedisLike): boolean =>
  isClusterClient(client) &&
  isReady(client) &&
  !client.nodes("all").some((node) => node.options.host === options.host && node.options.port === options.port);

/** How long the handshake of a kit connection may take after its first packet, in milliseconds. */
export const handshakeMs = 2_000;

/** The settings of every connection that kit opens. */
export const ownSettings: {
  readonly connectTimeout: number;
  readonly disconnectTimeout: number;
  readonly sentinelCommandTimeout: number;
  readonly maxLoadingRetryTime: number;
  readonly maxRetriesPerRequest: number;
} = {
  connectTimeout: handshakeMs,
  // A silent Sentinel does not delay the request to the next one.
  sentinelCommandTimeout: 500,
  // A server that loads its data is checked twice a second.
  maxLoadingRetryTime: 500,
  // A socket that is cut already must not keep a closing process alive.
  disconnectTimeout: 100,
  // A command whose reply is lost is reported immediately, and ioredis never resends it: a caller with an operation id resends
  // it.
  maxRetriesPerRequest: 0,
};

// `commandTimeout` and `socketTimeout` are for the caller's commands. The executor ends kit's commands, and a blocking connection is
// silent for a long time.
const duplicateSettings = { ...ownSettings, commandTimeout: undefined, socketTimeout: undefined };

/**
 * The same for a Cluster client. Otherwise ioredis would wait and send a command to another node without the executor, even after
 * the caller has given up. `followTopology` reads the slot map again at CLUSTERDOWN.
 */
export const ownClusterSettings: {
  readonly retryDelayOnFailover: number;
  readonly retryDelayOnClusterDown: number;
  readonly retryDelayOnTryAgain: number;
} = { retryDelayOnFailover: 0, retryDelayOnClusterDown: 0, retryDelayOnTryAgain: 20 };

/**
 * A separate client with the caller's settings, except for the wait before it reconnects: with ioredis 6 the caller's may be seconds.
 */
export const duplicateClient = (client: RedisLike, retryStrategy: (attempt: number) => number): RedisLike => {
  const duplicate = client.duplicate.bind(client) as (...overrides: unknown[]) => RedisLike;
  return isClusterClient(client)
    ? // ioredis 5 takes these settings for all of them.
      duplicate([], {
        ...ownClusterSettings,
        clusterRetryStrategy: retryStrategy,
        redisOptions: { ...client.options.redisOptions, ...duplicateSettings },
      })
    : duplicate({ ...duplicateSettings, retryStrategy, db: databaseOf(client) });
};

/**
 * A plain connection to one server of the caller's client, with the caller's credentials and TLS settings. On a Cluster it leads to
 * `address` if given, otherwise to any master. The caller connects it, once: after a reconnection, the state that the server kept
 * for it would be lost.
 *
 * @throws {KitUnavailableError} the Cluster client has no master in its slot map: no node answers.
 */
export const duplicateNode = (client: RedisLike, overrides: Record<string, unknown>, address?: Address): NodeClient => {
  const settings = {
    ...duplicateSettings,
    db: databaseOf(client),
    lazyConnect: true,
    // A connection in its handshake must never run a command meant for a live one.
    enableOfflineQueue: false,
    autoResendUnfulfilledCommands: false,
    autoResubscribe: false,
    keyPrefix: keyPrefixOf(client),
    enableAutoPipelining: false,
    enableReadyCheck: false,
    readOnly: false,
    retryStrategy: null,
    ...overrides,
    ...address,
  };
  const masters = isClusterClient(client) ? client.nodes("master") : [client as NodeClient];
  const model = masters[Math.floor(Math.random() * masters.length)];
  if (!model) {
    const what = "The client knows no master yet";
    throw new KitUnavailableError(what, addressOf(client));
  }
  return (model.duplicate as (options: object) => RedisLike)(settings) as NodeClient;
};

/**
 * Lets the process exit while this connection is open. Work that waits on it also waits on the caller's client, which keeps the
 * process alive. Until its first packet, the connection keeps the process alive for up to the connect timeout.
 */
export const unrefSocket = (connection: NodeClient): void => {
  connection.on("connect", () => connection.stream?.unref?.());
};

/**
 * Ends a silent connection so that the next call gets a new one. `disconnect()` would wait until the other side closes, which never
 * happens on a half-open link.
 */
export const destroySocket = (connection: NodeClient): void => {
  connection.stream?.destroy();
};
