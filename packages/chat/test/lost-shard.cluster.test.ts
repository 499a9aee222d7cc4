import { eventually, type RedisNode, type RedisServer, startRedis, useRedis } from "@kit/testing";
import { nodeOf, rejection, watched } from "@tooling/vitest/helpers";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import type { Chat, ChatOptions, FetchPage } from "../src/index.js";
import { Keys, layoutKey } from "../src/keys.js";
import { drain, fixtureOf, permanentKeys, sendMany, seqsOf } from "./harness.js";

const redis = useRedis(vitest, { mode: "cluster", permanentKeys });
const fixture = fixtureOf(redis);
const rooms = Array.from({ length: 9 }, (_, n) => `room${String(n)}`);

/** A server of three masters, one of which will be lost. */
interface Lost {
  readonly server: RedisServer<"cluster">;
  readonly lost: RedisNode;
  readonly chat: Chat;
  /** A process of its own. */
  open(options?: ChatOptions): Chat;
  /** Chats on the other nodes, and on that one. */
  readonly here: readonly string[];
  readonly gone: readonly string[];
}

const lossOf = async (options: ChatOptions): Promise<Lost> => {
  const server = await startRedis({ mode: "cluster", args: ["--cluster-require-full-coverage", "no"] });
  redis.defer(() => server.stop());
  const open: Lost["open"] = (more) =>
    fixture.on(server.client({ maxRetriesPerRequest: 0 }), { deadlineMs: 1_000, ...more });
  const chat = open(options);
  // The node that has the number of shards.
  const lost = await nodeOf(server.nodes, layoutKey(redis.prefix));
  for (const name of rooms) await chat.create(name, { members: ["ann", "bob", "cid"] });
  const metas = ((await lost.call("KEYS", "*:meta:*")) as string[]).map((key) => key.replace(/.*:/, ""));
  const gone = rooms.filter((name) => metas.includes(name));
  return { server, lost, chat, open, gone, here: rooms.filter((name) => !gone.includes(name)) };
};

const untilFailed = async ({ server, lost }: Lost): Promise<void> => {
  const other = server.nodes.find((node) => node !== lost)!;
  await eventually(async () => expect(String(await other.call("CLUSTER", "NODES"))).toMatch(/master,fail /));
};

/** A name whose chat is on another node than the lost one. */
const nameElsewhere = async ({ server, lost }: Lost): Promise<string> => {
  const keys = new Keys(redis.prefix, 9);
  for (let n = 0; ; n++) {
    const name = `box${String(n)}`;
    if ((await nodeOf(server.nodes, keys.chat(name).meta)) !== lost) return name;
  }
};

/** How many scripts the other nodes have run. */
const callsOf = async ({ server, lost }: Lost): Promise<number> => {
  const stats = await Promise.all(
    server.nodes.filter((node) => node !== lost).map(async (node) => String(await node.call("INFO", "commandstats"))),
  );
  return stats.map((one) => Number(/cmdstat_evalsha:calls=(\d+)/.exec(one)?.[1] ?? 0)).reduce((sum, one) => sum + one);
};

const chatsOf = ({ chats }: FetchPage): string[] => chats.map(({ chat }) => chat).toSorted();

/** The messages that a listener receives until the end of the test. */
const received = (chat: Chat, member: string): string[] => {
  const controller = new AbortController();
  const got: string[] = [];
  const listening = watched(
    chat.listen(member, { signal: controller.signal }).each(({ chat: name, body }) => {
      got.push(`${name} ${String(body)}`);
    }),
  );
  redis.defer(async () => {
    controller.abort();
    await listening.promise.catch(() => undefined);
  });
  return got;
};

describe("a lost node that has the number of shards", () => {
  it("stops its own chats only, and gets back the number in use when it comes back empty", async () => {
    const loss = await lossOf({ shards: 9 });
    const { lost, chat, open, here, gone } = loss;
    await lost.kill();
    await untilFailed(loss);
    // The client has noticed, and asks for the number again.
    await rejection(chat.send(gone[0]!, { from: "ann", body: "x" }));
    for (const name of here) expect((await chat.send(name, { from: "ann", body: "x" })).seq).toBe(1);
    // A process that begins now goes by a copy of the number, whatever its own is.
    const begun = open();
    const message = { from: "ann", body: "x", clientId: "begun" };
    await eventually(async () => expect((await begun.send(here[0]!, message)).seq).toBe(2));
    await lost.start();
    await eventually(async () => {
      await chat.send(here[0]!, { from: "ann", body: "x" });
      expect(await lost.call("HGET", layoutKey(redis.prefix), "shards")).toBe("9");
    });
    expect((await open().send(here[0]!, { from: "ann", body: "x" })).seq).toBeGreaterThan(1);
  });

  it("lets a new process send to the other chats well within its deadline", async () => {
    const loss = await lossOf({ shards: 9 });
    const { server, lost, chat, here } = loss;
    const clients = rooms.map(() => server.client({ maxRetriesPerRequest: 0 }));
    await Promise.all(clients.map((client) => client.ping()));
    lost.pause();
    await untilFailed(loss);
    const deadlineMs = 8_000;
    const times = clients.map(async (client) => {
      const begun = performance.now();
      await fixture.on(client, { deadlineMs }).send(here[0]!, { from: "ann", body: "x" });
      return performance.now() - begun;
    });
    // An eighth of the deadline for each of two nodes that may be lost.
    expect(Math.max(...(await Promise.all(times)))).toBeLessThan(deadlineMs / 2);
    expect((await chat.inspect(here[0]!)).head).toBe(rooms.length);
    lost.resume();
  });

  it("does not delay readers of other chats, which receive the missing messages later", async () => {
    const loss = await lossOf({ shards: 9 });
    const { server, lost, chat, here, gone } = loss;
    const errors: string[] = [];
    chat.on("error", ({ code }) => errors.push(code));
    const before = received(chat, "bob");
    const send = async (names: readonly string[], body: string): Promise<unknown> =>
      Promise.all(names.map((name) => chat.send(name, { from: "ann", body })));
    const all = (names: readonly string[], ...bodies: string[]): string[] =>
      names.flatMap((name) => bodies.map((body) => `${name} ${body}`)).toSorted();
    await send(rooms, "one");
    await eventually(() => expect(before.toSorted()).toEqual(all(rooms, "one")));
    const { token } = await drain(chat, "bob");
    const box = await nameElsewhere(loss);
    const client = server.client({ maxRetriesPerRequest: 0 });
    await client.ping();
    lost.pause();
    await untilFailed(loss);
    await send(here, "two");
    const page = await chat.fetch("bob", { token });
    expect(chatsOf(page)).toEqual(here);
    expect(page).toMatchObject({ more: false, left: [] });
    expect(page.unavailable.length).toBeGreaterThan(0);
    await eventually(() => expect(before.toSorted()).toEqual([...all(rooms, "one"), ...all(here, "two")].toSorted()));
    // Others begin while the node is lost.
    const late = fixture.on(client, { deadlineMs: 1_000 });
    expect(chatsOf(await late.fetch("bob"))).toEqual(chatsOf(await chat.fetch("bob")));
    const during = received(late, "cid");
    const taking = late.mailbox(box).take({ waitMs: 60_000 });
    await send(here, "three");
    await eventually(() => expect(during.toSorted()).toEqual(all(here, "one", "two", "three")));
    const { token: next } = await late.fetch("bob", { token: page.token });
    // All wait, and nobody asks on and on.
    const calls = await callsOf(loss);
    expect(await late.wait("bob", { token: next, waitMs: 300 })).toBe(false);
    expect((await callsOf(loss)) - calls).toBeLessThan(100);
    await chat.mailbox(box).send({ from: "ann", body: "x" });
    expect(await taking).toMatchObject([{ chat: box, body: "x" }]);
    expect(await rejection(late.unread("bob"))).toMatchObject({ retryable: true });
    lost.resume();
    for (const name of gone) await eventually(() => chat.send(name, { from: "ann", body: "four", clientId: "four" }));
    await eventually(() => {
      const whole = [...all(here, "one", "two", "three"), ...all(gone, "one", "four")].toSorted();
      expect([before.toSorted(), during.toSorted()]).toEqual([whole, whole]);
    });
    await eventually(async () => {
      const last = await chat.fetch("bob", { token: page.token });
      expect([chatsOf(last), last.unavailable]).toEqual([rooms, []]);
    });
    expect(errors).toContain("KIT_RECOVERED");
  });

  it("makes no reader forget a partly delivered chat: each message comes once, acknowledged or not", async () => {
    const loss = await lossOf({ shards: 9 });
    const { lost, chat, gone } = loss;
    const name = gone[0]!;
    await sendMany(chat, "ann", 3, name);
    const begin = async (member: string): Promise<string> => {
      const page = await chat.fetch(member, { limit: 2 });
      expect([seqsOf(page, name), page.more]).toEqual([[1, 2], true]);
      return page.token;
    };
    const tokens = { bob: await begin("bob"), cid: await begin("cid") };
    // On another device.
    await chat.ack("cid", { chat: name, seq: 3 });
    lost.pause();
    await untilFailed(loss);
    const meanwhile = async (member: keyof typeof tokens): Promise<string> => {
      const page = await chat.fetch(member, { token: tokens[member] });
      expect(page.chats).toEqual([]);
      expect(page.unavailable.length).toBeGreaterThan(0);
      return page.token;
    };
    const later = { bob: await meanwhile("bob"), cid: await meanwhile("cid") };
    lost.resume();
    for (const member of ["bob", "cid"] as const) {
      const page = await eventually(async () => {
        const found = await chat.fetch(member, { token: later[member] });
        expect(found.unavailable).toEqual([]);
        return found;
      });
      expect(seqsOf(page, name), member).toEqual([3]);
    }
  });
});
