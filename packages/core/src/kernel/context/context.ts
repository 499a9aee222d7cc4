import {
  assertConnections,
  databaseOf,
  destroySocket,
  duplicateClient,
  isAbandoned,
  isClusterClient,
  isReady,
  keyPrefixOf,
  type NodeClient,
  nodeOfSlot,
  type RedisLike,
  selectDatabase,
} from "../connection/client.js";
import { reconnectMs } from "../connection/dedicated.js";
import { listenTo } from "../connection/listeners.js";
import { leadsElsewhere } from "../connection/server-id.js";
import { ServerClock } from "./clock.js";
import { detached } from "../base/async-context.js";
import { Deadline } from "../base/deadline.js";
import { isForbidden, isReplyError, KitClosedError, serverError, withCaller } from "../base/errors.js";
import { CommandExecutor, reading } from "../execution/executor.js";
import { Inbox } from "./inbox.js";
import { checkPrefix, slotOf } from "../base/keyspace.js";
import { assertClient, type AttachOptions } from "../base/options.js";
import { booleanOption } from "../base/rules.js";
import { onEnded, superviseClient } from "../connection/supervision.js";
import { ExclusivePool } from "../execution/pool.js";

const contexts = new WeakMap<RedisLike, Map<string, ClientContext>>();

/**
 * The state that core keeps for one client object and prefix: the command executor, the server's clock, the inbox, and the
 * connections for WATCH. All packages that work on the client share it. `attach()` creates it, and the last `detach()` ends it.
 */
export class ClientContext {
  readonly client: RedisLike;
  readonly prefix: string;
  readonly executor: CommandExecutor;
  readonly inbox: Inbox;
  readonly #pools = new Map<string, ExclusivePool>();
  readonly #clocks = new Map<string, ServerClock>();
  readonly #undo: (() => unknown)[];
  #holders = 1;
  #isCluster: boolean | undefined;

  constructor(client: RedisLike, prefix: string, executor: CommandExecutor, onGone: () => void) {
    this.client = client;
    this.prefix = prefix;
    this.executor = executor;
    this.inbox = new Inbox(client, prefix, (channel) => this.#mayPublish(channel));
    executor.attach();
    const stopOnDrop = executor.onDrop(() => {
      this.#clocks.clear();
      if (executor.isEnded) this.#suspend();
      // A Cluster client stays ready when it loses one node.
      else this.#follow();
      // A Cluster does not report whether there are listeners.
      if (!isClusterClient(client) && !isReady(client)) this.inbox.leave();
    });
    const stopOnReady = executor.onReady(() => {
      this.#follow();
      this.inbox.comeBack();
    });
    this.#undo = [stopOnDrop, stopOnReady, () => executor.detach(), onGone];
  }

  hold(): this {
    this.#holders++;
    return this;
  }

  /** Makes the last `detach()` call `undo`. If that has already happened, calls `undo` immediately. */
  onDetached(undo: () => unknown): void {
    if (this.#holders < 1) undo();
    else this.#undo.push(undo);
  }

  /** Ends the use by one package. The last `detach()` closes kit's connections, never the caller's client. */
  detach(): void {
    if (--this.#holders !== 0) return;
    this.inbox.close();
    for (const pool of this.#pools.values()) pool.close();
    for (const undo of this.#undo) undo();
  }

  /**
   * Dedicated connections for one purpose, opened on demand, each checked out by one borrower at a time. The limit is per client
   * and prefix. A detached context has no connections. `isCallers`: the commands are the caller's, so replies have the same form as
   * the client's replies.
   *
   * @throws {KitError} `KIT_UNSUPPORTED`: the client has no connections.
   */
  pool(purpose: string, maxConnections = 8, isCallers = false): ExclusivePool {
    assertConnections(this.client);
    let pool = this.#pools.get(purpose);
    if (!pool) this.#pools.set(purpose, (pool = new ExclusivePool(this.client, purpose, maxConnections, isCallers)));
    if (this.#holders < 1) pool.close();
    return pool;
  }

  /**
   * Whether the server is a Cluster, according to INFO and not to the client's class. Each caller asks with its own deadline until
   * the answer is known. If INFO is forbidden, the result is true, because a Cluster permits less. It stays true if the permission
   * is granted later.
   */
  async isCluster(deadlineMs: number): Promise<boolean> {
    const what = "INFO cluster";
    this.#isCluster ??= await this.executor.run("INFO", ["cluster"], reading(what, Deadline.in(deadlineMs))).then(
      (info) => !String(info).includes("cluster_enabled:0"),
      (error: unknown) => {
        if (isForbidden(error)) return true;
        throw isReplyError(error) ? serverError(error, what) : error;
      },
    );
    return this.#isCluster;
  }

  /** The clock of the node that serves `key`. Call this each time you need the clock, because slots move. */
  clockOf(key: string): ServerClock {
    const { client } = this;
    const node = isClusterClient(client) ? nodeOfSlot(client, slotOf(keyPrefixOf(client) + key)) : "";
    let clock = this.#clocks.get(node);
    if (!clock) this.#clocks.set(node, (clock = new ServerClock()));
    return clock;
  }

  /** Leases with the same group can be renewed in one script. */
  groupOf(key: string): string {
    return this.#isCluster === false ? "" : String(slotOf(key));
  }

  #follow(): void {
    this.inbox.follow();
    for (const pool of this.#pools.values()) pool.follow();
  }

  /** The owner ended the client. This ends kit's other connections as well, until the client is connected again. */
  #suspend(): void {
    this.inbox.suspend();
    for (const pool of this.#pools.values()) pool.suspend();
  }

  /** Only a refusal by the server counts. While the server is unreachable, publishing counts as permitted. */
  async #mayPublish(channel: string): Promise<boolean> {
    const may = (command: string, ...args: string[]): Promise<boolean> =>
      this.executor.run(command, args, reading(command, Deadline.in(2_000))).then(
        () => true,
        (error: unknown) => !isForbidden(error),
      );
    const answers = await Promise.all([may("PUBLISH", channel, ""), may("PUBSUB", "NUMSUB", channel)]);
    return !answers.includes(false);
  }
}

/**
 * Attaches a package to `redis`. Each `attach()` needs a `detach()`.
 *
 * @throws {TypeError | RangeError} an option or the client is invalid.
 */
export const attach = (redis: RedisLike, options: AttachOptions = {}): ClientContext => {
  assertClient("redis", redis);
  const { prefix: givenPrefix = "kit", isolate = false } = options;
  const prefix = checkPrefix(givenPrefix);
  if (booleanOption("isolate", isolate)) {
    if (redis.status === "end" || isAbandoned(redis)) throw new KitClosedError("The client");
    const own = detached(() => duplicateClient(redis, reconnectMs)) as NodeClient;
    const end = superviseClient(own);
    // The copy follows the client to another server, and into another database.
    const follow = (): void => {
      selectDatabase(own, databaseOf(redis));
      void leadsElsewhere(own, redis, true).then((isElsewhere) => {
        if (isElsewhere) destroySocket(own);
      });
    };
    const undo = [onEnded(redis, end), listenTo(redis, "ready", follow), listenTo(redis, "select", follow), end];
    return new ClientContext(own, prefix, new CommandExecutor(own, true), () => undo.forEach((each) => each()));
  }
  let byPrefix = contexts.get(redis);
  if (!byPrefix) contexts.set(redis, (byPrefix = new Map()));
  const known = byPrefix.get(prefix);
  if (known) return known.hold();
  // All contexts of a client share its executor, so the client has one set of our listeners.
  const executor = byPrefix.values().next().value?.executor ?? new CommandExecutor(redis, true);
  const context = new ClientContext(redis, prefix, executor, () => byPrefix.delete(prefix));
  byPrefix.set(prefix, context);
  return context;
};

/**
 * Runs one operation on an attached context. With a client instead, attaches it for the operation only, and leaves no listener on
 * it.
 */
export const withContext = async <T>(
  redis: RedisLike | ClientContext,
  operation: (context: ClientContext) => Promise<T>,
): Promise<T> => {
  if (redis instanceof ClientContext) return await operation(redis);
  const context = attach(redis);
  try {
    return await operation(context);
  } catch (error) {
    throw withCaller(error);
  } finally {
    context.detach();
  }
};
