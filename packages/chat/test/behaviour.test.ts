import { fromNodeRedis } from "@kit/core/node-redis";
import { eventually, useRedis } from "@kit/testing";
import {
  endMigrations,
  guardUsers,
  inModes,
  migrateLogin,
  moveSlot,
  onMovingSlots,
  rejection,
  watched,
} from "@tooling/vitest/helpers";
import { Cluster } from "ioredis";
import { onNodeRedis } from "@tooling/vitest/node-redis";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { type Chat, ChatTokenError, type DeliveredMessage, type FetchPage } from "../src/index.js";
import { Keys, layoutKey } from "../src/keys.js";
import * as scripts from "../src/scripts/index.js";
import { user } from "./acl.js";
import {
  type ChatFixture,
  drain,
  fixtureOf,
  permanentKeys,
  room,
  sendMany,
  seqsOf,
  untilBlocked,
  upTo,
} from "./harness.js";

/**
 * The behaviour of chats on one server or on a Cluster. With a `login` they work as that user; besides the user of the tests
 * the server has no other.
 */
inModes({ single: user.loginForText, nodeRedis: onNodeRedis(user.login, fromNodeRedis) }, (mode, login) => {
  const where = mode === "cluster" ? "Cluster" : "single server";
  describe(`chats on a ${where}${login ? ", as its ACL user" : ""}`, () => {
    const args = login ? user.serverArgs(mode) : [];
    const redis = useRedis(vitest, { mode, args, permanentKeys });
    if (login) guardUsers(redis);
    const slots = onMovingSlots(redis, scripts);
    let lazyFixture: ChatFixture | undefined;
    const fixture = (): ChatFixture => (lazyFixture ??= fixtureOf(redis, login));
    const make: ChatFixture["make"] = (options) => fixture().make(options);
    const positionOf = async (chat: Chat, member: string, name = room): Promise<number | undefined> =>
      (await chat.members(name)).members.find((one) => one.member === member)?.position;

    describe("sending", () => {
      it("numbers the messages of 64 senders 1 to n, and gives them to every member in order", async () => {
        const objects = [make(), fixture().on(fixture().connect()), fixture().on(fixture().connect())];
        const senders = Array.from({ length: 64 }, (_, index) => `sender-${index}`);
        await objects[0]!.create(room, { members: [...senders, "reader"] });
        const sent = await Promise.all(
          senders.flatMap((from, index) =>
            upTo(5).map((number) => objects[index % 3]!.send(room, { from, body: `${from} ${number}` })),
          ),
        );
        const seqs = sent.map(({ seq }) => seq).toSorted((one, other) => one - other);
        expect(seqs).toEqual(upTo(320));
        const { messages } = await drain(objects[1]!, "reader");
        expect(messages.map(({ seq }) => seq)).toEqual(upTo(320));
        for (const from of senders)
          expect(messages.filter((one) => one.from === from).map(({ body }) => body)).toEqual(
            upTo(5).map((number) => `${from} ${number}`),
          );
        expect(messages.every(({ at }, index) => index === 0 || at >= messages[index - 1]!.at)).toBe(true);
      });

      it("gives the first message when the same sender sends a client id again, whatever the body", async () => {
        const chat = make();
        await chat.create(room, { members: ["ann", "bob"] });
        const first = await chat.send(room, { from: "ann", body: "one", clientId: "m" });
        expect(await chat.send(room, { from: "ann", body: "two", clientId: "m" })).toEqual({
          ...first,
          duplicate: true,
        });
        expect(await chat.send(room, { from: "bob", body: "three", clientId: "m" })).toMatchObject({
          seq: 2,
          duplicate: false,
        });
        const together = await Promise.all(
          ["x", "y"].map((body) => chat.send(room, { from: "ann", body, clientId: "n" })),
        );
        expect(together.map(({ seq, duplicate }) => [seq, duplicate])).toEqual([
          [3, false],
          [3, true],
        ]);
        const { messages } = await drain(chat, "bob");
        expect(messages.map(({ body }) => body)).toEqual(["one", "three", "x"]);
      });

      it("remembers a client id for one whole window, and treats it as new after two", async () => {
        const chat = make();
        await chat.create(room, { members: ["ann"], dedupeMs: 60_000 });
        const { sentEven, sentOdd } = fixture().keysOf(room);
        /** Acts as if this many windows had passed. */
        const pass = async (windows: number): Promise<void> => {
          for (const key of [sentEven, sentOdd]) {
            const number = await fixture().db.hget(key, "");
            if (number !== null) await fixture().db.hset(key, "", Number(number) - windows);
          }
          if (windows % 2 === 0) return;
          const swap = `${sentEven}:swap`;
          for (const [from, to] of [
            [sentEven, swap],
            [sentOdd, sentEven],
            [swap, sentOdd],
          ] as const)
            if ((await fixture().db.exists(from)) === 1) await fixture().db.rename(from, to);
            else await fixture().db.del(to);
        };
        const send = (clientId: string) => chat.send(room, { from: "ann", body: "x", clientId });
        await send("a");
        expect(await send("a")).toMatchObject({ seq: 1, duplicate: true });
        await pass(1);
        await send("b");
        expect(await fixture().db.exists(sentEven, sentOdd)).toBe(2);
        expect(await send("a")).toMatchObject({ seq: 1, duplicate: true });
        await pass(1);
        await send("c");
        expect(await send("b")).toMatchObject({ seq: 2, duplicate: true });
        expect(await send("a")).toMatchObject({ seq: 4, duplicate: false });
        for (const key of [sentEven, sentOdd]) expect(await fixture().db.pttl(key)).toBeGreaterThan(60_000);
      });

      it("accepts bodies of 0 bytes, of exactly the limit, and of bytes, JSON and text alike, and returns them unchanged", async () => {
        const chat = make();
        await chat.create(room, { members: ["ann", "bob"], maxBodyBytes: 100 });
        const bytes = Uint8Array.from({ length: 100 }, (_, index) => 255 - index);
        const bodies = [
          "",
          "x".repeat(100),
          "ü".repeat(50),
          "\0\r\n{}",
          new Uint8Array(),
          bytes,
          null,
          0,
          [1, { a: "b" }],
          true,
        ];
        for (const body of bodies) await chat.send(room, { from: "ann", body });
        const { messages } = await drain(chat, "bob");
        expect(messages.map(({ body }) => body)).toEqual(bodies);
        for (const body of ["x".repeat(101), "ü".repeat(51), new Uint8Array(101), ["y".repeat(97)]])
          expect(await rejection(chat.send(room, { from: "ann", body }))).toMatchObject({
            code: "KIT_CHAT_TOO_LARGE",
            maxBodyBytes: 100,
          });
        const short = make({ maxBodyBytes: 10 });
        expect(await rejection(short.send(room, { from: "ann", body: "x".repeat(11) }))).toMatchObject({
          code: "KIT_CHAT_TOO_LARGE",
          bytes: 11,
        });
        expect((await chat.inspect(room)).head).toBe(bodies.length);
      });

      it("gives back bodies and senders of any length, whatever else is stored of them", async () => {
        const chat = make({ maxBodyBytes: 100_000 });
        const lengths = [0, 1, 15, 16, 31, 32, 33, 127, 128, 255, 256, 257, 65_535, 65_536, 65_537];
        for (const retain of [{ count: 100 }, { bytes: 1_000_000 }]) {
          await chat.create(room, { members: ["bob"], senders: "anyone", retain });
          const sent = lengths.map((length) => ({ from: "ü".repeat(1 + (length % 256)), body: "y".repeat(length) }));
          for (const message of sent) await chat.send(room, message);
          const found = [(await drain(chat, "bob")).messages, (await chat.history(room)).messages];
          for (const messages of found) expect(messages.map(({ from, body }) => ({ from, body }))).toEqual(sent);
          await chat.delete(room);
        }
      });

      it("stores JSON as JSON.stringify has it, and refuses what that cannot hold", async () => {
        const chat = make();
        await chat.create(room, { members: ["ann", "bob"] });
        await chat.send(room, { from: "ann", body: { at: new Date(0), none: undefined, nan: NaN } });
        expect((await drain(chat, "bob")).messages[0]!.body).toEqual({ at: "1970-01-01T00:00:00.000Z", nan: null });
        const deep = {
          toJSON: () => {
            throw new RangeError("Maximum call stack size exceeded"); // as for deeply nested data before Node 26
          },
        };
        for (const body of [undefined, () => 1, Symbol("x"), 1n, "\ud800", deep])
          expect(await rejection(chat.send(room, { from: "ann", body }))).toBeInstanceOf(TypeError);
      });

      it("refuses invalid options and bodies before anything is written", async () => {
        const chat = make();
        await chat.create(room, { members: ["ann"] });
        expect(await rejection(chat.send("nowhere", { from: "ann", body: "x" }))).toMatchObject({
          code: "KIT_CHAT_UNKNOWN",
          chat: "nowhere",
        });
        expect(await rejection(chat.send(room, { from: "eve", body: "x" }))).toMatchObject({
          code: "KIT_CHAT_NOT_MEMBER",
          member: "eve",
        });
        await chat.create("open", { senders: "anyone" });
        expect(await chat.send("open", { from: "eve", body: "x" })).toMatchObject({ seq: 1 });
        // One refusal in a batch is that message's alone.
        const outcomes = await Promise.allSettled(
          ["ann", "eve", "ann"].map((from) => chat.send(room, { from, body: from })),
        );
        expect(outcomes.map(({ status }) => status)).toEqual(["fulfilled", "rejected", "fulfilled"]);
        expect((await chat.inspect(room)).head).toBe(2);
        expect(await fixture().db.exists(fixture().keysOf("nowhere").messages)).toBe(0);
      });

      it("refuses more in a full chat that must not drop, until its members acknowledge", async () => {
        const chat = make();
        await chat.create(room, { members: ["ann", "bob"], retain: { count: 3, readByAll: true }, whenFull: "refuse" });
        await sendMany(chat, "ann", 3);
        expect(await rejection(chat.send(room, { from: "ann", body: "x" }))).toMatchObject({
          code: "KIT_CHAT_FULL",
          retryable: true,
        });
        await chat.ack("bob", { chat: room, seq: 1 });
        expect(await chat.send(room, { from: "ann", body: "x" })).toMatchObject({ seq: 4 });
        const outcomes = await Promise.allSettled(upTo(2).map(() => chat.send(room, { from: "ann", body: "y" })));
        expect(outcomes.map(({ status }) => status)).toEqual(["rejected", "rejected"]);
        expect((await drain(chat, "bob")).messages.map(({ seq }) => seq)).toEqual([2, 3, 4]);
      });
    });

    describe("fetching", () => {
      it("returns every message again until it is acknowledged, and with a token only new ones", async () => {
        const chat = make();
        await chat.create(room, { members: ["ann", "bob"] });
        await sendMany(chat, "ann", 3);
        const first = await chat.fetch("bob");
        expect(seqsOf(first)).toEqual([1, 2, 3]);
        expect(first.chats[0]!.unread).toBe(3);
        // Its process ends here.
        expect(seqsOf(await make().fetch("bob"))).toEqual([1, 2, 3]);
        await chat.ack("bob", first.chats[0]!.messages[1]!);
        expect(seqsOf(await chat.fetch("bob"))).toEqual([3]);
        const { token } = await chat.fetch("bob", { token: first.token });
        await sendMany(chat, "ann", 1);
        const news = await chat.fetch("bob", { token });
        expect([seqsOf(news), news.chats[0]!.unread]).toEqual([[4], 2]);
        expect((await chat.fetch("bob", { token: news.token })).chats).toEqual([]);
      });

      it("returns each message once over pages of any size, acknowledged or not", async () => {
        const chat = make();
        const names = upTo(40).map((number) => `chat ${number}`);
        await Promise.all(names.map((name) => chat.create(name, { members: ["ann", "bob"] })));
        await Promise.all(names.map((name, index) => sendMany(chat, "ann", 1 + (index % 7), name)));
        for (const limit of [1, 7, 100]) {
          const { messages, token } = await drain(chat, "bob", { limit });
          expect(new Set(messages.map((one) => `${one.chat} ${one.seq}`)).size).toBe(messages.length);
          for (const [index, name] of names.entries())
            expect(messages.filter((one) => one.chat === name).map(({ seq }) => seq)).toEqual(upTo(1 + (index % 7)));
          await Promise.all(names.slice(0, 20).map((name) => sendMany(chat, "ann", 3, name)));
          const later = await drain(chat, "bob", { token, limit });
          expect(later.messages).toHaveLength(60);
          await chat.ack("bob", later.messages);
          await Promise.all(names.map((name) => chat.delete(name)));
          await Promise.all(names.map((name) => chat.create(name, { members: ["ann", "bob"] })));
          await Promise.all(names.map((name, index) => sendMany(chat, "ann", 1 + (index % 7), name)));
        }
      });

      it("keeps within maxBytes, but returns one message in any case", async () => {
        const chat = make();
        await chat.create(room, { members: ["ann", "bob"] });
        for (const size of [10, 10, 500, 10]) await chat.send(room, { from: "ann", body: "x".repeat(size) });
        const sizes: number[] = [];
        let token: string | undefined;
        for (;;) {
          const page: FetchPage = await chat.fetch("bob", { maxBytes: 25, ...(token === undefined ? {} : { token }) });
          sizes.push(seqsOf(page).length);
          ({ token } = page);
          if (!page.more) break;
        }
        expect(sizes).toEqual([2, 1, 1]);
      });

      it("does not let a busy chat keep others waiting", async () => {
        const chat = make();
        const quiet = upTo(12).map((number) => `quiet ${number}`);
        await Promise.all([room, ...quiet].map((name) => chat.create(name, { members: ["ann", "bob"] })));
        await sendMany(chat, "ann", 300);
        await Promise.all(quiet.map((name) => sendMany(chat, "ann", 1, name)));
        const seen = new Set<string>();
        let token: string | undefined;
        for (let pages = 1; pages <= 2; pages++) {
          const page: FetchPage = await chat.fetch("bob", { limit: 64, ...(token === undefined ? {} : { token }) });
          for (const { chat: name } of page.chats) seen.add(name);
          ({ token } = page);
        }
        expect(quiet.every((name) => seen.has(name))).toBe(true);
      });

      it("returns the new messages of a few of many chats immediately, with and without a token", async () => {
        const chat = make();
        const names = upTo(400).map((number) => `chat ${number}`);
        await Promise.all(names.map((name) => chat.create(name, { members: ["ann", "bob"] })));
        const { token } = await drain(chat, "bob");
        const news = [names[0]!, names[199]!, names[399]!];
        for (const name of news) await sendMany(chat, "ann", 2, name);
        const page = await chat.fetch("bob", { token });
        expect([page.chats.map((one) => one.chat).toSorted(), page.more]).toEqual([news.toSorted(), false]);
        const { messages } = await drain(chat, "bob");
        expect(messages.map((one) => one.chat).toSorted()).toEqual([...news, ...news].toSorted());
        expect(await chat.unread("bob")).toEqual(new Map(news.map((name) => [name, 2])));
      });

      it("returns everything to two devices, and keeps one position for both", async () => {
        const chat = make();
        await chat.create(room, { members: ["ann", "bob"] });
        await sendMany(chat, "ann", 10);
        const [phone, laptop] = await Promise.all([chat.fetch("bob"), chat.fetch("bob")]);
        expect([seqsOf(phone), seqsOf(laptop)]).toEqual([upTo(10), upTo(10)]);
        await chat.ack("bob", { chat: room, seq: 10 });
        await chat.ack("bob", { chat: room, seq: 7 });
        expect(await positionOf(chat, "bob")).toBe(10);
        await sendMany(chat, "ann", 2);
        // In any order: the highest of each chat counts.
        await chat.ack("bob", [
          { chat: room, seq: 12 },
          { chat: room, seq: 11 },
        ]);
        expect(await positionOf(chat, "bob")).toBe(12);
        // Acknowledged on the phone, but still new for the laptop.
        expect(seqsOf(await chat.fetch("bob", { token: laptop.token }))).toEqual([11, 12]);
      });

      it("continues a chat of which a page gave a part, even when another device has acknowledged the rest meanwhile", async () => {
        const chat = make();
        await chat.create(room, { members: ["ann", "bob"] });
        await sendMany(chat, "ann", 6);
        const page = await chat.fetch("bob", { limit: 2 });
        expect(seqsOf(page)).toEqual([1, 2]);
        await chat.ack("bob", { chat: room, seq: 6 });
        const { messages } = await drain(chat, "bob", { token: page.token, limit: 2 });
        expect(messages.map(({ seq }) => seq)).toEqual([3, 4, 5, 6]);
      });

      it("reports a chat that was left between two pages, and no other", async () => {
        const chat = make();
        const others = upTo(8).map((number) => `other ${number}`);
        for (const name of [room, ...others]) await chat.create(name, { members: ["ann", "bob"] });
        for (const name of [room, ...others]) await sendMany(chat, "ann", 2, name);
        const first = await chat.fetch("bob", { limit: 9 });
        expect(first.chats.map((one) => one.messages.length)).toEqual(upTo(9).map(() => 1));
        await chat.leave(room, "bob");
        const { pages } = await drain(chat, "bob", { token: first.token });
        expect(pages.flatMap(({ left }) => left)).toEqual([room]);
        expect(pages.flatMap(({ chats }) => chats.map((one) => one.chat)).toSorted()).toEqual(others);
      });

      it("returns a message once, even if it is sent between reading the activity and reading the chat", async () => {
        const chat = make();
        await chat.create(room, { members: ["ann", "bob"] });
        const sent = sendMany(chat, "ann", 10).then(async () => {
          for (let more = 0; more < 300; more++) await chat.send(room, { from: "ann", body: "x" });
        });
        const seqs: number[] = [];
        let { token } = await chat.fetch("bob");
        for (let isOver = false; !isOver;) {
          const page: FetchPage = await chat.fetch("bob", { token });
          seqs.push(...seqsOf(page));
          ({ token } = page);
          isOver = seqs.at(-1) === 310;
        }
        await sent;
        expect(seqs).toEqual(upTo(310).slice(-seqs.length));
      });

      it("misses nothing on any device when the activity that its token names was trimmed", async () => {
        const chat = make();
        await chat.create(room, { members: ["ann", "bob"] });
        await sendMany(chat, "ann", 2);
        const { token } = await chat.fetch("bob");
        await sendMany(chat, "ann", 3);
        await chat.ack("bob", { chat: room, seq: 4 });
        await fixture().db.xtrim(fixture().keysOf(room).activity, "MAXLEN", 1);
        const { messages, token: next } = await drain(chat, "bob", { token });
        expect(messages.map(({ seq }) => seq).slice(-3)).toEqual([3, 4, 5]);
        await sendMany(chat, "ann", 1);
        expect((await drain(chat, "bob", { token: next })).messages.map(({ seq }) => seq)).toEqual([6]);
      });

      it("acknowledges the messages that it returns with `ack: true`", async () => {
        const chat = make();
        await chat.create(room, { members: ["ann", "bob"] });
        await sendMany(chat, "ann", 5);
        expect(seqsOf(await chat.fetch("bob", { autoAck: true, limit: 3 }))).toEqual([1, 2, 3]);
        expect(seqsOf(await chat.fetch("bob", { autoAck: true }))).toEqual([4, 5]);
        expect((await chat.fetch("bob")).chats).toEqual([]);
      });

      it("returns messages that it has acknowledged, even if the member has left one of the chats meanwhile", async () => {
        const chat = make();
        for (const name of [room, "other"]) {
          await chat.create(name, { members: ["ann", "bob"] });
          await sendMany(chat, "ann", 2, name);
        }
        // Right after the messages were read.
        const { ack } = scripts;
        const acking = vitest.vi.spyOn(ack, "run").mockImplementation(async (...call) => {
          acking.mockRestore();
          await chat.leave(room, "bob");
          return await ack.run(...call);
        });
        const page = await chat.fetch("bob", { autoAck: true });
        expect([seqsOf(page), seqsOf(page, "other")]).toEqual([
          [1, 2],
          [1, 2],
        ]);
        expect(await positionOf(chat, "bob", "other")).toBe(2);
        expect((await chat.fetch("bob")).chats).toEqual([]);
      });

      it("reports once that a chat was deleted and created again, and does not report this for new chats and members", async () => {
        const chat = make();
        await chat.create(room, { members: ["ann", "bob"] });
        await sendMany(chat, "ann", 3);
        const [{ token }, { token: ofCid }] = [await chat.fetch("bob"), await chat.fetch("cid")];
        await chat.delete(room);
        await chat.create(room, { members: ["ann", "bob", "cid"] });
        await chat.create("other", { members: ["ann", "bob"] });
        await sendMany(chat, "ann", 1);
        await sendMany(chat, "ann", 1, "other");
        const page = await chat.fetch("bob", { token });
        const resets = new Map(page.chats.map((one) => [one.chat, one.reset]));
        expect([seqsOf(page), resets, page.left]).toEqual([
          [1],
          new Map([
            [room, "epoch"],
            ["other", undefined],
          ]),
          [],
        ]);
        expect((await chat.fetch("cid", { token: ofCid })).chats).toMatchObject([{ reset: undefined }]);
        await chat.leave(room, "bob");
        await chat.join(room, "bob");
        await sendMany(chat, "ann", 1);
        expect((await chat.fetch("bob", { token: page.token })).chats).toMatchObject([{ reset: undefined }]);
      });

      it("refuses tokens that name what no server has, or too many chats, by name", async () => {
        const chat = make();
        await chat.create(room, { members: ["ann", "bob"] });
        const { token } = await chat.fetch("bob");
        const [version, member, parts] = JSON.parse(String(Buffer.from(token, "base64url"))) as [
          number,
          string,
          string[],
        ];
        const tokenOf = (part: string, cursors: readonly unknown[]): string =>
          Buffer.from(JSON.stringify([version, member, parts.map(() => part), cursors])).toString("base64url");
        for (const part of ["a 18446744073709551616-0", "a 0-99999999999999999999", "w 99999999999999999999 1-1 -"])
          expect(await rejection(chat.fetch("bob", { token: tokenOf(part, []) }))).toMatchObject({
            code: "KIT_CHAT_TOKEN",
          });
        await chat.fetch("bob", { token: tokenOf("a 18446744073709551615-18446744073709551615", []) });
        const cursors = Array.from({ length: 3_901 }, (_, n) => [`chat ${String(n)}`, "1", 1, 1]);
        for (const part of ["", "a 0-0"]) {
          await chat.fetch("bob", { token: tokenOf(part, cursors.slice(1)) });
          for (const hostile of [cursors, [[`chat ${"x".repeat(1_048_576)}`, "1", 1, 1]]])
            expect(await rejection(chat.fetch("bob", { token: tokenOf(part, hostile) }))).toMatchObject({
              code: "KIT_CHAT_TOKEN",
            });
        }
      });

      it("accepts only tokens of the same member", async () => {
        const chat = make();
        await chat.create(room, { members: ["ann", "bob"] });
        const { token } = await chat.fetch("bob");
        for (const wrong of ["", "x", "bm90IGpzb24", Buffer.from('[1,"bob",["x"],[]]').toString("base64url")])
          for (const call of [
            chat.fetch("bob", { token: wrong }),
            chat.wait("bob", { token: wrong, waitMs: 0 }),
            chat.listen("bob", { token: wrong }).each(() => undefined),
          ])
            expect(await rejection(call)).toMatchObject({
              name: "ChatTokenError",
              code: "KIT_CHAT_TOKEN",
              member: "bob",
            });
        expect(await rejection(chat.fetch("ann", { token }))).toBeInstanceOf(ChatTokenError);
        // A damaged number of the server's would make every later fetch fail.
        const far = (part: string): string =>
          Buffer.from(JSON.stringify([1, "bob", Array(16).fill(part), []])).toString("base64url");
        for (const part of [`a ${"9".repeat(20)}-0`, `a 0-${"9".repeat(20)}`, `w ${"9".repeat(20)} 0-0 -`])
          expect(await rejection(chat.fetch("bob", { token: far(part) }))).toBeInstanceOf(ChatTokenError);
      });
    });

    describe("acknowledging", () => {
      it("refuses a message that does not exist, and one of a chat of which the user is no member", async () => {
        const chat = make();
        await chat.create(room, { members: ["ann", "bob"] });
        await sendMany(chat, "ann", 2);
        expect(await rejection(chat.ack("bob", { chat: room, seq: 3 }))).toMatchObject({
          code: "KIT_CHAT_ACK_BEYOND",
          seq: 3,
        });
        expect(await rejection(chat.ack("eve", { chat: room, seq: 1 }))).toMatchObject({ code: "KIT_CHAT_NOT_MEMBER" });
        expect(await rejection(chat.ack("bob", { chat: "nowhere", seq: 1 }))).toMatchObject({
          code: "KIT_CHAT_UNKNOWN",
        });
        const { messages } = await drain(chat, "bob");
        const other = { ...messages[1]!, at: messages[1]!.at + 1 };
        expect(await rejection(chat.ack("bob", other))).toMatchObject({ code: "KIT_CHAT_FORKED", seq: 2 });
        expect(await rejection(chat.ack("bob", { ...messages[0]!, at: 1 }))).toMatchObject({ code: "KIT_CHAT_FORKED" });
        for (const seq of [-1, 0.5, NaN])
          expect(await rejection(chat.ack("bob", { chat: room, seq }))).toBeInstanceOf(RangeError);
        expect(await positionOf(chat, "bob")).toBe(0);
        // A valid acknowledgement is done beside an invalid one.
        await chat.create("second", { members: ["bob"], senders: "anyone" });
        await sendMany(chat, "x", 1, "second");
        await rejection(
          chat.ack("bob", [
            { chat: room, seq: 9 },
            { chat: "second", seq: 1 },
          ]),
        );
        expect(await positionOf(chat, "bob", "second")).toBe(1);
      });

      it("counts its own message as read for a sender that had read everything", async () => {
        const chat = make();
        await chat.create(room, { members: ["ann", "bob"] });
        await sendMany(chat, "ann", 2);
        await chat.send(room, { from: "bob", body: "without having read" });
        expect(await chat.unread("ann", [room])).toEqual(new Map([[room, 1]]));
        expect(await chat.unread("bob", [room])).toEqual(new Map([[room, 2]]));
      });

      it("never counts its own messages as unread, and moves its position past them", async () => {
        const chat = make();
        await chat.create(room, { members: ["ann", "bob"], retain: { count: 8 } });
        await sendMany(chat, "ann", 2);
        await sendMany(chat, "bob", 2);
        await sendMany(chat, "ann", 1);
        await sendMany(chat, "bob", 1);
        const counts = async (): Promise<unknown[]> => [
          (await chat.unread("bob")).get(room) ?? 0,
          (await chat.fetch("bob")).chats[0]?.unread ?? 0,
          (await chat.members(room)).members.find(({ member }) => member === "bob")?.unread,
        ];
        expect(await counts()).toEqual([3, 3, 3]);
        expect(seqsOf(await chat.fetch("bob"))).toEqual(upTo(6));
        await chat.ack("bob", { chat: room, seq: 1 });
        expect([await positionOf(chat, "bob"), ...(await counts())]).toEqual([1, 2, 2, 2]);
        await chat.ack("bob", { chat: room, seq: 2 });
        expect([await positionOf(chat, "bob"), ...(await counts())]).toEqual([4, 1, 1, 1]);
        await chat.ack("bob", { chat: room, seq: 5 });
        expect([await positionOf(chat, "bob"), ...(await counts())]).toEqual([6, 0, 0, 0]);
        // Own messages that were dropped, and those of a membership that ended.
        await sendMany(chat, "ann", 1);
        await sendMany(chat, "bob", 3);
        await sendMany(chat, "ann", 6);
        expect(await counts()).toEqual([6, 6, 6]);
        await chat.leave(room, "bob");
        expect(await fixture().db.hexists(fixture().keysOf(room).meta, "own:bob")).toBe(0);
      });

      it("never counts messages as unread that a member sent before it joined with history, up to the newest 256", async () => {
        const chat = make();
        await chat.create(room, { members: ["ann"], senders: "anyone" });
        await sendMany(chat, "bob", 1);
        await sendMany(chat, "ann", 1);
        await sendMany(chat, "bob", 2);
        const counts = async (): Promise<unknown[]> => [
          (await chat.unread("bob")).get(room) ?? 0,
          (await chat.fetch("bob")).chats[0]?.unread ?? 0,
          (await chat.members(room)).members.find(({ member }) => member === "bob")?.unread,
        ];
        expect(await chat.join(room, "bob", { history: "all" })).toEqual({ position: 0 });
        expect(await counts()).toEqual([1, 1, 1]);
        await sendMany(chat, "bob", 1);
        await chat.leave(room, "bob");
        await chat.join(room, "bob", { history: 3 });
        expect(await counts()).toEqual([0, 0, 0]);
        await sendMany(chat, "ann", 1);
        await chat.ack("bob", { chat: room, seq: 3 });
        expect([await positionOf(chat, "bob"), ...(await counts())]).toEqual([5, 1, 1, 1]);
        await chat.leave(room, "bob");
        // One of its own messages, the first, is no longer among the newest 256.
        await sendMany(chat, "ann", 251);
        await chat.join(room, "bob", { history: "all" });
        expect(await counts()).toEqual([254, 254, 254]);
      });
    });

    describe("unread", () => {
      it("answers for each chat that there is, and counts many", async () => {
        const chat = make();
        await chat.create(room, { members: ["ann"] });
        await chat.create("left", { members: ["ann"] });
        await chat.leave("left", "ann");
        expect(await chat.unread("ann", ["nowhere", room, "left"])).toEqual(new Map([[room, 0]]));
        expect(await chat.unread("eve", [room])).toEqual(new Map());
        expect(await chat.unread("eve")).toEqual(new Map());
        const names = upTo(60).map((number) => `n${number}`);
        await Promise.all(names.map((name) => chat.create(name, { members: ["bob"], senders: "anyone" })));
        await Promise.all(names.slice(0, 30).map((name) => sendMany(chat, "x", 2, name)));
        expect(await chat.unread("bob")).toEqual(new Map(names.slice(0, 30).map((name) => [name, 2])));
      });
    });

    describe("history", () => {
      it("pages before, after and around a message, and finds both ends", async () => {
        const chat = make();
        await chat.create(room, { members: ["ann"] });
        await sendMany(chat, "ann", 10);
        const seqs = async (options: Parameters<Chat["history"]>[1]): Promise<unknown[]> => {
          const { messages, hasOlder, hasNewer } = await chat.history(room, options);
          return [messages.map(({ seq }) => seq), hasOlder, hasNewer];
        };
        expect(await seqs({})).toEqual([upTo(10), false, false]);
        expect(await seqs({ limit: 3 })).toEqual([[8, 9, 10], true, false]);
        expect(await seqs({ before: 8, limit: 3 })).toEqual([[5, 6, 7], true, true]);
        expect(await seqs({ before: 2, limit: 3 })).toEqual([[1], false, true]);
        expect(await seqs({ before: 1 })).toEqual([[], false, true]);
        expect(await seqs({ after: 0, limit: 1 })).toEqual([[1], false, true]);
        expect(await seqs({ after: 9, limit: 1_000 })).toEqual([[10], true, false]);
        expect(await seqs({ after: 10 })).toEqual([[], true, false]);
        expect(await seqs({ around: 5, limit: 4 })).toEqual([[3, 4, 5, 6], true, true]);
        expect(await seqs({ around: 10, limit: 4 })).toEqual([[7, 8, 9, 10], true, false]);
        await sendMany(chat, "ann", 5);
        expect(await seqs({ before: 8, limit: 3 })).toEqual([[5, 6, 7], true, true]);
        expect(await rejection(chat.history(room, { before: 1, after: 1 }))).toBeInstanceOf(TypeError);
        expect(await rejection(chat.history("nowhere"))).toMatchObject({ code: "KIT_CHAT_UNKNOWN" });
      });

      it("finds the first message of a time, also among many of the same time", async () => {
        const chat = make();
        await chat.create(room, { members: ["ann"], retain: { count: 100 } });
        const { messages, heads } = fixture().keysOf(room);
        const times = [1_000, 2_000, 2_000, 2_000, 3_000];
        for (const [index, at] of times.entries())
          await fixture().db.xadd(messages, `${index + 1}-${at}`, "f", "ann", "s", "x");
        await fixture().db.hset(heads, room, "5 0 3000 0 0");
        const first = async (at: number) => (await chat.history(room, { at, limit: 1 })).messages[0]?.seq;
        expect(await Promise.all([0, 1_000, 1_001, 2_000, 2_001, 3_000, 3_001].map(first))).toEqual([
          1,
          1,
          2,
          2,
          5,
          5,
          undefined,
        ]);
        // The server's clock was set back by years: time does not go back with it.
        await fixture().db.hset(heads, room, "5 0 99999999999999 0 0");
        const { at } = await chat.send(room, { from: "ann", body: "x" });
        expect(at).toBe(99_999_999_999_999);
      });

      it("shows a member nothing from before it joined", async () => {
        const chat = make();
        await chat.create(room, { members: ["ann"] });
        await sendMany(chat, "ann", 10);
        await chat.join(room, "bob", { history: 2 });
        await chat.join(room, "carl");
        const seen = async (member: string) => (await chat.history(room, { member })).messages.map(({ seq }) => seq);
        expect([await seen("ann"), await seen("bob"), await seen("carl")]).toEqual([upTo(10), [9, 10], []]);
        expect(await rejection(chat.history(room, { member: "eve" }))).toMatchObject({ code: "KIT_CHAT_NOT_MEMBER" });
        // A token comes back from a browser, which may have changed it.
        type Content = [number, string, string[], [string, string, number, number][]];
        const { token } = await chat.fetch("bob", { limit: 1 });
        const [version, member, parts, [cursor]] = JSON.parse(Buffer.from(token, "base64url").toString()) as Content;
        const forge = (cursors: Content[3], own: string[]): string =>
          Buffer.from(JSON.stringify([version, member, own, cursors])).toString("base64url");
        for (const forged of [
          forge(
            [],
            parts.map(() => ""),
          ),
          forge([[room, cursor![1], 0, 0]], parts),
        ])
          expect((await drain(chat, "bob", { token: forged })).messages.map(({ seq }) => seq)).toEqual([9, 10]);
      });
    });

    describe("members", () => {
      it("are made with the chat, and a second create changes nothing", async () => {
        const chat = make();
        expect(await chat.create(room, { members: ["ann", "bob", "ann"] })).toEqual({ created: true });
        await sendMany(chat, "ann", 3);
        await chat.ack("bob", { chat: room, seq: 2 });
        expect(await chat.create(room, { members: ["eve"] })).toEqual({ created: false });
        const { members } = await chat.members(room);
        expect(members.toSorted((one, other) => one.member.localeCompare(other.member))).toEqual([
          { member: "ann", position: 3, unread: 0 },
          { member: "bob", position: 2, unread: 1 },
        ]);
        expect(await chat.create("empty")).toEqual({ created: true });
        expect((await chat.members("empty")).members).toEqual([]);
        expect(await rejection(chat.members("nowhere"))).toMatchObject({ code: "KIT_CHAT_UNKNOWN" });
      });

      it("join with none, the last N or all of the history, or at their former position", async () => {
        const chat = make();
        await chat.create(room, { members: ["ann"], retain: { count: 8 } });
        await sendMany(chat, "ann", 10);
        const joined = async (member: string, history?: Parameters<Chat["join"]>[2]) => {
          const { position } = await chat.join(room, member, history);
          return [position, seqsOf(await chat.fetch(member))];
        };
        expect(await joined("none")).toEqual([10, []]);
        expect(await joined("all", { history: "all" })).toEqual([2, [3, 4, 5, 6, 7, 8, 9, 10]]);
        expect(await joined("last", { history: 3 })).toEqual([7, [8, 9, 10]]);
        expect(await joined("more", { history: 99 })).toEqual([2, [3, 4, 5, 6, 7, 8, 9, 10]]);
        expect(await joined("back", { history: { after: 9 } })).toEqual([9, [10]]);
        await chat.ack("last", { chat: room, seq: 9 });
        // Already a member: nothing changes. After leaving, nothing is left of it.
        expect(await joined("last", { history: "all" })).toEqual([9, [10]]);
        await chat.leave(room, "last");
        await chat.leave(room, "last");
        expect(await joined("last", { history: "all" })).toEqual([2, [3, 4, 5, 6, 7, 8, 9, 10]]);
        expect(await rejection(chat.join("nowhere", "ann"))).toMatchObject({ code: "KIT_CHAT_UNKNOWN" });
      });

      it("that join while others send see each message or start after it, without a gap", async () => {
        const [chat, other] = [make(), fixture().on(fixture().connect())];
        await chat.create(room, { members: ["ann"] });
        const sending = sendMany(chat, "ann", 60);
        const joiners = upTo(20).map((number) => `joiner ${number}`);
        await Promise.all([sending, ...joiners.map((joiner) => other.join(room, joiner))]);
        for (const joiner of joiners) {
          const { position } = (await other.members(room, { limit: 100 })).members.find(
            ({ member }) => member === joiner,
          )!;
          const { messages, pages } = await drain(other, joiner);
          expect(messages.map(({ seq }) => seq)).toEqual(upTo(60).slice(position));
          expect(pages.every(({ chats }) => chats.every(({ gap }) => gap === undefined))).toBe(true);
        }
      });

      it("are listed in pages, a thousand and more", async () => {
        const chat = make();
        const names = upTo(1_300).map((number) => `member ${number}`);
        await chat.create(room, { members: names });
        await sendMany(chat, names[0]!, 1);
        const listed = new Map<string, number>();
        let cursor: string | undefined;
        let most = 0;
        do {
          const page = await chat.members(room, { limit: 200, ...(cursor === undefined ? {} : { cursor }) });
          for (const { member, unread } of page.members) listed.set(member, unread);
          most = Math.max(most, page.members.length);
          ({ cursor } = page);
        } while (cursor !== undefined);
        expect([...listed.keys()].toSorted()).toEqual(names.toSorted());
        expect([listed.get(names[0]!), listed.get(names[1_299]!)]).toEqual([0, 1]);
        expect(most).toBeLessThan(400);
        expect(seqsOf(await chat.fetch(names[1_299]!))).toEqual([1]);
        await chat.delete(room);
        expect(await fixture().keysLeft()).toEqual([]);
      });

      it("are removed when they lag too far, and find out", async () => {
        const chat = make();
        await chat.create(room, {
          members: ["ann", "idle", "slow"],
          retain: { readByAll: true },
          lag: { messages: 5 },
        });
        const { token } = await chat.fetch("idle");
        const removed: string[] = [];
        chat.on("removed", ({ member }) => removed.push(member));
        await sendMany(chat, "ann", 5);
        await chat.ack("slow", { chat: room, seq: 3 });
        expect(removed).toEqual([]);
        await sendMany(chat, "ann", 1);
        await eventually(() => expect(removed).toEqual(["idle"]));
        expect(await positionOf(chat, "idle")).toBeUndefined();
        expect((await chat.inspect(room)).messages).toBe(3);
        expect((await chat.fetch("idle", { token })).left).toEqual([room]);
        expect((await chat.fetch("idle")).chats).toEqual([]);
      });

      it("are not removed for messages that they sent themselves", async () => {
        const chat = make();
        await chat.create(room, { members: ["idle", "bob"], senders: "anyone", lag: { messages: 3 } });
        const removed: string[] = [];
        chat.on("removed", ({ member }) => removed.push(member));
        await sendMany(chat, "ann", 1);
        await sendMany(chat, "bob", 5);
        await eventually(() => expect(removed).toContain("idle"));
        expect([removed, await chat.unread("bob")]).toEqual([["idle"], new Map([[room, 1]])]);
      });

      it("are removed when they leave a message unread for too long", async () => {
        const chat = make();
        await chat.create(room, { members: ["ann", "idle"], lag: { ageMs: 60_000 } });
        const { messages, heads } = fixture().keysOf(room);
        await fixture().db.xadd(messages, "1-1000", "f", "ann", "s", "long ago");
        await fixture().db.hset(heads, room, "1 0 1000 0 0");
        await chat.ack("ann", { chat: room, seq: 1 });
        await sendMany(chat, "ann", 1);
        await eventually(async () => expect(await positionOf(chat, "idle")).toBeUndefined());
        expect(await positionOf(chat, "ann")).toBe(2);
      });
    });

    describe("retention", () => {
      const kept = async (chat: Chat): Promise<number[]> =>
        (await chat.history(room, { limit: 1_000 })).messages.map(({ seq }) => seq);

      it("by count keeps exactly that many, reports to a slow member what it missed, and frees memory", async () => {
        const chat = make();
        await chat.create(room, { members: ["ann", "bob"], retain: { count: 10 } });
        await sendMany(chat, "ann", 10);
        expect(await kept(chat)).toEqual(upTo(10));
        await chat.ack("bob", { chat: room, seq: 3 });
        await sendMany(chat, "ann", 5);
        expect(await kept(chat)).toEqual(upTo(15).slice(5));
        const page = await chat.fetch("bob");
        expect(page.chats[0]).toMatchObject({ unread: 10, gap: { from: 4, to: 5, reason: "retention" } });
        expect(seqsOf(page)).toEqual(upTo(15).slice(5));
        expect((await chat.fetch("bob", { token: page.token })).chats).toEqual([]);
        await sendMany(chat, "ann", 500);
        expect(await fixture().db.xlen(fixture().keysOf(room).messages)).toBeLessThan(10 + 64 + 2 * 100);
      });

      it("by bytes keeps at most that many", async () => {
        const chat = make();
        await chat.create(room, { members: ["ann"], retain: { bytes: 1_000 }, maxBodyBytes: 300 });
        const sizes = [300, 300, 300, 100, 1, 50, 300];
        for (const size of sizes) await chat.send(room, { from: "ann", body: "x".repeat(size) });
        expect(await kept(chat)).toEqual([3, 4, 5, 6, 7]);
        for (const size of upTo(40)) await chat.send(room, { from: "ann", body: "x".repeat(size) });
        const { messages } = await chat.history(room, { limit: 1_000 });
        const total = messages.reduce((sum, { body }) => sum + String(body).length, 0);
        const next = messages.length < 40 ? 40 - messages.length : 300;
        expect([total <= 1_000, total + next > 1_000]).toEqual([true, true]);
      });

      it("by age hides old messages even without new ones, and drops them with the next message", async () => {
        const chat = make();
        await chat.create(room, { members: ["ann", "bob"], retain: { ageMs: 60_000 } });
        const { messages, heads } = fixture().keysOf(room);
        const now = (await chat.inspect(room)).createdAt;
        for (const [index, age] of [90_000, 61_000, 30_000, 0].entries())
          await fixture().db.xadd(messages, `${index + 1}-${now - age}`, "f", "ann", "s", "x");
        await fixture().db.hset(heads, room, `4 0 ${now} 0 0`);
        expect(await kept(chat)).toEqual([3, 4]);
        expect(await chat.unread("bob", [room])).toEqual(new Map([[room, 2]]));
        expect((await chat.fetch("bob")).chats[0]).toMatchObject({
          unread: 2,
          gap: { from: 1, to: 2, reason: "retention" },
        });
        await sendMany(chat, "ann", 1);
        expect(await fixture().db.hget(heads, room)).toMatch(/^5 2 /);
        const left = await fixture().db.pttl(messages);
        expect([left > 50_000, left <= 61_000]).toEqual([true, true]);
        // All of them are too old, and the stream is gone.
        await fixture().db.hset(heads, room, `5 2 ${now - 60_001} 0 0`);
        await fixture().db.del(messages);
        expect([await kept(chat), await chat.unread("bob", [room])]).toEqual([[], new Map([[room, 0]])]);
        expect(await chat.send(room, { from: "ann", body: "again" })).toMatchObject({ seq: 6 });
        expect(await kept(chat)).toEqual([6]);
      });

      it("by readers drops what all have read, when one acknowledges or the slowest leaves", async () => {
        const chat = make();
        await chat.create(room, { members: ["ann", "bob", "carl"], retain: { readByAll: true, count: 8 } });
        await sendMany(chat, "ann", 6);
        await chat.ack("bob", { chat: room, seq: 4 });
        expect(await kept(chat)).toEqual(upTo(6));
        await chat.ack("carl", { chat: room, seq: 2 });
        expect(await kept(chat)).toEqual([3, 4, 5, 6]);
        await chat.leave(room, "carl");
        expect(await kept(chat)).toEqual([5, 6]);
        // An idle member holds back no more than the other limits let it.
        await sendMany(chat, "ann", 20);
        expect(await kept(chat)).toEqual(upTo(26).slice(18));
      });

      it("cannot be made to refuse forever: it needs a rule that frees space", async () => {
        const refused = await rejection(make().create(room, { whenFull: "refuse" }));
        expect(refused).toBeInstanceOf(RangeError);
        expect(refused).toMatchObject({ message: expect.stringContaining("readByAll") });
        expect(await fixture().keysLeft()).toEqual([]);
      });
    });

    describe("waiting", () => {
      it("wakes for a message, for joining and for leaving a chat, and not for chats of others", async () => {
        const [chat, other] = [make(), fixture().on(fixture().connect())];
        await chat.create(room, { members: ["ann", "bob"] });
        await chat.create("private", { members: ["ann"] });
        let { token } = await chat.fetch("bob");
        const next = async (act: () => Promise<unknown>): Promise<FetchPage> => {
          const waiting = chat.wait("bob", { token });
          await act();
          expect(await waiting).toBe(true);
          const page = await chat.fetch("bob", { token });
          ({ token } = page);
          return page;
        };
        expect(seqsOf(await next(() => sendMany(other, "ann", 1)))).toEqual([1]);
        const joined = await next(() => other.create("new", { members: ["carl", "bob"], senders: "anyone" }));
        expect(joined.chats).toEqual([]);
        expect(seqsOf(await next(() => sendMany(other, "x", 1, "new")), "new")).toEqual([1]);
        expect((await next(() => other.leave("new", "bob"))).left).toEqual(["new"]);
        const waiting = watched(chat.wait("bob", { token, waitMs: 400 }));
        await sendMany(other, "ann", 1, "private");
        await sendMany(other, "x", 1, "new");
        await sendMany(other, "x", 1, "new");
        expect(await waiting.promise).toBe(false);
        expect(seqsOf(await next(() => sendMany(other, "ann", 1)))).toEqual([2]);
      });

      it("returns immediately if there is news already, and false if there is none in time", async () => {
        const chat = make();
        await chat.create(room, { members: ["ann", "bob"] });
        const { token } = await chat.fetch("bob");
        expect(await chat.wait("bob", { token, waitMs: 30 })).toBe(false);
        expect(await chat.wait("bob", { waitMs: 0 })).toBe(false);
        await sendMany(chat, "ann", 1);
        expect(await chat.wait("bob", { token })).toBe(true);
        expect(await chat.wait("bob")).toBe(true);
        const all = await chat.fetch("bob");
        await chat.ack("bob", { chat: room, seq: 1 });
        expect(await chat.wait("bob", { token: all.token, waitMs: 30 })).toBe(false);
      });

      it("waits without a token, also for a member of more chats than one read covers", async () => {
        const chat = make({ shards: 1, prefix: `${redis.prefix}:one` });
        // Long names make the server scan the member's chats in pages.
        const names = upTo(300).map((number) => `${String(number)} ${"x".repeat(80)}`);
        for (const name of names) await chat.create(name, { members: ["bob"], senders: "anyone" });
        expect(await chat.wait("bob", { waitMs: 0 })).toBe(false);
        const waiting = chat.wait("bob");
        await sendMany(chat, "ann", 1, names[150]!);
        expect(await waiting).toBe(true);
        expect(await chat.wait("bob")).toBe(true);
      });

      it("ends with the reason of its signal: before, while and as it wakes, and loses no message", async () => {
        const chat = make();
        await chat.create(room, { members: ["ann", "bob"] });
        const { token } = await chat.fetch("bob");
        expect(await rejection(chat.wait("bob", { token, signal: AbortSignal.abort("early") }))).toBe("early");
        const controller = new AbortController();
        const waits = upTo(20).map(() => watched(chat.wait("bob", { token, signal: controller.signal })));
        const kept = watched(chat.wait("bob", { token }));
        await untilBlocked(await fixture().nodeOf(room));
        controller.abort("now");
        for (const { promise } of waits) expect(await rejection(promise)).toBe("now");
        expect(kept.isSettled).toBe(false);
        const second = new AbortController();
        const racing = chat.wait("bob", { token, signal: second.signal }).catch(String);
        const sending = sendMany(chat, "ann", 1);
        second.abort("then");
        expect(["then", true]).toContain(await racing);
        await sending;
        expect(await kept.promise).toBe(true);
        expect(seqsOf(await chat.fetch("bob", { token }))).toEqual([1]);
      });

      it("sends nothing while nothing happens, and uses one connection for all who wait", async () => {
        const chat = make();
        await Promise.all(
          upTo(20).map((number) => chat.create(`c${number}`, { members: [`m${number}`], senders: "anyone" })),
        );
        const tokens = await Promise.all(upTo(20).map(async (number) => (await chat.fetch(`m${number}`)).token));
        const waits = tokens.flatMap((token, index) => upTo(25).map(() => chat.wait(`m${index + 1}`, { token })));
        const { nodes } = redis.server;
        const blocked = async (): Promise<number> => {
          const lists = await Promise.all(nodes.map((node) => node.call("CLIENT", "LIST")));
          return lists.join("\n").match(/name=kit:chat .*cmd=xread/g)?.length ?? 0;
        };
        const expected = mode === "cluster" ? 16 : 1;
        await eventually(async () => expect(await blocked()).toBe(expected));
        // Each waiter has read once or twice before it waits: these replies come after those.
        for (let round = 0; round < 20; round++) await chat.unread("m1");
        const calls = async (): Promise<number> => {
          const infos = await Promise.all(nodes.map((node) => node.call("INFO", "commandstats")));
          const counts = infos.join("\n").matchAll(/cmdstat_(?:evalsha|xread|xrange|eval):calls=(\d+)/g);
          return Array.from(counts, ([, count]) => Number(count)).reduce((sum, count) => sum + count, 0);
        };
        const before = await calls();
        await Promise.all(nodes.map((node) => node.call("PING")));
        expect(await calls()).toBe(before);
        await Promise.all(upTo(20).map((number) => sendMany(chat, "x", 1, `c${number}`)));
        expect(await Promise.all(waits)).toEqual(waits.map(() => true));
      });
    });

    describe("listening", () => {
      it("acknowledges nothing that is done after the chat object was closed, and reports it", async () => {
        const chat = make();
        await chat.create(room, { members: ["ann", "bob"] });
        await sendMany(chat, "ann", 1);
        const codes: string[] = [];
        chat.on("error", ({ code }) => codes.push(code));
        const iterator = chat.listen("bob")[Symbol.asyncIterator]();
        const { value } = await iterator.next();
        const next = rejection(iterator.next());
        await chat.close();
        expect(await next).toMatchObject({ code: "KIT_CLOSED" });
        (value as DeliveredMessage).done();
        await eventually(() => expect(codes).toEqual(["KIT_CLOSED"]));
        const other = fixture().on(fixture().connect());
        expect(await positionOf(other, "bob")).toBe(0);
        expect(seqsOf(await other.fetch("bob"))).toEqual([1]);
      });

      it("delivers unacknowledged and then new messages, and moves the position only past messages that are done", async () => {
        const [chat, other] = [make(), fixture().on(fixture().connect())];
        await chat.create(room, { members: ["ann", "bob"] });
        await sendMany(chat, "ann", 3);
        const got: DeliveredMessage[] = [];
        for await (const message of chat.listen("bob")) {
          got.push(message);
          if (got.length === 3) void sendMany(other, "ann", 2);
          if (got.length === 5) break;
        }
        expect(got.map(({ seq }) => seq)).toEqual(upTo(5));
        expect(await positionOf(chat, "bob")).toBe(0);
        got[4]!.done();
        got[1]!.done();
        got[3]!.done();
        got[0]!.done();
        await eventually(async () => expect(await positionOf(chat, "bob")).toBe(2));
        got[2]!.done();
        got[2]!.done();
        await eventually(async () => expect(await positionOf(chat, "bob")).toBe(5));
      });

      it("handles several messages at a time, and leaves messages whose handler failed to the next listener", async () => {
        const chat = make();
        await chat.create(room, { members: ["ann", "bob"] });
        await sendMany(chat, "ann", 30);
        let [running, most] = [0, 0];
        const failing = chat.listen("bob").each(
          async ({ seq }) => {
            most = Math.max(most, ++running);
            await new Promise(setImmediate);
            running--;
            if (seq === 9) throw new Error("cannot");
          },
          { concurrency: 4 },
        );
        expect(await rejection(failing)).toMatchObject({ message: "cannot" });
        expect(most).toBe(4);
        expect(await positionOf(chat, "bob")).toBe(8);
        const seen: number[] = [];
        const controller = new AbortController();
        const listening = chat.listen("bob", { signal: controller.signal }).each(({ seq }) => {
          seen.push(seq);
          if (seq === 30) controller.abort("done");
        });
        expect(await rejection(listening)).toBe("done");
        expect(seen).toEqual(upTo(30).slice(8));
        await eventually(async () => expect(await positionOf(chat, "bob")).toBe(30));
      });

      it("ends when a handler fails while no other message comes, after those that run", async () => {
        const chat = make();
        await chat.create(room, { members: ["ann", "bob"] });
        await sendMany(chat, "ann", 3);
        const done: number[] = [];
        const listening = chat.listen("bob").each(
          async ({ seq }) => {
            await eventually(() => expect(done.length).toBe(seq % 3));
            done.push(seq);
            if (seq === 2) throw new Error("cannot");
          },
          { concurrency: 4 },
        );
        expect(await rejection(listening)).toMatchObject({ message: "cannot" });
        expect(done).toEqual([3, 1, 2]);
        for (const concurrency of [0, 1.5, Number.NaN, "2" as never])
          await expect(chat.listen("bob").each(() => undefined, { concurrency })).rejects.toThrow("`concurrency`");
      });

      if (mode === "cluster")
        it("skips nothing when one of several nodes stops in the middle of a page", async () => {
          const client = fixture().connect();
          const [chat, other] = [fixture().on(client, { deadlineMs: 1_000 }), make()];
          const names = upTo(12).map((number) => `chat ${number}`);
          for (const name of names) await other.create(name, { members: ["ann", "bob"] });
          // From here on it is connected.
          await eventually(() => chat.unread("bob"));
          const stopped = names.at(-1)!;
          const node = await fixture().nodeOf(stopped);
          redis.defer(() => node.resume());
          chat.once("error", () => node.resume());
          const controller = new AbortController();
          const given: string[] = [];
          let begin: () => void = () => undefined;
          const begun = new Promise<void>((resolve) => (begin = resolve));
          const listening = watched(
            chat.listen("bob", { signal: controller.signal }).each(async ({ chat: name }) => {
              given.push(name);
              await begun;
            }),
          );
          // All others come in one page, since the first keeps the listener busy.
          await other.send(names[0]!, { from: "ann", body: "x" });
          await eventually(() => expect(given).toHaveLength(1));
          await Promise.all(names.map((name) => other.send(name, { from: "ann", body: "x" })));
          // The node stops right before it is to read. Acknowledging has positions, too.
          const call = Reflect.get(client, "evalshaBuffer") as (...command: unknown[]) => Promise<unknown>;
          const { messages, positions } = fixture().keysOf(stopped);
          let isTime = true;
          Object.assign(client, {
            evalshaBuffer: (...command: unknown[]) => {
              if (isTime && command.includes(messages) && !command.includes(positions)) {
                isTime = false;
                node.pause();
              }
              return call.apply(client, command);
            },
          });
          begin();
          await eventually(() => expect(given).toHaveLength(names.length + 1));
          expect(new Set(given)).toEqual(new Set(names));
          expect(isTime).toBe(false);
          controller.abort();
          await listening.promise.catch(() => undefined);
        });

      it("fetches no more than may be in flight", async () => {
        const chat = make();
        await chat.create(room, { members: ["ann", "bob"] });
        await sendMany(chat, "ann", 20);
        const open: DeliveredMessage[] = [];
        const seen: number[] = [];
        const controller = new AbortController();
        const listening = (async () => {
          for await (const message of chat.listen("bob", { limit: 5, maxInFlight: 10, signal: controller.signal })) {
            seen.push(message.seq);
            open.push(message);
          }
        })();
        await eventually(() => expect(seen).toEqual(upTo(10)));
        open.shift()!.done();
        await eventually(() => expect(seen).toEqual(upTo(15)));
        controller.abort("enough");
        expect(await rejection(listening)).toBe("enough");
      });

      it("reports a gap, leaving, and another chat of the same name", async () => {
        const chat = make();
        await chat.create(room, { members: ["ann", "bob"], retain: { count: 2 } });
        await sendMany(chat, "ann", 5);
        const iterator = chat.listen("bob")[Symbol.asyncIterator]();
        const next = async (): Promise<DeliveredMessage> => {
          const { value } = await iterator.next();
          return value as DeliveredMessage;
        };
        expect(await next()).toMatchObject({ seq: 4, gap: { from: 1, to: 3, reason: "retention" } });
        expect(await next()).toMatchObject({ seq: 5, gap: undefined });
        await chat.delete(room);
        await chat.create(room, { members: ["ann", "bob"] });
        await sendMany(chat, "ann", 7);
        const first = await next();
        expect([first.seq, first.reset]).toEqual([1, "epoch"]);
        await iterator.return?.(undefined);
      });

      it("reports another chat of the same name even after it has seen the first one end", async () => {
        const chat = make();
        await chat.create(room, { members: ["ann", "bob"] });
        await chat.create("other", { members: ["ann", "bob"] });
        const iterator = chat.listen("bob")[Symbol.asyncIterator]();
        const next = async (): Promise<unknown[]> => {
          const { chat: name, seq, reset } = (await iterator.next()).value as DeliveredMessage;
          return [name, seq, reset];
        };
        const send = async (name: string): Promise<unknown> => chat.send(name, { from: "ann", body: "x" });
        await Promise.all([send(room), send(room)]);
        expect([await next(), await next()]).toEqual([
          [room, 1, undefined],
          [room, 2, undefined],
        ]);
        await chat.delete(room);
        await send("other");
        expect(await next()).toEqual(["other", 1, undefined]);
        await chat.create(room, { members: ["ann", "bob"] });
        await send(room);
        expect(await next()).toEqual([room, 1, "epoch"]);
        // The same chat again is no other one: the member gets what it may see.
        await chat.leave(room, "bob");
        await send("other");
        expect(await next()).toEqual(["other", 2, undefined]);
        await chat.join(room, "bob");
        await send(room);
        expect(await next()).toEqual([room, 2, undefined]);
        await iterator.return?.(undefined);
      });

      it("reports messages dropped before delivery with the next message", async () => {
        const chat = make();
        await chat.create(room, { members: ["ann", "bob"], retain: { ageMs: 3_600_000 } });
        const { messages, heads } = fixture().keysOf(room);
        for (const seq of upTo(3)) await fixture().db.xadd(messages, `${seq}-1000`, "f", "ann", "s", "long ago");
        await fixture().db.hset(heads, room, "3 0 1000 0 0");
        const first = chat.listen("bob")[Symbol.asyncIterator]().next();
        await untilBlocked(await fixture().nodeOf(room));
        await chat.send(room, { from: "ann", body: "x" });
        expect((await first).value).toMatchObject({ seq: 4, gap: { from: 1, to: 3, reason: "retention" } });
      });
    });

    describe("names", () => {
      it("may be anything of 1 to 512 bytes, and never collide", async () => {
        const chat = make();
        const names = [
          ":",
          "a:b",
          "a%3Ab",
          "{}",
          "{x",
          "}",
          " ",
          "\0",
          "\u{1f600}",
          "__proto__",
          "constructor",
          "meta",
          "x".repeat(512),
        ];
        for (const name of names) expect(await chat.create(name, { members: names })).toEqual({ created: true });
        await Promise.all(names.map((name, index) => chat.send(name, { from: names[0]!, body: index })));
        for (const member of names.slice(1)) {
          const { messages } = await drain(chat, member);
          expect(new Map(messages.map((one) => [one.chat, one.body]))).toEqual(
            new Map(names.map((name, index) => [name, index])),
          );
        }
        expect(await chat.unread("__proto__")).toEqual(new Map(names.map((name) => [name, 1])));
        for (const name of names) await chat.delete(name);
        expect(await fixture().keysLeft()).toEqual([]);
      });

      it("of two prefixes are two chats", async () => {
        const [chat, other] = [make(), make({ prefix: `${redis.prefix}:b` })];
        await Promise.all([chat, other].map((one) => one.create(room, { members: ["ann", "bob"] })));
        await sendMany(chat, "ann", 3);
        expect((await other.fetch("bob")).chats).toEqual([]);
        await chat.delete(room);
        expect((await other.inspect(room)).members).toBe(2);
      });
    });

    describe("deleting", () => {
      it("leaves no key, ends all memberships, and the name is free", async () => {
        const chat = make();
        await chat.create(room, { members: ["ann", "bob"] });
        await sendMany(chat, "ann", 3);
        const { token } = await chat.fetch("bob");
        await chat.delete(room);
        expect(await fixture().keysLeft()).toEqual([]);
        expect((await chat.fetch("bob", { token })).left).toEqual([room]);
        expect(await rejection(chat.send(room, { from: "ann", body: "x" }))).toMatchObject({
          code: "KIT_CHAT_UNKNOWN",
        });
        await chat.delete(room);
        await chat.create(room, { members: ["bob"], senders: "anyone" });
        await sendMany(chat, "x", 1);
        expect(seqsOf(await chat.fetch("bob", { token }))).toEqual([1]);
      });

      it("is finished by the next delete or create when its process ended in the middle", async () => {
        const chat = make();
        const members = upTo(700).map((number) => `m${number}`);
        const { meta, heads, messages, sentEven, sentOdd, positions } = fixture().keysOf(room);
        for (const finish of ["delete", "create"] as const) {
          await chat.create(room, { members });
          await sendMany(chat, "m1", 1);
          // As after its first step.
          await fixture().db.unlink(meta, messages, sentEven, sentOdd);
          await fixture().db.hdel(heads, room);
          expect((await chat.fetch("m2")).chats).toEqual([]);
          expect(await rejection(chat.join(room, "late"))).toMatchObject({ code: "KIT_CHAT_UNKNOWN" });
          await chat[finish](room);
          expect(await fixture().db.exists(positions, fixture().memberKey(room, "m700"))).toBe(0);
          await chat.delete(room);
        }
        expect(await fixture().keysLeft()).toEqual([]);
      });
    });

    describe("servers", () => {
      it("may forget all scripts at any time", async () => {
        const chat = make();
        await chat.create(room, { members: ["ann", "bob"] });
        const sending = sendMany(chat, "ann", 50);
        await Promise.all(redis.server.nodes.map((node) => node.call("SCRIPT", "FLUSH")));
        await sending;
        expect((await drain(chat, "bob")).messages).toHaveLength(50);
        await Promise.all(redis.server.nodes.map((node) => node.call("SCRIPT", "FLUSH")));
        await chat.ack("bob", { chat: room, seq: 50 });
        expect(await positionOf(chat, "bob")).toBe(50);
      });

      if (mode === "cluster")
        it("may move a shard to another node while messages are sent and waited for", async () => {
          const chat = make();
          expect(redis.client).toBeInstanceOf(Cluster);
          await chat.create(room, { members: ["ann", "bob"] });
          const { token } = await chat.fetch("bob");
          const seen: number[] = [];
          const controller = new AbortController();
          const listening = chat.listen("bob", { token, signal: controller.signal }).each(({ seq }) => {
            seen.push(seq);
          });
          await sendMany(chat, "ann", 5);
          const { nodes } = redis.server;
          const from = await fixture().nodeOf(room);
          const to = nodes.find((node) => node !== from)!;
          const slot = String(await from.call("CLUSTER", "KEYSLOT", fixture().keysOf(room).meta));
          await untilBlocked(from);
          const moving = moveSlot(nodes, { slot, from, to, login: login ? migrateLogin : [] });
          const sending = sendMany(chat, "ann", 20);
          await Promise.all([moving, sending]);
          await eventually(() => expect(seen.toSorted((a, b) => a - b)).toEqual(upTo(25)), { timeoutMs: 20_000 });
          controller.abort("enough");
          expect(await rejection(listening)).toBe("enough");
          await moveSlot(nodes, { slot, from: to, to: from, login: login ? migrateLogin : [] });
          await endMigrations(nodes);
        });
    });

    if (mode === "cluster") {
      const keys = () => {
        const member = fixture().memberKey(room, "ann");
        const layout = layoutKey(redis.prefix, String(new Keys(redis.prefix, 16).shardOf(room)));
        return { ...fixture().keysOf(room), layout, member, members: member };
      };
      const { create, forget, remove } = scripts;
      const elsewhere = ["chat.subscribe", "chat.mailbox", "chat.settle", "chat.take"];
      slots.itRanAll(
        keys,
        () => [
          { script: remove, args: [room] },
          { script: create, args: [room, "epoch", "0 0 0 0 0 0 65536 0 0 60000", "", "16", "1", "ann"] },
          { script: forget, args: [room, "ann"] },
        ],
        elsewhere,
      );
    }
  });
});
