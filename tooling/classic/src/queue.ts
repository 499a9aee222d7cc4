import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import type { Redis } from "ioredis";
import { classicKeys } from "./keys.js";
import { acquireLock, releaseLock } from "./lock.js";

/** How long one wait for work lasts. */
const WAIT_SECONDS = 30;

/** The pause of the mover when nothing is due. */
const POLL_MS = 10;

/** The workers' reports; the classic code writes them to a log. */
type ClassicLog = (text: string, error?: unknown) => void;

/** Options of the queue functions. */
export interface ClassicQueueOptions {
  /** Put before every key. @default "" */
  readonly prefix?: string;
  /** @default nothing is reported */
  readonly log?: ClassicLog;
  /** The client's clock, in milliseconds. @default Date.now */
  readonly now?: () => number;
}

/** The function of a worker for each name. */
export type ClassicCallbacks = Readonly<Record<string, (...args: unknown[]) => unknown>>;

/** "Redis in Action", chapter 6: `RPUSH queue:<queue>` of `[name, args]`. */
export async function enqueue(
  redis: Redis,
  queue: string,
  name: string,
  args: readonly unknown[] = [],
  prefix = "",
): Promise<void> {
  await redis.rpush(classicKeys(prefix).queue(queue), JSON.stringify([name, args]));
}

/**
 * "Redis in Action", chapter 6, one round of the worker: `BLPOP` of all queues in their order, for 30 s; the
 * callback of the name gets the arguments. Resolves to false when no job arrived.
 *
 * Known faults:
 *
 * - a job with an unknown name is logged and lost
 * - an exception of a callback ends the worker's loop and loses the job
 * - an item of {@link executeLater} has four values where two are unpacked
 * - while an earlier queue has work, later queues get no worker
 * - the list of queues is fixed
 */
export async function workOnQueuesOnce(
  redis: Redis,
  queues: readonly string[],
  callbacks: ClassicCallbacks,
  { prefix = "", log = () => undefined }: ClassicQueueOptions = {},
): Promise<boolean> {
  const keys = classicKeys(prefix);
  const popped = await redis.blpop(
    queues.map((queue) => keys.queue(queue)),
    WAIT_SECONDS,
  );
  if (popped === null) return false;
  const item = JSON.parse(popped[1]) as unknown[];
  // Python's unpacking fails in this way on more values.
  if (item.length !== 2) throw new Error(`too many values to unpack: ${String(item.length)}`);
  const [name, args] = item as [string, unknown[]];
  const callback = callbacks[name];
  if (!callback) log(`Unknown callback ${name}`);
  else await callback(...args);
  return true;
}

/**
 * "Redis in Action", chapter 6: adds `[id, queue, name, args]`. Without a delay `RPUSH` to its queue, otherwise
 * `ZADD delayed:` with its due time by the client's clock. Resolves to the id.
 */
export async function executeLater(
  redis: Redis,
  queue: string,
  name: string,
  args: readonly unknown[],
  delayMs = 0,
  { prefix = "", now = Date.now }: ClassicQueueOptions = {},
): Promise<string> {
  const keys = classicKeys(prefix);
  const id = randomUUID();
  const item = JSON.stringify([id, queue, name, args]);
  if (delayMs > 0) await redis.zadd(keys.delayed, (now() + delayMs) / 1_000, item);
  else await redis.rpush(keys.queue(queue), item);
  return id;
}

/**
 * "Redis in Action", chapter 6, one round of the mover: reads the head of `delayed:`. If the head is due, it takes the
 * lock of its id, `ZREM`, `RPUSH`, and releases the lock. Resolves to whether it has moved a job; if not, after 10 ms.
 * Needs a dedicated connection, since it uses `WATCH`.
 *
 * Known faults:
 *
 * - a crash between `ZREM` and `RPUSH` loses the job
 * - a crash under the lock, which has no time limit, stops all delayed jobs
 * - clients' clocks decide which jobs are due
 * - seven round trips per move
 * - a query every 10 ms while idle
 */
export async function moveDueOnce(
  redis: Redis,
  { prefix = "", now = Date.now, lockWaitMs = 10_000 }: ClassicQueueOptions & { readonly lockWaitMs?: number } = {},
): Promise<boolean> {
  const keys = classicKeys(prefix);
  const [item, score] = await redis.zrange(keys.delayed, "0", "0", "WITHSCORES");
  if (item === undefined || Number(score) > now() / 1_000) {
    await sleep(POLL_MS);
    return false;
  }
  const [id, queue] = JSON.parse(item) as [string, string];
  const lock = await acquireLock(redis, id, lockWaitMs, prefix);
  if (lock === null) return false;
  const isOurs = (await redis.zrem(keys.delayed, item)) === 1;
  if (isOurs) await redis.rpush(keys.queue(queue), item);
  await releaseLock(redis, id, lock, prefix);
  return isOurs;
}
