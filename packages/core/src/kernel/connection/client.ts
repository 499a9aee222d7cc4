import { KitUnavailableError } from "../base/errors.js";

/** An argument of a command. Buffers keep their bytes; numbers must be safe integers. */
export type RedisArgument = string | number | Buffer;

/**
 * The few members of a client that kit uses.
 *
 * Any ioredis 5.4+ or 6 `Redis` or `Cluster` fits, whichever copy of ioredis it comes from: the type is structural, so
 * two installed versions do not clash.
 */
export interface RedisLike {
  readonly status: string;
  call(command: string, ...args: RedisArgument[]): Promise<unknown>;
  /** As `call`, with the texts of the reply as Buffers. ioredis has a method for each command instead, as `getBuffer`. */
  callForBytes?(command: string, ...args: RedisArgument[]): Promise<unknown>;
  /** Whether kit can open no connection beside it: `duplicate()` throws. */
  readonly isConnectionless?: boolean;
  connect(): Promise<void>;
  disconnect(): void;
  duplicate(...overrides: never[]): RedisLike;
  on(event: string, listener: (...args: unknown[]) => void): unknown;
  off(event: string, listener: (...args: unknown[]) => void): unknown;
}

/** A single-server client with the members that only core uses; ioredis' `Redis` has them all. */
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
  /** The state of the connection; until that is ready, the state of the one before. */
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
  /** Whether QUIT was sent. The server resets the connection at any later command, and the reply to QUIT is lost then, too. */
  readonly manuallyClosing?: boolean;
  subscribe(channel: string): Promise<unknown>;
}

interface Condition {
  /** The database. */
  select: number;
}

/** Where a server listens. */
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

/** Whether the caller's client routes by slot. `ClientContext.isCluster` finds out whether the *server* is a Cluster. */
export const isClusterClient = (client: RedisLike): client is ClusterClient =>
  typeof (client as Partial<ClusterClient>).nodes === "function";

/**
 * For what needs a connection of its own beside the client; before anything is begun that would have to be undone.
 *
 * @throws {KitError} `KIT_UNSUPPORTED`: the client has no connections.
 */
export const assertConnections = (client: RedisLike): void => {
  if ((client as RedisLike | undefined)?.isConnectionless) client.duplicate();
};

/** The connections behind a client: itself, or one per known node. */
export const connectionsOf = (client: RedisLike): NodeClient[] =>
  isClusterClient(client) ? client.nodes("all") : [client as NodeClient];

/** Sockets of clients that were connected again after a `disconnect()` while they were away. */
const reopened = new WeakSet<object>();

/**
 * For the event `connect`. ioredis keeps `manuallyClosing` of a `disconnect()` for which it had no connection to close; on a new
 * connection QUIT cannot have been sent yet.
 */
export const noticeReopened = (client: RedisLike): void => {
  const { stream, manuallyClosing } = client as NodeClient;
  if (manuallyClosing && stream) reopened.add(stream);
};

/**
 * Whether a command handed over now goes out at once. A client may call itself ready for a moment after the other side
 * hung up, and would then keep the command for its next connection.
 */
export const isReady = (client: RedisLike): boolean => {
  const { stream, manuallyClosing } = client as NodeClient;
  if (client.status !== "ready" || stream?.writable === false) return false;
  return isClusterClient(client) || !manuallyClosing || (stream !== undefined && reopened.has(stream));
};

/**
 * Whether the client has given up. A Cluster client that ended may have the status `close`, since each of its connections
 * reports once more after the end. It has that status also right after a loss: use its events where they are available.
 */
export const hasEnded = (client: RedisLike): boolean =>
  client.status === "end" || (client.status === "close" && isClusterClient(client)) || isAbandoned(client);

/**
 * Whether the owner ended an ioredis client by `disconnect()` or `quit()` while it waited for its next try to connect. ioredis cancels
 * that try, stays in its state for ever, and emits no `end`.
 */
export const isAbandoned = (client: RedisLike): boolean =>
  isClusterClient(client)
    ? client.status === "disconnecting" && client.nodes("all").length === 0
    : client.status === "reconnecting" && (client as NodeClient).manuallyClosing === true;

/** The prefix that the client puts in front of each key. */
export const keyPrefixOf = (client: RedisLike): string =>
  (client as Partial<ClusterClient | NodeClient>).options?.keyPrefix ?? "";

/** The database of the client's commands, which its owner may change by `select()`; of a Cluster 0. */
export const databaseOf = (client: RedisLike): number => {
  const { prevCondition, condition, options } = client as Partial<NodeClient>;
  return (prevCondition ?? condition)?.select ?? options?.db ?? 0;
};

/** Moves a client of ours to another database, also on the connections that it makes later. */
export const selectDatabase = (client: NodeClient, db: number): void => {
  if (databaseOf(client) === db) return;
  client.options.db = db;
  // ioredis returns to the database of the previous connection, whatever was selected in between.
  if (client.prevCondition) client.prevCondition.select = db;
  if (client.condition) client.call("select", db).catch(() => undefined);
};

/** The node that serves `slot` by the client's map of slots: `host:port`; empty on a single server. */
export const nodeOfSlot = (client: RedisLike, slot: number): string =>
  isClusterClient(client) ? (client.slots[slot]?.[0] ?? "") : "";

/** An address that a Cluster node or a Sentinel gave, as this client reaches it. */
export const reachable = (client: RedisLike, address: Address): Address => {
  const map = (client as Partial<NodeClient>).options?.natMap;
  const announced = `${address.host}:${String(address.port)}`;
  const found: unknown =
    typeof map === "function"
      ? (map as (key: string) => unknown)(announced)
      : (map as Record<string, unknown> | undefined)?.[announced];
  return (found as Address | null | undefined) ?? address;
};

/** `host:port` (or the socket's path) of a client's server, for messages. Never credentials. */
export const addressOf = (client: RedisLike): string => {
  const [node] = connectionsOf(client);
  if (!node) return "the cluster";
  const { path, host, port, sentinels, name } = node.options;
  // Behind Sentinels only the socket has the master's address.
  if (sentinels?.length)
    return peerOf(node) || `"${String(name)}" of the Sentinels ${sentinels.map(hostAndPort).join(", ")}`;
  return path ?? `${host ?? "127.0.0.1"}:${String(port ?? 6379)}`;
};

const hostAndPort = ({ host = "127.0.0.1", port = 26_379 }: Partial<Address>): string => `${host}:${String(port)}`;

/** Whether the client gets its master's address from Sentinels. A client for replicas may lead to any of them. */
export const hasSentinels = (client: RedisLike): client is NodeClient => {
  const { sentinels, role } = (client as Partial<NodeClient>).options ?? {};
  return !isClusterClient(client) && !!sentinels?.length && role !== "slave";
};

/**
 * The address of a connection by its socket, since behind Sentinels the options do not have it. Empty while there is no socket.
 */
export const peerOf = ({ stream }: NodeClient): string =>
  stream?.remotePort === undefined ? "" : `${stream.remoteAddress ?? ""}:${String(stream.remotePort)}`;

/** Whether a connection of ours leads to a node that the caller's Cluster client has dropped: gone, or replaced. */
export const isForsaken = ({ options }: NodeClient, client: RedisLike): boolean =>
  isClusterClient(client) &&
  isReady(client) &&
  !client.nodes("all").some((node) => node.options.host === options.host && node.options.port === options.port);

/** How long a connection of ours may take from its first packet to the end of the handshake. */
export const handshakeMs = 2_000;

/** Settings of every connection of ours. */
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
  // A server that loads its data is looked at twice a second.
  maxLoadingRetryTime: 500,
  // A socket that is cut already must not keep a closing process alive.
  disconnectTimeout: 100,
  // A command whose reply is lost is reported at once and never resent by ioredis: a caller with an operation id resends
  // it.
  maxRetriesPerRequest: 0,
};

// Settings for the caller's own commands. Ours do not inherit them: the executor ends our commands, and a connection that blocks
// is silent for long.
const duplicateSettings = { ...ownSettings, commandTimeout: undefined, socketTimeout: undefined };

/**
 * The same for a Cluster client. It would wait and send a command to another node without the executor, also after the caller
 * has given up. `followTopology` reads the map of slots again at CLUSTERDOWN.
 */
export const ownClusterSettings: {
  readonly retryDelayOnFailover: number;
  readonly retryDelayOnClusterDown: number;
  readonly retryDelayOnTryAgain: number;
} = { retryDelayOnFailover: 0, retryDelayOnClusterDown: 0, retryDelayOnTryAgain: 20 };

/** A client of our own with the caller's settings. */
export const duplicateClient = (client: RedisLike): RedisLike => {
  const duplicate = client.duplicate.bind(client) as (...overrides: unknown[]) => RedisLike;
  return isClusterClient(client)
    ? // ioredis 5 takes these settings for all of them.
      duplicate([], { ...ownClusterSettings, redisOptions: { ...client.options.redisOptions, ...duplicateSettings } })
    : duplicate({ ...duplicateSettings, db: databaseOf(client) });
};

/**
 * A plain connection to one server of the caller's client, with the caller's credentials and TLS settings. On a Cluster: to
 * `address` if given, else to any master. It is not connected yet, and never connected twice: the state that the server kept
 * for it would be gone.
 *
 * @throws {KitUnavailableError} the Cluster client knows no master: no node answers.
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
    const what = "No master of the Cluster is known: the connection was not opened";
    throw new KitUnavailableError(what, addressOf(client));
  }
  return (model.duplicate as (options: object) => RedisLike)(settings) as NodeClient;
};

/**
 * A connection that we made beside the caller's client does not keep the process alive: whatever waits on it also waits on that
 * client. Until its first packet it does, for at most the time that connecting may take.
 */
export const unrefSocket = (connection: NodeClient): void => {
  connection.on("connect", () => connection.stream?.unref?.());
};

/**
 * Ends a connection that went silent, so that the next call gets a fresh one. `disconnect()` would wait for the other
 * side to close too, which a half-open link never does.
 */
export const destroySocket = (connection: NodeClient): void => {
  connection.stream?.destroy();
};
