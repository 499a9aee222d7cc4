import { eventually, type RedisNode, useRedis } from "@kit/testing";
import { rejection } from "@tooling/vitest/helpers";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import type { Chat } from "../src/index.js";
import { drain, fixtureOf, permanentKeys, room, sendMany, seqsOf, upTo } from "./harness.js";

const redis = useRedis(vitest, { permanentKeys, persistence: "always" });
const fixture = fixtureOf(redis);
const node = (): RedisNode => redis.server.nodes[0]!;

const restart = async (): Promise<void> => {
  await node().kill();
  await node().start();
};

/** A call that a restart may have met; a client needs a moment to come back. */
const works = <T>(call: () => Promise<T>): Promise<T> => eventually(call, { timeoutMs: 10_000 });

const made = async (options: Parameters<Chat["create"]>[1] = {}): Promise<Chat> => {
  const chat = fixture.make();
  await chat.create(room, { members: ["ann", "bob"], ...options });
  return chat;
};

/** Takes a snapshot of the chat. Resolves with a function that restores it. */
const snapshot = async (): Promise<() => Promise<void>> => {
  const { messages, heads, activity, meta, positions } = fixture.keysOf(room);
  const members = ["ann", "bob"].map((name) => fixture.memberKey(room, name));
  const keys = [messages, heads, activity, meta, positions, ...members];
  const dumps = await Promise.all(keys.map((key) => fixture.db.dumpBuffer(key)));
  return async () => {
    await Promise.all(keys.map((key, index) => fixture.db.restore(key, 0, dumps[index]!, "REPLACE")));
  };
};

const idsOf = async (name: string): Promise<string[]> =>
  (await fixture.db.xrange(fixture.keysOf(name).messages, "2", "+")).map(([id]) => id);

describe("a server that restarts", () => {
  it("with its data continues where it was, for tokens, waiters and listeners", async () => {
    const chat = await made();
    await sendMany(chat, "ann", 3);
    const { token } = await chat.fetch("bob");
    const seen: number[] = [];
    const controller = new AbortController();
    const listening = chat.listen("bob", { signal: controller.signal }).each(({ seq }) => void seen.push(seq));
    await eventually(() => expect(seen).toEqual([1, 2, 3]));
    await restart();
    await works(() => chat.send(room, { from: "ann", body: "after", clientId: "m" }));
    expect(seqsOf(await works(() => chat.fetch("bob", { token })))).toEqual([4]);
    await eventually(() => expect(seen).toEqual(upTo(4)), { timeoutMs: 10_000 });
    controller.abort("enough");
    expect(await rejection(listening)).toBe("enough");
  });

  it("with an older snapshot reports the fork to a listener, even when as many messages came as were lost", async () => {
    const chat = await made();
    await sendMany(chat, "ann", 1);
    const restore = await snapshot();
    await chat.send(room, { from: "ann", body: "lost" });
    const bodies: unknown[] = [];
    const ending = new AbortController();
    const listening = chat.listen("bob", { signal: ending.signal }).each(({ body }) => void bodies.push(body));
    await eventually(() => expect(bodies).toEqual(["m1", "lost"]));
    await restore();
    await chat.send(room, { from: "ann", body: "other" });
    await eventually(() => expect(bodies.slice(2)).toContain("other"));
    ending.abort("enough");
    expect(await rejection(listening)).toBe("enough");
  });

  it("with an older snapshot reports the fork to a listener, and rejects acknowledgements of lost messages", async () => {
    const chat = await made();
    await sendMany(chat, "ann", 3);
    const restore = await snapshot();
    await sendMany(chat, "ann", 2);
    const { token, messages: all } = await drain(chat, "bob");
    const iterator = chat.listen("bob")[Symbol.asyncIterator]();
    const other = chat.listen("bob")[Symbol.asyncIterator]();
    for (let seq = 1; seq <= 5; seq++)
      for (const one of [iterator, other]) expect((await one.next()).value).toMatchObject({ seq });
    // As a failover to a replica that lacked the last two.
    await restore();
    for (const body of ["other 4", "other 5", "other 6"]) await chat.send(room, { from: "ann", body });
    expect(await rejection(chat.ack("bob", all.at(-1)!))).toMatchObject({ code: "KIT_CHAT_FORKED", seq: 5 });
    const { value } = await iterator.next();
    expect(value).toMatchObject({ seq: 1, reset: "fork" });
    const rest = [value, ...(await Promise.all(upTo(5).map(async () => (await iterator.next()).value)))];
    expect(rest.map((one) => one?.body)).toEqual(["m1", "m2", "m3", "other 4", "other 5", "other 6"]);
    await iterator.return?.(undefined);
    // Also where another device has acknowledged what is new.
    await chat.ack("bob", { chat: room, seq: 6 });
    const seen = await Promise.all(upTo(6).map(async () => (await other.next()).value));
    expect(seen[0]).toMatchObject({ reset: "fork" });
    expect(seen.map((one) => one?.body)).toEqual(["m1", "m2", "m3", "other 4", "other 5", "other 6"]);
    await other.return?.(undefined);
    // A token goes back far enough, too.
    const again = await drain(chat, "bob", { token });
    expect(again.messages.map(({ body }) => body).slice(-3)).toEqual(["other 4", "other 5", "other 6"]);
  });

  it("without its data has no chats, and a chat made again is another one", async () => {
    const chat = await made();
    await sendMany(chat, "ann", 3);
    const iterator = chat.listen("bob")[Symbol.asyncIterator]();
    for (let seq = 1; seq <= 3; seq++) expect((await iterator.next()).value).toMatchObject({ seq });
    await fixture.db.flushall();
    expect(await rejection(chat.send(room, { from: "ann", body: "x" }))).toMatchObject({ code: "KIT_CHAT_UNKNOWN" });
    await chat.create(room, { members: ["ann", "bob"] });
    await sendMany(chat, "ann", 5);
    expect((await iterator.next()).value).toMatchObject({ seq: 1, reset: "epoch" });
    await iterator.return?.(undefined);
  });

  it("without its data reports that to a reader that has a token", async () => {
    const chat = await made();
    await sendMany(chat, "ann", 3);
    const { token } = await chat.fetch("bob");
    const [seconds = 0, micros = 0] = (await fixture.db.time()).map(Number);
    const now = seconds * 1_000 + micros / 1_000;
    await fixture.db.flushall();
    // Chats are told apart by milliseconds here.
    await eventually(async () => expect(Number((await fixture.db.time())[0]) * 1_000).toBeGreaterThan(now));
    await chat.create(room, { members: ["ann", "bob"] });
    await sendMany(chat, "ann", 1);
    const page = await chat.fetch("bob", { token });
    expect(page.chats).toMatchObject([{ reset: "epoch", unread: 1, messages: [{ seq: 1 }] }]);
    await sendMany(chat, "ann", 1);
    expect((await chat.fetch("bob", { token: page.token })).chats).toMatchObject([{ reset: undefined }]);
  });

  it("without its data and with a clock that was ahead reports it to a reader that has a token of that clock", async () => {
    const chat = await made();
    await sendMany(chat, "ann", 3);
    const { token: ofNow } = await chat.fetch("bob");
    await fixture.db.flushall();
    await chat.create(room, { members: ["ann", "bob"] });
    await sendMany(chat, "ann", 2);
    const content = JSON.parse(Buffer.from(ofNow, "base64url").toString()) as [number, string, string[], unknown];
    const ahead = content[2].map((part) =>
      part.replace(/^a ([1-9]\d+)/, (_, ms: string) => `a ${Number(ms) + 60_000}`),
    );
    const token = Buffer.from(JSON.stringify(content.with(2, ahead))).toString("base64url");
    expect(await chat.wait("bob", { token, waitMs: 10_000 })).toBe(true);
    const page = await chat.fetch("bob", { token });
    expect(page.chats).toMatchObject([{ reset: "epoch", unread: 2, messages: [{ seq: 1 }, { seq: 2 }] }]);
    await sendMany(chat, "ann", 1);
    const next = await chat.fetch("bob", { token: page.token });
    expect(next.chats).toMatchObject([{ reset: undefined, messages: [{ seq: 3 }] }]);
  });

  it("keeps a stream that was trimmed in every way loadable", async () => {
    const chat = await made({ retain: { count: 30, readByAll: true } });
    await sendMany(chat, "ann", 500);
    await chat.ack("bob", { chat: room, seq: 490 });
    await node().call("DEBUG", "RELOAD");
    expect((await works(() => drain(chat, "bob"))).messages.map(({ seq }) => seq)).toEqual(upTo(500).slice(490));
    expect(await chat.send(room, { from: "ann", body: "x" })).toMatchObject({ seq: 501 });
  });
});

describe("a key that is evicted", () => {
  it("heads: is rebuilt from the messages, and no number is used twice", async () => {
    const chat = await made({ retain: { count: 4 } });
    await sendMany(chat, "ann", 200);
    await fixture.db.del(fixture.keysOf(room).heads);
    expect((await chat.inspect(room)).head).toBe(200);
    expect((await drain(chat, "bob")).messages.at(-1)!.seq).toBe(200);
    expect(await chat.send(room, { from: "ann", body: "x" })).toMatchObject({ seq: 201 });
    expect(await chat.unread("bob", [room])).toEqual(new Map([[room, 4]]));
  });

  it("messages: are reported as lost, and numbers continue", async () => {
    const chat = await made();
    await sendMany(chat, "ann", 5);
    await chat.ack("bob", { chat: room, seq: 2 });
    await fixture.db.del(fixture.keysOf(room).messages);
    const page = await chat.fetch("bob");
    expect(page.chats[0]).toMatchObject({ messages: [], gap: { from: 3, to: 5, reason: "lost" } });
    expect((await chat.fetch("bob", { token: page.token })).chats).toEqual([]);
    expect(await chat.send(room, { from: "ann", body: "x" })).toMatchObject({ seq: 6 });
    const next = await chat.fetch("bob");
    expect(next.chats[0]).toMatchObject({ gap: { from: 3, to: 5, reason: "lost" } });
    expect(seqsOf(next)).toEqual([6]);
  });

  it("heads and messages: the chat continues after the highest position, in another epoch", async () => {
    const chat = await made();
    await sendMany(chat, "ann", 5);
    const iterator = chat.listen("bob")[Symbol.asyncIterator]();
    for (let seq = 1; seq <= 5; seq++) await iterator.next();
    const { heads, messages } = fixture.keysOf(room);
    await fixture.db.del(heads, messages);
    expect(await chat.send(room, { from: "ann", body: "x" })).toMatchObject({ seq: 6 });
    expect((await iterator.next()).value).toMatchObject({ seq: 6, reset: "epoch" });
    await iterator.return?.(undefined);
  });

  it("activity: readers compare instead, and waiters are woken", async () => {
    const chat = await made();
    await sendMany(chat, "ann", 2);
    const { token } = await chat.fetch("bob");
    await fixture.db.del(fixture.keysOf(room).activity);
    await sendMany(chat, "ann", 1);
    expect(await chat.wait("bob", { token })).toBe(true);
    expect((await drain(chat, "bob", { token })).messages.at(-1)!.seq).toBe(3);
  });

  it("positions: come back with each acknowledgement", async () => {
    const chat = await made();
    await sendMany(chat, "ann", 3);
    await fixture.db.del(fixture.keysOf(room).positions);
    await chat.ack("bob", { chat: room, seq: 2 });
    expect((await chat.members(room)).members).toEqual([{ member: "bob", position: 2, unread: 1 }]);
  });
});

describe("a mailbox whose keys are lost", () => {
  it("delivers unacknowledged messages again, and skips no later one", async () => {
    const chat = await made();
    const box = chat.mailbox("box");
    const send = async (count: number) => {
      for (const body of upTo(count)) await box.send({ from: "ann", body });
    };
    await send(4);
    const messages = await box.take({ limit: 3 });
    await messages[0]!.ack();
    const { mailbox, heads, messages: stream } = fixture.keysOf("box");
    await fixture.db.unlink(mailbox);
    const again = await box.take({ limit: 2 });
    expect(again).toMatchObject([{ seq: 2, deliveries: 1 }, { seq: 3 }]);
    expect([await messages[1]!.ack(), await again[0]!.ack()]).toEqual([false, true]);

    // Of the messages nothing is left: numbers go on behind the position, below what was handed out.
    await fixture.db.hdel(heads, "box");
    await fixture.db.unlink(stream);
    await send(3);
    expect((await box.take({ limit: 9 })).map(({ seq, body }) => [seq, body])).toEqual([
      [3, 1],
      [4, 2],
      [5, 3],
    ]);
  });

  it("is empty when all are lost, accepts others though it was full, and reports the missing ones", async () => {
    const chat = await made();
    const box = chat.mailbox("box", { retain: { count: 3 }, whenFull: "refuse" });
    for (const body of upTo(3)) await box.send({ from: "ann", body });
    await (await box.take())[0]!.ack();
    await box.send({ from: "ann", body: 4 });
    expect(await rejection(box.send({ from: "ann", body: 5 }))).toMatchObject({ code: "KIT_CHAT_FULL" });
    await fixture.db.unlink(fixture.keysOf("box").messages);
    expect(await box.stats()).toMatchObject({ length: 0, oldestAt: undefined });
    expect(await box.take()).toEqual([]);
    await box.send({ from: "ann", body: 5 });
    expect(await box.stats()).toMatchObject({ length: 1 });
    expect(await box.take({ limit: 9 })).toMatchObject([{ seq: 5, body: 5, gap: { from: 2, to: 4 } }]);
  });

  it("still has its recipient at the same position", async () => {
    const chat = await made();
    const box = chat.mailbox("box");
    for (const body of upTo(4)) await box.send({ from: "ann", body });
    const messages = await box.take({ limit: 2 });
    await messages[0]!.ack();
    const forget = () => fixture.db.unlink(fixture.memberKey("box", "box"));
    await forget();
    expect(await box.stats()).toMatchObject({ length: 3, leased: 1 });
    expect(await messages[1]!.ack()).toBe(true);
    await forget();
    expect(await box.take({ limit: 9 })).toMatchObject([{ seq: 3, deliveries: 1 }, { seq: 4 }]);
    expect(await chat.unread("box")).toEqual(new Map([["box", 2]]));
  });

  it("reports messages that were lost before delivery", async () => {
    const chat = await made();
    const box = chat.mailbox("box");
    for (const body of upTo(3)) await box.send({ from: "ann", body });
    await (await box.take())[0]!.ack();
    await fixture.db.xdel(fixture.keysOf("box").messages, ...(await idsOf("box")).slice(0, 1));
    expect(await box.take({ limit: 9 })).toMatchObject([{ seq: 3, gap: { from: 2, to: 2, reason: "lost" } }]);
  });
});

describe("a full server", () => {
  it("refuses to send before anything is written; acknowledging, leaving and deleting still work", async () => {
    const chat = await made({ retain: { readByAll: true } });
    await chat.create("other", { members: ["ann", "bob"] });
    await sendMany(chat, "ann", 300);
    const box = chat.mailbox("box");
    for (const body of [1, 2]) await box.send({ from: "ann", body });
    const [held] = await box.take();
    const keysBefore = await redis.keys();
    await node().call("CONFIG", "SET", "maxmemory", "1");
    redis.defer(() => node().call("CONFIG", "SET", "maxmemory", "0"));
    expect(await rejection(chat.send(room, { from: "ann", body: "x" }))).toMatchObject({ code: "KIT_SERVER_FULL" });
    expect(await rejection(chat.create("third", { members: ["ann"] }))).toMatchObject({ code: "KIT_SERVER_FULL" });
    expect(await rejection(chat.join(room, "carl"))).toMatchObject({ code: "KIT_SERVER_FULL" });
    expect((await redis.keys()).toSorted()).toEqual(keysBefore.toSorted());
    expect((await chat.inspect(room)).head).toBe(300);
    await chat.ack("bob", { chat: room, seq: 299 });
    expect((await chat.inspect(room)).messages).toBe(1);
    await chat.leave(room, "bob");
    expect((await chat.inspect(room)).messages).toBe(0);
    expect(await rejection(box.send({ from: "ann", body: 3 }))).toMatchObject({ code: "KIT_SERVER_FULL" });
    const [next] = await box.take();
    expect([next?.body, await next?.extend(), await next?.release(), await held?.ack()]).toEqual([2, true, true, true]);
    expect(await box.stats()).toMatchObject({ length: 1, leased: 0 });
    await chat.delete("box");
    await chat.delete("other");
    await chat.delete(room);
    expect(await fixture.keysLeft()).toEqual([]);
  });
});

describe("a full server, for a reader that subscribes to positions", () => {
  it("gives messages, and it receives positions again once there is room", async () => {
    const chat = await made();
    await sendMany(chat, "ann", 1);
    const codes: string[] = [];
    chat.on("error", ({ code }) => codes.push(code));
    await node().call("CONFIG", "SET", "maxmemory", "1");
    redis.defer(() => node().call("CONFIG", "SET", "maxmemory", "0"));
    const read = async (token?: string) => await chat.fetch("bob", { token, positions: true });
    expect(seqsOf(await read())).toEqual([1]);
    const { token } = await read();
    expect(codes).toEqual(["KIT_SERVER_FULL"]);
    await chat.ack("bob", { chat: room, seq: 1 });
    expect((await read(token)).positions).toEqual([]);
    await node().call("CONFIG", "SET", "maxmemory", "0");
    const page = await read(token);
    expect(codes).toEqual(["KIT_SERVER_FULL", "KIT_RECOVERED"]);
    await sendMany(chat, "ann", 1);
    await chat.ack("bob", { chat: room, seq: 2 });
    expect((await read(page.token)).positions).toEqual([{ chat: room, member: "bob", position: 2 }]);
  });
});

describe("another version", () => {
  it("may add fields to messages, which this one ignores", async () => {
    const chat = await made();
    await sendMany(chat, "ann", 1);
    const { messages, heads } = fixture.keysOf(room);
    const { at } = (await chat.history(room)).messages[0]!;
    await fixture.db.xadd(messages, `2-${at}`, "f", "ann", "s", "hello", "new", "field", "more", "x");
    await fixture.db.xadd(messages, `3-${at}`, "f", "ann", "q", "kind", "x", "y");
    await fixture.db.hset(heads, room, `3 0 ${at} 0 0`);
    expect((await drain(chat, "bob")).messages.map(({ body }) => body)).toEqual(["m1", "hello", "kind"]);
  });

  it("that wrote a chat or the number of shards is refused, and nothing is changed", async () => {
    const chat = await made();
    const { meta } = fixture.keysOf(room);
    await fixture.db.hset(meta, "layout", "2");
    for (const call of [
      () => chat.create(room),
      () => chat.send(room, { from: "ann", body: "x" }),
      () => chat.ack("bob", { chat: room, seq: 1 }),
      () => chat.join(room, "carl"),
      () => chat.leave(room, "bob"),
      () => chat.history(room),
      () => chat.members(room),
      () => chat.inspect(room),
      () => chat.unread("bob", [room]),
      () => chat.delete(room),
    ])
      expect(await rejection(call())).toMatchObject({ code: "KIT_LAYOUT" });
    await fixture.db.hset(`${redis.prefix}:chat:{shards}:layout`, "layout", "2");
    expect(await rejection(fixture.make().fetch("bob"))).toMatchObject({ code: "KIT_LAYOUT" });
  });
});

describe("the number of shards", () => {
  it("is the number of the first object that used the prefix", async () => {
    const first = fixture.make({ shards: 3 });
    await first.create(room, { members: ["ann", "bob"] });
    const second = fixture.make({ shards: 16 });
    await second.send(room, { from: "ann", body: "x" });
    expect(seqsOf(await second.fetch("bob"))).toEqual([1]);
    expect(await fixture.db.hget(`${redis.prefix}:chat:{shards}:layout`, "shards")).toBe("3");
  });

  it("is refused if it is none that a chat can have", async () => {
    const first = fixture.make({ shards: 3 });
    await first.create(room, { members: ["ann", "bob"] });
    for (const shards of ["0", "-1", "NaN", "1e-9", "1e9", "1e300", "x", ""]) {
      await fixture.db.hset(`${redis.prefix}:chat:{shards}:layout`, "shards", shards);
      expect(await rejection(fixture.make().fetch("bob"))).toMatchObject({ code: "KIT_LAYOUT" });
    }
  });

  it("is stored again when the server lost it while its clients stayed connected", async () => {
    const layout = `${redis.prefix}:chat:{shards}:layout`;
    const first = fixture.make({ shards: 3 });
    await first.create(room, { members: ["ann", "bob"] });
    await first.send(room, { from: "ann", body: "x" });
    const { token } = await first.fetch("bob");
    await fixture.db.flushall();
    await first.create(room, { members: ["ann", "bob"] });
    expect(await fixture.db.hget(layout, "shards")).toBe("3");
    await first.send(room, { from: "ann", body: "x" });
    expect(await fixture.make({ shards: 16 }).unread("bob")).toEqual(new Map([[room, 1]]));
    // A process that only reads stores it as well.
    await fixture.db.flushall();
    await eventually(async () => {
      await first.fetch("bob", { token });
      expect(await fixture.db.hget(layout, "shards")).toBe("3");
    });
    // The number that another process has chosen meanwhile counts.
    await fixture.db.flushall();
    const second = fixture.make({ shards: 4 });
    await second.create("other", { members: ["ann", "bob"] });
    await first.create(room, { members: ["ann", "bob"] });
    await first.send(room, { from: "ann", body: "x" });
    expect(await second.unread("bob")).toEqual(new Map([[room, 1]]));
  });
});
