import type { RedisLike } from "../index.js";
import type { Address } from "../kernel/index.js";
import {
  clusterMembers,
  Deadline,
  type ExclusiveConnection,
  infoFields,
  integer,
  resolve,
  type RulesOf,
  reading,
  type ClientContext,
  withContext,
} from "../toolkit/index.js";
import { say } from "./connection.js";
import { type ReplicationState, replicationStateOf } from "./info.js";

/** How to make a report. */
export interface ReportOptions {
  /**
   * The maximum time of the call, in milliseconds. A node that has not answered by then has an `error` in its row.
   *
   * @default 2000
   */
  readonly deadlineMs?: number | undefined;
}

const reportRules = { deadlineMs: integer(1, undefined, 2_000) } satisfies RulesOf<ReportOptions>;

/** The findings about one node, or the reason why there are none. */
export interface Seen<T> {
  readonly address: string;
  readonly error: string | undefined;
  readonly replication: ReplicationState | undefined;
  readonly info: ReadonlyMap<string, string>;
  readonly more: T | undefined;
}

/** The commands of a report beyond INFO. */
type Question<T> = (connection: ExclusiveConnection, deadline: Deadline) => Promise<T>;

/** The maximum number of nodes to visit. Further nodes are left out. */
const maxNodes = 100;

/** A node's share of the time, so that a silent node leaves time for the others. */
const nodeShare = 0.4;

/** Visits the client's node, its master, its replicas and their replicas, or all nodes of the Cluster. */
export const survey = async <T>(
  redis: RedisLike | ClientContext,
  options: ReportOptions,
  ask: Question<T>,
): Promise<Seen<T>[]> => {
  const { deadlineMs } = resolve("options", options, reportRules);
  return await withContext(redis, (context) => new Survey(context, Deadline.in(deadlineMs), deadlineMs, ask).run());
};

class Survey<T> {
  readonly #context: ClientContext;
  readonly #deadline: Deadline;
  readonly #shareMs: number;
  readonly #ask: Question<T>;
  readonly #known = new Set<string>();
  readonly #runs = new Set<string>();
  readonly #found: Seen<T>[] = [];

  constructor(context: ClientContext, deadline: Deadline, deadlineMs: number, ask: Question<T>) {
    this.#context = context;
    this.#deadline = deadline;
    this.#shareMs = Math.max(1, deadlineMs * nodeShare);
    this.#ask = ask;
  }

  async run(): Promise<Seen<T>[]> {
    const nodes = await this.#clusterNodes();
    const first = nodes.length === 0 ? await this.#visit(undefined) : undefined;
    await this.#visitAll([...nodes, ...(first ? neighboursOf(first) : [])]);
    return this.#found;
  }

  async #visitAll(addresses: readonly Address[]): Promise<void> {
    const fresh = addresses.filter(({ host, port }) => {
      const name = `${host}:${String(port)}`;
      if (this.#known.has(name) || this.#known.size >= maxNodes || !(port > 0)) return false;
      this.#known.add(name);
      return true;
    });
    const states = await Promise.all(fresh.map((address) => this.#visit(address)));
    const next = states.flatMap((replication) => (replication ? neighboursOf(replication) : []));
    if (next.length > 0) await this.#visitAll(next);
  }

  /** The first visit has no address: it uses the client's server. */
  async #visit(node: Address | undefined): Promise<ReplicationState | undefined> {
    const deadline = Deadline.in(Math.min(this.#shareMs, Math.max(1, this.#deadline.remainingMs)));
    let address = node ? `${node.host}:${String(node.port)}` : "the server";
    try {
      const connection = await this.#connect(node, deadline);
      try {
        // Behind Sentinels, the address is known only after the connection is open.
        const text = await replyTo(connection, "INFO", [], deadline).finally(() => {
          if (!node) address = connection.address;
        });
        this.#known.add(address);
        const info = infoFields(text);
        const run = info.get("run_id") ?? address;
        if (this.#runs.has(run)) return undefined;
        this.#runs.add(run);
        const replication = replicationStateOf(text);
        const more = await this.#ask(connection, deadline);
        this.#found.push({ address, error: undefined, replication, info, more });
        return replication;
      } finally {
        connection.returnToPool(false);
      }
    } catch (error) {
      const { message } = error as Error;
      this.#found.push({ address, error: message, replication: undefined, info: new Map(), more: undefined });
      return undefined;
    }
  }

  async #connect(node: Address | undefined, deadline: Deadline): Promise<ExclusiveConnection> {
    const pool = this.#context.pool("report");
    if (node) return await pool.checkOutNode(node, deadline, undefined);
    await this.#context.executor.ready(reading("The report", deadline));
    return await pool.checkOut("", deadline, undefined);
  }

  async #clusterNodes(): Promise<Address[]> {
    const isCluster = await this.#context.isCluster(Math.max(1, this.#deadline.remainingMs)).catch(() => false);
    if (!isCluster) return [];
    const call = reading("CLUSTER NODES", this.#deadline);
    const text = String(await this.#context.executor.run("CLUSTER", ["NODES"], call).catch(() => ""));
    return clusterMembers(text).filter(({ host, port }) => host !== "" && port > 0);
  }
}

export const replyTo = async (
  connection: ExclusiveConnection,
  command: string,
  args: readonly string[],
  deadline: Deadline,
): Promise<unknown> => {
  const said = await say(connection, command, args, deadline);
  if ("reply" in said) return said.reply;
  throw "refusal" in said ? said.refusal : said.lost;
};

/** The server from which a replica gets its data. */
export const masterOf = ({ fields }: ReplicationState): Address | undefined => {
  const host = fields.get("master_host");
  return host === undefined ? undefined : { host, port: Number(fields.get("master_port")) };
};

const neighboursOf = (replication: ReplicationState): Address[] => {
  const master = masterOf(replication);
  return [...(master ? [master] : []), ...replication.replicas];
};
