import type { Redis } from "ioredis";
import { classicKeys } from "./keys.js";
import { execute } from "./transaction.js";

/** The number of viewed items that a token keeps. */
const VIEWED_KEPT = 25;

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
