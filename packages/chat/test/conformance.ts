import { canary, type Conformance, conforming } from "@tooling/vitest/conformance";
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
import {
  chatRules,
  createRules,
  fetchRules,
  historyRules,
  joinRules,
  listenRules,
  mailboxRules,
  membersRules,
  sendRules,
  tailRules,
  takeRules,
  waitRules,
} from "../src/options.js";
import { permanentKeys, room } from "./harness.js";

const token = [42, null];

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

/** Those that are required are checked otherwise. */
const { from: _from, body: _body, ...sending } = sendRules;
const message = { from: "ann", body: canary };

/** Chats and mailboxes, for the conformance suites. */
export const conformance: Conformance = {
  name: "chat",
  permanentKeys,
  objects: [
    conforming<Chat>({
      what: "a chat",
      make: (client, options) => createChat(client, options),
      options: chatRules,
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
          options: createRules,
          refused: {
            members: ["ann", 1],
            retain: [{ count: 0 }, { bytes: 10 }, { ageMs: 1.5 }, { readByAll: 1 }, { days: 1 }],
            lag: [{ messages: 0 }, { ageMs: 0 }, { days: 1 }],
          },
          prepare: (chat) => chat.unread("ann"),
          run: (chat, options: CreateOptions) => chat.create(room, options),
          named: (chat, name) => chat.create(name),
          trace: ["kit:chat.create", { chat: room }],
        },
        send: {
          options: sending,
          refused: { durable: [1, { replica: 1 }] },
          required: message,
          prepare: made,
          run: (chat, options: SendOptions<unknown>) => chat.send(room, options),
          named: (chat, from) => chat.send(room, { from, body: 1 }),
          trace: ["kit:chat.send", { chat: room, from: "ann" }],
        },
        fetch: {
          options: fetchRules,
          refused: { token },
          prepare: sent,
          run: (chat, options: FetchOptions) => chat.fetch("bob", options),
          named: (chat, name) => chat.fetch(name),
          trace: ["kit:chat.fetch", { member: "bob" }],
        },
        "fetch, of nobody": {
          options: { signal: fetchRules.signal },
          run: (chat, options: FetchOptions) => chat.fetch("nobody", options),
        },
        wait: {
          options: waitRules,
          refused: { token },
          required: { waitMs: 100 },
          prepare: sent,
          run: (chat, options: WaitOptions) => chat.wait("bob", options),
          named: (chat, name) => chat.wait(name, { waitMs: 1 }),
          trace: ["kit:chat.wait", { member: "bob" }],
        },
        "wait, for news": {
          options: { signal: waitRules.signal },
          prepare: made,
          run: (chat, options: WaitOptions) => chat.wait("bob", options),
          waits: true,
        },
        "listen, to each": {
          options: listenRules,
          refused: { token },
          prepare: made,
          run: (chat, options: ListenOptions) => chat.listen("bob", options).each(() => undefined),
          waits: true,
        },
        mailbox: {
          options: mailboxRules,
          refused: { retain: [{ count: 0 }, { readByAll: true }] },
          run: (chat, options: MailboxOptions) => void chat.mailbox("box", options),
          isLocal: true,
          closed: undefined,
        },
        "mailbox.send": {
          options: sending,
          refused: { durable: [1, { replica: 1 }] },
          required: message,
          run: (chat, options: SendOptions<unknown>) => chat.mailbox("box").send(options),
        },
        "mailbox.take": {
          options: takeRules,
          prepare: boxed,
          run: (chat, options: TakeOptions) => chat.mailbox("box").take(options),
          isFinished: true,
          trace: ["kit:chat.take", { chat: "box" }],
          named: (chat, name) => chat.mailbox(name).take(),
        },
        "mailbox.take, waiting": {
          options: { signal: takeRules.signal },
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
          options: historyRules,
          prepare: sent,
          run: (chat, options: HistoryOptions) => chat.history(room, options),
          named: (chat, name) => chat.history(name),
          trace: ["kit:chat.history", { chat: room }],
        },
        tail: {
          options: tailRules,
          prepare: sent,
          run: async (chat, options: TailOptions) => {
            for await (const { body } of chat.tail(room, options)) if (body !== canary) throw new Error(String(body));
          },
          waits: true,
          isFinished: true,
        },
        join: {
          options: joinRules,
          refused: { history: [-1, "some", { after: -1 }, { before: 1 }] },
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
          options: membersRules,
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
