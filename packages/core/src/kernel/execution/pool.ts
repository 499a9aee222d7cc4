import {
  type Address,
  addressOf,
  databaseOf,
  destroySocket,
  duplicateNode,
  hasSentinels,
  keyPrefixOf,
  type NodeClient,
  nodeOfSlot,
  peerOf,
  reachable,
  type RedisArgument,
  type RedisLike,
  unrefSocket,
} from "../connection/client.js";
import { detached } from "../base/async-context.js";
import { Deadline } from "../base/deadline.js";
import { inTime, settled } from "../base/settle.js";
import { KitClosedError, KitUnavailableError, replyOf } from "../base/errors.js";
import { CommandExecutor } from "./executor.js";
import { slotOf } from "../base/keyspace.js";
import { watchHandshake } from "../connection/dedicated.js";
import { leadsElsewhere } from "../connection/server-id.js";
import { backoffMs, pause } from "../base/retry.js";
import { refreshSlots } from "../connection/topology.js";
import { watchNode } from "./node-watch.js";

/** A connection that one borrower uses exclusively. */
export interface ExclusiveConnection {
  /** For scripts. */
  readonly executor: CommandExecutor;
  /** Its server: `host:port` or a socket path. */
  readonly address: string;
  /** Whether the connection is lost, including everything that was WATCHed on it. */
  readonly isBroken: boolean;
  /**
   * Sends one command.
   *
   * @throws the client's reply error.
   * @throws {KitUnavailableError} the connection broke, or is silent; with `mutates` only if nothing was sent.
   * @throws {KitUnknownOutcomeError} the same, with `mutates`, after the command was sent.
   */
  call(command: string, args: readonly RedisArgument[], deadlineMs: number, mutates?: boolean): Promise<unknown>;
  /** Stores the slot's node from the server's error (`MOVED 866 host:port`), or drops the stored node. */
  misrouted(complaint: string): void;
  /** Returns the connection to the pool. An unclean connection (with an open WATCH, MULTI or command) is closed. */
  returnToPool(isClean: boolean): void;
}

/**
 * A few connections, each checked out by one borrower at a time. They never reconnect: a watch is lost with its connection, so a
 * reconnected one would execute a transaction unguarded. On a Cluster each is a plain connection to the node of the slot, for the
 * same reason: a redirected transaction would not be watched on its new node.
 */
export class ExclusivePool {
  readonly #client: RedisLike;
  readonly #purpose: string;
  readonly #maxConnections: number;
  readonly #isCallers: boolean;
  readonly #idle: { readonly connection: NodeClient; readonly address: string }[] = [];
  /** In order of arrival. */
  readonly #queue = new Set<{ readonly admit: () => void; readonly refuse: () => void }>();
  /** Slots that nodes redirected since the client last read its slot map. */
  readonly #redirected = new Map<number, Address>();
  readonly #all = new Set<NodeClient>();
  /** Connections to the node that serves the client's commands for a key. */
  readonly #followers = new Set<NodeClient>();
  #checkedOut = 0;
  #closed = false;

  /**
   * `purpose`: what the connections are for, as `CLIENT LIST` shows it. `isCallers`: the caller's own commands run on them, so
   * replies have the same form as the client's replies.
   */
  constructor(client: RedisLike, purpose: string, maxConnections: number, isCallers: boolean) {
    this.#client = client;
    this.#purpose = purpose;
    this.#maxConnections = maxConnections;
    this.#isCallers = isCallers;
  }

  /** Checks out a connection to the node that serves `key`. Waits while all are checked out, first in, first out. */
  checkOut(key: string, deadline: Deadline, signal: AbortSignal | undefined): Promise<ExclusiveConnection> {
    const slot = slotOf(keyPrefixOf(this.#client) + key);
    return this.#checkOut(
      () => this.#redirected.get(slot) ?? addressFrom(nodeOfSlot(this.#client, slot)),
      slot,
      deadline,
      signal,
    );
  }

  /** The same for one node, at an address that a server returned. */
  checkOutNode(node: Address, deadline: Deadline, signal: AbortSignal | undefined): Promise<ExclusiveConnection> {
    return this.#checkOut(() => reachable(this.#client, node), undefined, deadline, signal);
  }

  async #checkOut(
    find: () => Address | undefined,
    slot: number | undefined,
    deadline: Deadline,
    signal: AbortSignal | undefined,
  ): Promise<ExclusiveConnection> {
    if (this.#checkedOut >= this.#maxConnections) await this.#turn(deadline, signal);
    else this.#checkedOut++;
    let connection: NodeClient | undefined;
    try {
      for (let attempt = 1; ; attempt++) {
        if (this.#closed) throw new KitClosedError("The connection pool");
        const address = find();
        const name = address ? `${address.host}:${String(address.port)}` : "";
        connection = this.#reuse(name) ?? this.#make(address);
        if (slot !== undefined) this.#followers.add(connection);
        // With a given address, that server is the wanted one.
        if (address || !(await this.#leadsElsewhere(connection, deadline, signal)))
          return this.#wrap(connection, name, slot);
        this.#discard(connection);
        const waitMs = backoffMs(attempt, 20, 500);
        if (waitMs >= deadline.remainingMs) {
          const leads = `${addressOf(this.#client)} led to a different server than the client's until the deadline`;
          throw new KitUnavailableError(leads, addressOf(this.#client));
        }
        await pause(waitMs, signal);
      }
    } catch (error) {
      this.#discard(connection);
      this.#pass();
      throw error;
    }
  }

  /**
   * Call this when the client is connected, or has other nodes or another database. Ends connections to others, even those that are
   * checked out.
   */
  follow(): void {
    const db = databaseOf(this.#client);
    for (const connection of this.#all) if (databaseOf(connection) !== db) this.#discard(connection);
    for (const connection of this.#followers)
      void leadsElsewhere(connection, this.#client, true).then((isElsewhere) => {
        if (isElsewhere) destroySocket(connection);
      });
  }

  close(): void {
    this.#closed = true;
    this.suspend();
  }

  /**
   * Call this when the client was ended. All connections end, even those that are checked out, and waits for a connection reject.
   */
  suspend(): void {
    for (const { refuse } of [...this.#queue]) refuse();
    for (const connection of this.#all) this.#discard(connection);
  }

  #turn(deadline: Deadline, signal: AbortSignal | undefined): Promise<void> {
    return settled<void>(
      { deadline, signal },
      ({ reject }) => {
        const message = `All ${String(this.#maxConnections)} kit:${this.#purpose} connections were busy until the deadline`;
        reject(new KitUnavailableError(message, addressOf(this.#client)));
      },
      ({ resolve, reject }) => {
        const mine = { admit: resolve, refuse: () => reject(new KitClosedError("The connection pool")) };
        this.#queue.add(mine);
        return () => void this.#queue.delete(mine);
      },
    );
  }

  /** Passes a place that becomes free to the call that has waited longest. */
  #pass(): void {
    const [next] = this.#queue;
    if (next) next.admit();
    else this.#checkedOut--;
  }

  #reuse(address: string): NodeClient | undefined {
    const place = this.#idle.findIndex((idle) => idle.address === address && idle.connection.status === "ready");
    return place < 0 ? undefined : this.#idle.splice(place, 1)[0]?.connection;
  }

  /**
   * Connects if necessary, and returns whether the connection leads to another server. A connection that fails, or is late, fails
   * its borrower.
   */
  async #leadsElsewhere(connection: NodeClient, deadline: Deadline, signal: AbortSignal | undefined): Promise<boolean> {
    const connecting = connection.status === "wait" ? detached(() => connection.connect()) : Promise.resolve();
    const check = connecting.then(
      () => leadsElsewhere(connection, this.#client, false),
      () => false,
    );
    return (await inTime(check, { deadline, signal })) ?? false;
  }

  #make(address: Address | undefined): NodeClient {
    // Idle connections to other nodes are closed, so that the limit holds.
    if (this.#all.size >= this.#maxConnections) this.#discard(this.#idle[0]?.connection);
    // A given address overrides Sentinels and a socket's path.
    const direct = address && { sentinels: undefined, path: undefined };
    // `reconnectOnError` of the caller's client does not apply: the borrower decides after an error reply.
    const own = { connectionName: `kit:${this.#purpose}`, reconnectOnError: null };
    // Packages read replies in one form, whatever form the client uses.
    const form = !this.#isCallers && { replyMapping: "legacy" };
    const connection = duplicateNode(this.#client, { ...own, ...form, ...direct }, address);
    this.#all.add(connection);
    unrefSocket(connection);
    watchHandshake(connection);
    // ioredis prints errors that have no listener, even of an idle connection.
    connection.on("error", () => undefined);
    connection.on("end", () => {
      // We did not end it: its node may be gone, and another one may have its slots.
      if (this.#all.has(connection)) refreshSlots(this.#client);
      this.#forget(connection);
    });
    return connection;
  }

  #discard(connection: NodeClient | undefined): void {
    if (!connection) return;
    this.#forget(connection);
    connection.disconnect();
    destroySocket(connection);
  }

  #forget(connection: NodeClient): void {
    this.#all.delete(connection);
    this.#followers.delete(connection);
    const place = this.#idle.findIndex((idle) => idle.connection === connection);
    if (place >= 0) this.#idle.splice(place, 1);
  }

  #wrap(connection: NodeClient, address: string, slot: number | undefined): ExclusiveConnection {
    const executor = new CommandExecutor(connection);
    executor.attach();
    const unwatch = watchNode(this.#client, connection);
    let isReturned = false;
    return {
      executor,
      get address() {
        // Behind Sentinels only the socket has the address.
        return address || (hasSentinels(connection) && peerOf(connection)) || addressOf(connection);
      },
      get isBroken() {
        return connection.status !== "ready";
      },
      call: (command, args, deadlineMs, mutates = false) =>
        executor.run(command, args, { what: command, mutates, idempotent: false, deadline: Deadline.in(deadlineMs) }),
      misrouted: (complaint) => {
        if (slot === undefined) return;
        const [, host = "", port] = /^MOVED \d+ (.*):(\d+)$/.exec(replyOf(complaint)) ?? [];
        // A redirection without a host means the address by which we reached the node.
        const own = connection.options.host ?? "127.0.0.1";
        const target = { host: host === "" || host === "?" ? own : host, port: Number(port) };
        refreshSlots(this.#client);
        if (port === undefined) this.#redirected.delete(slot);
        else this.#redirected.set(slot, reachable(this.#client, target));
      },
      returnToPool: (isClean) => {
        if (isReturned) return;
        isReturned = true;
        unwatch();
        if (isClean && !this.#closed && connection.status === "ready") {
          executor.detach();
          this.#idle.push({ connection, address });
        } else {
          // Commands still under way on it reject when it ends.
          connection.on("end", () => executor.detach());
          this.#discard(connection);
        }
        this.#pass();
      },
    };
  }
}

/** Parses `host:port`, where the host may be an IPv6 address. */
const addressFrom = (node: string): Address | undefined => {
  const colon = node.lastIndexOf(":");
  return colon < 0 ? undefined : { host: node.slice(0, colon), port: Number(node.slice(colon + 1)) };
};
