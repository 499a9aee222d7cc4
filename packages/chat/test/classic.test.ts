import { useRedis } from "@kit/testing";
import {
  classicKeys,
  createClassicChat,
  fetchChatMessages,
  joinClassicChat,
  leaveClassicChat,
  lookIntoMailbox,
  mail,
  popMail,
  sendChatMessage,
} from "@tooling/classic";
import { RequestProxy } from "@tooling/classic/request-proxy";
import { rejection } from "@tooling/vitest/helpers";
import { Redis } from "ioredis";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { type Chat, type CreateOptions, createChat } from "../src/index.js";
import { drain, fixtureOf, room, sendMany, seqsOf, upTo } from "./harness.js";

/** Each test shows a known fault of the classic chat or mailbox on its port, and then that the kit's does not have it. */
const redis = useRedis(vitest, { permanentKeys: ["*"] });
const fixture = fixtureOf(redis);
const prefix = (): string => `${redis.prefix}:classic:`;
const keys = () => classicKeys(prefix());
const classic = (): { readonly prefix: string; readonly lockWaitMs: number } => ({ prefix: prefix(), lockWaitMs: 50 });

const made = async (options: CreateOptions = {}): Promise<Chat> => {
  const chat = fixture.make();
  await chat.create(room, { members: ["ann", "bob"], ...options });
  return chat;
};
const classicChat = (...recipients: string[]): Promise<string> =>
  createClassicChat(redis.client, "ann", recipients, "one", room, classic());
const send = (text: string): Promise<number> => sendChatMessage(redis.client, room, "ann", text, classic());
const fetched = async (user: string, client: Redis = redis.client): Promise<string[]> =>
  (await fetchChatMessages(client, user, prefix())).flatMap(({ messages }) => messages.map(({ message }) => message));
const positionOf = async (chat: Chat, user: string): Promise<number | undefined> =>
  (await chat.members(room)).members.find(({ member }) => member === user)?.position;

/** A connection that a test can hold, and that stays lost when it is cut, like that of a crashed process. */
const mortal = async (): Promise<{ client: Redis; proxy: RequestProxy }> => {
  const proxy = await RequestProxy.open(redis.server.nodes[0]!.port);
  redis.defer(() => proxy[Symbol.asyncDispose]());
  const client = new Redis(proxy.url, { retryStrategy: () => null, disconnectTimeout: 50 });
  client.on("error", () => undefined);
  redis.defer(() => client.disconnect());
  await client.ping();
  return { client, proxy };
};
/** The same for a chat whose scripts the server knows. */
const mortalChat = async (): Promise<{ chat: Chat; proxy: RequestProxy }> => {
  const { client, proxy } = await mortal();
  const chat = createChat(client, { prefix: redis.prefix });
  redis.defer(() => chat.close({ timeoutMs: 0 }));
  await chat.create("warm-up", { members: ["ann"] });
  await chat.send("warm-up", { from: "ann", body: "x" });
  await chat.ack("ann", { chat: "warm-up", seq: 1 });
  return { chat, proxy };
};

describe("the classic mailbox", () => {
  it("a recipient that crashes with a message has lost it", async () => {
    await mail(redis.client, "bob", "ann", "one", prefix());
    await popMail(redis.client, "bob", prefix());
    expect(await popMail(redis.client, "bob", prefix())).toBeNull();

    const box = fixture.make().mailbox("bob");
    await box.send({ from: "ann", body: "one" });
    await box.take({ leaseMs: 50 });
    const [again] = await fixture.make().mailbox("bob").take({ waitMs: 60_000 });
    expect(again).toMatchObject({ body: "one", deliveries: 2 });
  });

  it("a sender cannot tell a recipient that reads everything from one that was never here", async () => {
    const before = await lookIntoMailbox(redis.client, "bob", prefix());
    await mail(redis.client, "bob", "ann", "one", prefix());
    await popMail(redis.client, "bob", prefix());
    expect(await lookIntoMailbox(redis.client, "bob", prefix())).toBe(before);

    const box = fixture.make().mailbox("bob");
    expect(await box.stats()).toMatchObject({ length: 0, lastSeenAt: undefined });
    await box.send({ from: "ann", body: "one" });
    for (const message of await box.take()) await message.ack();
    expect(await box.stats()).toMatchObject({ length: 0, lastSeenAt: expect.any(Number) as number });
  });
});

describe("the classic group chat", () => {
  it("a sender that crashes under the lock closes the chat for ever", async () => {
    await classicChat("bob");
    const { client, proxy } = await mortal();
    await proxy.crashAt(/zadd/i, sendChatMessage(client, room, "bob", "two", classic()));
    expect(await rejection(send("three"))).toMatchObject({ message: expect.stringMatching(/lock/) as string });

    const chat = await made();
    const crashing = await mortalChat();
    await crashing.proxy.crashAt(/evalsha/i, crashing.chat.send(room, { from: "bob", body: "two" }));
    expect(await chat.send(room, { from: "ann", body: "three" })).toMatchObject({ seq: 1 });
  });

  it("with a lock that expires, a slow sender's message arrives behind a reader's position", async () => {
    await classicChat("bob");
    const { client, proxy } = await mortal();
    const held = proxy.hold(/zadd/i);
    const slow = sendChatMessage(client, room, "ann", "slow", classic());
    await held.reached;
    // As its time limit would.
    await redis.client.del(keys().lock(`chat:${room}`));
    await send("quick");
    expect(await fetched("bob")).toEqual(["one", "quick"]);
    held.release();
    await slow;
    expect(await fetched("bob")).toEqual([]);

    const chat = await made();
    const ours = await mortalChat();
    const ourHeld = ours.proxy.hold(/evalsha/i);
    const ourSlow = ours.chat.send(room, { from: "ann", body: "slow" });
    await ourHeld.reached;
    await chat.send(room, { from: "ann", body: "quick" });
    const page = await chat.fetch("bob", { autoAck: true });
    expect(seqsOf(page)).toEqual([1]);
    ourHeld.release();
    await ourSlow;
    expect((await drain(chat, "bob")).messages).toMatchObject([{ seq: 2, body: "slow" }]);
  });

  it("a fetch acknowledges before anybody has the messages", async () => {
    await classicChat("bob");
    await fetched("bob");
    expect(await fetched("bob")).toEqual([]);

    const chat = await made();
    await sendMany(chat, "ann", 1);
    await chat.fetch("bob");
    expect(seqsOf(await chat.fetch("bob"))).toEqual([1]);
  });

  it("a crash in a fetch leaves two positions of one member", async () => {
    await classicChat("bob");
    const { client, proxy } = await mortal();
    await proxy.crashAt(/zremrangebyscore/i, fetched("bob", client));
    expect(await redis.client.zscore(keys().chatMembers(room), "bob")).toBe("1");
    expect(await redis.client.zscore(keys().seen("bob"), room)).toBe("0");

    const chat = await made();
    await sendMany(chat, "ann", 1);
    const crashing = await mortalChat();
    await crashing.proxy.crashAt(/evalsha/i, crashing.chat.ack("bob", { chat: room, seq: 1 }));
    const both = async () => [
      await redis.client.zscore(fixture.keysOf(room).positions, "bob"),
      (await redis.client.hget(fixture.memberKey(room, "bob"), room))?.split(" ")[0],
    ];
    expect(await both()).toEqual(["0", "0"]);
    await chat.ack("bob", { chat: room, seq: 1 });
    expect(await both()).toEqual(["1", "1"]);
  });

  it("of two concurrent fetches the slower one moves the position back", async () => {
    await classicChat("bob");
    const { client, proxy } = await mortal();
    const held = proxy.hold(/zadd/i);
    const slow = fetched("bob", client);
    await held.reached;
    await send("two");
    expect(await fetched("bob")).toEqual(["one", "two"]);
    held.release();
    await slow;
    expect(await redis.client.zscore(keys().chatMembers(room), "bob")).toBe("1");
    expect(await fetched("bob")).toEqual(["two"]);

    const chat = await made();
    await sendMany(chat, "ann", 2);
    const ours = await mortalChat();
    const ourHeld = ours.proxy.hold(/evalsha/i);
    const ourSlow = ours.chat.ack("bob", { chat: room, seq: 1 });
    await ourHeld.reached;
    await chat.ack("bob", { chat: room, seq: 2 });
    ourHeld.release();
    await ourSlow;
    expect(await positionOf(chat, "bob")).toBe(2);
  });

  it("a fetch makes a member again of somebody who left", async () => {
    await classicChat("bob");
    const { client, proxy } = await mortal();
    const held = proxy.hold(/zadd/i);
    const slow = fetched("bob", client);
    await held.reached;
    await leaveClassicChat(redis.client, room, "bob", prefix());
    held.release();
    await slow;
    expect(await redis.client.zscore(keys().chatMembers(room), "bob")).toBe("1");

    const chat = await made();
    await sendMany(chat, "ann", 1);
    const page = await chat.fetch("bob");
    await chat.leave(room, "bob");
    expect(await rejection(chat.ack("bob", page.chats[0]!.messages))).toMatchObject({ code: "KIT_CHAT_NOT_MEMBER" });
    expect(await positionOf(chat, "bob")).toBeUndefined();
  });

  it("trimming uses a minimum that a position is below by then", async () => {
    await classicChat("bob");
    await fetched("ann");
    const { client, proxy } = await mortal();
    const held = proxy.hold(/zremrangebyscore/i);
    const slow = fetched("bob", client);
    await held.reached;
    await redis.client.zadd(keys().chatMembers(room), 0, "carl");
    await redis.client.zadd(keys().seen("carl"), 0, room);
    held.release();
    await slow;
    expect(await fetched("carl")).toEqual([]);

    const chat = await made({ retain: { readByAll: true } });
    await sendMany(chat, "ann", 1);
    const ours = await mortalChat();
    const ourHeld = ours.proxy.hold(/evalsha/i);
    const ourSlow = ours.chat.ack("bob", { chat: room, seq: 1 });
    await ourHeld.reached;
    await chat.join(room, "carl", { history: "all" });
    ourHeld.release();
    await ourSlow;
    expect(seqsOf(await chat.fetch("carl"))).toEqual([1]);
  });

  it("one member that never fetches stops all trimming, even if it is the sender", async () => {
    await classicChat("bob");
    for (const text of upTo(30)) await send(String(text));
    await fetched("bob");
    expect(await redis.client.zcard(keys().chatMessages(room))).toBe(31);

    const chat = await made({ members: ["bob"], senders: "anyone", retain: { readByAll: true } });
    await sendMany(chat, "ann", 30);
    await chat.fetch("bob", { autoAck: true });
    expect((await chat.inspect(room)).messages).toBe(0);
    await chat.create("capped", { members: ["ann", "idle"], retain: { readByAll: true, count: 10 } });
    await sendMany(chat, "ann", 30, "capped");
    expect((await chat.inspect("capped")).messages).toBe(10);
    await chat.create("strict", { members: ["ann", "idle"], lag: { messages: 10 } });
    const removed = new Promise<unknown>((resolve) => chat.on("removed", resolve));
    await sendMany(chat, "ann", 30, "strict");
    expect(await removed).toEqual({ chat: "strict", member: "idle" });
  });

  it("somebody who joins while the last one leaves never sees a message", async () => {
    await classicChat();
    await send("two");
    const { client, proxy } = await mortal();
    const held = proxy.hold(/\bdel\b/i);
    const leaving = leaveClassicChat(client, room, "ann", prefix());
    await held.reached;
    await joinClassicChat(redis.client, room, "carl", prefix());
    held.release();
    await leaving;
    await send("three");
    expect(await fetched("carl")).toEqual([]);

    const chat = await made({ members: ["ann"], senders: "anyone" });
    await sendMany(chat, "ann", 2);
    const ours = await mortalChat();
    const ourHeld = ours.proxy.hold(/evalsha/i);
    const ourLeaving = ours.chat.leave(room, "ann");
    await ourHeld.reached;
    await chat.join(room, "carl");
    ourHeld.release();
    await ourLeaving;
    await sendMany(chat, "ann", 1);
    expect(seqsOf(await chat.fetch("carl"))).toEqual([3]);
  });

  it("leaving crashes when the last others leave meanwhile", async () => {
    await classicChat("bob");
    const { client, proxy } = await mortal();
    const held = proxy.hold(/zrange/i);
    const leaving = rejection(leaveClassicChat(client, room, "ann", prefix()));
    await held.reached;
    await leaveClassicChat(redis.client, room, "bob", prefix());
    held.release();
    expect(await leaving).toBeInstanceOf(TypeError);

    const chat = await made();
    await Promise.all([chat.leave(room, "ann"), fixture.make().leave(room, "bob")]);
    expect((await chat.inspect(room)).members).toBe(0);
  });

  it("joining a chat that does not exist is an error of the server, or makes a stray member", async () => {
    expect(await rejection(joinClassicChat(redis.client, room, "carl", prefix()))).toMatchObject({
      message: expect.stringMatching(/float/) as string,
    });
    await sendChatMessage(redis.client, "ghost", "nobody", "boo", classic());
    await joinClassicChat(redis.client, "ghost", "carl", prefix());
    expect(await redis.client.zcard(keys().chatMembers("ghost"))).toBe(1);

    const error = await rejection(fixture.make().join(room, "carl"));
    expect(error).toMatchObject({ code: "KIT_CHAT_UNKNOWN", chat: room });
  });

  it("creating again resets every position, and changes the caller's list", async () => {
    const recipients = ["bob"];
    await createClassicChat(redis.client, "ann", recipients, "one", room, classic());
    expect(recipients).toEqual(["bob", "ann"]);
    await fetched("bob");
    await classicChat("bob");
    expect(await fetched("bob")).toEqual(["one", "one"]);

    const members = ["ann", "bob", "ann"];
    const chat = await made({ members });
    await sendMany(chat, "ann", 1);
    await chat.ack("bob", { chat: room, seq: 1 });
    expect(await chat.create(room, { members })).toEqual({ created: false });
    expect(await positionOf(chat, "bob")).toBe(1);
    expect(members).toEqual(["ann", "bob", "ann"]);
    expect((await chat.inspect(room)).members).toBe(2);
  });

  it("a crash between a chat and its first message leaves one that nobody can join", async () => {
    const { client, proxy } = await mortal();
    await proxy.crashAt(/setnx/i, createClassicChat(client, "ann", ["bob"], "one", room, classic()));
    expect(await redis.client.zcard(keys().chatMembers(room))).toBe(2);
    expect(await rejection(joinClassicChat(redis.client, room, "carl", prefix()))).toBeInstanceOf(Error);

    const chat = await made();
    expect(await chat.join(room, "carl")).toEqual({ position: 0 });
  });

  it("names collide: that of a chat with a generated number or the counter", async () => {
    await createClassicChat(redis.client, "ann", ["bob"], "first", "1", classic());
    const given = await createClassicChat(redis.client, "eve", ["dan"], "second", undefined, classic());
    expect(given).toBe("1");
    expect(await fetched("dan")).toEqual(["first", "second"]);
    await createClassicChat(redis.client, "ann", [], "third", "chat:", classic());
    expect(await redis.client.get(keys().chatCounter)).toBe("2");

    const chat = fixture.make();
    const names = ["chat:", "1", "chat", ":", "{1}", "ids:chat:", "messages:1", "1:"];
    for (const name of names) expect(await chat.create(name, { members: ["ann"] })).toEqual({ created: true });
    for (const name of names) expect(await chat.send(name, { from: "ann", body: name })).toMatchObject({ seq: 1 });
    const all = await drain(chat, "ann");
    expect(all.messages).toEqual([]);
    for (const name of names) expect((await chat.history(name)).messages).toMatchObject([{ body: name }]);
  });

  it("anybody can send anything to a deleted chat, with any time", async () => {
    const late = { ...classic(), now: () => 0 };
    await sendChatMessage(redis.client, "gone", "stranger", "x".repeat(1_000_000), late);
    expect(await redis.client.exists(keys().chatMessages("gone"), keys().chatIds("gone"))).toBe(2);
    const [packed] = await redis.client.zrange(keys().chatMessages("gone"), "0", "-1");
    expect(JSON.parse(packed!)).toMatchObject({ ts: 0 });

    const chat = fixture.make();
    const sent = (name: string, from: string, body: string) => rejection(chat.send(name, { from, body }));
    expect(await sent("gone", "stranger", "x")).toMatchObject({ code: "KIT_CHAT_UNKNOWN" });
    await chat.create(room, { members: ["ann"] });
    expect(await sent(room, "stranger", "x")).toMatchObject({ code: "KIT_CHAT_NOT_MEMBER" });
    expect(await sent(room, "ann", "x".repeat(1_000_000))).toMatchObject({ code: "KIT_CHAT_TOO_LARGE" });
    expect((await fixture.keysLeft()).filter((key) => key.includes("gone") && !key.includes(":classic:"))).toEqual([]);
    const [seconds] = (await redis.client.time()).map(Number);
    expect((await chat.send(room, { from: "ann", body: "x" })).at).toBeGreaterThanOrEqual((seconds! - 1) * 1_000);
  });

  it("a member that was away gets everything in one reply, and an empty chat looks like news", async () => {
    await classicChat("bob");
    for (const text of upTo(600)) await send(String(text));
    expect(await fetched("bob")).toHaveLength(601);
    expect(await fetchChatMessages(redis.client, "bob", prefix())).toHaveLength(1);

    const chat = await made();
    await sendMany(chat, "ann", 601);
    const page = await chat.fetch("bob");
    expect([seqsOf(page).length, page.more]).toEqual([500, true]);
    const { token, messages } = await drain(chat, "bob", { token: page.token });
    expect(messages).toHaveLength(101);
    expect((await chat.fetch("bob", { token })).chats).toEqual([]);
    expect(await chat.wait("bob", { token, waitMs: 50 })).toBe(false);
  });
});
