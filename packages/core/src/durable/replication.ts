import type { RedisLike } from "../index.js";
import { type ClientContext, traced } from "../toolkit/index.js";
import { numberOf, type ReplicationState } from "./info.js";
import { masterOf, type ReportOptions, type Seen, survey } from "./survey.js";

/** How one node takes part in replication, as plain data. */
export interface NodeReplication {
  /** `host:port`, as its neighbors or the client name it. */
  readonly address: string;
  /** Why the node could not be read. All fields below are then undefined. */
  readonly error: string | undefined;
  readonly role: "master" | "replica" | undefined;
  /** For a replica: whether its link to its master is up, down, or doing a full resync. */
  readonly link: "up" | "down" | "syncing" | undefined;
  /**
   * For a replica: the time since its master last sent anything, in whole seconds as milliseconds. An idle master sends a PING
   * every 10 s.
   */
  readonly lagMs: number | undefined;
  /** For a replica whose link is down: how long it has been down, in milliseconds. */
  readonly linkDownMs: number | undefined;
  /** For a replica: the server it replicates from, `host:port`. That server may itself be a replica. */
  readonly master: string | undefined;
  /** The number of links to the master: 0 for a master itself. Undefined if the chain is broken. */
  readonly depth: number | undefined;
  /** The node's offset in its history, in bytes. */
  readonly offset: number | undefined;
  /** For a replica: how many bytes its master was ahead. kit reads the two servers one after the other. */
  readonly behindBytes: number | undefined;
  /** The history in which the offset counts. Nodes with different histories cannot be compared. */
  readonly replid: string | undefined;
  /** The replicas that get their data from this node. */
  readonly replicas: readonly AttachedReplica[] | undefined;
}

/** A replica as its source server sees it. */
export interface AttachedReplica {
  /** `host:port`. */
  readonly address: string;
  /** `online`, or a stage of the first transfer. */
  readonly state: string;
  /** The time since the replica's last acknowledgement, in whole seconds as milliseconds. A replica sends one every second. */
  readonly lagMs: number;
  /** Its acknowledged offset, in bytes. */
  readonly offset: number;
  /** How many bytes the replica had not acknowledged. */
  readonly behindBytes: number;
}

/**
 * Reports how all servers replicate from each other: the master that the client uses, its replicas, and their replicas. On a
 * Cluster it covers all nodes. It visits up to 100 nodes. A node that does not answer has an `error` in its row, and the call still
 * resolves. Outside a Cluster, the report does not include replicas that are not connected to their master.
 *
 * @example
 * for (const { address, role, link, behindBytes } of await replicationReport(redis)) console.log(address, role, link, behindBytes);
 */
export const replicationReport = async (
  redis: RedisLike | ClientContext,
  options: ReportOptions = {},
): Promise<NodeReplication[]> =>
  await traced(
    "core.replicationReport",
    () => ({}),
    async () => {
      const seen = await survey(redis, options, () => Promise.resolve(undefined));
      const rows = new Map(seen.map((node) => [node.address, rowOf(node, seen)]));
      return [...rows.values()].map((row) => ({ ...row, depth: depthOf(row, rows) }));
    },
  );

type Row = Omit<NodeReplication, "depth">;

const nothing: Omit<Row, "address" | "error"> = {
  role: undefined,
  link: undefined,
  lagMs: undefined,
  linkDownMs: undefined,
  master: undefined,
  offset: undefined,
  behindBytes: undefined,
  replid: undefined,
  replicas: undefined,
};

const rowOf = ({ address, error, replication }: Seen<undefined>, all: readonly Seen<undefined>[]): Row => {
  if (!replication) return { ...nothing, address, error };
  const { role, replid, offset, fields } = replication;
  const source = masterOf(replication);
  const master = source && `${source.host}:${String(source.port)}`;
  const ahead =
    all.find((other) => other.address === master)?.replication ??
    all.find((other) => feeds(other, address))?.replication;
  const seconds = numberOf(fields.get("master_last_io_seconds_ago"));
  const down = numberOf(fields.get("master_link_down_since_seconds"));
  return {
    ...nothing,
    address,
    error,
    role,
    link: role === "replica" ? linkOf(fields) : undefined,
    lagMs: seconds === undefined || seconds < 0 ? undefined : seconds * 1_000,
    linkDownMs: down === undefined || down < 0 ? undefined : down * 1_000,
    master,
    offset,
    behindBytes: role === "replica" && ahead?.replid === replid ? Math.max(0, headOf(ahead) - offset) : undefined,
    replid,
    replicas: replication.replicas.map(({ host, port, state, lagSeconds, offset: acknowledged }) => ({
      address: `${host}:${String(port)}`,
      state,
      lagMs: lagSeconds * 1_000,
      offset: acknowledged,
      behindBytes: Math.max(0, headOf(replication) - acknowledged),
    })),
  };
};

/** The offset of the data that a server passes on. A replica counts in its master's offsets. */
const headOf = ({ offset, fields }: ReplicationState): number => numberOf(fields.get("master_repl_offset")) ?? offset;

/** Whether a node is a replica of another. The master may have another address here, for example behind a proxy. */
const feeds = ({ replication }: Seen<undefined>, address: string): boolean =>
  replication?.replicas.some(({ host, port }) => `${host}:${String(port)}` === address) ?? false;

const linkOf = (fields: ReadonlyMap<string, string>): "up" | "down" | "syncing" => {
  if (fields.get("master_sync_in_progress") === "1") return "syncing";
  return fields.get("master_link_status") === "up" ? "up" : "down";
};

const depthOf = (row: Row, rows: ReadonlyMap<string, Row>): number | undefined => {
  let depth = 0;
  for (let at: Row | undefined = row; at && depth <= rows.size; depth++) {
    if (at.role === "master") return depth;
    const { address, master }: Row = at;
    at =
      rows.get(master ?? "") ??
      [...rows.values()].find(({ replicas }) => replicas?.some((attached) => attached.address === address));
  }
  return undefined;
};
