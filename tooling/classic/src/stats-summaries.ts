import { randomUUID } from "node:crypto";
import type { Redis } from "ioredis";
import { classicKeys } from "./keys.js";
import { rotated } from "./stats-messages.js";
import { execute } from "./transaction.js";

/** The number of contexts that the list of the slowest keeps. */
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

/**
 * "Redis in Action", chapter 5: reads all fields by `ZRANGE`, and computes average and deviation in the client.
 *
 * Known fault: the deviation is computed from the difference of two sums, which are nearly equal if the values are. The
 * difference loses its digits and may even be negative.
 */
export async function getStats(redis: Redis, context: string, type: string, prefix = ""): Promise<ClassicSummary> {
  const flat = await redis.zrange(classicKeys(prefix).summary(context, type), "0", "-1", "WITHSCORES");
  const of = (name: string): number => Number(flat[flat.indexOf(name) + 1]);
  const [min, max, sum, sumsq, count] = [of("min"), of("max"), of("sum"), of("sumsq"), of("count")];
  const numerator = sumsq - sum ** 2 / count;
  return { min, max, sum, sumsq, count, average: sum / count, stddev: Math.sqrt(numerator / (count - 1 || 1)) };
}

/**
 * "Redis in Action", chapter 5: runs `view` and records how long it took. Then it adds the average to the list of the
 * slowest contexts, of which 100 are kept.
 *
 * Known faults: a view that throws is not measured; the average and its place on the list are of all time.
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
