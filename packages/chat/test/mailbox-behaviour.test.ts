import { useRedis } from "@kit/testing";
import { guardUsers, inModes, onMovingSlots, rejection, watched } from "@tooling/vitest/helpers";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import type { Chat, LeasedMessage, Mailbox, MailboxOptions } from "../src/index.js";
import * as scripts from "../src/scripts/index.js";
import { user } from "./acl.js";
import { type ChatFixture, fixtureOf, permanentKeys, untilBlocked, upTo } from "./harness.js";

const name = "invoices";
const hourMs = 3_600_000;
const bodiesOf = (messages: readonly LeasedMessage[]): unknown[] => messages.map(({ body }) => body);

/** The behaviour of mailboxes on one server or on a Cluster; with a `login`, as that user. */
inModes({ single: user.loginForText }, (mode, login) => {
  describe(`mailboxes on a ${mode === "cluster" ? "Cluster" : "single server"}${login ? ", as its ACL user" : ""}`, () => {
    const redis = useRedis(vitest, { mode, args: login ? user.serverArgs(mode) : [], permanentKeys });
    if (login) guardUsers(redis);
    const slots = onMovingSlots(redis, scripts);
    let lazyFixture: ChatFixture | undefined;
    const fixture = (): ChatFixture => (lazyFixture ??= fixtureOf(redis, login));
    /** A worker or sender with an object and a connection of its own. */
    const open = (options?: MailboxOptions): { chat: Chat; box: Mailbox } => {
      const chat = fixture().on(fixture().connect());
      return { chat, box: chat.mailbox(name, options) };
    };
    const sendMany = async (box: Mailbox, count: number): Promise<void> => {
      for (const number of upTo(count)) await box.send({ from: "shop", body: number });
    };
    /** As if the time of a lease were over. */
    const endLease = async ({ seq }: LeasedMessage): Promise<void> => {
      const { mailbox } = fixture().keysOf(name);
      const record = await fixture().db.hget(mailbox, String(seq));
      await fixture().db.hset(mailbox, String(seq), String(record).replace(/^\d+/, "1"));
    };
    const untilWaiting = async (): Promise<void> => untilBlocked(await fixture().nodeOf(name));

    it("deliver messages in order, each to one worker, until it is acknowledged", async () => {
      const { chat, box } = open();
      const other = open().box;
      await sendMany(box, 5);
      const first = await box.take({ limit: 2 });
      expect(first).toMatchObject([
        { chat: name, seq: 1, from: "shop", body: 1, deliveries: 1, gap: undefined },
        { seq: 2, body: 2, deliveries: 1 },
      ]);
      expect(bodiesOf(await other.take({ limit: 100 }))).toEqual([3, 4, 5]);
      expect(await box.take({ limit: 100 })).toEqual([]);
      expect(await first[0]!.ack()).toBe(true);
      expect(await first[0]!.ack()).toBe(true);
      expect(await chat.inspect(name)).toMatchObject({ head: 5, messages: 4, slowest: 1 });
    });

    it("let workers compete for a hundred messages: all are handled, none twice", async () => {
      const { chat, box } = open();
      const seen: unknown[] = [];
      const working = upTo(4).map(async () => {
        const worker = open().box;
        while (seen.length < 100)
          for (const message of await worker.take({ limit: 3, waitMs: 100 })) {
            seen.push(message.body);
            expect(await message.ack()).toBe(true);
          }
      });
      await sendMany(box, 100);
      await Promise.all(working);
      expect(seen.map(Number).toSorted((one, two) => one - two)).toEqual(upTo(100));
      expect(await box.stats()).toMatchObject({ length: 0, leased: 0, oldestAt: undefined });
      expect(await chat.inspect(name)).toMatchObject({ head: 100, messages: 0, slowest: 100 });
    });

    it("deliver a message again when its lease has ended, to a worker that is waiting", async () => {
      const { box } = open();
      await sendMany(box, 2);
      const [lost] = await box.take({ leaseMs: 100 });
      const [held] = await box.take({ leaseMs: hourMs });
      const [again] = await open().box.take({ waitMs: 60_000, leaseMs: hourMs });
      expect(again).toMatchObject({ seq: 1, body: 1, deliveries: 2 });
      expect([await lost!.ack(), await lost!.extend(), await lost!.release()]).toEqual([false, false, false]);
      expect([await again!.ack(), await held!.ack()]).toEqual([true, true]);
      // Another worker has acknowledged it, and repeats that.
      expect([await lost!.ack(), await again!.ack()]).toEqual([false, true]);
      expect(await box.stats()).toMatchObject({ length: 0 });
      // The next worker still finds that out when it has taken and acknowledged others.
      await sendMany(box, 1);
      const [next] = await box.take();
      expect([await next!.ack(), await lost!.ack(), await held!.ack()]).toEqual([true, false, true]);
    });

    it("record the last 256 acknowledgements of messages that several workers had", async () => {
      const { box } = open();
      const other = open().box;
      await Promise.all(upTo(258).map((body) => box.send({ from: "shop", body })));
      const takeAll = async (from: Mailbox): Promise<LeasedMessage[]> =>
        (await Promise.all(upTo(3).map(() => from.take({ limit: 100, leaseMs: hourMs })))).flat();
      const first = await takeAll(box);
      expect(await Promise.all(first.map((message) => message.release()))).not.toContain(false);
      const second = await takeAll(other);
      expect(await Promise.all(second.map((message) => message.ack()))).not.toContain(false);
      const late = await Promise.all(first.map((message) => message.ack()));
      expect(late.filter((isDone) => !isDone)).toHaveLength(256);
      expect(await fixture().db.hlen(fixture().keysOf(name).mailbox)).toBe(257);
      expect(await box.stats()).toMatchObject({ length: 0, leased: 0 });
    });

    it("accept an acknowledgement after the end of a lease, as long as no other worker has the message", async () => {
      const { box } = open();
      await sendMany(box, 1);
      const [late] = await box.take();
      await endLease(late!);
      expect(await late!.ack()).toBe(true);
      expect(await box.take()).toEqual([]);
    });

    it("extend a lease, even one that has ended, and deliver released messages immediately and first", async () => {
      const { box } = open();
      await sendMany(box, 2);
      const [message] = await box.take({ leaseMs: hourMs });
      await endLease(message!);
      expect(await message!.extend()).toBe(true);
      const [second] = await box.take({ limit: 2, leaseMs: hourMs });
      expect(second).toMatchObject({ seq: 2 });
      const waiting = open().box.take({ limit: 2, waitMs: 60_000 });
      await untilWaiting();
      expect([await message!.release(), await message!.release()]).toEqual([true, true]);
      expect(await waiting).toMatchObject([{ seq: 1, deliveries: 2 }]);
      expect(await message!.release()).toBe(false);
      expect(await rejection(second!.extend(0))).toBeInstanceOf(RangeError);
    });

    it("forget nothing after an unacknowledged message: the others may be acknowledged in any order", async () => {
      const { chat, box } = open();
      await sendMany(box, 4);
      const messages = await box.take({ limit: 3 });
      await messages[2]!.ack();
      await messages[1]!.ack();
      expect(await chat.inspect(name)).toMatchObject({ slowest: 0, messages: 4 });
      expect(await box.stats()).toMatchObject({ length: 2, leased: 1 });
      await messages[0]!.ack();
      expect(await chat.inspect(name)).toMatchObject({ slowest: 3, messages: 1 });
      expect(bodiesOf(await box.take({ limit: 9 }))).toEqual([4]);
    });

    it("show a sender the length, the oldest age, and when the recipient was there", async () => {
      const { box } = open();
      const nothing = { oldestAt: undefined, oldestAgeMs: undefined, lastSeenAt: undefined, lastSeenAgeMs: undefined };
      expect(await box.stats()).toEqual({ length: 0, leased: 0, ...nothing });
      const { at } = await box.send({ from: "shop", body: 1 });
      await sendMany(box, 2);
      const before = await box.stats();
      expect(before).toMatchObject({ length: 3, leased: 0, oldestAt: at, lastSeenAt: undefined });
      expect(before.oldestAgeMs).toBeGreaterThanOrEqual(0);
      const [message] = await box.take({ leaseMs: hourMs });
      const seen = await box.stats();
      expect(seen).toMatchObject({ length: 3, leased: 1, oldestAt: at });
      expect(seen.lastSeenAt).toBeGreaterThanOrEqual(at);
      expect(seen.lastSeenAgeMs).toBeGreaterThanOrEqual(0);
      await message!.ack();
      const after = await box.stats();
      expect(after).toMatchObject({ length: 2, leased: 0 });
      expect(after.oldestAt).toBeGreaterThanOrEqual(at);
    });

    it("wake a worker for a message, with no command in between", async () => {
      const { chat, box } = open();
      await chat.create("other", { members: ["ann", "bob"] });
      const waiting = watched(box.take({ waitMs: 60_000 }));
      await untilWaiting();
      await chat.send("other", { from: "ann", body: "not for it" });
      await box.send({ from: "shop", body: "first" });
      expect(bodiesOf(await waiting.promise)).toEqual(["first"]);
      const next = box.take({ waitMs: 60_000 });
      await box.send({ from: "shop", body: "second" });
      expect(bodiesOf(await next)).toEqual(["second"]);
      expect(await box.take({ waitMs: 50 })).toEqual([]);
    });

    it("end a wait by its signal or by close, and lease nothing then", async () => {
      const { chat, box } = open();
      const controller = new AbortController();
      const waiting = watched(box.take({ waitMs: 60_000, signal: controller.signal }));
      const closing = watched(box.take({ waitMs: 60_000 }));
      await untilWaiting();
      controller.abort("enough");
      expect(await rejection(waiting.promise)).toBe("enough");
      expect(await rejection(box.take({ signal: controller.signal }))).toBe("enough");
      await chat.close();
      expect(await rejection(closing.promise)).toMatchObject({ code: "KIT_CLOSED" });
      const other = open().box;
      await sendMany(other, 1);
      expect(bodiesOf(await other.take())).toEqual([1]);
    });

    it("reject more than they hold until a message is acknowledged, or drop the oldest and report which", async () => {
      const { box } = open({ retain: { count: 2 } });
      await sendMany(box, 2);
      expect(await rejection(box.send({ from: "shop", body: 3 }))).toMatchObject({ code: "KIT_CHAT_FULL" });
      await (await box.take())[0]!.ack();
      expect(await box.send({ from: "shop", body: 3 })).toMatchObject({ seq: 3 });

      const { chat } = open();
      const lossy = chat.mailbox("lossy", { retain: { count: 2 }, whenFull: "drop" });
      await sendMany(lossy, 5);
      expect(await lossy.take({ limit: 9 })).toMatchObject([
        { seq: 4, gap: { from: 1, to: 3, reason: "retention" } },
        { seq: 5, gap: undefined },
      ]);
      await sendMany(lossy, 3);
      expect(await lossy.stats()).toMatchObject({ length: 2, leased: 0 });
    });

    it("keep within the bytes of a call, but deliver one message in any case", async () => {
      const { box } = open();
      for (const _ of upTo(3)) await box.send({ from: "shop", body: "x".repeat(100) });
      expect(await box.take({ limit: 9, maxBytes: 250 })).toHaveLength(2);
      expect(await box.take({ limit: 9, maxBytes: 1 })).toHaveLength(1);
    });

    it("accept a client id once, and keep messages that the recipient sends to itself", async () => {
      const { box } = open();
      const sent = await box.send({ from: name, body: 1, clientId: "m" });
      expect(await box.send({ from: name, body: 2, clientId: "m" })).toEqual({ ...sent, duplicate: true });
      expect(bodiesOf(await box.take({ limit: 9 }))).toEqual([1]);
    });

    it("are chats of one member: an acknowledgement by number ends the leases up to it", async () => {
      const { chat, box } = open();
      await sendMany(box, 4);
      const messages = await box.take({ limit: 2 });
      await chat.ack(name, { chat: name, seq: 3 });
      await endLease(messages[0]!).catch(() => undefined);
      expect(bodiesOf(await box.take({ limit: 9 }))).toEqual([4]);
      expect(await box.stats()).toMatchObject({ length: 1, leased: 1 });
      expect(await messages[1]!.ack()).toBe(true);
      expect((await chat.history(name, { member: name })).messages.map(({ seq }) => seq)).toEqual([4]);
    });

    it("start again when they are deleted, and leave no key", async () => {
      const { chat, box } = open();
      await sendMany(box, 2);
      const [old] = await box.take({ leaseMs: hourMs });
      await chat.delete(name);
      expect(await fixture().keysLeft()).toEqual([]);
      expect(await rejection(old!.ack())).toMatchObject({ code: "KIT_CHAT_UNKNOWN" });
      await sendMany(box, 1);
      expect(await old!.ack()).toBe(false);
      expect(await box.take({ limit: 9 })).toMatchObject([{ seq: 1, deliveries: 1 }]);
      await chat.delete(name);
    });

    it("refuse a chat of the same name with another member, and may have any name", async () => {
      const { chat } = open();
      await chat.create("room", { members: ["ann"] });
      expect(await rejection(chat.mailbox("room").take())).toMatchObject({ code: "KIT_CHAT_NOT_MEMBER" });
      for (const odd of ["{}:%", "\0", "__proto__"]) {
        await chat.mailbox(odd).send({ from: odd, body: odd });
        expect(bodiesOf(await chat.mailbox(odd).take())).toEqual([odd]);
      }
    });

    if (mode === "cluster") slots.itRan(["chat.mailbox", "chat.settle", "chat.take"]);
  });
});
