import { type Chat, createChat } from "@kit/chat";
import type { CostedOperation, IdleObject, StoredObject } from "../operation.js";
import { inGroups, manyCallers, oneByOne } from "../operation.js";
import type { Scene } from "../scene.js";
import { someText } from "./data.js";

const others = Array.from({ length: 8 }, (_, index) => `member ${String(index)}`);
const from = "sender";
const readerOf = (scene: Scene): string => `reader ${String(scene.index)}`;
const nameOf = (scene: Scene, index = 0): string => `order:${String(scene.index)}:${String(index)}`;

/** So many chats of ten members. */
const chatOn = async (scene: Scene, chats = 1): Promise<Chat<string>> => {
  const chat = scene.own(createChat<string>(await scene.client()));
  const members = [readerOf(scene), from, ...others];
  await inGroups(500, (index) => chat.create(nameOf(scene, index), { members }))(chats);
  return chat;
};

/** A reader with a token, that has read everything. */
const readerOn = async (scene: Scene, chats?: number) => {
  const chat = await chatOn(scene, chats);
  let token: string | undefined;
  const next = async () => {
    const page = await chat.fetch(readerOf(scene), { token });
    ({ token } = page);
    return page;
  };
  while ((await next()).more);
  return { chat, next };
};

const sendTo = (chat: Chat<string>, scene: Scene): Promise<unknown> =>
  chat.send(nameOf(scene), { from, body: someText() });

export const operations: readonly CostedOperation[] = [
  {
    package: "chat",
    name: "send",
    about: "100 bytes, any number of members",
    count: 2_000,
    callers: manyCallers,
    open: async (scene) => {
      const chat = await chatOn(scene);
      return { run: oneByOne(() => sendTo(chat, scene)) };
    },
  },
  {
    package: "chat",
    name: "send, 100 at a time",
    about: "concurrent messages to one chat",
    count: 5_000,
    open: async (scene) => {
      const chat = await chatOn(scene);
      return { run: inGroups(100, () => sendTo(chat, scene)) };
    },
  },
  {
    package: "chat",
    name: "fetch, nothing new",
    about: "a member's 100 chats, by token",
    count: 480,
    callers: manyCallers,
    open: async (scene) => {
      const { next } = await readerOn(scene, 100);
      return { run: oneByOne(next) };
    },
  },
  {
    package: "chat",
    name: "send, fetch and ack",
    about: "one reader",
    count: 320,
    callers: manyCallers,
    open: async (scene) => {
      const { chat, next } = await readerOn(scene, 1);
      return {
        run: oneByOne(async () => {
          await sendTo(chat, scene);
          const { chats } = await next();
          await chat.ack(readerOf(scene), chats[0]?.messages.slice(-1) ?? []);
        }),
      };
    },
  },
];

export const stored: readonly StoredObject[] = [
  {
    package: "chat",
    name: "a chat of ten members",
    about: "no messages",
    count: 2_000,
    store: async (scene, count) => chatOn(scene, count),
  },
  {
    package: "chat",
    name: "a message",
    about: "100 bytes, until all have read it",
    count: 10_000,
    store: async (scene, count) => {
      const chat = await chatOn(scene);
      await inGroups(1_000, () => sendTo(chat, scene))(count);
    },
  },
];

export const idle: readonly IdleObject[] = [
  {
    package: "chat",
    name: "a listener of one member",
    about: "in 10 chats",
    open: async (scene) => {
      const chat = await chatOn(scene, 10);
      const end = new AbortController();
      const listening = chat.listen(readerOf(scene), { signal: end.signal }).each(() => undefined);
      scene.atEnd(async () => {
        end.abort();
        await listening.catch(() => undefined);
      });
    },
  },
  {
    package: "chat",
    name: "listeners of 100 members",
    about: "of one process",
    open: async (scene) => {
      const chat = scene.own(createChat<string>(await scene.client()));
      const end = new AbortController();
      const all: Promise<unknown>[] = [];
      for (let index = 0; index < 100; index++) {
        const name = `one of many ${String(index)}`;
        await chat.create(name, { members: [name] });
        all.push(chat.listen(name, { signal: end.signal }).each(() => undefined));
      }
      scene.atEnd(async () => {
        end.abort();
        await Promise.allSettled(all);
      });
    },
  },
];
