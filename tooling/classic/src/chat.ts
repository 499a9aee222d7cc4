import type { Redis } from "ioredis";
import { classicKeys } from "./keys.js";
import { acquireLock, releaseLock } from "./lock.js";
import { execute } from "./transaction.js";

/** A message as the classic code stores it, packed as JSON. */
interface ClassicMessage {
  readonly id: number;
  readonly ts: number;
  readonly sender: string;
  readonly message: string;
}

/** The result of a fetch for one chat, with or without news. */
export interface ClassicNews {
  readonly chat: string;
  readonly messages: readonly ClassicMessage[];
}

/** Options of {@link sendChatMessage} and {@link createClassicChat}. */
export interface ClassicSendOptions {
  /** Put before every key. @default "" */
  readonly prefix?: string;
  /** How long to wait for the lock of the chat. @default 10000 */
  readonly lockWaitMs?: number;
  /** The client's clock, in milliseconds. @default the wall clock */
  readonly now?: () => number;
}

/**
 * "Redis in Action", chapter 6: one transaction sets every member's position to 0, in the chat's ZSET and in the
 * member's own. Then the first message is sent. Without an id the next free number is taken. Resolves to the id.
 *
 * Known faults:
 *
 * - adds the sender to the caller's list
 * - resets all positions of an existing chat to 0
 * - a crash before the first message leaves a chat without a counter, which no user can join
 * - chosen ids collide with generated numbers and with the counter's own key
 */
export async function createClassicChat(
  redis: Redis,
  sender: string,
  recipients: string[],
  message: string,
  chatId?: string,
  options: ClassicSendOptions = {},
): Promise<string> {
  const keys = classicKeys(options.prefix);
  const chat = chatId ?? String(await redis.incr(keys.chatCounter));
  recipients.push(sender);
  const transaction = redis.multi();
  for (const recipient of recipients) {
    transaction.zadd(keys.chatMembers(chat), 0, recipient);
    transaction.zadd(keys.seen(recipient), 0, chat);
  }
  await execute(transaction);
  await sendChatMessage(redis, chat, sender, message, options);
  return chat;
}

/**
 * "Redis in Action", chapter 6: under the lock of {@link acquireLock}, `INCR` for the id and `ZADD` of the packed
 * message. Resolves to the id. Needs a dedicated connection, like everything that uses `WATCH`.
 *
 * Known faults:
 *
 * - a crash under the lock closes the chat for ever
 * - six round trips
 * - checks neither the chat nor the sender's membership, so that keys of deleted chats come back
 * - no limit of size
 * - the time is the client's
 */
export async function sendChatMessage(
  redis: Redis,
  chat: string,
  sender: string,
  message: string,
  { prefix = "", lockWaitMs = 10_000, now = Date.now }: ClassicSendOptions = {},
): Promise<number> {
  const keys = classicKeys(prefix);
  const lockName = `chat:${chat}`;
  const lock = await acquireLock(redis, lockName, lockWaitMs, prefix);
  if (lock === null) throw new Error("the lock of the chat could not be acquired");
  try {
    const id = await redis.incr(keys.chatIds(chat));
    const packed: ClassicMessage = { id, ts: now() / 1000, sender, message };
    await redis.zadd(keys.chatMessages(chat), id, JSON.stringify(packed));
    return id;
  } finally {
    await releaseLock(redis, lockName, lock, prefix);
  }
}

/**
 * "Redis in Action", chapter 6: reads all messages after the recipient's position, for each of its chats. The chat's ZSET
 * gets the new position at once. The recipient's own ZSET gets it in a transaction at the end, which also trims messages
 * that all members have.
 *
 * Known faults:
 *
 * - acknowledges before the caller has the messages
 * - of two concurrent fetches the slower one moves the position back
 * - a crash in between leaves two different positions
 * - a recipient that leaves meanwhile becomes a member again
 * - trims by an outdated minimum
 * - one member that never fetches stops all trimming
 * - no limit
 * - the result contains chats without messages
 */
export async function fetchChatMessages(redis: Redis, recipient: string, prefix = ""): Promise<ClassicNews[]> {
  const keys = classicKeys(prefix);
  const seen = await redis.zrange(keys.seen(recipient), "0", "-1", "WITHSCORES");
  const chats = seen.filter((_, index) => index % 2 === 0);
  const ranges = redis.multi();
  for (const [index, chat] of chats.entries())
    ranges.zrangebyscore(keys.chatMessages(chat), Number(seen[2 * index + 1]) + 1, "+inf");
  const found = (await execute(ranges)) as string[][];
  const news: ClassicNews[] = [];
  const ending = redis.multi();
  for (const [index, chat] of chats.entries()) {
    const messages = found[index]!.map((packed) => JSON.parse(packed) as ClassicMessage);
    news.push({ chat, messages });
    const last = messages.at(-1);
    if (!last) continue;
    await redis.zadd(keys.chatMembers(chat), last.id, recipient);
    const [, slowest] = await redis.zrange(keys.chatMembers(chat), "0", "0", "WITHSCORES");
    ending.zadd(keys.seen(recipient), last.id, chat);
    if (slowest !== undefined) ending.zremrangebyscore(keys.chatMessages(chat), 0, slowest);
  }
  await execute(ending);
  return news;
}
