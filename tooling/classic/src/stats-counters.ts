import type { Redis } from "ioredis";
import { classicKeys } from "./keys.js";
import { execute, watchLoop } from "./transaction.js";

/** The widths of the slices in seconds: 1 s, 5 s, 1 min, 5 min, 1 h, 5 h, 1 day. */
export const COUNTER_PRECISIONS: readonly number[] = [1, 5, 60, 300, 3_600, 18_000, 86_400];

/** The number of slices of a precision that the clean-up keeps. */
export const SAMPLES_KEPT = 120;

/** Options of {@link updateCounter}. */
export interface UpdateCounterOptions {
  /** Put before every key. @default "" */
  readonly prefix?: string;
  /** @default 1 */
  readonly count?: number;
  /** When it happened, in seconds. 0 counts as not given. @default the client's clock */
  readonly now?: number;
}

/**
 * "Redis in Action", chapter 5: one transaction of `ZADD known:` for the counter's hash and `HINCRBY` of the slice, for
 * each of seven precisions.
 *
 * Known faults: 16 commands a hit; every hit writes the one index of all counters; a `now` of 0 is ignored.
 */
export async function updateCounter(
  redis: Redis,
  name: string,
  { prefix = "", count = 1, now }: UpdateCounterOptions = {},
): Promise<void> {
  const keys = classicKeys(prefix);
  // As in the original, 0 is no instant.
  const seconds = now || Date.now() / 1000;
  const transaction = redis.multi();
  for (const precision of COUNTER_PRECISIONS) {
    const slice = Math.floor(seconds / precision) * precision;
    transaction.zadd(keys.knownCounters, 0, `${String(precision)}:${name}`);
    transaction.hincrby(keys.counter(precision, name), String(slice), count);
  }
  await execute(transaction);
}

/** Options of {@link cleanCountersOnce}. */
export interface CleanCountersOptions {
  /** Put before every key. @default "" */
  readonly prefix?: string;
  /** Number of the pass: slices of n minutes are checked in every n-th one. @default 0 */
  readonly passes?: number;
  /** The client's clock, in milliseconds. @default the wall clock */
  readonly now?: () => number;
}

/**
 * "Redis in Action", chapter 5, one pass a minute: walks the index by position. It removes the slices beyond the last 120
 * of each counter that is due. A counter without slices is removed under `WATCH`.
 *
 * Known faults: no key has a time to live, so that everything stays without such a process; if two processes run, a
 * removal by one moves the positions of the other, which then skips counters.
 */
export async function cleanCountersOnce(
  redis: Redis,
  { prefix = "", passes = 0, now = Date.now }: CleanCountersOptions = {},
): Promise<void> {
  const keys = classicKeys(prefix);
  let index = 0;
  while (index < (await redis.zcard(keys.knownCounters))) {
    const [member] = await redis.zrange(keys.knownCounters, String(index), String(index));
    index += 1;
    if (member === undefined) break;
    const precision = Number(member.slice(0, member.indexOf(":")));
    if (passes % (Math.floor(precision / 60) || 1) !== 0) continue;
    const counter = keys.counter(precision, member.slice(member.indexOf(":") + 1));
    const cutoff = now() / 1000 - SAMPLES_KEPT * precision;
    const slices = await redis.hkeys(counter);
    const old = slices.filter((second) => Number(second) <= cutoff);
    if (old.length === 0) continue;
    await redis.hdel(counter, ...old);
    if (old.length < slices.length) continue;
    const attempt = async () => {
      if ((await redis.hlen(counter)) > 0) return { value: 0 };
      return { value: 1, transaction: redis.multi().zrem(keys.knownCounters, member) };
    };
    const outcome = await watchLoop(redis, [counter], attempt);
    if (outcome.done) index -= outcome.value;
  }
}
