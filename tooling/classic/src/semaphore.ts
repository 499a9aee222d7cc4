import { randomUUID } from "node:crypto";
import type { ChainableCommander, Redis } from "ioredis";
import { classicKeys } from "./keys.js";
import { acquireLock, releaseLock } from "./lock.js";
import { execute } from "./transaction.js";

/** How long the race-free acquire waits for its lock. */
const LOCK_WAIT_MS = 10;

/** Options of the semaphore functions. */
export interface SemaphoreOptions {
  /** Put before every key. @default "" */
  readonly prefix?: string;
  /** How long a permit lasts, by the clock of the client that checks. @default 10 */
  readonly timeoutSeconds?: number;
  /** The client's clock, in milliseconds. @default the wall clock to the microsecond, as the classic code has it */
  readonly now?: () => number;
}

/** Not in whole milliseconds, since two requests in one millisecond would be ranked by their tokens. */
const wallClock = (): number => performance.timeOrigin + performance.now();

/**
 * "Redis in Action", chapter 6: one transaction of `ZREMRANGEBYSCORE` for expired permits, `ZADD` of the token at the
 * client's time, and `ZRANK`. A rank below `limit` is a permit; otherwise the token is removed by `ZREM`. Resolves to
 * the token, or at once to null.
 *
 * Known faults:
 *
 * - the rank depends on clients' clocks: a client whose clock is 10 ms slow takes a permit from the newest holder, which
 *   does not notice
 * - a client whose clock is fast by the time limit removes all holders
 * - no waiting
 */
export async function acquireSemaphore(
  redis: Redis,
  name: string,
  limit: number,
  { prefix = "", timeoutSeconds = 10, now = wallClock }: SemaphoreOptions = {},
): Promise<string | null> {
  const { semaphore } = classicKeys(prefix);
  const holders = semaphore(name);
  const token = randomUUID();
  const nowSeconds = now() / 1000;
  const rank = await lastReply(
    redis
      .multi()
      .zremrangebyscore(holders, "-inf", nowSeconds - timeoutSeconds)
      .zadd(holders, nowSeconds, token)
      .zrank(holders, token),
  );
  if (rank < limit) return token;
  await redis.zrem(holders, token);
  return null;
}

/** "Redis in Action", chapter 6: `ZREM`. Resolves to false when the permit had expired and was removed. */
export async function releaseSemaphore(redis: Redis, name: string, token: string, prefix = ""): Promise<boolean> {
  return (await redis.zrem(classicKeys(prefix).semaphore(name), token)) === 1;
}

/**
 * "Redis in Action", chapter 6: a counter gives the order, which is kept in a second ZSET of owners. The first
 * transaction removes expired members of the time ZSET, removes the same owners (`ZINTERSTORE`, weights 1 and 0) and
 * takes a number (`INCR`). The second one adds both members and reads the rank among the owners. Without a permit both
 * members are removed again. Resolves to the token, or at once to null.
 *
 * Known faults:
 *
 * - between the two transactions a client with a later number may find itself within the limit, so that both get a permit
 * - a client whose clock is ahead by the time limit removes all holders
 * - a client whose clock is behind by the time limit is removed by every other client
 * - no waiting
 */
export async function acquireFairSemaphore(
  redis: Redis,
  name: string,
  limit: number,
  { prefix = "", timeoutSeconds = 10, now = wallClock }: SemaphoreOptions = {},
): Promise<string | null> {
  const keys = classicKeys(prefix);
  const holders = keys.semaphore(name);
  const owners = keys.semaphoreOwners(name);
  const token = randomUUID();
  const nowSeconds = now() / 1000;
  const ticket = await lastReply(
    redis
      .multi()
      .zremrangebyscore(holders, "-inf", nowSeconds - timeoutSeconds)
      .zinterstore(owners, 2, owners, holders, "WEIGHTS", 1, 0)
      .incr(keys.semaphoreCounter(name)),
  );
  const rank = await lastReply(
    redis.multi().zadd(holders, nowSeconds, token).zadd(owners, ticket, token).zrank(owners, token),
  );
  if (rank < limit) return token;
  await releaseFairSemaphore(redis, name, token, prefix);
  return null;
}

/**
 * "Redis in Action", chapter 6: `ZREM` from both ZSETs. Resolves to false when the permit had expired and was removed.
 */
export async function releaseFairSemaphore(redis: Redis, name: string, token: string, prefix = ""): Promise<boolean> {
  const keys = classicKeys(prefix);
  const replies = await execute(
    redis.multi().zrem(keys.semaphore(name), token).zrem(keys.semaphoreOwners(name), token),
  );
  return replies?.[0] === 1;
}

/**
 * "Redis in Action", chapter 6: {@link acquireFairSemaphore} under the lock of {@link acquireLock}, for which it waits
 * 10 ms. Released and refreshed like the fair semaphore. Needs a dedicated connection, since it uses `WATCH`.
 *
 * Known faults:
 *
 * - the lock has no time limit, so that one crash under it closes the semaphore for ever
 * - null means "full" as well as "lock busy"
 * - four round trips more than the fair acquire
 * - the clock faults of the fair semaphore
 */
export async function acquireSemaphoreWithLock(
  redis: Redis,
  name: string,
  limit: number,
  options: SemaphoreOptions = {},
): Promise<string | null> {
  const { prefix = "" } = options;
  const lockName = `semaphore:${name}`;
  const lock = await acquireLock(redis, lockName, LOCK_WAIT_MS, prefix);
  if (lock === null) return null;
  try {
    return await acquireFairSemaphore(redis, name, limit, options);
  } finally {
    await releaseLock(redis, lockName, lock, prefix);
  }
}

/** Runs a transaction without `WATCH`, which cannot conflict. Returns the last reply, a count or a rank. */
async function lastReply(transaction: ChainableCommander): Promise<number> {
  return Number((await execute(transaction))?.at(-1));
}
