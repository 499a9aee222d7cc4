import type { RedisLike } from "@kit/core";

/** The clients of Redis on which benches and faults run our packages. */
export const clientNames = ["ioredis", "node-redis"] as const;

export type ClientName = (typeof clientNames)[number];

export const isClientName = (name: string): name is ClientName => (clientNames as readonly string[]).includes(name);

/** A client of node-redis, as our packages take it. */
export type NodeRedisConnection = RedisLike & {
  close(): Promise<void>;
  /** Has the server end the connection to a single server; node-redis makes another. */
  leave(): Promise<void>;
};

interface Settings {
  /** In `CLIENT LIST`. */
  readonly name?: string;
  /** How long to wait for the first answer. */
  readonly deadlineMs?: number;
}

/**
 * Connects by an address as `connect()` of `@kit/core` takes it: of a server, of Sentinels, or of a Cluster. `close()` ends the
 * connection at once.
 *
 * @throws {Error} no server has answered in time.
 */
export const connectNodeRedis = async (url: string, settings: Settings = {}): Promise<NodeRedisConnection> => {
  const { fromNodeRedis } = await import("@kit/core/node-redis");
  const client = await clientOf(url, settings);
  const redis = fromNodeRedis(client);
  // It connects again by itself.
  client.on("error", () => undefined);
  const close = async (): Promise<void> => {
    if (client.isOpen) await client.destroy();
  };
  const { deadlineMs = 10_000 } = settings;
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`No server has answered in ${String(deadlineMs)} ms`)), deadlineMs);
  });
  try {
    await Promise.race([client.connect(), late]);
  } catch (error) {
    await close();
    throw error;
  } finally {
    clearTimeout(timer);
  }
  let left = -1;
  const leave = async (): Promise<void> => {
    if (!("socketEpoch" in client) || !client.isReady || left === client.socketEpoch) return;
    left = client.socketEpoch;
    const id = client.sendCommand(["CLIENT", "ID"]);
    // The reply to the second is lost with the connection.
    await id
      .then((own) => client.sendCommand(["CLIENT", "KILL", "ID", JSON.stringify(own), "SKIPME", "no"]))
      .catch(() => undefined);
  };
  return Object.assign(redis, { close, leave });
};

const clientOf = async (url: string, { name = "lab" }: Settings) => {
  const { createClient, createCluster, createSentinel } = await import("redis");
  const [, kind, hosts = "", path = ""] = /^redis\+(sentinel|cluster):\/\/([^/]*)\/?(.*)$/.exec(url) ?? [];
  const addresses = hosts.split(",").map((address) => {
    const [host = "", port = ""] = address.split(":");
    return { host, port: Number(port) };
  });
  if (kind === "cluster")
    return createCluster({ rootNodes: addresses.map((socket) => ({ socket })), defaults: { name } });
  if (kind === "sentinel")
    return createSentinel({ name: path, sentinelRootNodes: addresses, nodeClientOptions: { name } });
  return createClient({ url, name });
};

interface NodeRedisMethods {
  sendCommand(args: readonly unknown[], ...more: unknown[]): Promise<unknown>;
  subscribe(channels: unknown, listener: (message: string, channel: string) => unknown, ...more: unknown[]): unknown;
}

/** The object that has the methods of all clients of node-redis for one server, those of a Cluster included. They may be wrapped. */
export const nodeRedisMethods = async (): Promise<NodeRedisMethods> => {
  const { createClient } = await import("redis");
  let methods = createClient() as object;
  while (!Object.hasOwn(methods, "sendCommand")) methods = Object.getPrototypeOf(methods) as object;
  return methods as NodeRedisMethods;
};
