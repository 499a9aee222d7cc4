import { setTimeout as sleep } from "node:timers/promises";
import type { Redis } from "ioredis";
import { classicKeys } from "./keys.js";
import { execute } from "./transaction.js";

/** The number of viewed items that a token keeps. */
export const VIEWED_KEPT = 25;

/** The number of sessions that the classic clean-up keeps. Below this number it removes none. */
export const SESSIONS_KEPT = 10_000_000;

/** The most sessions one pass of the clean-up removes. */
const CLEAN_BATCH = 100;

/** "Redis in Action", chapter 2: `HGET login: <token>`: the user, or null. */
export async function checkToken(redis: Redis, token: string, prefix = ""): Promise<string | null> {
  return await redis.hget(classicKeys(prefix).login, token);
}

/**
 * "Redis in Action", chapter 2: `HSET login:`, `ZADD recent:`, and for an item `ZADD viewed:<token>`,
 * `ZREMRANGEBYRANK` down to the newest 25, `ZINCRBY viewed:` by -1. Each is a plain command, awaited before the next.
 *
 * Known faults:
 *
 * - `login:`, `recent:` and the global `viewed:` never shrink
 * - one `viewed:<token>` per token for ever, since no key has a time to live
 * - five round trips
 * - the time is the client's
 */
export async function updateToken(
  redis: Redis,
  token: string,
  user: string,
  item?: string,
  prefix = "",
): Promise<void> {
  const keys = classicKeys(prefix);
  const now = Date.now() / 1000;
  await redis.hset(keys.login, token, user);
  await redis.zadd(keys.recent, now, token);
  if (item === undefined) return;
  await redis.zadd(keys.viewed(token), now, item);
  await redis.zremrangebyrank(keys.viewed(token), 0, -(VIEWED_KEPT + 1));
  await redis.zincrby(keys.views, -1, item);
}

/**
 * "Redis in Action", chapter 4: the commands of {@link updateToken} in one pipeline without a transaction: one round
 * trip, the same faults otherwise.
 */
export async function updateTokenPipeline(
  redis: Redis,
  token: string,
  user: string,
  item?: string,
  prefix = "",
): Promise<void> {
  const keys = classicKeys(prefix);
  const now = Date.now() / 1000;
  const pipeline = redis.pipeline();
  pipeline.hset(keys.login, token, user);
  pipeline.zadd(keys.recent, now, token);
  if (item !== undefined) {
    pipeline.zadd(keys.viewed(token), now, item);
    pipeline.zremrangebyrank(keys.viewed(token), 0, -(VIEWED_KEPT + 1));
    pipeline.zincrby(keys.views, -1, item);
  }
  await execute(pipeline);
}

/** Options of {@link cleanSessions}. */
export interface CleanOptions {
  /** Stops the loop. */
  readonly signal: AbortSignal;
  /** The number of sessions to keep. @default 10_000_000 */
  readonly keep?: number;
  /** Put before every key. @default "" */
  readonly prefix?: string;
}

/**
 * "Redis in Action", chapter 2: the clean-up process. It runs one pass after the other, and sleeps for a second when
 * there is nothing to remove. Resolves once `signal` aborts.
 *
 * Known faults: those of {@link cleanSessionsOnce}. Without such a process no session is ever removed.
 */
export async function cleanSessions(
  redis: Redis,
  { signal, keep = SESSIONS_KEPT, prefix = "" }: CleanOptions,
): Promise<void> {
  while (!signal.aborted) {
    if ((await cleanSessionsOnce(redis, keep, prefix)) > 0) continue;
    // Rejects only when the signal aborts, which ends the loop.
    await sleep(1000, undefined, { signal }).catch(() => undefined);
  }
}

/**
 * "Redis in Action", chapter 2, one pass: `ZCARD recent:`. Above `keep`, at most 100 of the oldest tokens are removed from
 * `viewed:<token>`, `login:` and `recent:`. Resolves to their number.
 *
 * Known faults: a limit by number, never by age; the global view counts are not touched.
 */
export async function cleanSessionsOnce(redis: Redis, keep: number = SESSIONS_KEPT, prefix = ""): Promise<number> {
  const keys = classicKeys(prefix);
  const size = await redis.zcard(keys.recent);
  if (size <= keep) return 0;
  const tokens = await redis.zrange(keys.recent, "0", String(Math.min(size - keep, CLEAN_BATCH) - 1));
  if (tokens.length === 0) return 0;
  await redis.del(...tokens.map((token) => keys.viewed(token)));
  await redis.hdel(keys.login, ...tokens);
  await redis.zrem(keys.recent, ...tokens);
  return tokens.length;
}
