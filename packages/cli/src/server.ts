import { connect, type Connection, KitError } from "@kit/core";
import type { PackageDescriptor } from "@kit/core/toolkit";
import { type NodeConnection, ServerNode } from "./node.js";

type Topology = "single" | "sentinel" | "cluster";

/** The subject of the checks: a connection, and the processes behind it. */
export interface Server {
  /** The form of its address. */
  readonly topology: Topology;
  readonly redis: Connection;
  /** The single server, or each master of the Cluster. Masters that answered at the start come first. */
  readonly nodes: readonly [ServerNode, ...ServerNode[]];
  readonly prefix: string;
  /** The packages that are installed. */
  readonly packages: readonly PackageDescriptor[];
  /** Aborted when the result is not awaited any more. */
  readonly ended: AbortSignal;
  /** How long it took until the server answered. */
  readonly connectedMs: number;
  /** Why a Cluster cannot be used, although one of its nodes answers. */
  readonly trouble?: KitError;
}

const topologyOf = (url: string): Topology =>
  /^rediss?\+sentinel:/i.test(url) ? "sentinel" : /^rediss?\+cluster:/i.test(url) ? "cluster" : "single";

export const connectionsOf = (redis: Connection): readonly NodeConnection[] => {
  const { nodes } = redis as unknown as { nodes?: (role: "master") => readonly NodeConnection[] };
  return nodes ? nodes.call(redis, "master") : [redis as unknown as NodeConnection];
};

/** Each master that the Cluster lists, after a first PING. The client itself drops masters that it cannot reach. */
const mastersOf = async (known: readonly ServerNode[]): Promise<readonly ServerNode[]> => {
  await Promise.all(known.map((node) => node.greet()));
  const nodes = [...known];
  const witness = known.find(({ silence }) => silence === undefined);
  const slots = witness ? await witness.call("CLUSTER", "SLOTS").catch(() => []) : [];
  for (const [, , master] of slots as [number, number, [host: string | null, port: number]][]) {
    // Without a host it is the node that replied.
    const host = master[0] || (witness?.host ?? "");
    const port = master[1];
    if (witness && !nodes.some((node) => node.host === host && node.port === port))
      nodes.push(new ServerNode(witness.another({ host, port, lazyConnect: false, enableOfflineQueue: true })));
  }
  await Promise.all(nodes.slice(known.length).map((node) => node.greet()));
  return nodes;
};

/** The target of the doctor. */
export interface Examined {
  readonly url: string;
  readonly prefix: string;
  readonly packages: readonly PackageDescriptor[];
}

/** A replica refuses the writes of a check, and is checked nevertheless. */
const options = { reconnectOnError: () => false };

/** @throws all that `connect()` throws. */
export const openServer = async ({ url, prefix, packages }: Examined, ended: AbortSignal): Promise<Server> => {
  const startedAt = performance.now();
  let redis: Connection;
  let trouble: KitError | undefined;
  try {
    redis = await connect({ url, connectionName: "kit-doctor", options });
  } catch (error) {
    if (!KitError.is(error) || error.code !== "KIT_UNAVAILABLE") throw error;
    const node = await anyNode(url);
    if (!node) throw error;
    redis = node;
    trouble = error;
  }
  const connectedMs = performance.now() - startedAt;
  const known = connectionsOf(redis).map((connection) => new ServerNode(connection));
  const topology = topologyOf(url);
  const all = topology === "cluster" ? await mastersOf(known) : known;
  const [first, ...others] = all.toSorted((a, b) => Number(a.silence !== undefined) - Number(b.silence !== undefined));
  // A Cluster client is ready once it has a master.
  if (!first) throw new Error("The Cluster has no master");
  return {
    topology,
    redis,
    nodes: [first, ...others],
    prefix,
    packages,
    ended,
    connectedMs,
    ...(trouble ? { trouble } : {}),
  };
};

/** How long each node of a broken Cluster may take. */
const nodeMs = 1_000;

/** A Cluster with unserved slots accepts no client, but its nodes can report the fault. */
const anyNode = async (url: string): Promise<Connection | undefined> => {
  const {
    scheme,
    user = "",
    hosts,
  } = /^(?<scheme>rediss?)\+cluster:\/\/(?<user>[^@/]*@)?(?<hosts>[^/]+)/i.exec(url)?.groups ?? {};
  // All at the same time, since each silent node takes its full time.
  const tries = (hosts ?? "")
    .split(",")
    .map((host) =>
      connect({ url: `${scheme ?? ""}://${user}${host}`, deadlineMs: nodeMs, connectionName: "kit-doctor", options }),
    );
  const any = await Promise.any(tries).catch(() => undefined);
  for (const attempt of tries)
    void attempt.then(
      (connection) => connection !== any && connection.disconnect(),
      () => undefined,
    );
  return any;
};
