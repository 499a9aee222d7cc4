import { connect, type Connection, KitError } from "@kit/core";
import { type NodeConnection, ServerNode } from "./node.js";

type Topology = "single" | "sentinel" | "cluster";

/** What the checks look at: a connection, and the processes behind it. */
export interface Server {
  /** How the address speaks of it. */
  readonly topology: Topology;
  readonly redis: Connection;
  /** The one server, or each master of the Cluster. */
  readonly nodes: readonly [ServerNode, ...ServerNode[]];
  readonly prefix: string;
  /** How long it took until the server answered. */
  readonly connectedMs: number;
  /** Why a Cluster cannot be used, although one of its nodes answers. */
  readonly trouble?: KitError;
}

const topologyOf = (url: string): Topology =>
  /^rediss?\+sentinel:/i.test(url) ? "sentinel" : /^rediss?\+cluster:/i.test(url) ? "cluster" : "single";

const connectionsOf = (redis: Connection): readonly NodeConnection[] => {
  const { nodes } = redis as unknown as { nodes?: (role: "master") => readonly NodeConnection[] };
  return nodes ? nodes.call(redis, "master") : [redis as unknown as NodeConnection];
};

/** @throws all that `connect()` throws. */
export const openServer = async (url: string, prefix: string): Promise<Server> => {
  const startedAt = performance.now();
  let redis: Connection;
  let trouble: KitError | undefined;
  try {
    redis = await connect({ url, connectionName: "kit-doctor" });
  } catch (error) {
    const node = KitError.is(error) && error.code === "KIT_UNAVAILABLE" ? await anyNode(url) : undefined;
    if (!node) throw error;
    redis = node;
    trouble = error as KitError;
  }
  const connectedMs = performance.now() - startedAt;
  const [first, ...others] = connectionsOf(redis).map((connection) => new ServerNode(connection));
  // A Cluster client is ready once it knows a master.
  if (!first) throw new Error("The Cluster has no master");
  return {
    topology: topologyOf(url),
    redis,
    nodes: [first, ...others],
    prefix,
    connectedMs,
    ...(trouble ? { trouble } : {}),
  };
};

/** How long each node of a Cluster may take that cannot be used as a whole. */
const nodeMs = 1_000;

/** A Cluster with a hole in it takes no client, but its nodes can say what is wrong. */
const anyNode = async (url: string): Promise<Connection | undefined> => {
  const {
    scheme,
    user = "",
    hosts,
  } = /^(?<scheme>rediss?)\+cluster:\/\/(?<user>[^@/]*@)?(?<hosts>[^/]+)/i.exec(url)?.groups ?? {};
  for (const host of (hosts ?? "").split(",").slice(0, 5))
    try {
      return await connect({
        url: `${scheme ?? ""}://${user}${host}`,
        deadlineMs: nodeMs,
        connectionName: "kit-doctor",
      });
    } catch {
      // The next one.
    }
  return undefined;
};
