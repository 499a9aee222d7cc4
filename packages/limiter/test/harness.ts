import type { RedisMode, TestRedis } from "@kit/testing";
import { clientsOf, type Login, nodeOf } from "@tooling/vitest/helpers";
import type { RedisNode } from "@kit/testing";
import type { Redis } from "ioredis";
import { createLimiter, type Limiter, type LimiterOptions, type Limits } from "../src/index.js";
import { type LimiterKeys, limiterKeys } from "../src/keys.js";

/** The limiter of a test. */
export const name = "logins";
/** A key that needs escaping. */
export const key = "2001:db8::1";

/** Slow limits: during a test no token flows back. */
export const hourMs = 3_600_000;
export const five: Limits = { hourly: { count: 5, perMs: hourMs } };

/** Keys that stay without expiry: limits that were set at run time. */
export const permanentKeys: readonly string[] = ["limiter:*:limits"];

/** A server as tests use it. */
export interface Fixture {
  /** A new client of the user whose limiters are tested, gone after the test. */
  connect: TestRedis<RedisMode>["connect"];
  /** A limiter on the shared client under the test's prefix, closed after the test. */
  make(limits?: Limits, options?: Partial<LimiterOptions>): Limiter;
  /** The same on a given client. */
  on(client: Parameters<typeof createLimiter>[0], limits?: Limits, options?: Partial<LimiterOptions>): Limiter;
  readonly keys: LimiterKeys;
  /** Commands for the keys; on a Cluster they are routed. */
  readonly db: Redis;
  /** The server process that serves a key. */
  nodeOf(key: string): Promise<RedisNode>;
}

/** With a `login` all objects run as that user; only the tests' own commands go over the shared client. */
export const fixtureOf = (redis: TestRedis<RedisMode>, login?: Login): Fixture => {
  const clients = clientsOf(redis, login);
  const on: Fixture["on"] = (client, limits = five, options = {}) => {
    const limiter = createLimiter(client, name, {
      limits,
      prefix: redis.prefix,
      deadlineMs: 10_000,
      rememberMs: 0,
      ...options,
    });
    redis.defer(() => limiter.close({ timeoutMs: 0 }));
    return limiter;
  };
  return {
    connect: clients.connect,
    make: (limits, options) => on(clients.shared(), limits, options),
    on,
    get keys() {
      return limiterKeys(redis.prefix, name);
    },
    get db() {
      // A Cluster has the same commands.
      return redis.client as Redis;
    },
    nodeOf: (own) => nodeOf(redis.server.nodes, own),
  };
};

/** Makes `count` calls, and returns how many were allowed. */
export const allowedOf = async (limiter: Limiter, count: number, of = key, tokens = 1): Promise<number> => {
  const decisions = await Promise.all(Array.from({ length: count }, () => limiter.consume(of, { tokens })));
  return decisions.filter(({ allowed }) => allowed).length;
};

/** Makes a state older, as if this much time had passed since its last change. */
export const age = async (db: Redis, of: string, ms: number): Promise<void> => {
  const state = await db.get(of);
  if (state === null) return;
  const [layout, micros, ...rest] = state.split(" ");
  await db.set(of, [layout, String(Number(micros) - Math.round(ms * 1_000)), ...rest].join(" "), "KEEPTTL");
};
