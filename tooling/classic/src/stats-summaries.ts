import { randomUUID } from "node:crypto";
import type { ChainableCommander, Redis } from "ioredis";
import { classicKeys } from "./keys.js";
import { execute } from "./transaction.js";

/** Options of the summaries. */
export interface SummaryOptions {
  /** Put before every key. @default "" */
  readonly prefix?: string;
  /** The client's clock, in milliseconds. @default the wall clock */
  readonly now?: () => number;
}

/**
 * "Redis in Action", chapter 5: rotates under `WATCH` of the hour's key. It updates `min` and `max` by two temporary ZSETs
 * and `ZUNIONSTORE`, then count, sum and sum of squares. Resolves to these three, or to undefined after 5 s of conflict.
 *
 * Known faults: the first hour is never stored, so the summary never rotates; each value makes two temporary keys, which
 * are in other slots of a Cluster.
 */
export async function updateStats(
  redis: Redis,
  context: string,
  type: string,
  value: number,
  { prefix = "", now = Date.now }: SummaryOptions = {},
): Promise<readonly [count: number, sum: number, sumsq: number] | undefined> {
  const key = classicKeys(prefix).summary(context, type);
  const end = now() + 5_000;
  while (now() < end) {
    await redis.watch(`${key}:start`);
    const transaction = await rotated(redis, key, now());
    const [lowest, highest] = [`${prefix}${randomUUID()}`, `${prefix}${randomUUID()}`];
    transaction.zadd(lowest, value, "min").zadd(highest, value, "max");
    transaction.zunionstore(key, 2, key, lowest, "AGGREGATE", "MIN");
    transaction.zunionstore(key, 2, key, highest, "AGGREGATE", "MAX");
    transaction.del(lowest, highest);
    transaction
      .zincrby(key, 1, "count")
      .zincrby(key, value, "sum")
      .zincrby(key, value * value, "sumsq");
    const replies = await execute(transaction);
    if (replies) return replies.slice(-3).map(Number) as [number, number, number];
  }
  return undefined;
}

/** A transaction that renames the keys of the last hour, if one is stored. */
async function rotated(redis: Redis, key: string, nowMs: number): Promise<ChainableCommander> {
  const hour = new Date(nowMs).toISOString().slice(0, 13);
  const existing = await redis.get(`${key}:start`);
  const transaction = redis.multi();
  if (existing !== null && existing < hour)
    transaction.rename(key, `${key}:last`).rename(`${key}:start`, `${key}:pstart`).set(`${key}:start`, hour);
  return transaction;
}
