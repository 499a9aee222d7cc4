import { randomUUID } from "node:crypto";
import type { Redis } from "ioredis";
import { classicKeys } from "./keys.js";
import { execute } from "./transaction.js";

/** The characters that a name may have, with the ones before `a` and behind `z`. */
const VALID_CHARACTERS = "`abcdefghijklmnopqrstuvwxyz{";

/** "Redis in Action", chapter 6: `ZADD` with score 0. */
export async function joinGuild(redis: Redis, guild: string, user: string, prefix = ""): Promise<void> {
  await redis.zadd(classicKeys(prefix).guild(guild), 0, user);
}

/**
 * "Redis in Action", chapter 6: the texts that sort just before and just behind all names that begin with `text`, if
 * these have only the letters a to z.
 */
function prefixRange(text: string): [start: string, end: string] {
  const last = text.slice(-1);
  const found = Array.from(VALID_CHARACTERS).findIndex((character) => character >= last);
  const position = found === -1 ? VALID_CHARACTERS.length : found;
  return [`${text.slice(0, -1)}${VALID_CHARACTERS[(position || 1) - 1]!}{`, `${text}{`];
}

/**
 * "Redis in Action", chapter 6: adds two unique marks around the names that begin with `text`. Under `WATCH` it then
 * reads the ranks of the marks, removes them and reads at most ten names between. When another client wrote meanwhile, it
 * starts again from the ranks.
 *
 * Known faults:
 *
 * - four writes for each read
 * - capitals, digits and other letters do not work
 * - without a match the end of the range is negative, which Redis counts from the other side, so wrong names are returned
 * - a crash leaves marks
 * - the marks of other readers take places of the ten
 * - readers make each other retry without bound
 */
export async function completeMember(redis: Redis, guild: string, text: string, prefix = ""): Promise<string[]> {
  const key = classicKeys(prefix).guild(guild);
  const id = randomUUID();
  const [start, end] = prefixRange(text).map((bound) => bound + id) as [string, string];
  await redis.zadd(key, 0, start, 0, end);
  for (;;) {
    await redis.watch(key);
    const first = (await redis.zrank(key, start)) ?? 0;
    const last = (await redis.zrank(key, end)) ?? 0;
    const until = Math.min(first + 9, last - 2);
    const replies = await execute(redis.multi().zrem(key, start, end).zrange(key, String(first), String(until)));
    if (replies !== null) return (replies.at(-1) as string[]).filter((name) => !name.includes("{"));
  }
}
