import type { RedisMode, TestRedis } from "@kit/testing";
import { clientsOf, type Login, Peer } from "@tooling/vitest/helpers";
import type { Redis } from "ioredis";
import { createStats, type DropReason, type Stats, type StatsOptions } from "../src/index.js";
import { type LogKeys, logKeys, type SeriesKeys, seriesKeys } from "../src/store/keys.js";

/** A server as tests of statistics use it. */
export interface Fixture {
  /** A new client of the user whose objects are tested, gone after the test. */
  connect: TestRedis<RedisMode>["connect"];
  /** A statistics object on the shared client under the test's prefix, closed after the test. Flushes only on demand. */
  make(options?: StatsOptions): Stats;
  /** The same on a given client. */
  on(client: Parameters<typeof createStats>[0], options?: StatsOptions): Stats;
  keysOf(series: string): SeriesKeys;
  logKeysOf(name: string): LogKeys;
  /** Commands for the keys; on a Cluster they are routed. */
  readonly db: Redis;
  /** Epoch milliseconds of the server. */
  serverMs(): Promise<number>;
  /** Another process with a statistics object on the same server and prefix; its clock is ahead by so much. */
  spawn(options?: StatsOptions, aheadMs?: number): Promise<StatsPeer>;
}

/** With a `login` all objects run as that user; only the tests' own commands go over the shared client. */
export const fixtureOf = (redis: TestRedis<RedisMode>, login?: Login): Fixture => {
  const clients = clientsOf(redis, login);
  const on: Fixture["on"] = (client, options = {}) => {
    const stats = createStats(client, { prefix: redis.prefix, flushMs: 60_000, deadlineMs: 10_000, ...options });
    redis.defer(() => stats.close({ timeoutMs: 0 }));
    return stats;
  };
  return {
    connect: clients.connect,
    make: (options) => on(clients.shared(), options),
    on,
    keysOf: (series) => seriesKeys(redis.prefix, series),
    logKeysOf: (name) => logKeys(redis.prefix, name),
    get db() {
      // A Cluster has the same commands.
      return redis.client as Redis;
    },
    serverMs: async () => {
      const [seconds, micros] = (await redis.server.nodes[0]!.call("TIME")) as [string, string];
      return Number(seconds) * 1_000 + Math.floor(Number(micros) / 1_000);
    },
    spawn: async (options = {}, aheadMs = 0) => {
      const ports = redis.server.nodes.map(({ port }) => port).join(",");
      const settings = { prefix: redis.prefix, flushMs: 60_000, deadlineMs: 10_000, ...options };
      const peer = new StatsPeer(
        [redis.server.mode, ports, JSON.stringify(settings), JSON.stringify(login ?? {})],
        aheadMs,
      );
      redis.defer(() => peer.kill());
      await peer.ready;
      return peer;
    },
  };
};

/** The same numbers in every run (mulberry32), from 0 to 1. */
export const randomOf = (seed: number) => () => {
  seed = (seed + 0x6d2b79f5) | 0;
  let mixed = Math.imul(seed ^ (seed >>> 15), seed | 1);
  mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
  return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
};

/** The drops of an object by reason, from its events. */
export const drops = (stats: Stats): Partial<Record<DropReason, number>> => {
  const counts: Partial<Record<DropReason, number>> = {};
  stats.on("dropped", ({ reason, count }) => {
    counts[reason] = (counts[reason] ?? 0) + count;
  });
  return counts;
};

/** Another process that counts on command, and can be killed. */
class StatsPeer extends Peer {
  constructor(args: readonly string[], aheadMs: number) {
    const program = new URL("programs/peer.mjs", import.meta.url);
    const shift = new URL(`programs/shifted-clock.mjs?${String(aheadMs)}`, import.meta.url);
    super(program, args, aheadMs === 0 ? [] : ["--import", shift.href]);
  }

  /** Increments a counter so many times by 1. */
  inc(name: string, times: number): Promise<void> {
    return this.ask("inc", name, times);
  }

  add(name: string, amount: number): Promise<number> {
    return this.ask("add", name, amount);
  }

  flush(): Promise<void> {
    return this.ask("flush");
  }

  apply(...args: Parameters<Stats["apply"]>): Promise<void> {
    return this.ask("apply", ...args);
  }

  /** The time by the clock of that process. */
  now(): Promise<number> {
    return this.ask("now");
  }
}
