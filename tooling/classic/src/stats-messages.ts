import type { ChainableCommander, Redis } from "ioredis";
import { classicKeys } from "./keys.js";
import { execute, watchLoop } from "./transaction.js";

/** The number of messages that a recent log keeps. */
export const RECENT_KEPT = 100;

/** Options of the two logs. */
export interface MessageOptions {
  /** Put before every key. @default "" */
  readonly prefix?: string;
  /** @default "info" */
  readonly severity?: string;
  /** The client's clock, in milliseconds. @default the wall clock */
  readonly now?: () => number;
  /** How long `logCommon` retries. @default 5_000 */
  readonly timeoutMs?: number;
}

/**
 * "Redis in Action", chapter 5: `LPUSH` of the local time and the text, `LTRIM` to 100, one list for each name and severity.
 *
 * Known faults: a message is text only, without fields, a number for the severity, or an id to page by.
 */
export async function logRecent(redis: Redis, name: string, text: string, options: MessageOptions = {}): Promise<void> {
  await execute(queueRecent(redis.pipeline(), name, text, options));
}

/**
 * "Redis in Action", chapter 5: under `WATCH` of the hour's key, `ZINCRBY` of the message and {@link logRecent} in one
 * transaction. When the hour is over, it also renames the list and the hour's key.
 *
 * Known faults:
 *
 * - the first hour is never stored, so the list never rotates
 * - each different text is a member of its own, without a bound
 * - after 5 s of conflict the message is dropped without notice
 */
export async function logCommon(redis: Redis, name: string, text: string, options: MessageOptions = {}): Promise<void> {
  const { prefix = "", severity = "info", now = Date.now, timeoutMs } = options;
  const key = classicKeys(prefix).commonLog(name, severity);
  const attempt = async () => {
    const transaction = await rotated(redis, key, now());
    return { value: undefined, transaction: queueRecent(transaction.zincrby(key, 1, text), name, text, options) };
  };
  await watchLoop(redis, [`${key}:start`], attempt, timeoutMs);
}

/** A transaction that renames the keys of the last hour, if one is stored. */
export async function rotated(redis: Redis, key: string, nowMs: number): Promise<ChainableCommander> {
  const hour = new Date(nowMs).toISOString().slice(0, 13);
  const existing = await redis.get(`${key}:start`);
  const transaction = redis.multi();
  if (existing !== null && existing < hour)
    transaction.rename(key, `${key}:last`).rename(`${key}:start`, `${key}:pstart`).set(`${key}:start`, hour);
  return transaction;
}

function queueRecent(
  commands: ChainableCommander,
  name: string,
  text: string,
  { prefix = "", severity = "info", now = Date.now }: MessageOptions,
): ChainableCommander {
  const key = classicKeys(prefix).recentLog(name, severity);
  return commands.lpush(key, `${new Date(now()).toString()} ${text}`).ltrim(key, 0, RECENT_KEPT - 1);
}
