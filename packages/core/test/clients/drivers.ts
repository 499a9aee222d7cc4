import type { EventEmitter } from "node:events";
import * as iovalkey from "iovalkey";
import * as ioredis6 from "ioredis";
import * as ioredis5 from "ioredis5";
import * as redis6 from "redis";
import * as redis5 from "redis5";
import type { RedisLike } from "../../src/index.js";
import { fromNodeRedis } from "../../src/node-redis/index.js";

/** A client as its owner made it, and as kit takes it. */
export interface Client {
  readonly redis: RedisLike;
  /** The object on which no listener of ours may stay. */
  readonly emitter: EventEmitter;
  select(db: number): Promise<unknown>;
  end(): unknown;
}

/** What a test changes of a client's settings. */
export interface ClientOptions {
  readonly host?: string;
  readonly port: number;
  readonly username?: string;
  readonly password?: string;
  readonly db?: number;
}

/** One library of clients, in one version. */
export interface Driver {
  readonly name: string;
  single(options: ClientOptions): Client;
}

const host = "127.0.0.1";

const ofIoredis = (name: string, { Redis }: Pick<typeof ioredis6, "Redis">): Driver => ({
  name,
  single: (options) => {
    // With its default, ioredis sends a command again whose reply was lost.
    const settings = { lazyConnect: true, disconnectTimeout: 50, retryStrategy: () => 20, maxRetriesPerRequest: 0 };
    const client = new Redis({ host, ...settings, ...options });
    return { redis: client, emitter: client, select: (db) => client.select(db), end: () => client.disconnect() };
  },
});

const ofNodeRedis = (name: string, { createClient }: Pick<typeof redis6, "createClient">, RESP: 2 | 3): Driver => ({
  name,
  single: ({ port, db, username, password, ...options }) => {
    const client = createClient({
      RESP,
      socket: { host, port, reconnectStrategy: 20, ...options },
      ...(db === undefined ? {} : { database: db }),
      ...(username === undefined ? {} : { username }),
      ...(password === undefined ? {} : { password }),
    });
    // Without one a lost connection would end the process.
    client.on("error", () => undefined);
    return {
      redis: fromNodeRedis(client),
      emitter: client as unknown as EventEmitter,
      select: (number) => client.select(number),
      end: () => client.isOpen && client.destroy(),
    };
  },
});

export const drivers: readonly Driver[] = [
  ofIoredis("ioredis 6", ioredis6),
  ofIoredis("ioredis 5", ioredis5 as unknown as typeof ioredis6),
  ofIoredis("iovalkey", iovalkey as unknown as typeof ioredis6),
  ofNodeRedis("node-redis 6", redis6, 3),
  ofNodeRedis("node-redis 6 with RESP2", redis6, 2),
  ofNodeRedis("node-redis 5", redis5 as unknown as typeof redis6, 2),
  ofNodeRedis("node-redis 5 with RESP3", redis5 as unknown as typeof redis6, 3),
];
