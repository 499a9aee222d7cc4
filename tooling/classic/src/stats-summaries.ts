import { randomUUID } from "node:crypto";
import type { Redis } from "ioredis";
import { classicKeys } from "./keys.js";
import { rotated } from "./stats-messages.js";
import { execute } from "./transaction.js";

/** How many contexts the list of the slowest keeps. */
export const SLOWEST_KEPT = 100;

/** Options of the summaries. */
export interface SummaryOptions {
  /** Put before every key. @default "" */
  readonly prefix?: string;
  /** The client's clock, in milliseconds. @default the wall clock */
  readonly now?: () => number;
}

/** The fields of a summary. */
export interface ClassicSummary {
  readonly min: number;
  readonly max: number;
  readonly sum: number;
  readonly sumsq: number;
  readonly count: number;
  readonly average: number;
  readonly stddev: number;
}

/**
 * "Redis in Action", chapter 5: under `WATCH` of the hour's key: rotate, `min` and `max` by way of two temporary ZSETs and `ZUNIONSTORE`, then
 * count, sum and sum of squares, which it resolves to; undefined after 5 s of conflict.
 *
 * Known faults: nobody stores the first hour, so it never rotates; two temporary keys for each value, in other slots of a
 * Cluster.
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

/**
 * "Redis in Action", chapter 5: `ZRANGE` of all, average and deviation computed here.
 *
 * Known fault: the deviation is the difference of two sums, which are nearly equal where the values are; it cancels out,
 * and may be the root of a negative number.
 */
export async function getStats(redis: Redis, context: string, type: string, prefix = ""): Promise<ClassicSummary> {
  const flat = await redis.zrange(classicKeys(prefix).summary(context, type), "0", "-1", "WITHSCORES");
  const of = (name: string): number => Number(flat[flat.indexOf(name) + 1]);
  const [min, max, sum, sumsq, count] = [of("min"), of("max"), of("sum"), of("sumsq"), of("count")];
  const numerator = sumsq - sum ** 2 / count;
  return { min, max, sum, sumsq, count, average: sum / count, stddev: Math.sqrt(numerator / (count - 1 || 1)) };
}

/**
 * "Redis in Action", chapter 5: runs `view`, then takes in how long it took, and puts its average among the slowest contexts, of which 100 stay.
 *
 * Known faults: a view that throws is not measured; the average is of all time, and its place on the list, too.
 */
export async function accessTime<T>(
  redis: Redis,
  context: string,
  view: () => Promise<T> | T,
  { prefix = "", now = Date.now }: SummaryOptions = {},
): Promise<T> {
  const { slowest } = classicKeys(prefix);
  const startedAt = now();
  const result = await view();
  const totals = await updateStats(redis, context, "AccessTime", (now() - startedAt) / 1000, { prefix });
  if (totals)
    await execute(
      redis
        .pipeline()
        .zadd(slowest, totals[1] / totals[0], context)
        .zremrangebyrank(slowest, 0, -(SLOWEST_KEPT + 1)),
    );
  return result;
}
