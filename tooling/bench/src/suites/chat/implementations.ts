// The ways to chat, each behind the same small interface.
import { randomBytes } from "node:crypto";
import { createClassicChat, fetchChatMessages, sendChatMessage } from "@tooling/classic";
import { connected } from "../../clients.js";
import { catalogOf, type Definition as AnyDefinition } from "../../implementation.js";

/** Measured calls: send and fetch a message; unread of its chat; a page of 100 members; unread of all chats. */
export type Look = "fetch" | "unread" | "members" | "unread of all";

/** An implementation that is open on one connection of this process. */
export interface Talker {
  /** Creates chats `0 … chats − 1`, each with the reader and `others` other members. Nothing is unread. */
  make(chats: number, others: number): Promise<void>;
  send(chat: string, body: string): Promise<unknown>;
  /** Fetches the reader's unread messages of all chats when there are none. */
  idle(): Promise<unknown>;
  /** Reads and acknowledges all unread messages of the reader. Resolves with their number. */
  readAll(): Promise<number>;
  /** The key that holds the messages of a chat. */
  messagesKey(chat: string): string;
  /** Calls for a large chat or many chats; only ours has them. */
  readonly look?: Readonly<Record<Look, () => Promise<unknown>>>;
  /** Resolves when the reader has messages that `idle` did not find. */
  readonly wait?: () => Promise<unknown>;
}

type Definition = AnyDefinition<Talker>;

const reader = "reader";
const sender = "sender";
const pageSize = 500;
/** Random Base64, which the server can neither compress nor share. */
export const someBody = (): string => randomBytes(75).toString("base64");

/** Runs `work` for each index, a thousand at a time. */
const forEach = async (count: number, work: (index: number) => Promise<unknown>): Promise<void> => {
  for (let from = 0; from < count; from += 1_000)
    await Promise.all(Array.from({ length: Math.min(1_000, count - from) }, (_, index) => work(from + index)));
};

const kit: Definition = {
  id: "kit",
  settings: "everything on, 16 shards, retain 1,000,000; 500 a page, by token; acknowledged a page at once",
  open: async (url, _setup, connect) => {
    const { createChat } = await import("@kit/chat");
    const { slotOf } = await import("@kit/core/toolkit");
    const chat = createChat<string>(await connect(url));
    let token: string | undefined;
    const next = async (): Promise<Awaited<ReturnType<typeof chat.fetch>>> => {
      const page = await chat.fetch(reader, { token, limit: pageSize });
      ({ token } = page);
      return page;
    };
    return {
      make: async (chats, others) => {
        token = undefined;
        const members = [reader, sender, ...Array.from({ length: others }, (_, index) => `member ${String(index)}`)];
        await forEach(chats, (index) => chat.create(String(index), { members, retain: { count: 1_000_000 } }));
        while ((await next()).more);
      },
      send: (name, body) => chat.send(name, { from: sender, body }),
      idle: next,
      readAll: async () => {
        for (let count = 0; ;) {
          const page = await next();
          const last = page.chats.flatMap(({ messages }) => messages.slice(-1));
          if (last.length > 0) await chat.ack(reader, last);
          count += page.chats.reduce((sum, { messages }) => sum + messages.length, 0);
          if (!page.more) return count;
        }
      },
      messagesKey: (name) => `kit:chat:{${String(slotOf(name) % 16)}}:messages:${name}`,
      look: {
        fetch: async () => {
          await chat.send("0", { from: sender, body: "x" });
          const { chats } = await next();
          if (chats.length !== 1) throw new Error(`${String(chats.length)} chats have unread messages`);
        },
        unread: () => chat.unread(reader, ["0"]),
        members: () => chat.members("0", { limit: 100 }),
        "unread of all": () => chat.unread(reader),
      },
      wait: () => chat.wait(reader, { token }),
    };
  },
};

const classic: Definition = {
  id: "classic",
  settings: "SETNX lock, INCR, ZADD, WATCH, GET, MULTI DEL EXEC; a ZSET of JSON; all that is new in one reply",
  open: async (url) => {
    const redis = await connected(url);
    const fetch = (): Promise<{ readonly messages: readonly unknown[] }[]> => fetchChatMessages(redis, reader) as never;
    return {
      make: async (chats) => {
        for (let chat = 0; chat < chats; chat++) await createClassicChat(redis, sender, [reader], "x", String(chat));
        await fetch();
      },
      send: (chat, body) => sendChatMessage(redis, chat, sender, body, { lockWaitMs: 60_000 }),
      idle: fetch,
      readAll: async () => (await fetch()).reduce((sum, { messages }) => sum + messages.length, 0),
      messagesKey: (chat) => `msgs:${chat}`,
    };
  },
};

const raw: Definition = {
  id: "raw stream",
  peer: "floor",
  settings: "XADD; XREADGROUP COUNT 500 and XACK; a group for each reader, no members, positions or sequence",
  open: async (url) => {
    const redis = await connected(url);
    return {
      make: async (chats) =>
        forEach(chats, (chat) => redis.xgroup("CREATE", `messages:${String(chat)}`, reader, "0", "MKSTREAM")),
      send: (chat, body) => redis.xadd(`messages:${chat}`, "*", "f", sender, "s", body),
      idle: () => redis.xreadgroup("GROUP", reader, "one", "COUNT", pageSize, "STREAMS", "messages:0", ">"),
      readAll: async () => {
        for (let count = 0; ;) {
          const reply = await redis.xreadgroup("GROUP", reader, "one", "COUNT", pageSize, "STREAMS", "messages:0", ">");
          const [[, entries] = []] = (reply ?? []) as [string, [id: string, fields: string[]][]][];
          if (!entries) return count;
          await redis.xack("messages:0", reader, ...entries.map(([id]) => id));
          count += entries.length;
        }
      },
      messagesKey: (chat) => `messages:${chat}`,
    };
  },
};

export const implementations = catalogOf<Talker>([kit, classic, raw]);
