import { eventually, useRedis } from "@kit/testing";
import { rejection, watched } from "@tooling/vitest/helpers";
import type { Redis } from "ioredis";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import type { Chat, ChatOptions } from "../src/index.js";
import { Keys } from "../src/keys.js";
import * as scripts from "../src/scripts/index.js";
import { drain, fixtureOf, permanentKeys, room, sendMany, seqsOf, untilBlocked, upTo } from "./harness.js";

const redis = useRedis(vitest, { permanentKeys });
const fixture = fixtureOf(redis);
const node = (): Redis => redis.client as Redis;

/** All chats in one shard. */
const single: ChatOptions = { shards: 1 };
const keysOf = (chat: string) => new Keys(redis.prefix, 1).chat(chat);

/** Chats of bob whose only message is too old by now. */
const aged = async (chat: Chat, names: readonly string[]): Promise<void> => {
  for (const name of names) {
    await chat.create(name, { members: ["ann", "bob"], retain: { ageMs: 1 } });
    await sendMany(chat, "ann", 1, name);
  }
  await eventually(async () => {
    for (const name of names) expect((await chat.inspect(name)).messages).toBe(0);
  });
};

/** The chats of which a reader gets messages, over ten pages at most. */
const chatsOfPages = async (chat: Chat, limit: number): Promise<string[]> => {
  const found: string[] = [];
  let token: string | undefined;
  for (let pages = 0; pages < 10; pages++) {
    const page = await chat.fetch("bob", { token, limit });
    found.push(...page.chats.filter(({ messages }) => messages.length > 0).map((one) => one.chat));
    token = page.token;
    if (!page.more) break;
  }
  return found;
};

const scriptCalls = async (): Promise<number> =>
  Number(/cmdstat_evalsha:calls=(\d+)/.exec(String(await node().call("INFO", "commandstats")))?.[1] ?? 0);

/** Resolves when no script runs while two hundred other commands do. */
const untilQuiet = (): Promise<void> =>
  eventually(async () => {
    const before = await scriptCalls();
    for (let command = 0; command < 200; command++) await node().ping();
    expect(await scriptCalls()).toBe(before);
  });

describe("a reader in small pages", () => {
  it("gets past chats of which only a gap is left", async () => {
    const chat = fixture.make(single);
    await aged(chat, ["old:1", "old:2", "old:3"]);
    await chat.create(room, { members: ["ann", "bob"] });
    await sendMany(chat, "ann", 1);
    expect(await chatsOfPages(chat, 1)).toEqual([room]);
  });

  it("gets past chats that once lost their messages and start again", async () => {
    const chat = fixture.make(single);
    const names = ["lost:1", "lost:2", room];
    for (const name of names) {
      await chat.create(name, { members: ["ann", "bob"] });
      await node().del(keysOf(name).messages);
      await node().hdel(keysOf(name).heads, name);
      await sendMany(chat, "ann", 1, name);
    }
    expect(await chatsOfPages(chat, 1)).toEqual(names);
  });

  it("gets past chats that it has joined and that are empty for it", async () => {
    const chat = fixture.make(single);
    const names = upTo(3).map((number) => `joined:${String(number)}`);
    for (const name of [...names, room]) await chat.create(name, { members: ["ann"] });
    const { token } = await chat.fetch("bob");
    for (const name of names) await chat.join(name, "bob");
    await chat.join(room, "bob");
    await sendMany(chat, "ann", 1);
    // The activity since the token is gone.
    await node().del(keysOf(room).activity);
    expect(seqsOf(await chat.fetch("bob", { token, limit: 1 }))).toEqual([1]);
  });

  it("gets a page of the largest limit of two thousand chats", async () => {
    const chat = fixture.make();
    const names = upTo(2_000).map((number) => `n${String(number)}`);
    for (const some of scripts.grouped(names, 100))
      await Promise.all(
        some.map(async (name) => {
          await chat.create(name, { members: ["ann", "bob"] });
          await chat.send(name, { from: "ann", body: "x" });
        }),
      );
    const { messages } = await drain(chat, "bob", { limit: 10_000 });
    expect(messages.map((one) => one.chat).toSorted()).toEqual(names.toSorted());
  });
});

describe("who waits", () => {
  it("sends nothing if the activity of another shard is gone", async () => {
    const chat = fixture.make();
    await chat.create(room, { members: ["ann", "bob"] });
    await chat.create("other", { members: ["bob"] });
    const end = new AbortController();
    const seen: number[] = [];
    await chat.create("side", { members: ["carl"] });
    const others: number[] = [];
    const other = chat.listen("carl", { signal: end.signal }).each(({ seq }) => void others.push(seq));
    const listening = chat.listen("bob", { signal: end.signal }).each(({ seq }) => void seen.push(seq));
    await untilBlocked(redis.server.nodes[0]!);
    await untilQuiet();
    await node().del(fixture.keysOf("other").activity);
    await sendMany(chat, "ann", 1);
    await eventually(() => expect(seen).toEqual([1]));
    await untilQuiet();
    await sendMany(chat, "ann", 1);
    await eventually(() => expect(seen).toEqual([1, 2]));
    await chat.create("new", { members: ["ann", "carl"] });
    await sendMany(chat, "ann", 1, "new");
    await eventually(() => expect(others).toEqual([1]));
    end.abort("enough");
    for (const ended of [listening, other]) expect(await rejection(ended)).toBe("enough");
  });

  it("keeps one connection, however often that of the client is lost", async () => {
    const client = fixture.connect() as Redis;
    const chat = fixture.on(client);
    await chat.create(room, { members: ["ann", "bob"] });
    const { token } = await chat.fetch("bob");
    const waiting = watched(chat.wait("bob", { token }));
    await untilBlocked(redis.server.nodes[0]!);
    const counts: number[] = [];
    for (let round = 0; round < 3; round++) {
      client.disconnect(true);
      await eventually(() => client.ping());
      expect(await chat.wait("ann", { waitMs: 50 })).toBe(false);
      await untilBlocked(redis.server.nodes[0]!);
      counts.push(String(await node().call("CLIENT", "LIST")).split("name=kit:chat ").length - 1);
    }
    expect(counts).toEqual([1, 1, 1]);
    expect(waiting.isSettled).toBe(false);
    await sendMany(chat, "ann", 1);
    expect(await waiting.promise).toBe(true);
  });

  it("follows a chat whose messages are all too old, and sends nothing until one comes", async () => {
    const chat = fixture.make();
    await chat.create(room, { members: ["ann"], retain: { ageMs: 60_000 } });
    const { heads } = fixture.keysOf(room);
    await sendMany(chat, "ann", 3);
    const { createdAt } = await chat.inspect(room);
    await node().hset(heads, room, `3 0 ${String(createdAt - 70_000)} 0 0`);
    await node().del(fixture.keysOf(room).messages);
    expect(await chat.history(room, { after: 0 })).toEqual({ messages: [], hasOlder: false, hasNewer: false });
    const tail = chat.tail(room);
    const next = tail.next();
    await untilBlocked(redis.server.nodes[0]!);
    await sendMany(chat, "ann", 1);
    expect((await next).value).toMatchObject({ seq: 4 });
    await tail.return();
  });
});

describe("two calls at once", () => {
  it("of create, after an unfinished delete, make one chat that stays", async () => {
    const [first, second] = [fixture.make(), fixture.make()];
    await first.create(room, { members: ["ann", "bob"] });
    const { meta, heads, messages, sentEven, sentOdd } = fixture.keysOf(room);
    await node().unlink(meta, messages, sentEven, sentOdd);
    await node().hdel(heads, room);
    // The first one has seen what is left, and the second one is done before it goes on.
    const { run } = scripts.create;
    const make = vitest.vi.spyOn(scripts.create, "run");
    let sent: Promise<unknown> | undefined;
    make.mockImplementationOnce(async (...args) => {
      const code = await run(...args);
      await second.create(room, { members: ["ann", "bob"] });
      sent = second.send(room, { from: "ann", body: "kept" });
      await sent;
      return code;
    });
    await first.create(room, { members: ["ann", "bob"] });
    make.mockRestore();
    expect(sent).toBeDefined();
    expect((await second.fetch("bob")).chats[0]).toMatchObject({ messages: [{ body: "kept" }] });
  });
});

it("a send that is repeated after its sender left gives the first message", async () => {
  const chat = fixture.make();
  await chat.create(room, { members: ["ann", "bob"] });
  const message = { from: "ann", body: "x", clientId: "m" };
  await chat.send(room, message);
  await chat.leave(room, "ann");
  expect(await chat.send(room, message)).toMatchObject({ seq: 1, duplicate: true });
});
