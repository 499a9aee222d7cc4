import { eventually, type RedisMode, type RedisNode, type TestRedis } from "@kit/testing";
import { clientsOf, type Login, nodeOf } from "@tooling/vitest/helpers";
import type { Redis } from "ioredis";
import { type Chat, type ChatOptions, createChat, type Message, type FetchPage } from "../src/index.js";
import { type ChatKeys, Keys } from "../src/keys.js";

/** The chat of a test, unless it has several. */
export const room = "order:1";

/** The server as a chat test uses it. */
export interface ChatFixture {
  /** A new client of the user whose chats are tested, gone after the test. */
  connect: TestRedis<RedisMode>["connect"];
  /** A chat object on the shared client under the test's prefix, closed after the test. */
  make(options?: ChatOptions): Chat;
  /** The same on a given client. */
  on(client: Parameters<typeof createChat>[0], options?: ChatOptions): Chat;
  keysOf(chat: string): ChatKeys;
  memberKey(chat: string, user: string): string;
  /** Commands for the keys; on a Cluster they are routed. */
  readonly db: Redis;
  /** The server process that serves a chat. */
  nodeOf(chat: string): Promise<RedisNode>;
  /** All keys of the test's prefix but those that belong to no chat. */
  keysLeft(): Promise<string[]>;
}

/** With a `login` all chats are that user's, and only the tests' own commands go over the shared client. */
export const fixtureOf = (redis: TestRedis<RedisMode>, login?: Login): ChatFixture => {
  const clients = clientsOf(redis, login);
  const on: ChatFixture["on"] = (client, options = {}) => {
    const chat = createChat(client, { prefix: redis.prefix, deadlineMs: 10_000, ...options });
    redis.defer(() => chat.close({ timeoutMs: 0 }));
    return chat;
  };
  const keys = (): Keys => new Keys(redis.prefix, 16);
  const db = (): Redis => redis.client as Redis;
  return {
    connect: clients.connect,
    make: (options) => on(clients.shared(), options),
    on,
    keysOf: (chat) => keys().chat(chat),
    memberKey: (chat, user) => keys().member(keys().shardOf(chat), user),
    get db() {
      return db();
    },
    nodeOf: (chat) => nodeOf(redis.server.nodes, keys().chat(chat).meta),
    keysLeft: async () => (await redis.keys()).filter((key) => !/:(activity|layout)$/.test(key)),
  };
};

/** Keys that stay while there are chats, or for good. */
export const permanentKeys: RegExp[] = [/:chat:\{/];

/** Sends numbered messages one after another. */
export const sendMany = async (chat: Chat, from: string, count: number, name: string = room): Promise<void> => {
  await Promise.all(Array.from({ length: count }, (_, index) => chat.send(name, { from, body: `m${index + 1}` })));
};

/** The sequences of one chat on a page. */
export const seqsOf = (page: FetchPage, name: string = room): number[] =>
  page.chats.filter(({ chat }) => chat === name).flatMap(({ messages }) => messages.map(({ seq }) => seq));

/** All messages that a reader gets from its place on, over as many pages as it takes. */
export const drain = async (
  chat: Chat,
  member: string,
  options: { readonly token?: string; readonly limit?: number } = {},
): Promise<{ messages: Message[]; token: string; pages: FetchPage[] }> => {
  const messages: Message[] = [];
  const pages: FetchPage[] = [];
  let { token } = options;
  for (;;) {
    const page = await chat.fetch(member, { ...options, ...(token === undefined ? {} : { token }) });
    pages.push(page);
    messages.push(...page.chats.flatMap((one) => one.messages));
    token = page.token;
    if (!page.more) return { messages, token, pages };
  }
};

/** `1 … count`. */
export const upTo = (count: number): number[] => Array.from({ length: count }, (_, index) => index + 1);

/** Waits until a process has its blocked read on a node. */
export const untilBlocked = async (node: {
  call(command: string, ...args: string[]): Promise<unknown>;
}): Promise<void> => {
  await eventually(async () => {
    const clients = String(await node.call("CLIENT", "LIST"));
    if (!/name=kit:chat .*cmd=xread/.test(clients)) throw new Error("nobody is blocked");
  });
};
