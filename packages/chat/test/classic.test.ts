import { useRedis } from "@kit/testing";
import { rejection, RequestProxy } from "@tooling/vitest/helpers";
import { Redis } from "ioredis";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { type Chat, type CreateOptions, createChat } from "../src/index.js";
import { drain, fixtureOf, room, sendMany, seqsOf } from "./harness.js";

/** Each test shows that this chat does not have a known defect of the one in "Redis in Action". The name is the defect. */
const redis = useRedis(vitest, { permanentKeys: ["*"] });
const fixture = fixtureOf(redis);

const made = async (options: CreateOptions = {}): Promise<Chat> => {
  const chat = fixture.make();
  await chat.create(room, { members: ["ann", "bob"], ...options });
  return chat;
};
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

describe("defects of the classic mailbox, absent here", () => {
  it("a recipient that crashes with a message has lost it", async () => {
    const box = fixture.make().mailbox("bob");
    await box.send({ from: "ann", body: "one" });
    await box.take({ leaseMs: 50 });
    const [again] = await fixture.make().mailbox("bob").take({ waitMs: 60_000 });
    expect(again).toMatchObject({ body: "one", deliveries: 2 });
  });

  it("a sender cannot tell a recipient that reads everything from one that was never here", async () => {
    const box = fixture.make().mailbox("bob");
    expect(await box.stats()).toMatchObject({ length: 0, lastSeenAt: undefined });
    await box.send({ from: "ann", body: "one" });
    for (const message of await box.take()) await message.ack();
    expect(await box.stats()).toMatchObject({ length: 0, lastSeenAt: expect.any(Number) as number });
  });
});

describe("defects of the classic group chat, absent here", () => {
  it("a sender that crashes under the lock closes the chat forever", async () => {
    const chat = await made();
    const crashing = await mortalChat();
    await crashing.proxy.crashAt(/evalsha/i, crashing.chat.send(room, { from: "bob", body: "two" }));
    expect(await chat.send(room, { from: "ann", body: "three" })).toMatchObject({ seq: 1 });
  });

  it("with a lock that expires, a slow sender's message arrives before a reader's position", async () => {
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
    const chat = await made();
    await sendMany(chat, "ann", 1);
    await chat.fetch("bob");
    expect(seqsOf(await chat.fetch("bob"))).toEqual([1]);
  });

  it("a crash in a fetch leaves two positions of one member", async () => {
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

  it("a fetch makes a user who left a member again", async () => {
    const chat = await made();
    await sendMany(chat, "ann", 1);
    const page = await chat.fetch("bob");
    await chat.leave(room, "bob");
    expect(await rejection(chat.ack("bob", page.chats[0]!.messages))).toMatchObject({ code: "KIT_CHAT_NOT_MEMBER" });
    expect(await positionOf(chat, "bob")).toBeUndefined();
  });

  it("trimming uses a minimum that a position is below by then", async () => {
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

  it("a user who joins while the last member leaves never sees a message", async () => {
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
    const chat = await made();
    await Promise.all([chat.leave(room, "ann"), fixture.make().leave(room, "bob")]);
    expect((await chat.inspect(room)).members).toBe(0);
  });

  it("joining a chat that does not exist is an error of the server, or makes a stray member", async () => {
    const error = await rejection(fixture.make().join(room, "carl"));
    expect(error).toMatchObject({ code: "KIT_CHAT_UNKNOWN", chat: room });
  });

  it("creating again resets every position, and changes the caller's list", async () => {
    const members = ["ann", "bob", "ann"];
    const chat = await made({ members });
    await sendMany(chat, "ann", 1);
    await chat.ack("bob", { chat: room, seq: 1 });
    expect(await chat.create(room, { members })).toEqual({ created: false });
    expect(await positionOf(chat, "bob")).toBe(1);
    expect(members).toEqual(["ann", "bob", "ann"]);
    expect((await chat.inspect(room)).members).toBe(2);
  });

  it("a crash between a chat and its first message leaves a chat that no user can join", async () => {
    const chat = await made();
    expect(await chat.join(room, "carl")).toEqual({ position: 0 });
  });

  it("the name of a chat collides with a generated number or the counter", async () => {
    const chat = fixture.make();
    const names = ["chat:", "1", "chat", ":", "{1}", "ids:chat:", "messages:1", "1:"];
    for (const name of names) expect(await chat.create(name, { members: ["ann"] })).toEqual({ created: true });
    for (const name of names) expect(await chat.send(name, { from: "ann", body: name })).toMatchObject({ seq: 1 });
    const all = await drain(chat, "ann");
    expect(all.messages).toEqual([]);
    for (const name of names) expect((await chat.history(name)).messages).toMatchObject([{ body: name }]);
  });

  it("anybody can send anything to a deleted chat, with any time", async () => {
    const chat = fixture.make();
    const sent = (name: string, from: string, body: string) => rejection(chat.send(name, { from, body }));
    expect(await sent("gone", "stranger", "x")).toMatchObject({ code: "KIT_CHAT_UNKNOWN" });
    await chat.create(room, { members: ["ann"] });
    expect(await sent(room, "stranger", "x")).toMatchObject({ code: "KIT_CHAT_NOT_MEMBER" });
    expect(await sent(room, "ann", "x".repeat(1_000_000))).toMatchObject({ code: "KIT_CHAT_TOO_LARGE" });
    expect((await fixture.keysLeft()).filter((key) => key.includes("gone"))).toEqual([]);
    const [seconds] = (await redis.client.time()).map(Number);
    expect((await chat.send(room, { from: "ann", body: "x" })).at).toBeGreaterThanOrEqual((seconds! - 1) * 1_000);
  });

  it("a member that was away gets everything in one reply, and an empty chat looks like news", async () => {
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
