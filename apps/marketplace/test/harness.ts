import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { connect, type Connection } from "@kit/core";
import { createLock, type Lock } from "@kit/lock";
import { type RedisServer, startRedis } from "@kit/testing";
import { afterAll, beforeAll } from "vitest";
import type { MarketKeys } from "../src/common/keys.js";
import { Market } from "../src/market/market.js";
import { openMarket, type SeedItem, type SeedUser, type World } from "../src/seed/index.js";
import type { WorkerTask } from "./worker.js";

export interface MarketFixture {
  readonly server: RedisServer;
  readonly redis: Connection;
  readonly lock: Lock;
  /** A market of its own, filled with `world`. */
  open(world: World, lifeMs?: number): Promise<Market>;
}

/** One real server per test file, and as many markets on it as the tests want. */
export const useMarkets = (): MarketFixture => {
  let server: RedisServer;
  let redis: Connection;
  let lock: Lock;
  let count = 0;
  beforeAll(async () => {
    server = await startRedis();
    redis = await connect(server.url);
    lock = createLock(redis);
  });
  afterAll(async () => {
    // One that a failed test left behind; it may be stopped.
    for (const worker of workers) worker.kill("SIGKILL");
    await lock.close();
    await redis.close();
    await server.stop();
  });
  return {
    get server() {
      return server;
    },
    get redis() {
      return redis;
    },
    get lock() {
      return lock;
    },
    open: async (world, lifeMs = 0) => {
      const market = new Market(redis, lock, `t${++count}`, lifeMs);
      await openMarket(redis, market.keys, world, lifeMs);
      return market;
    },
  };
};

export const person = (id: string, funds = 1_000): SeedUser => ({ id, name: `Name of ${id}`, funds, isSeller: false });

export const thing = (id: string, owner: string, price: number | null = 500): SeedItem => ({
  id,
  title: `Title of ${id}`,
  category: "books",
  owner,
  price,
});

/** Every key of a market with its content, except times and the way, which always differ. */
export const dump = async (redis: Connection, keys: MarketKeys): Promise<Record<string, unknown>> => {
  const tag = keys.totals.replace(/totals$/, "");
  const content: Record<string, unknown> = {};
  for (const key of (await redis.keys(`${tag}*`)).sort()) {
    const type = await redis.type(key);
    const name = key.slice(tag.length);
    if (type === "hash") content[name] = await redis.hgetall(key);
    if (type === "set") content[name] = (await redis.smembers(key)).sort();
    if (type === "zset") content[name] = await redis.zrange(key, "0", "-1", "WITHSCORES");
    if (type === "string") content[name] = await redis.get(key);
    if (type === "list") content[name] = await redis.lrange(key, 0, -1);
    if (type === "stream") content[name] = (await redis.xrange(key, "-", "+")).map(([, fields]) => fields);
  }
  return content;
};

const workers = new Set<ChildProcess>();

/** Starts a process of its own with a task; see worker.ts for what it answers. */
export const startWorker = (task: WorkerTask): ChildProcess => {
  const worker = fork(new URL("../node_modules/.test/worker.js", import.meta.url), {
    stdio: ["ignore", "ignore", "inherit", "ipc"],
  });
  workers.add(worker);
  worker.once("exit", () => workers.delete(worker));
  worker.send(task);
  return worker;
};

/** The next message of a worker; rejects if it ends without one. */
export const heard = async <T>(worker: ChildProcess): Promise<T> => {
  const gone = new AbortController();
  // Not its exit, which may be seen before its last message.
  const ended = once(worker, "disconnect", { signal: gone.signal }).then(() => {
    throw new Error("the worker ended without a message");
  });
  try {
    const [message] = (await Promise.race([once(worker, "message"), ended])) as [T];
    return message;
  } finally {
    gone.abort();
    ended.catch(() => undefined);
  }
};
