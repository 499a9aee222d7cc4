import type { EventEmitter } from "node:events";
import * as iovalkey from "iovalkey";
import * as ioredis6 from "ioredis";
import * as ioredis5 from "ioredis5";
import * as redis6 from "redis";
import * as redis5 from "redis5";
import type { RedisLike } from "../../src/index.js";
import { fromNodeRedis } from "../../src/node-redis/index.js";
import type { Secure } from "../tls-servers.js";

/** A client as its owner made it, and as kit takes it. */
export interface Client {
  readonly redis: RedisLike;
  /** The object on which no listener of ours may stay. */
  readonly emitter: EventEmitter;
  select(db: number): Promise<unknown>;
  end(): unknown;
}

interface Address {
  readonly host: string;
  readonly port: number;
}

/** The settings of a client that a test changes. */
export interface ClientOptions {
  readonly port: number;
  readonly username?: string;
  readonly password?: string;
  readonly db?: number;
  /** How long the socket may be silent, in milliseconds. */
  readonly socketTimeout?: number;
  readonly secure?: Secure;
}

/** The settings of a Cluster client that a test changes. */
interface ClusterOptions {
  readonly natMap: Record<string, Address>;
  readonly secure: Secure;
}

/** One library of clients, in one version. */
export interface Driver {
  readonly name: string;
  single(options: ClientOptions): Client;
  cluster(nodes: readonly Address[], options?: ClusterOptions): Client;
  sentinel(sentinels: readonly Address[], name: string): Client;
}

const host = "127.0.0.1";
const again = (): number => 20;
const addresses = (nodes: readonly Address[]): Address[] => nodes.map((node) => ({ host: node.host, port: node.port }));
const noSelect = (): Promise<never> => Promise.reject(new Error("Only a single client has databases"));

const ofIoredis = (name: string, library: unknown): Driver => {
  const { Cluster, Redis } = library as Pick<typeof ioredis6, "Cluster" | "Redis">;
  // With its default, ioredis sends a command again whose reply was lost.
  const settings = { disconnectTimeout: 50, retryStrategy: again, maxRetriesPerRequest: 0 };
  const client = (made: ioredis6.Redis | ioredis6.Cluster): Client => {
    // Without one ioredis prints.
    made.on("error", () => undefined);
    return { redis: made, emitter: made, select: (db) => made.select(db), end: () => made.disconnect() };
  };
  return {
    name,
    single: ({ secure, ...options }) =>
      client(new Redis({ host, lazyConnect: true, ...settings, ...options, ...(secure && { tls: secure }) })),
    cluster: (nodes, { natMap, secure }: Partial<ClusterOptions> = {}) => {
      const redisOptions = { ...settings, ...(secure && { tls: secure }) };
      // Else it connects to addresses, for which no certificate is.
      const byName = {
        natMap,
        dnsLookup: (name: string, found: (error: null, name: string) => void) => found(null, name),
      };
      const options = { lazyConnect: true, clusterRetryStrategy: again, redisOptions, ...(natMap && byName) };
      return client(new Cluster(addresses(nodes), options));
    },
    sentinel: (sentinels, master) =>
      client(
        new Redis({
          lazyConnect: true,
          sentinels: addresses(sentinels),
          name: master,
          sentinelRetryStrategy: again,
          // Else it stays with a master that was replaced while it was silent.
          reconnectOnError: (error) => error.message.includes("READONLY"),
          ...settings,
        }),
      ),
  };
};

interface Raw extends EventEmitter {
  readonly isOpen: boolean;
  destroy(): unknown;
}

const ofNodeRedis = (name: string, library: unknown, RESP: 2 | 3): Driver => {
  const { createClient, createCluster, createSentinel } = library as typeof redis6;
  const client = (made: Parameters<typeof fromNodeRedis>[0], select: Client["select"] = noSelect): Client => {
    const emitter = made as unknown as Raw;
    // Without one a lost connection would end the process.
    emitter.on("error", () => undefined);
    return { redis: fromNodeRedis(made), emitter, select, end: () => emitter.isOpen && emitter.destroy() };
  };
  const socket = { reconnectStrategy: 20 };
  return {
    name,
    single: ({ port, db, username, password, socketTimeout, secure }) => {
      const made = createClient({
        RESP,
        socket: {
          ...socket,
          host,
          port,
          ...(socketTimeout === undefined ? {} : { socketTimeout }),
          ...(secure && { tls: true, ...secure }),
        },
        ...(db === undefined ? {} : { database: db }),
        ...(username === undefined ? {} : { username }),
        ...(password === undefined ? {} : { password }),
      });
      return client(made, (number) => made.select(number));
    },
    cluster: (nodes, { natMap, secure }: Partial<ClusterOptions> = {}) =>
      client(
        createCluster({
          RESP,
          rootNodes: addresses(nodes).map((node) => ({ socket: node })),
          defaults: {
            socket: { ...socket, ...(secure && { tls: true, ...secure }) },
            // With RESP3 version 6 looks names up without `lookup`, to tell the server whether it may send notices of another address.
            ...(secure && { maintNotifications: "disabled" as const }),
          },
          ...(natMap && { nodeAddressMap: natMap }),
        }),
      ),
    sentinel: (sentinels, master) =>
      client(
        createSentinel({ RESP, name: master, sentinelRootNodes: addresses(sentinels), nodeClientOptions: { socket } }),
      ),
  };
};

const iovalkeys = ofIoredis("iovalkey", iovalkey);
const [ioredis, older] = [ofIoredis("ioredis 6", ioredis6), ofIoredis("ioredis 5", ioredis5)];
const [nodeRedis, olderNodeRedis] = [ofNodeRedis("node-redis 6", redis6, 3), ofNodeRedis("node-redis 5", redis5, 2)];

/** Each library, and node-redis with the protocol that is not its default. */
export const drivers: readonly Driver[] = [
  ioredis,
  older,
  iovalkeys,
  nodeRedis,
  ofNodeRedis("node-redis 6 with RESP2", redis6, 2),
  olderNodeRedis,
  ofNodeRedis("node-redis 5 with RESP3", redis5, 3),
];

/** Each once, where a test takes longer. */
export const libraries: readonly Driver[] = [ioredis, iovalkeys, nodeRedis, olderNodeRedis];

/** Where a test takes many seconds: ioredis has failovers of its own, and iovalkey is the same code. */
export const nodeRedisOnly: readonly Driver[] = [nodeRedis, olderNodeRedis];
