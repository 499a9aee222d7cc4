import { KitClosedError, type RedisArgument, type RedisLike } from "../index.js";
import { type Address, passes } from "../kernel/index.js";
import {
  assertConnections,
  Deadline,
  type ExclusiveConnection,
  integer,
  isReplyError,
  resolve,
  type RulesOf,
  reading,
  attach,
  type ClientContext,
  serverError,
  traced,
} from "../toolkit/index.js";
import { say, slotBehind, toReplica } from "./connection.js";
import { type ReplicationState, replicationStateOf } from "./info.js";

/** How stale an answer may be. */
export interface ReplicaReadsOptions {
  /**
   * The maximum staleness of an answer, in milliseconds. The answer includes every write that was acknowledged longer ago. With a
   * smaller value, the master answers more reads, and kit reads its offset more often: up to twice within this time.
   *
   * @default 1000
   */
  readonly maxStaleMs?: number | undefined;
  /**
   * The maximum time of each read, in milliseconds.
   *
   * @default 2000
   */
  readonly deadlineMs?: number | undefined;
}

const replicaReadsRules = {
  maxStaleMs: integer(1, undefined, 1_000),
  deadlineMs: integer(1, undefined, 2_000),
} satisfies RulesOf<ReplicaReadsOptions>;

/** The result of a read. */
export interface ReplicaRead {
  readonly value: unknown;
  /** `value` includes every write that is older than this many milliseconds; 0 for an answer from the master. */
  readonly staleMs: number;
  /** The server that answered: `host:port` of a replica, or `master`. */
  readonly from: string;
}

/** Reads from replicas. */
export interface ReplicaReads extends Disposable {
  /**
   * Runs one read-only command. Its first argument is its key, which selects the shard on a Cluster. If the user has no permission
   * for COMMAND INFO, kit accepts only the read commands of Redis' own data types.
   *
   * @throws {RangeError} the command may write.
   * @throws {KitUnavailableError} neither a replica that is fresh enough nor the master answered in time.
   * @throws {KitError} the server refused it, with its code.
   */
  call(command: string, ...args: [string, ...RedisArgument[]]): Promise<ReplicaRead>;
  /** Ends its connections. Reads in flight reject. */
  close(): void;
}

/**
 * Reads from replicas, with a limit on how stale each answer is.
 *
 * kit reads the master's replication offset at a known instant. A replica that has reached this offset has every earlier write. No
 * server's clock is involved. If no replica is fresh enough, the master answers. Each read costs two commands on a replica. Close
 * the object after use.
 *
 * @example
 * const near = replicaReads(redis, { maxStaleMs: 500 });
 * const { value, staleMs, from } = await near.call("GET", "price:lamp");
 * near.close();
 */
export const replicaReads = (redis: RedisLike, options: ReplicaReadsOptions = {}): ReplicaReads => {
  const { maxStaleMs, deadlineMs } = resolve("options", options, replicaReadsRules);
  // Without connections, it is unknown which server replies.
  assertConnections(redis);
  return new Reader(attach(redis), maxStaleMs, deadlineMs);
};

/** The master's replication offset at an instant on the local clock. */
interface Sample {
  readonly at: number;
  readonly replication: ReplicationState;
}

/** A master and its replicas. */
interface Shard {
  /** Newest first. A replica that lags is compared with an older sample. */
  samples: readonly Sample[];
  sampling: Promise<void> | undefined;
  turn: number;
}

const samplesKept = 8;

/** Commands that only read, on every server, whatever their arguments are. */
const plainReads =
  /^(get|mget|getrange|strlen|getbit|bitcount|bitpos|exists|type|p?ttl|p?expiretime|h(get|mget|getall|len|strlen|exists|keys|vals|scan|randfield)|lrange|llen|lindex|lpos|s(card|members|m?ismember|scan|randmember|inter|union|diff|intercard)|z(range|rangebyscore|rangebylex|revrange|revrangebyscore|revrangebylex|score|mscore|card|count|lexcount|rank|revrank|scan|randmember)|x(range|revrange|len)|geo(pos|dist|hash|search))$/;

/** A replica's share of the deadline. The rest is left for the master to answer. */
const firstShare = 0.5;

/** How long a replica that was silent or unreachable is not used, in milliseconds. */
const restMs = 1_000;

class Reader implements ReplicaReads {
  readonly #context: ClientContext;
  readonly #maxStaleMs: number;
  readonly #deadlineMs: number;
  readonly #shards = new Map<string, Shard>();
  /** On a Cluster: the known masters of slots with reads. */
  readonly #masters = new Map<number, string>();
  readonly #links = new Map<string, Promise<ExclusiveConnection>>();
  readonly #readonly = new Map<string, Promise<boolean>>();
  /** Until when a replica is not used. */
  readonly #resting = new Map<string, number>();
  #isClosed = false;

  constructor(context: ClientContext, maxStaleMs: number, deadlineMs: number) {
    this.#context = context;
    this.#maxStaleMs = maxStaleMs;
    this.#deadlineMs = deadlineMs;
  }

  call(command: string, ...args: [string, ...RedisArgument[]]): Promise<ReplicaRead> {
    const [key] = args;
    return traced(
      "core.replicaRead",
      () => ({ command, key }),
      () => this.#call(command, args, Deadline.in(this.#deadlineMs)),
    );
  }

  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    for (const [from, link] of this.#links) this.#drop(from, link);
    this.#context.detach();
  }

  [Symbol.dispose](): void {
    this.close();
  }

  async #call(command: string, args: [string, ...RedisArgument[]], deadline: Deadline): Promise<ReplicaRead> {
    if (this.#isClosed) throw new KitClosedError("The object for replica reads");
    if (!(await this.#onlyReads(command, deadline)))
      throw new RangeError(`You can only send commands that read, got ${command.slice(0, 40)}`);
    const shard = await this.#shardOf(args[0], deadline);
    const age = performance.now() - (shard.samples[0]?.at ?? -Infinity);
    const sampling = age > this.#maxStaleMs / 2 ? this.#sample(shard, args[0], deadline) : undefined;
    // While a known sample shows the age of replicas, no read waits for the master.
    if (age > this.#maxStaleMs) await sampling;
    return (
      (await this.#fromReplicas(shard, command, args, deadline)) ?? (await this.#fromMaster(command, args, deadline))
    );
  }

  /**
   * Whether a command only reads. COMMAND INFO is sent once per command. If it is forbidden, or does not include the command, only
   * the listed commands count as reads.
   */
  #onlyReads(command: string, deadline: Deadline): Promise<boolean> {
    const name = command.toLowerCase();
    let known = this.#readonly.get(name);
    if (!known) {
      const call = reading("COMMAND INFO", deadline);
      known = this.#context.executor.run("COMMAND", ["INFO", name], call).then(
        (reply) => {
          const flags = (reply as unknown[][])[0]?.[2];
          // A proxy may pass on commands that its COMMAND INFO does not know.
          return flags ? [...(flags as Iterable<unknown>)].map(String).includes("readonly") : plainReads.test(name);
        },
        (error: unknown) => {
          this.#readonly.delete(name);
          if (isReplyError(error)) return plainReads.test(name);
          throw error;
        },
      );
      this.#readonly.set(name, known);
    }
    return known;
  }

  async #shardOf(key: string, deadline: Deadline): Promise<Shard> {
    const name = (await this.#context.isCluster(deadline.remainingMs)) ? await this.#masterOf(key, deadline) : "";
    let shard = this.#shards.get(name);
    if (!shard) this.#shards.set(name, (shard = { samples: [], sampling: undefined, turn: 0 }));
    return shard;
  }

  async #masterOf(key: string, deadline: Deadline): Promise<string> {
    const slot = slotBehind(this.#context.client, key);
    let master = this.#masters.get(slot);
    if (master === undefined) {
      const connection = await this.#context.pool("masters").checkOut(key, deadline, undefined);
      this.#masters.set(slot, (master = connection.address));
      connection.returnToPool(true);
    }
    return master;
  }

  /** Makes the next read look up the slot's master again. */
  #forgetMaster(key: string): void {
    this.#masters.delete(slotBehind(this.#context.client, key));
  }

  /** Reads the master's offset. Concurrent calls share one read. On failure nothing changes. */
  #sample(shard: Shard, key: string, deadline: Deadline): Promise<void> {
    shard.sampling ??= this.#ask(shard, key, deadline)
      .catch(() => this.#forgetMaster(key))
      .finally(() => (shard.sampling = undefined));
    return shard.sampling;
  }

  async #ask(shard: Shard, key: string, deadline: Deadline): Promise<void> {
    const within = Deadline.in(deadline.remainingMs * firstShare);
    const connection = await this.#context.pool("masters").checkOut(key, within, undefined);
    let isClean = false;
    try {
      const at = performance.now();
      const said = await say(connection, "INFO", ["replication"], within);
      const replication = "reply" in said ? replicationStateOf(said.reply) : undefined;
      if (replication?.role !== "master") return this.#forgetMaster(key);
      isClean = true;
      shard.samples = [{ at, replication }, ...shard.samples].slice(0, samplesKept);
      this.#dropStrangers();
    } finally {
      connection.returnToPool(isClean);
    }
  }

  /** Drops connections to replicas that were removed, because each kept connection uses a place in the pool. */
  #dropStrangers(): void {
    const replicas = [...this.#shards.values()].flatMap(({ samples }) => samples[0]?.replication.replicas ?? []);
    const known = new Set(replicas.map(nameOf));
    for (const [from, link] of this.#links) if (!known.has(from)) this.#drop(from, link);
  }

  #drop(from: string, link: Promise<ExclusiveConnection>): void {
    // Another connection may have replaced it.
    if (this.#links.get(from) === link) this.#links.delete(from);
    link.then(
      (connection) => connection.returnToPool(false),
      () => undefined,
    );
  }

  async #fromReplicas(
    shard: Shard,
    command: string,
    args: readonly [string, ...RedisArgument[]],
    deadline: Deadline,
  ): Promise<ReplicaRead | undefined> {
    const online = shard.samples[0]?.replication.replicas.filter(({ state }) => state === "online") ?? [];
    // A reply that takes longer would be too stale.
    const within = Deadline.in(Math.min(deadline.remainingMs * firstShare, this.#maxStaleMs));
    const start = shard.turn++;
    for (let tries = 0; tries < online.length && within.remainingMs > 0; tries++) {
      const replica = online[(start + tries) % online.length];
      if (!replica) continue;
      const from = nameOf(replica);
      if ((this.#resting.get(from) ?? 0) > performance.now()) continue;
      const read = await this.#fromReplica(shard, replica, from, command, args, within);
      if (read) return read;
    }
    return undefined;
  }

  /** Undefined if the replica is too far behind, or does not reply. */
  async #fromReplica(
    shard: Shard,
    node: Address,
    from: string,
    command: string,
    args: readonly [string, ...RedisArgument[]],
    deadline: Deadline,
  ): Promise<ReplicaRead | undefined> {
    const link = this.#link(node, from, deadline);
    const connection = await link.catch(() => undefined);
    if (!connection) return this.#rest(from);
    // Keep this order: the value is then no older than the offset.
    const [about, said] = await Promise.all([
      say(connection, "INFO", ["replication"], deadline),
      say(connection, command, args, deadline),
    ]);
    const lost = [about, said].find((part) => "lost" in part);
    if (lost || !("reply" in about)) {
      this.#drop(from, link);
      return this.#rest(from);
    }
    const staleMs = staleness(shard.samples, replicationStateOf(about.reply));
    if ("refusal" in said) {
      if (said.refusal.code === "KIT_CLUSTER") this.#forgetMaster(args[0]);
      // Another node, or the same node later, may not fail in this way. READONLY: the command is not a read.
      if (passes(said.refusal) && said.refusal.code !== "KIT_READONLY") return undefined;
      throw said.refusal;
    }
    if (staleMs === undefined || staleMs > this.#maxStaleMs || !("reply" in said)) return undefined;
    return { value: said.reply, staleMs, from };
  }

  #rest(from: string): undefined {
    this.#resting.set(from, performance.now() + restMs);
  }

  #link(node: Address, from: string, deadline: Deadline): Promise<ExclusiveConnection> {
    let link = this.#links.get(from);
    if (!link) {
      link = this.#connect(node, deadline);
      this.#links.set(from, link);
      const own = link;
      own.catch(() => this.#drop(from, own));
    }
    return link;
  }

  async #connect(node: Address, deadline: Deadline): Promise<ExclusiveConnection> {
    const connection = await toReplica(this.#context, node, deadline);
    if (!this.#isClosed) return connection;
    connection.returnToPool(false);
    throw new KitClosedError("The object for replica reads");
  }

  async #fromMaster(command: string, args: readonly RedisArgument[], deadline: Deadline): Promise<ReplicaRead> {
    const call = reading(command, deadline);
    try {
      return { value: await this.#context.executor.run(command, args, call), staleMs: 0, from: "master" };
    } catch (error) {
      throw isReplyError(error) ? serverError(error, command) : error;
    }
  }
}

const nameOf = ({ host, port }: Address): string => `${host}:${String(port)}`;

/** How long ago the master's offset was no higher than this replica's offset is now. Undefined if no sample shows it. */
const staleness = (samples: readonly Sample[], replica: ReplicationState): number | undefined => {
  const reached = samples.find(
    ({ replication }) => replication.replid === replica.replid && replication.offset <= replica.offset,
  );
  return reached && performance.now() - reached.at;
};
