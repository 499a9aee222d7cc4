import { once } from "node:events";
import { type RedisServer, eventually, startRedis } from "@kit/testing";
import { Redis } from "ioredis";
import { afterAll, afterEach, beforeAll, beforeEach } from "vitest";
import { RequestProxy } from "../src/request-proxy.js";

/** One server per file, and per test a key prefix and the clients it opened. */
export interface Harness {
  /** Unique per test. */
  readonly prefix: string;
  /** Opens a connection, which is closed after the test. A lost connection stays lost, like that of a crashed process. */
  connect(): Promise<Redis>;
  connectMany(count: number): Promise<Redis[]>;
  /** Opens a connection behind a proxy that counts requests from here on. */
  connectThroughProxy(): Promise<{ redis: Redis; proxy: RequestProxy }>;
}

export function useClassic(): Harness {
  let server: RedisServer;
  let tests = 0;
  let prefix = "";
  const clients: Redis[] = [];
  const gates: RequestProxy[] = [];

  beforeAll(async () => {
    server = await startRedis();
  });
  afterAll(async () => {
    await server.stop();
  });
  beforeEach(() => {
    tests += 1;
    prefix = `t${tests}:`;
  });
  afterEach(async () => {
    for (const client of clients.splice(0)) client.disconnect();
    for (const proxy of gates.splice(0)) await proxy[Symbol.asyncDispose]();
  });

  const open = async (url: string): Promise<Redis> => {
    const redis = new Redis(url, { retryStrategy: () => null });
    // Without a listener ioredis prints the error. The failed call rejects in any case.
    redis.on("error", () => undefined);
    clients.push(redis);
    await once(redis, "ready");
    return redis;
  };
  const connect = (): Promise<Redis> => open(server.url);

  return {
    get prefix() {
      return prefix;
    },
    connect,
    connectMany: (count) => Promise.all(Array.from({ length: count }, connect)),
    async connectThroughProxy() {
      const proxy = await RequestProxy.open(server.nodes[0]!.port);
      gates.push(proxy);
      const redis = await open(proxy.url);
      await redis.ping();
      proxy.reset();
      return { redis, proxy };
    },
  };
}

/** Makes `key` expire now. */
export async function lapse(redis: Redis, key: string): Promise<void> {
  if ((await redis.pexpire(key, 1)) !== 1) throw new Error(`there is no ${key} to expire`);
  await eventually(async () => {
    if ((await redis.exists(key)) === 1) throw new Error(`${key} has not expired`);
  });
}

/** The number of times that the server has run `command`. */
export async function calls(redis: Redis, command: string): Promise<number> {
  const stats = await redis.info("commandstats");
  return Number(new RegExp(`cmdstat_${command}:calls=(\\d+)`).exec(stats)?.[1] ?? 0);
}
