import { useRedis } from "@kit/testing";
import { rejection } from "@tooling/vitest/helpers";
import fc from "fast-check";
import * as vitest from "vitest";
import { expect, it } from "vitest";
import type { CreateOptions, LeasedMessage, FetchPage } from "../src/index.js";
import { Keys } from "../src/keys.js";
import { fixtureOf, permanentKeys } from "./harness.js";
import { ModelChat, ModelMailbox, ModelReader } from "./model.js";

/** Random histories, run on the server and on a small model; both must reply and store the same. */
const redis = useRedis(vitest, { permanentKeys });
const fixture = fixtureOf(redis);

const names = ["a", "b"];
const users = ["ann", "bob", "cid"];
let round = 0;

const settings: readonly CreateOptions[] = [
  {},
  { retain: { count: 3 } },
  { retain: { bytes: 20 }, maxBodyBytes: 10, senders: "anyone" },
  { retain: { readByAll: true } },
  { retain: { count: 4, bytes: 25, readByAll: true }, maxBodyBytes: 10, whenFull: "refuse" },
];

type Step =
  | { do: "send"; chat: string; user: string; size: number; id: number }
  | { do: "ack"; chat: string; user: string; back: number }
  | { do: "join"; chat: string; user: string; history: "none" | "all" | number }
  | { do: "leave" | "remake"; chat: string; user: string }
  | { do: "fetch"; user: string; device: number; limit: number; isFresh: boolean }
  | { do: "look"; chat: string; user: string; before: number; limit: number };

const chat = fc.constantFrom(...names);
const user = fc.constantFrom(...users);
const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 8,
    arbitrary: fc.record({
      do: fc.constant("send"),
      chat,
      user,
      size: fc.constantFrom(0, 5, 10, 11),
      id: fc.nat({ max: 40 }),
    }),
  },
  { weight: 4, arbitrary: fc.record({ do: fc.constant("ack"), chat, user, back: fc.integer({ min: -1, max: 6 }) }) },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant("join"),
      chat,
      user,
      history: fc.oneof(fc.constantFrom("none" as const, "all" as const), fc.nat({ max: 3 })),
    }),
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constantFrom("leave", "leave", "remake"), chat, user }) },
  {
    weight: 8,
    arbitrary: fc.record({
      do: fc.constant("fetch"),
      user,
      device: fc.nat({ max: 1 }),
      limit: fc.integer({ min: 1, max: 4 }),
      isFresh: fc.nat({ max: 9 }).map((n) => n < 3),
    }),
  },
  {
    weight: 5,
    arbitrary: fc.record({
      do: fc.constant("look"),
      chat,
      user,
      before: fc.nat({ max: 12 }),
      limit: fc.integer({ min: 1, max: 5 }),
    }),
  },
);

const codeOf = async (call: Promise<unknown>): Promise<string> =>
  await call.then(
    () => "",
    (error: unknown) => (error as { code: string }).code,
  );

const play = async (steps: readonly Step[], chosen: readonly number[]): Promise<void> => {
  // One shard, so that a page is cut for all chats or for none.
  const chats = fixture.make({ prefix: `${redis.prefix}:${String(round++)}`, shards: 1, deadlineMs: 20_000 });
  const optionsOf = (name: string): CreateOptions => ({
    ...settings[chosen[names.indexOf(name)] ?? 0],
    members: users.slice(0, 2),
  });
  const model = new Map<string, ModelChat>();
  const remake = async (name: string): Promise<void> => {
    expect(await chats.create(name, optionsOf(name))).toEqual({ created: true });
    model.set(name, new ModelChat(optionsOf(name)));
  };
  for (const name of names) await remake(name);
  const modelOf = (name: string): ModelChat => model.get(name)!;
  const readers = new Map<string, { token: string | undefined; model: ModelReader }>();
  const readersOf = (member: string): ModelReader[] =>
    [0, 1].flatMap((device) => readers.get(`${member} ${String(device)}`)?.model ?? []);
  const leave = (name: string, member: string): void => {
    if (modelOf(name).members.has(member)) for (const reader of readersOf(member)) reader.leaves(name);
  };

  const checkPage = (reader: ModelReader, member: string, page: FetchPage, limit: number): void => {
    const given = new Map(page.chats.map((one) => [one.chat, one]));
    expect(page.chats.reduce((sum, { messages }) => sum + messages.length, 0)).toBeLessThanOrEqual(limit);
    for (const [name, own] of model) {
      const { start, reset } = reader.startIn(name, own, member);
      const news = given.get(name);
      if (!news) {
        expect(page.more || start >= own.head, `${name} is missing after ${String(start)}`).toBe(true);
        continue;
      }
      const first = Math.max(start, own.floor);
      const { messages } = news;
      expect(messages.map(({ seq }) => seq)).toEqual(messages.map((_, index) => first + index + 1));
      expect(messages.map(({ body }) => body)).toEqual(messages.map(({ seq }) => own.messages[seq - 1]?.body));
      expect(news.gap).toEqual(start < own.floor ? { from: start + 1, to: own.floor, reason: "retention" } : undefined);
      expect(news.reset).toBe(reset);
      expect(news.unread).toBe(own.unread(member));
      if (!page.more) expect(messages.at(-1)?.seq ?? own.head).toBe(own.head);
      // A gap of a chat without a message for this reader is reported once, too.
      const seq = messages.at(-1)?.seq ?? (first >= own.head ? own.head : undefined);
      if (seq === undefined) reader.cursors.delete(name);
      else reader.cursors.set(name, { life: own.life, seq });
    }
    for (const name of page.left) {
      expect(reader.left.has(name)).toBe(true);
      reader.reported.add(name);
      reader.deleted.delete(name);
      reader.cursors.delete(name);
    }
    if (page.more) return;
    for (const name of reader.left)
      if (!modelOf(name).members.has(member)) expect(reader.reported.has(name)).toBe(true);
    reader.isComplete(model);
  };

  for (const one of steps)
    switch (one.do) {
      case "send": {
        const body = "x".repeat(one.size);
        const message = { from: one.user, body, clientId: String(one.id) };
        const wanted = modelOf(one.chat).send(one.user, body, message.clientId);
        const sending = chats.send(one.chat, message);
        if (typeof wanted === "string") expect(await rejection(sending)).toMatchObject({ code: wanted });
        else expect(await sending).toMatchObject(wanted);
        break;
      }
      case "ack": {
        const seq = Math.max(0, modelOf(one.chat).head - one.back);
        expect(await codeOf(chats.ack(one.user, { chat: one.chat, seq }))).toBe(modelOf(one.chat).ack(one.user, seq));
        break;
      }
      case "join": {
        const { position } = await chats.join(one.chat, one.user, { history: one.history });
        expect(position).toBe(modelOf(one.chat).join(one.user, one.history));
        break;
      }
      case "leave":
        leave(one.chat, one.user);
        await chats.leave(one.chat, one.user);
        modelOf(one.chat).leave(one.user);
        break;
      case "remake":
        for (const member of modelOf(one.chat).members.keys())
          for (const reader of readersOf(member)) reader.loses(one.chat);
        await chats.delete(one.chat);
        await remake(one.chat);
        break;
      case "fetch": {
        const key = `${one.user} ${String(one.device)}`;
        if (one.isFresh) readers.delete(key);
        const reader = readers.get(key) ?? { token: undefined, model: new ModelReader() };
        const page: FetchPage = await chats.fetch(one.user, { token: reader.token, limit: one.limit });
        checkPage(reader.model, one.user, page, one.limit);
        readers.set(key, { token: page.token, model: reader.model });
        break;
      }
      case "look": {
        const own = modelOf(one.chat);
        const { before, limit } = one;
        const { messages, hasOlder } = await chats.history(one.chat, { before, limit });
        const last = Math.min(before - 1, own.head);
        const first = Math.max(own.floor, last - limit);
        const wanted = Array.from({ length: Math.max(0, last - first) }, (_, index) => first + index + 1);
        expect(messages.map(({ seq }) => seq)).toEqual(wanted);
        if (wanted.length > 0) expect(hasOlder).toBe(first > own.floor);
        const counts = await chats.unread(one.user);
        const unread = [...model].filter(([, each]) => each.members.has(one.user) && each.unread(one.user) > 0);
        expect(counts).toEqual(new Map(unread.map(([name, each]) => [name, each.unread(one.user)])));
      }
    }
  for (const [name, own] of model) {
    const { head, messages } = await chats.inspect(name);
    expect({ head, messages }).toEqual({ head: own.head, messages: own.head - own.floor });
    const positions = (await chats.members(name)).members.map(({ member, position }) => [member, position] as const);
    expect(new Map(positions)).toEqual(
      new Map(Array.from(own.members, ([member, { position }]) => [member, position])),
    );
  }
  await chats.close();
};

/** A page with a part of one chat, and of another no more than that its messages are dropped. */
const onlyAGap: [Step[], [number, number]] = [
  [
    { do: "fetch", user: "bob", device: 1, limit: 1, isFresh: true },
    { do: "send", chat: "a", user: "ann", size: 0, id: 0 },
    { do: "leave", chat: "b", user: "ann" },
    { do: "send", chat: "b", user: "bob", size: 0, id: 0 },
    { do: "send", chat: "a", user: "ann", size: 0, id: 1 },
    { do: "fetch", user: "bob", device: 1, limit: 2, isFresh: false },
    { do: "fetch", user: "bob", device: 1, limit: 2, isFresh: false },
  ],
  [0, 3],
];

/** A send that is refused drops what its members have read nevertheless. */
const refusedAfterAJoin: [Step[], [number, number]] = [
  [
    { do: "send", chat: "b", user: "bob", size: 0, id: 0 },
    { do: "leave", chat: "b", user: "bob" },
    { do: "leave", chat: "b", user: "ann" },
    { do: "join", chat: "b", user: "ann", history: 0 },
    { do: "send", chat: "b", user: "ann", size: 11, id: 0 },
  ],
  [0, 4],
];

it("does what the model of chats does, for any calls in any order", async () => {
  const chosen = fc.tuple(...names.map(() => fc.nat({ max: settings.length - 1 })));
  await fc.assert(fc.asyncProperty(fc.array(step, { minLength: 10, maxLength: 60 }), chosen, play), {
    numRuns: 120,
    examples: [onlyAGap, refusedAfterAJoin],
  });
});

type Errand =
  { do: "send" | "end" } | { do: "take"; limit: number } | { do: "ack" | "extend" | "release"; pick: number };
const errand: fc.Arbitrary<Errand> = fc.oneof(
  { weight: 4, arbitrary: fc.record({ do: fc.constantFrom("send", "send", "send", "end") }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant("take"), limit: fc.integer({ min: 1, max: 4 }) }) },
  { weight: 5, arbitrary: fc.record({ do: fc.constantFrom("ack", "ack", "extend", "release"), pick: fc.nat() }) },
);

const run = async (errands: readonly Errand[]): Promise<void> => {
  const name = `errands ${String(round++)}`;
  const chats = fixture.make({ deadlineMs: 20_000 });
  const mailbox = chats.mailbox(name);
  const model = new ModelMailbox();
  const key = new Keys(redis.prefix, 16).chat(name).mailbox;
  const taken: { readonly message: LeasedMessage; readonly worker: number }[] = [];
  let takes = 0;
  for (const one of errands)
    switch (one.do) {
      case "send":
        await mailbox.send({ from: "ann", body: "x" });
        model.send();
        break;
      case "end":
        // All leases are over.
        for (const [seq, lease] of Object.entries(await redis.client.hgetall(key)))
          if (seq !== "") await redis.client.hset(key, seq, lease.replace(/^\d+/, "1"));
        for (const lease of model.open.values()) lease.hasEnded = true;
        break;
      case "take": {
        const worker = ++takes;
        const messages = await mailbox.take({ limit: one.limit });
        const given = messages.map(({ seq, deliveries }) => ({ seq, deliveries }));
        expect(given).toEqual(model.take(worker, one.limit));
        taken.push(...messages.map((message) => ({ message, worker })));
        break;
      }
      default: {
        const chosen = taken[one.pick % Math.max(1, taken.length)];
        if (!chosen) break;
        const { message, worker } = chosen;
        const isDone = await message[one.do]();
        expect(isDone).toBe(model.settle(one.do, message.seq, worker));
      }
    }
  const { length, leased } = await mailbox.stats();
  const held = [...model.open.values()].filter(({ worker, hasEnded }) => worker !== undefined && !hasEnded);
  expect({ length, leased }).toEqual({ length: model.open.size, leased: held.length });
  await chats.close();
};

it("does what the model of a mailbox does", async () => {
  await fc.assert(fc.asyncProperty(fc.array(errand, { minLength: 5, maxLength: 40 }), run), { numRuns: 120 });
});
