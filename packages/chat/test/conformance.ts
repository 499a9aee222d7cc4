import {
  boolean,
  canary,
  choice,
  clientRules,
  type Conformance,
  conforming,
  integer,
  refusing,
  signal,
  text,
} from "@tooling/vitest/conformance";
import {
  type Chat,
  createChat,
  type CreateOptions,
  type FetchOptions,
  type HistoryOptions,
  type LeasedMessage,
  type ListenOptions,
  type MailboxOptions,
  type MembersOptions,
  type SendOptions,
  type TailOptions,
  type TakeOptions,
  type WaitOptions,
} from "../src/index.js";
import { permanentKeys, room } from "./harness.js";

const longMs = 100 * 365 * 86_400_000;
const maxBytes = integer(1);
const token = refusing(42, null);
const maxBodyBytes = integer(1, 512 * 1_024 * 1_024);
const dedupeMs = integer(1_000, longMs);

const made = async (chat: Chat): Promise<void> => void (await chat.create(room, { members: ["ann", "bob"] }));
/** A message for bob. */
const sent = async (chat: Chat): Promise<void> => {
  await made(chat);
  await chat.send(room, { from: "ann", body: canary });
};
const boxed = async (chat: Chat): Promise<void> => void (await chat.mailbox("box").send({ from: "ann", body: canary }));
const taken = async (chat: Chat): Promise<LeasedMessage> => {
  await boxed(chat);
  return (await chat.mailbox("box").take())[0]!;
};

/** The body of the first entry. */
const first = async (entries: AsyncIterable<{ readonly body: unknown }>): Promise<unknown> => {
  for await (const { body } of entries) return body;
  return undefined;
};

const sendRules = {
  clientId: text(128),
  durable: refusing(1),
  signal,
};
const message = { from: "ann", body: canary };

/** Chats and mailboxes, for the conformance suites. */
export const conformance: Conformance = {
  name: "chat",
  permanentKeys,
  objects: [
    conforming<Chat>({
      what: "a chat",
      make: (client, options) => createChat(client, options),
      options: { ...clientRules, shards: integer(1, 256), maxBodyBytes, maxPending: integer(1) },
      readsFirst: true,
      uses: (chat) => chat.fetch("bob"),
      wakes: {
        wait: async (chat, settle) => {
          await made(chat);
          const { token: now } = await chat.fetch("bob");
          const waiting = chat.wait("bob", { token: now, waitMs: 600_000 });
          await settle();
          await chat.send(room, message);
          return await waiting;
        },
        listen: async (chat, settle) => {
          await made(chat);
          const controller = new AbortController();
          const got: unknown[] = [];
          const listening = chat
            .listen("bob", { signal: controller.signal })
            .each(({ body }) => {
              got.push(body);
              controller.abort();
            })
            .catch(() => undefined);
          await settle();
          await chat.send(room, message);
          await listening;
          return got;
        },
        "mailbox.take": async (chat, settle) => {
          const taking = chat.mailbox("box").take({ waitMs: 600_000 });
          await settle();
          await boxed(chat);
          return (await taking).map(({ body }) => body);
        },
        tail: async (chat, settle) => {
          await made(chat);
          const tailing = first(chat.tail(room));
          await settle();
          await chat.send(room, message);
          return await tailing;
        },
      },
      calls: {
        create: {
          options: {
            members: refusing("ann", 1),
            retain: refusing({ count: 0 }, { bytes: 10 }, { ageMs: 1.5 }, { readByAll: 1 }, { days: 1 }),
            whenFull: choice("drop", "refuse"),
            senders: choice("members", "anyone"),
            lag: refusing({ messages: 0 }, { ageMs: 0 }, { days: 1 }),
            maxBodyBytes,
            dedupeMs,
            receipts: boolean,
          },
          prepare: (chat) => chat.unread("ann"),
          run: (chat, options: CreateOptions) => chat.create(room, options),
          named: (chat, name) => chat.create(name),
          trace: ["kit:chat.create", { chat: room }],
        },
        send: {
          options: sendRules,
          required: message,
          prepare: made,
          run: (chat, options: SendOptions<unknown>) => chat.send(room, options),
          named: (chat, from) => chat.send(room, { from, body: 1 }),
          trace: ["kit:chat.send", { chat: room, from: "ann" }],
        },
        fetch: {
          options: { token, limit: integer(1, 10_000), maxBytes, autoAck: boolean, positions: boolean, signal },
          prepare: sent,
          run: (chat, options: FetchOptions) => chat.fetch("bob", options),
          named: (chat, name) => chat.fetch(name),
          trace: ["kit:chat.fetch", { member: "bob" }],
        },
        "fetch, of nobody": {
          options: { signal },
          run: (chat, options: FetchOptions) => chat.fetch("nobody", options),
        },
        wait: {
          options: { token, waitMs: integer(0), positions: boolean, signal },
          required: { waitMs: 100 },
          prepare: sent,
          run: (chat, options: WaitOptions) => chat.wait("bob", options),
          named: (chat, name) => chat.wait(name, { waitMs: 1 }),
          trace: ["kit:chat.wait", { member: "bob" }],
        },
        "wait, for news": {
          options: { signal },
          prepare: made,
          run: (chat, options: WaitOptions) => chat.wait("bob", options),
          waits: true,
        },
        "listen, to each": {
          options: { token, limit: integer(1, 10_000), maxBytes, maxInFlight: integer(1), positions: boolean, signal },
          prepare: made,
          run: (chat, options: ListenOptions) => chat.listen("bob", options).each(() => undefined),
          waits: true,
        },
        mailbox: {
          options: {
            retain: refusing({ count: 0 }, { readByAll: true }),
            whenFull: choice("drop", "refuse"),
            maxBodyBytes,
            dedupeMs,
          },
          run: (chat, options: MailboxOptions) => void chat.mailbox("box", options),
          isLocal: true,
          closed: undefined,
        },
        "mailbox.send": {
          options: sendRules,
          required: message,
          run: (chat, options: SendOptions<unknown>) => chat.mailbox("box").send(options),
        },
        "mailbox.take": {
          options: { limit: integer(1, 100), maxBytes, leaseMs: integer(1, longMs), waitMs: integer(0), signal },
          prepare: boxed,
          run: (chat, options: TakeOptions) => chat.mailbox("box").take(options),
          isFinished: true,
          trace: ["kit:chat.take", { chat: "box" }],
          named: (chat, name) => chat.mailbox(name).take(),
        },
        "mailbox.take, waiting": {
          options: { signal },
          required: { waitMs: 600_000 },
          run: (chat, options: TakeOptions) => chat.mailbox("box").take(options),
          isFinished: true,
          waits: true,
        },
        "mailbox.take, then ack": {
          prepare: taken,
          run: (_chat, _options, one: LeasedMessage) => one.ack(),
          trace: ["kit:chat.ackLeased", { chat: "box", seq: 1 }],
        },
        "mailbox.take, then extend": {
          prepare: taken,
          run: (_chat, _options, one: LeasedMessage) => one.extend(),
          trace: ["kit:chat.extend", { chat: "box", seq: 1 }],
        },
        "mailbox.take, then release": {
          prepare: taken,
          run: (_chat, _options, one: LeasedMessage) => one.release(),
          trace: ["kit:chat.release", { chat: "box", seq: 1 }],
        },
        "mailbox.stats": {
          prepare: boxed,
          run: (chat) => chat.mailbox("box").stats(),
          named: (chat, name) => chat.mailbox(name).stats(),
          trace: ["kit:chat.mailboxStats", { chat: "box" }],
        },
        ack: {
          prepare: sent,
          run: (chat) => chat.ack("bob", { chat: room, seq: 1 }),
          named: (chat, name) => chat.ack("bob", { chat: name, seq: 1 }),
          trace: ["kit:chat.ack", { member: "bob" }],
        },
        unread: {
          prepare: sent,
          run: (chat) => chat.unread("bob"),
          named: (chat, name) => chat.unread(name),
          trace: ["kit:chat.unread", { member: "bob" }],
        },
        history: {
          options: {
            before: integer(0),
            after: integer(0),
            around: integer(0),
            at: integer(0),
            limit: integer(1, 1_000),
            maxBytes,
            member: text(512),
          },
          prepare: sent,
          run: (chat, options: HistoryOptions) => chat.history(room, options),
          named: (chat, name) => chat.history(name),
          trace: ["kit:chat.history", { chat: room }],
        },
        tail: {
          options: { last: integer(0), signal },
          prepare: sent,
          run: async (chat, options: TailOptions) => {
            for await (const { body } of chat.tail(room, options)) if (body !== canary) throw new Error(String(body));
          },
          waits: true,
          isFinished: true,
        },
        join: {
          options: { history: refusing(-1, "some", { after: -1 }, { before: 1 }) },
          prepare: made,
          run: (chat, options) => chat.join(room, "cid", options),
          named: (chat, name) => chat.join(room, name),
          trace: ["kit:chat.join", { chat: room }],
        },
        leave: {
          prepare: made,
          run: (chat) => chat.leave(room, "bob"),
          named: (chat, name) => chat.leave(room, name),
          trace: ["kit:chat.leave", { chat: room, member: "bob" }],
        },
        members: {
          options: { cursor: refusing("x", "", 1, null), limit: integer(1, 1_000) },
          prepare: made,
          run: (chat, options: MembersOptions) => chat.members(room, options),
          named: (chat, name) => chat.members(name),
          trace: ["kit:chat.members", { chat: room }],
        },
        inspect: {
          prepare: sent,
          run: (chat) => chat.inspect(room),
          named: (chat, name) => chat.inspect(name),
          trace: ["kit:chat.inspect", { chat: room }],
        },
        delete: {
          prepare: sent,
          run: (chat) => chat.delete(room),
          named: (chat, name) => chat.delete(name),
          trace: ["kit:chat.delete", { chat: room }],
        },
      },
    }),
  ],
};
