import { KitError, type RedisArgument, type RedisLike } from "../index.js";
import { type Address, passes } from "../kernel/index.js";
import {
  asKitError,
  Deadline,
  type ExclusiveConnection,
  infoFields,
  isForbidden,
  isReplyError,
  pause,
  reading,
  type ClientContext,
  serverError,
  serverVersion,
  slotOf,
} from "../toolkit/index.js";
import { settingsOf, type ReplicationState, replicationStateOf } from "./info.js";
import { markKey } from "./keys.js";
import type { ResolvedOptions } from "./options.js";

/** The outcome of one command: its reply, the server's refusal, or silence. */
export type Said =
  | { readonly reply: unknown }
  | { readonly refusal: KitError; readonly isForbidden: boolean }
  | { readonly lost: KitError };

/** Sends one command. Every outcome is a value. */
export const say = async (
  connection: ExclusiveConnection,
  command: string,
  args: readonly RedisArgument[],
  deadline: Deadline,
  mutates = false,
): Promise<Said> => {
  try {
    return { reply: await connection.call(command, args, deadline.remainingMs, mutates) };
  } catch (error) {
    return isReplyError(error)
      ? { refusal: serverError(error, command), isForbidden: isForbidden(error) }
      : { lost: asKitError(error, command) };
  }
};

/** The identity of a server, and its disk state, at one moment. */
export interface Look {
  readonly replication: ReplicationState;
  /** Product and version. Undefined without a look at the disk. */
  readonly version: { readonly server: "redis" | "valkey"; readonly version: string } | undefined;
  /** `appendonly`, `appendfsync` and `no-appendfsync-on-rewrite`. Undefined if CONFIG GET is forbidden. */
  readonly settings: ReadonlyMap<string, string> | undefined;
  /**
   * Whether the append-only file is being rewritten. If the file was off before, it is incomplete until the rewrite ends, and INFO
   * looks the same.
   */
  readonly isRewriting: boolean;
}

/**
 * Looks at a connection's server. Undefined if INFO is forbidden, because the server cannot be identified then.
 *
 * @throws {KitError} no answer, or another refusal.
 */
export const look = async (
  connection: ExclusiveConnection,
  withDisk: boolean,
  deadline: Deadline,
): Promise<Look | undefined> => {
  const disk: readonly (readonly [string, ...string[]])[] = [
    ["INFO", "server"],
    ["INFO", "persistence"],
    ["CONFIG", "GET", "*append*"],
  ];
  const [roleInfo, server, persistence, config] = await Promise.all([
    say(connection, "INFO", ["replication"], deadline),
    ...(withDisk ? disk : []).map(([command, ...args]) => say(connection, command, args, deadline)),
  ]);
  if ("refusal" in roleInfo && roleInfo.refusal.code === "KIT_NO_PERMISSION") return undefined;
  const replication = replicationStateOf(replyOf(roleInfo));
  if (!server || !persistence || !config)
    return { replication, version: undefined, settings: undefined, isRewriting: false };
  const saved = infoFields(replyOf(persistence));
  return {
    replication,
    version: serverVersion(infoFields(replyOf(server))),
    settings: "refusal" in config ? undefined : settingsOf(replyOf(config)),
    isRewriting: saved.get("aof_rewrite_in_progress") === "1" || saved.get("aof_rewrite_scheduled") === "1",
  };
};

const replyOf = (said: Said): unknown => {
  if ("reply" in said) return said.reply;
  throw "refusal" in said ? said.refusal : said.lost;
};

/** A connection to the master of a key, and the state of that server before anything was written on it. */
export interface CheckedOut {
  readonly connection: ExclusiveConnection;
  readonly before: Look | undefined;
  /** The key of the mark. It is determined before anything is written, because that may need another connection. */
  readonly mark: string;
}

const againMs = 50;
const pokeMs = 500;

/**
 * Checks out a connection to the master that serves the key: at the check, its server was a master and had the slot.
 *
 * @throws {KitError} there was no connection until the deadline; nothing was sent that changes anything.
 */
export const checkOut = async (
  context: ClientContext,
  resolved: ResolvedOptions,
  deadline: Deadline,
  onFailure: (failure: KitError) => void,
): Promise<CheckedOut> => {
  const { key, fsync, signal } = resolved;
  const what = `A connection for durable writes of ${key}`;
  const mark = await markFor(context, key, deadline);
  for (;;) {
    // Until the caller's client is connected, a Cluster has no known nodes. A client that has ended stays ended.
    await context.executor.ready(reading(what, deadline, signal));
    const connection = await context.pool("durable", undefined, true).checkOut(key, deadline, signal);
    let failure: KitError;
    try {
      const [before, route] = await Promise.all([
        look(connection, fsync !== "none", deadline),
        say(connection, "TYPE", [key], deadline),
      ]);
      if ("refusal" in route && passes(route.refusal)) {
        failure = route.refusal;
        connection.misrouted(String((failure.cause as Error).message));
      } else if (before?.replication.role === "replica") {
        failure = new KitError("KIT_READONLY", `${what} failed: ${connection.address} is a replica`, {
          retryable: true,
        });
        connection.misrouted("");
      } else return { connection, before, mark };
    } catch (error) {
      failure = asKitError(error, what);
      connection.misrouted("");
    }
    onFailure(failure);
    connection.returnToPool(false);
    // A Cluster client looks for new masters only when a command of its own fails.
    const asking = reading(what, Deadline.in(pokeMs));
    void context.executor.run("TYPE", [key], asking).catch(() => undefined);
    if (!failure.retryable || deadline.remainingMs <= againMs) throw failure;
    await pause(againMs, signal);
  }
};

/** A connection to a replica that permits reads. */
export const toReplica = async (
  context: ClientContext,
  node: Address,
  deadline: Deadline,
): Promise<ExclusiveConnection> => {
  const connection = await context.pool("replicas", 100, true).checkOutNode(node, deadline, undefined);
  // READONLY is an error outside of a Cluster. A server that forbids INFO counts as a Cluster.
  if (!(await context.isCluster(Math.max(1, deadline.remainingMs)).catch(() => true))) return connection;
  const said = await say(connection, "READONLY", [], deadline);
  if (!("lost" in said)) return connection;
  connection.returnToPool(false);
  throw said.lost;
};

/** The Cluster slot of a key, including the `keyPrefix` of the caller's client. */
export const slotBehind = (client: RedisLike, key: string): number => slotOf(keyPrefixOf(client) + key);

const keyPrefixOf = (client: RedisLike): string =>
  (client as { options?: { keyPrefix?: string } }).options?.keyPrefix ?? "";

export const isMisrouted = (said: Said): said is Extract<Said, { readonly refusal: KitError }> =>
  "refusal" in said && said.refusal.code === "KIT_CLUSTER";

/** The key of the mark: one for a whole server, or one for a slot of a Cluster. */
const markFor = async (context: ClientContext, key: string, deadline: Deadline): Promise<string> => {
  const name = (tag: string): string => markKey(context.prefix, tag);
  if (!(await context.isCluster(Math.max(1, deadline.remainingMs)).catch(() => true))) return name("all");
  const full = keyPrefixOf(context.client) + key;
  const slot = slotOf(full);
  const isThere = (tag: string): boolean => slotBehind(context.client, name(tag)) === slot;
  const [, tag = full] = /^[^{]*\{([^}]+)\}/.exec(full) ?? [];
  if (isThere(tag)) return name(tag);
  // A tag with a brace cannot be part of a key; any other text of that slot serves.
  for (let number = 0; ; number++) if (isThere(String(number))) return name(String(number));
};
