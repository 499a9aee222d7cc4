import { once } from "node:events";
import { type RedisServer, eventually, startRedis } from "@kit/testing";
import { Redis } from "ioredis";
import { afterAll, afterEach, beforeAll, beforeEach } from "vitest";
import { RequestProxy } from "../src/request-proxy.js";

/** One server per file, and per test a key prefix and the clients it opened. */
export interface Harness {
  /** Unique per test. */
  readonly prefix: string;
  /** A connection of its own, closed after the test; a lost connection stays lost, as that of a crashed process. */
  connect(): Promise<Redis>;
  connectMany(count: number): Promise<Redis[]>;
  /** The same behind a proxy that counts from here on. */
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
    // ioredis prints an error nobody listens to; the call that failed rejects anyway.
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

/** Makes the time limit of `key` run out now. */
export async function lapse(redis: Redis, key: string): Promise<void> {
  if ((await redis.pexpire(key, 1)) !== 1) throw new Error(`${key} is not there to lapse`);
  await eventually(async () => {
    if ((await redis.exists(key)) === 1) throw new Error(`${key} is still there`);
  });
}

/** How often the server ran `command` so far. */
export async function calls(redis: Redis, command: string): Promise<number> {
  const stats = await redis.info("commandstats");
  return Number(new RegExp(`cmdstat_${command}:calls=(\\d+)`).exec(stats)?.[1] ?? 0);
}
