import { KitUnavailableError, type RedisArgument, type RedisLike } from "../index.js";
import type { Address, NodeClient } from "../kernel/index.js";
import { isReplyError, slotOf } from "../toolkit/index.js";
import { notSent, SingleClient } from "./client.js";
import { keyOf } from "./command-key.js";
import { Listening, listenTo } from "./listening.js";
import { groupOptions, notForThreads, type Overrides } from "./options.js";
import { OwnClient, type Owner } from "./own.js";
import type { ClusterNode, NodeRedisClient, NodeRedisCluster } from "./types.js";

/** A node of a Cluster, with the Cluster client's connection to it. */
class NodeOfCluster extends SingleClient implements Owner {
  readonly options: SingleClient["options"];
  readonly #node: ClusterNode;
  readonly #cluster: NodeRedisCluster;
  readonly #isOurs: boolean;

  constructor(node: ClusterNode, address: Address, cluster: NodeRedisCluster, isOurs: boolean) {
    super();
    this.#node = node;
    this.#cluster = cluster;
    this.#isOurs = isOurs;
    this.options = { ...address, db: 0 };
  }

  protected get client(): NodeRedisClient | undefined {
    return this.#node.client as NodeRedisClient | undefined;
  }

  get template(): NodeRedisClient {
    if (!this.client) throw this.#unavailable("The Cluster client has no connection to");
    return this.client;
  }

  prepare(): Promise<void> {
    return Promise.resolve();
  }

  async connect(): Promise<void> {
    const client = (await this.#cluster.nodeClient(this.#node as never)) as NodeRedisClient | undefined;
    // A client that has given up is not replaced.
    if (client && !client.isOpen && this.#cluster.isOpen) await client.connect();
  }

  disconnect(): void {
    this.destroy();
  }

  override duplicate(overrides: Overrides = {}): OwnClient {
    return new OwnClient(this, overrides);
  }

  /**
   * Resolves with the node's options once it has replied. Rejects if the node was reset: its empty map would end all connections.
   */
  async withSlots(): Promise<ClientOptions> {
    // A rejection is also a reply.
    const info = await this.call("CLUSTER", "INFO").catch((error: unknown) => {
      if (!isReplyError(error)) throw error;
    });
    if (/^cluster_slots_assigned:0\r?$/m.test(String(info))) throw this.#unavailable("No slots are known to");
    return this.template.options ?? {};
  }

  #unavailable(what: string): KitUnavailableError {
    const address = nameOf(this.options);
    return new KitUnavailableError(`${what} the node at ${address}`, address);
  }

  /** Call this when the Cluster client reports an error. `isOwn`: the error belongs to this node. */
  lost(error: unknown, isOwn: boolean): void {
    if (this.client && (isOwn || !this.client.isReady)) this.handlers.error(error);
  }

  /** Ends and reconnects a node's client, but only for a Cluster client that kit made. node-redis keeps the client of a node. */
  protected destroy(): void {
    const { client } = this;
    if (!this.#isOurs || !client?.isReady) return;
    client.destroy();
    client.connect().catch(() => undefined);
  }

  protected listen(): () => void {
    return () => undefined;
  }
}

/** The minimum time between two reads of the slot map, in milliseconds. node-redis opens a connection for each read. */
const refreshEveryMs = 100;

/** A node without a reply for this long, in milliseconds, is silent and is not asked. */
const answerMs = 500;

/** How long a server may take to return its slot map, in milliseconds. */
const mapMs = 1_000;

type ClientOptions = NonNullable<NodeRedisClient["options"]>;

/** Members of node-redis' Cluster client that its types leave out. Both majors have them. */
interface Internals {
  readonly _options?: {
    readonly defaults?: object;
    readonly nodeAddressMap?: unknown;
    readonly rootNodes?: readonly ClientOptions[];
    minimizeConnections?: boolean | undefined;
  };
  readonly _slots?: { rediscover?(startWith: unknown): Promise<unknown> };
}

/**
 * A node-redis Cluster client as core uses it, with the nodes, their slots, and a connection to each node.
 *
 * Commands go directly to the client of their node. The Cluster client's `sendCommand` would keep them while the node is
 * unreachable, and send them later. A redirected command goes to the node that the server names. If that node is not connected, the
 * command rejects, and core sends it again.
 */
export class ClusterClient extends Listening implements RedisLike {
  readonly options: { readonly natMap?: unknown; readonly redisOptions: object };
  readonly #cluster: NodeRedisCluster & Internals;
  readonly #isOurs: boolean;
  readonly #nodes = new WeakMap<ClusterNode, NodeOfCluster>();
  /** Connections to nodes that got a slot before the Cluster client discovered them. */
  readonly #strangers = new Map<string, OwnClient>();
  #hasBeenReady = false;
  #refreshedAt = -Infinity;
  /** The number of reads of the slot map in progress, and the owner's `minimizeConnections`. */
  #readers = 0;
  #lazy: boolean | undefined;

  constructor(cluster: NodeRedisCluster, isOurs = false) {
    super();
    this.#cluster = cluster;
    this.#isOurs = isOurs;
    this.options = { natMap: this.#cluster._options?.nodeAddressMap, redisOptions: notForThreads };
  }

  get status(): string {
    const { isOpen, masters } = this.#cluster;
    const isReady = isOpen && masters.length > 0;
    this.#hasBeenReady ||= isReady;
    if (isReady) return "ready";
    return isOpen ? "connecting" : this.#hasBeenReady ? "end" : "wait";
  }

  /** The node of each slot in the form that core reads: `host:port`. */
  readonly slots: readonly (readonly string[] | undefined)[] = new Proxy([], {
    get: (nothing, slot) => {
      const number = typeof slot === "string" ? Number(slot) : NaN;
      if (Number.isNaN(number)) return Reflect.get(nothing, slot) as unknown;
      const node = this.#nodeOfSlot(number);
      return node && [nameOf(node.options)];
    },
  });

  nodes(role: "all" | "master"): NodeClient[] {
    const { masters, replicas } = this.#cluster;
    return role === "all"
      ? [...masters, ...replicas].map(this.#wrap)
      : masters.filter((node) => node.client).map(this.#wrap);
  }

  async connect(): Promise<void> {
    this.emit("connecting");
    try {
      await this.#cluster.connect();
    } catch (error) {
      this.report(error);
      // kit reconnects its own client after its end. The next call reconnects the caller's.
      if (this.#isOurs) this.emit("end");
      throw error;
    }
  }

  disconnect(): void {
    this.#endStrangers();
    if (this.#cluster.isOpen) this.#cluster.destroy();
  }

  duplicate(): ClusterClient {
    const options = { defaults: groupOptions(this.#cluster._options?.defaults), clientSideCache: undefined };
    return new ClusterClient(this.#cluster.duplicate(options as never) as NodeRedisCluster, true);
  }

  call(command: string, ...args: RedisArgument[]): Promise<unknown> {
    return this.#send("call", command, args);
  }

  callForBytes(command: string, ...args: RedisArgument[]): Promise<unknown> {
    return this.#send("callForBytes", command, args);
  }

  /** Reads the slot map again. Core calls this when a node refuses a command or is silent. */
  refreshSlotsCache(): void {
    const now = performance.now();
    if (!this.#cluster.isOpen || now - this.#refreshedAt < refreshEveryMs) return;
    this.#refreshedAt = now;
    void this.#rediscover()
      .catch((error: unknown) => this.report(error))
      .finally(() => this.#endLate());
  }

  /**
   * Reads the slot map from the first node that replies and has slots. If no node is connected, reads it from one of the owner's
   * addresses. node-redis waits indefinitely for a silent node and for connections to new nodes, and reads no other map meanwhile.
   * So the time of the read is limited, and new nodes are connected by their first command.
   */
  async #rediscover(): Promise<void> {
    const options = this.#cluster._options ?? {};
    const { rootNodes = [] } = options;
    const ready = (this.nodes("master") as NodeOfCluster[]).filter((node) => node.status === "ready");
    const asked = ready.filter((node) => node.silentMs < answerMs).map((node) => node.withSlots());
    const root = ready.length === 0 ? rootNodes[Math.floor(Math.random() * rootNodes.length)] : undefined;
    const from = await Promise.any(asked).catch(() => root);
    if (!from) return;
    if (this.#readers++ === 0) this.#lazy = options.minimizeConnections;
    options.minimizeConnections = true;
    try {
      // A copy, since node-redis changes it.
      const socket = { ...from.socket, socketTimeout: mapMs };
      await this.#cluster._slots?.rediscover?.({ options: { ...from, socket } });
    } finally {
      if (--this.#readers === 0) options.minimizeConnections = this.#lazy;
    }
  }

  /**
   * Ends connections that were opened too late: node-redis connects to the nodes that it has discovered, even if its owner has
   * ended it meanwhile.
   */
  #endLate(): void {
    if (this.#cluster.isOpen) return;
    const { masters, replicas } = this.#cluster;
    for (const { client } of [...masters, ...replicas] as { readonly client?: NodeRedisClient }[])
      if (client?.isOpen) client.destroy();
  }

  protected listen(): () => void {
    const stop = listenTo(this.#cluster, {
      error: (error: unknown) => this.report(error),
      connect: () => this.emit("ready"),
      disconnect: () => {
        this.emit("close");
        this.emit("end");
      },
      "node-error": (error: unknown, from: Address) => {
        this.emit("node error", error);
        for (const node of this.#all()) node.lost(error, nameOf(node.options) === nameOf(from));
      },
      "node-ready": (ready: Address) => {
        for (const [name, { status }] of this.#strangers)
          if (status === "end" || this.#known(name)) this.#endStranger(name);
        const node = this.#known(nameOf(ready));
        if (node) this.emit("+node", node);
      },
      // Another server may serve its slots from now on.
      "node-reconnecting": () => {
        this.refreshSlotsCache();
        this.emit("-node");
      },
      "node-disconnect": () => this.emit("-node"),
    });
    return () => {
      stop();
      this.#endStrangers();
    };
  }

  async #send(how: "call" | "callForBytes", command: string, args: readonly RedisArgument[]): Promise<unknown> {
    const key = keyOf(command, args);
    const node = key === undefined ? this.#anyMaster() : this.#nodeOfSlot(slotOf(key));
    if (!node) {
      this.refreshSlotsCache();
      throw notSent("The client knows no node for the command");
    }
    if (node.status === "wait" || node.status === "end") node.connect().catch(() => undefined);
    try {
      return await node[how](command, ...args);
    } catch (error) {
      const [, kind, address = ""] = (isReplyError(error) && /^(MOVED|ASK) \d+ (.*:\d+)$/.exec(error.message)) || [];
      if (kind === undefined) throw error;
      if (kind === "MOVED") this.refreshSlotsCache();
      const target = this.#at(address, node);
      if (target?.status !== "ready") throw error;
      // They are written one directly after the other.
      if (kind === "ASK") target.call("ASKING").catch(() => undefined);
      return await target[how](command, ...args);
    }
  }

  readonly #wrap = (node: ClusterNode): NodeOfCluster => {
    let known = this.#nodes.get(node);
    if (!known)
      this.#nodes.set(node, (known = new NodeOfCluster(node, this.#mapped(node), this.#cluster, this.#isOurs)));
    return known;
  };

  #all(): NodeOfCluster[] {
    return this.nodes("all") as NodeOfCluster[];
  }

  #nodeOfSlot(slot: number): NodeOfCluster | undefined {
    const master = this.#cluster.slots[slot]?.master;
    return master && this.#wrap(master);
  }

  #anyMaster(): NodeOfCluster | undefined {
    const masters = this.#cluster.masters.map(this.#wrap);
    const ready = masters.filter(({ status }) => status === "ready");
    const among = ready.length > 0 ? ready : masters;
    return among[Math.floor(Math.random() * among.length)];
  }

  #known(name: string): NodeOfCluster | undefined {
    return this.#all().find(({ options }) => nameOf(options) === name);
  }

  /** The node at an address that the node `by` returned. An empty host means the host of `by`. */
  #at(address: string, by: NodeOfCluster): SingleClient | undefined {
    const colon = address.lastIndexOf(":");
    const given = address.slice(0, colon);
    const host = given === "" || given === "?" ? (by.options.host ?? "") : given;
    const found = this.#mapped({ host, port: Number(address.slice(colon + 1)) });
    const name = nameOf(found);
    const known = this.#known(name) ?? this.#strangers.get(name);
    if (known && known.status !== "end") return known;
    const stranger = by.duplicate(found);
    this.#strangers.set(name, stranger);
    stranger.on("error", () => undefined);
    stranger.connect().catch(() => undefined);
    return stranger;
  }

  #mapped(address: Address): Address {
    const { natMap } = this.options;
    const name = nameOf(address);
    const mapped: unknown =
      typeof natMap === "function"
        ? (natMap as (name: string) => unknown)(name)
        : (natMap as Record<string, unknown>)?.[name];
    return (mapped as Address | undefined) ?? { host: address.host, port: address.port };
  }

  #endStranger(name: string): void {
    this.#strangers.get(name)?.disconnect();
    this.#strangers.delete(name);
  }

  #endStrangers(): void {
    for (const name of [...this.#strangers.keys()]) this.#endStranger(name);
  }
}

const nameOf = ({ host = "", port = 0 }: { host?: string; port?: number }): string => `${host}:${String(port)}`;
