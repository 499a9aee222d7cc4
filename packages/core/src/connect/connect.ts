import { inspect } from "node:util";
import type { ChainableCommander, ClusterOptions, RedisCommander, RedisOptions } from "ioredis";
import {
  addListeners,
  addressOf,
  connectionsOf,
  destroySocket,
  duplicateNode,
  isClusterClient,
  isReady,
  type NodeClient,
  ownClusterSettings,
  ownSettings,
  type RedisLike,
  answered,
  Deadline,
  isForbidden,
  isReplyError,
  KitError,
  KitUnavailableError,
  originOf,
  reasonOf,
  safeCause,
  serverError,
  settled,
  withCaller,
  reconnectMs,
  integerOption,
  optionsObject,
  signalOption,
  textOption,
  isOwned,
  superviseClient,
  pause,
  reading,
  attach,
  type ClientContext,
  detached,
} from "../kernel/index.js";
import { addressText, defaultAddress, parseAddress, type Target } from "./address.js";

/** Options of `connect()`. */
export interface ConnectOptions {
  /**
   * `redis:`, `rediss:`, `unix:`, `redis+sentinel:` or `redis+cluster:` (the last two also with `rediss+`).
   *
   * @default the environment variable `REDIS_URL`, or else `redis://127.0.0.1:6379`; the same for an empty string
   */
  readonly url?: string | undefined;
  /**
   * How long to wait for a server to answer, in milliseconds. With the default, the error arrives within two seconds. If the event
   * loop was blocked when this time ended, the wait gets extra time: another `deadlineMs`, up to one second.
   *
   * @default 1900
   */
  readonly deadlineMs?: number | undefined;
  /** Ends the attempt, with `signal.reason`. It has no effect on the client later. */
  readonly signal?: AbortSignal | undefined;
  /**
   * The name in `CLIENT LIST`.
   *
   * @default "kit"
   */
  readonly connectionName?: string | undefined;
  /** More ioredis options for each connection, such as `tls`. They override the URL. */
  readonly options?: RedisOptions | undefined;
  /**
   * More options of ioredis' `Cluster` (`natMap`, `scaleReads`, `slotsRefreshInterval` …), for a Cluster address. They override
   * kit's defaults. With `scaleReads`, kit packages also read from replicas, which lag behind.
   */
  readonly cluster?: Omit<ClusterOptions, "redisOptions" | "lazyConnect" | keyof typeof ownClusterSettings> | undefined;
}

/**
 * A client made by `connect()`: all ioredis commands, and `close()`. Every kit package accepts it. A single server, Sentinel and
 * Cluster share this type, so your code does not change when the server does.
 */
export type Connection = RedisCommander &
  RedisLike &
  AsyncDisposable & {
    /**
     * Waits up to two seconds for commands in flight, and then ends the connection for good. Commands that wait for a connection
     * reject. Idempotent; never rejects.
     */
    close(): Promise<void>;
    /** Ends the connection immediately. Commands in flight reject. */
    disconnect(): void;
    /** The same as `close()`. */
    quit(): Promise<"OK">;
    /** Sends several commands together. On a Cluster all their keys must be in the same slot. */
    pipeline(): ChainableCommander;
    /** Runs several commands as one transaction (MULTI/EXEC). On a Cluster all their keys must be in the same slot. */
    multi(): ChainableCommander;
  };

/** The wait between two checks of a server that is loading its data, in milliseconds. */
const loadingPauseMs = 50;

/** The error that ends the first connection, if no further try can succeed. */
const finalError = (error: unknown, address: string): KitError | undefined => {
  const { code = "", message = "" } = error as Partial<NodeJS.ErrnoException>;
  // A Sentinel refused: ioredis names that as its last reason for having found no master.
  const [, refusal] = /^All sentinels are unreachable.* Last error: (.*)/s.exec(message) ?? [];
  if (refusal !== undefined || isReplyError(error)) {
    const whom = refusal === undefined ? "Connecting to" : "Asking the Sentinels at";
    const known = serverError(refusal === undefined ? (error as Error) : new Error(refusal), `${whom} ${address}`);
    return /AUTH|PERMISSION/.test(known.code) ? known : undefined;
  }
  return /CERT|SELF_SIGNED|UNABLE_TO_VERIFY|ERR_TLS|ERR_SSL/.test(code)
    ? new KitUnavailableError(
        `The TLS connection to ${address} failed (${reasonOf(error)}). Check its certificate`,
        address,
        safeCause(error),
      )
    : undefined;
};

// ioredis 6 types a client by its reply mapping. The caller chooses the mapping, and kit works with each.
type Settings = Omit<RedisOptions, "replyMapping">;

const make = (
  { Cluster, Redis }: Pick<typeof import("ioredis"), "Cluster" | "Redis">,
  { nodes }: Target,
  settings: Settings,
  cluster: ConnectOptions["cluster"],
): RedisLike => {
  if (!nodes) {
    const options: Settings = { ...settings, retryStrategy: settings.retryStrategy ?? reconnectMs };
    return new Redis(options);
  }
  return new Cluster(nodes, {
    clusterRetryStrategy: reconnectMs,
    // A host name is not resolved here, since certificates are for names. It is looked up at each connection.
    dnsLookup: (name, found) => found(null, name),
    ...cluster,
    // These settings guarantee that no command runs twice.
    ...ownClusterSettings,
    lazyConnect: true,
    redisOptions: settings,
  });
};

/**
 * Connects, and resolves once the server answers.
 *
 * `target` is a URL or options: `redis://user:password@host:port/db`, `rediss:` for TLS, `unix:/path`,
 * `redis+sentinel://h1,h2/name`, or `redis+cluster://h1,h2`. Without a URL, or with an empty string, kit uses the environment
 * variable `REDIS_URL`, or else `redis://127.0.0.1:6379`.
 *
 * The client reconnects until you close it, with jittered waits of up to one second. kit replaces a connection that goes silent
 * during a kit call, and reconnects the client if ioredis gives up.
 *
 * If the reply to your own command is lost, the command rejects. By default, ioredis would send it again. A command that you send
 * while the connection is down waits for the next connection attempt.
 *
 * With Sentinels, the client also subscribes to failovers (one connection to each Sentinel), and disconnects from a master that was
 * replaced. Close the client with `close()`, or declare it with `await using`.
 *
 * @throws {KitUnavailableError} no server answered within `deadlineMs`; the message contains host, port and cause.
 * @throws {KitError} `KIT_AUTH`: the server rejected the credentials. `KIT_TARGET`: the address is malformed, or the server does
 * not have that database. `KIT_UNSUPPORTED`: ioredis is not installed.
 * @throws {TypeError | RangeError} an option is invalid.
 *
 * @example
 * const redis = await connect("redis://127.0.0.1:6379");
 * await redis.set("greeting", "hello");
 * await redis.close();
 */
export const connect = async (
  target?: string | URL | ConnectOptions,
  ...more: readonly never[]
): Promise<Connection> => {
  // The form of `new Redis(url, options)`: the second argument would have no effect.
  if (typeof more[0] === "object")
    throw new TypeError("connect() accepts one argument. Pass the URL in it: connect({ url, … })");
  const options = optionsOf(target);
  const { deadlineMs = 1_900, connectionName = "kit" } = options;
  // An empty string is a REDIS_URL that is set but empty, as the environment may have it.
  const givenUrl = options.url === "" ? undefined : options.url;
  const url = textOption("url", givenUrl ?? (process.env["REDIS_URL"] || defaultAddress), 4_096);
  integerOption("deadlineMs", deadlineMs, 1);
  const signal = signalOption("signal", options.signal);
  textOption("connectionName", connectionName, 64);
  signal?.throwIfAborted();
  const { nodes, settings: addressed } = parseAddress(url);
  const given = { ...addressed, ...ownSettings, connectionName, lazyConnect: true, ...options.options };
  // With `tls` alone ioredis uses no TLS to Sentinels, nor to the master that they name.
  const secured = given.tls && given.sentinels ? { enableTLSForSentinelMode: true, sentinelTLS: given.tls } : {};
  const settings = { ...given, ...secured, ...options.options };
  const place: Target = { nodes, settings };
  // The ready check of ioredis prints a warning where INFO is not permitted. We run the first check ourselves; ioredis's own
  // check is enabled only if INFO is permitted. Behind Sentinels it stays enabled, since it verifies the master's role. On a
  // Cluster ioredis also checks nodes over connections that this option does not reach.
  const asksItself = settings.enableReadyCheck ?? !!(nodes ?? settings.sentinels);
  // Loading ioredis costs 30–45 ms, and seconds on a slow disk. That time is not the server's.
  const ioredis = await import("ioredis").catch(notInstalled);
  const startedAt = performance.now();
  const deadline = Deadline.in(deadlineMs);
  const client = mask(
    detached(() => make(ioredis, place, { ...settings, enableReadyCheck: asksItself }, options.cluster)),
  );
  const end = superviseClient(client);
  // Attached until close(), so that scripts on this client share one executor.
  const context = attach(client);
  const endNow = (): void => {
    if (!isOwned(client)) return;
    context.detach();
    end();
  };
  const address = addressText(place);
  try {
    await firstReady(
      client,
      place,
      startedAt,
      deadline,
      signal,
      !givenUrl && address === addressText({ nodes, settings: addressed }),
    );
    if (!asksItself && settings.enableReadyCheck === undefined)
      (client as NodeClient).options.enableReadyCheck = await untilLoaded(context, address, deadline, signal);
    if (settings.db) await checkDatabase(context, settings.db, address, deadline, signal);
  } catch (error) {
    endNow();
    throw withCaller(error);
  }
  let closing: Promise<void> | undefined;
  const close = (): Promise<void> => {
    closing ??= finish(client).finally(endNow);
    return closing;
  };
  const disconnect = client.disconnect.bind(client) as (reconnect: boolean) => void;
  return Object.assign(client, {
    close,
    [Symbol.asyncDispose]: close,
    quit: () => close().then(() => "OK" as const),
    // Without these two, an end by the caller would count as a failure, and the client would be connected again. ioredis itself
    // calls `disconnect(true)` to connect anew.
    disconnect: (reconnect = false) => (isOwned(client) && !reconnect ? endNow() : disconnect(reconnect)),
  }) as unknown as Connection;
};

/**
 * Hides the password that ioredis keeps in `options`: a logged client shows only its address and status. The same applies to its
 * duplicates and to the nodes of a Cluster.
 */
const mask = (client: RedisLike): RedisLike => {
  const value = (): string => `Redis at ${addressOf(client)} (${client.status})`;
  // A pipeline has the options as well. They are not enumerable there, because enumerable ones are copied for each duplicate.
  for (const name of [inspect.custom, "toJSON"])
    Object.defineProperty((Object.assign(client, { [name]: value }) as unknown as NodeClient).options, name, { value });
  if (isClusterClient(client)) client.on("+node", (node) => mask(node as NodeClient));
  const duplicate = client.duplicate.bind(client);
  client.duplicate = (...overrides) => mask(duplicate(...overrides));
  return client;
};

/** ioredis is an optional peer dependency: a program with another client does not need it. */
const notInstalled = (cause: unknown): never => {
  throw new KitError("KIT_UNSUPPORTED", "connect() cannot find ioredis. Run `npm install ioredis`", { cause });
};

const optionNames = ["url", "deadlineMs", "signal", "connectionName", "options", "cluster"];

const optionsOf = (target: string | URL | ConnectOptions = {}): ConnectOptions => {
  const url = target instanceof URL ? target.href : target;
  return optionsObject("target", typeof url === "string" ? { url } : url, optionNames);
};

/** If the server refuses a database, ioredis silently continues in database 0, with other data. */
const checkDatabase = async (
  context: ClientContext,
  db: number,
  address: string,
  deadline: Deadline,
  signal: AbortSignal | undefined,
): Promise<void> => {
  const what = `SELECT ${String(db)}`;
  try {
    await context.executor.run("SELECT", [db], reading(what, deadline, signal));
  } catch (error) {
    if (!isReplyError(error)) throw error;
    const failure = serverError(error, what);
    if (failure.code !== "KIT_SERVER") throw failure;
    throw new KitError("KIT_TARGET", `Cannot connect: ${address} has no database ${String(db)}. Use a lower number`, {
      cause: safeCause(error),
    });
  }
};

/** Waits for the replies to commands that were sent. */
const finish = async (client: RedisLike): Promise<void> => {
  // The reply to PING arrives after those of all commands before it.
  const pings = connectionsOf(client)
    .filter(isReady)
    .map((connection) => connection.call("PING"));
  await answered(Promise.allSettled(pings), () => undefined);
};

/** Waits while the server reads its data from disk. Resolves with whether INFO is permitted. */
const untilLoaded = async (
  { executor }: ClientContext,
  address: string,
  deadline: Deadline,
  signal: AbortSignal | undefined,
): Promise<boolean> => {
  const what = `Connecting to ${address}`;
  for (;;)
    try {
      const info = await executor.run("INFO", ["persistence"], reading(what, deadline, signal));
      if (!/^loading:1\r?$/m.test(String(info))) return true;
      if (deadline.remainingMs <= loadingPauseMs)
        throw new KitUnavailableError(
          `Redis at ${address} is still loading its data from disk. Try again later`,
          address,
        );
      await pause(loadingPauseMs, signal);
    } catch (error) {
      if (!isReplyError(error)) throw error;
      if (isForbidden(error)) return false;
      throw serverError(error, what);
    }
};

const firstReady = (
  client: RedisLike,
  target: Target,
  startedAt: number,
  deadline: Deadline,
  signal: AbortSignal | undefined,
  isFromEnvironment: boolean,
): Promise<void> => {
  const address = addressText(target);
  let lastError: unknown;
  return settled<void>(
    { deadline, signal },
    ({ reject }) => {
      const seconds = ((performance.now() - startedAt) / 1_000).toFixed(1);
      const reason = (lastError ? reasonOf(lastError) : "no answer") + deadline.stall;
      const message = `Cannot reach Redis at ${address} after ${seconds} s (${reason}). ${hintOf(target, lastError)}${isFromEnvironment ? " The address is from REDIS_URL." : ""}`;
      reject(new KitUnavailableError(message, address, lastError && safeCause(lastError)));
    },
    ({ resolve, reject }) => {
      let stopAsking: (() => void) | undefined;
      let isSettled = false;
      const onError = (error: unknown): void => {
        if (isSettled) return;
        const origin = originOf(error);
        const isVague = aftermath.test(String((origin as Error | undefined)?.message));
        if (!lastError && isVague && !stopAsking) stopAsking = askOneNode(client, onError);
        if (!lastError || !isVague) lastError = origin;
        const final = finalError(lastError, address);
        if (final) reject(final);
      };
      // "node error": on a Cluster only.
      const stopListening = addListeners(client, { ready: () => resolve(), error: onError, "node error": onError });
      detached(() => client.connect()).catch(onError);
      return () => {
        isSettled = true;
        stopAsking?.();
        stopListening();
      };
    },
  );
};

/** For an unreachable Cluster ioredis reports only this. For other connections it has already reported the cause. */
const aftermath = /^(Connection is closed|None of startup nodes|Failed to refresh slots)/;

/** A hint for the message. For a single server, it covers another service on the same port. */
const hintOf = ({ nodes, settings: { sentinels, tls } }: Target, error: unknown): string =>
  !nodes && !sentinels && ((tls && !error) || /RESP type|Protocol error|closed|RESET|EPIPE/.test(String(error)))
    ? "Check the port, TLS, maxclients and protected mode."
    : /ENOTFOUND|EAI_AGAIN/.test(String(error))
      ? "Check the host name."
      : "Check that it is running.";

/** Connects to a single node, whose error contains the reason. Returns a function that ends this. */
const askOneNode = (client: RedisLike, onError: (error: unknown) => void): (() => void) => {
  try {
    const node = duplicateNode(client, {});
    node.on("error", onError);
    const end = (): void => {
      node.disconnect();
      destroySocket(node);
    };
    node.connect().then(end, () => undefined);
    return end;
  } catch {
    return () => undefined;
  }
};
