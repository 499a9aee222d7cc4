import { eventually, FaultProxy, useRedis } from "@kit/testing";
import { type KitUnknownOutcomeError, retry } from "@kit/core";
import { losingOnce, rejection, watched } from "@tooling/vitest/helpers";
import type { Redis } from "ioredis";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import type { Chat, ChatOptions } from "../src/index.js";
import { fixtureOf, permanentKeys, room, sendMany, seqsOf, untilBlocked, upTo } from "./harness.js";

const redis = useRedis(vitest, { permanentKeys });
const fixture = fixtureOf(redis);

/** A chat object behind a proxy. */
const proxied = async (options: ChatOptions = {}): Promise<{ proxy: FaultProxy; chat: Chat }> => {
  const { host, port } = redis.server.nodes[0]!;
  const proxy = await FaultProxy.start({ host, port });
  redis.defer(() => proxy.close());
  const client = redis.connect({ host: "127.0.0.1", port: proxy.port }) as Redis;
  const chat = fixture.on(client, options);
  await chat.create(room, { members: ["ann", "bob"] });
  return { proxy, chat };
};

describe("a listener", () => {
  it("that is refused for want of a right continues once it is granted, with one error for the refusal and one for its end", async () => {
    const username = `listener-${redis.prefix}`;
    const acl = (...rules: string[]): Promise<unknown> => redis.server.call("ACL", "SETUSER", username, ...rules);
    await acl("on", ">pass", "~*", "&*", "+@all");
    redis.defer(() => redis.server.call("ACL", "DELUSER", username));
    const chat = fixture.on(redis.connect({ username, password: "pass" }) as Redis);
    const sender = fixture.make();
    await sender.create(room, { members: ["ann", "bob"] });
    const codes: string[] = [];
    chat.on("error", ({ code }) => codes.push(code));
    const stop = new AbortController();
    const bodies: unknown[] = [];
    const listening = chat.listen("bob", { signal: stop.signal }).each(({ body }) => void bodies.push(body));
    await sender.send(room, { from: "ann", body: "before" });
    await eventually(() => expect(bodies).toEqual(["before"]));
    const { positions } = fixture.keysOf(room);
    await eventually(async () => expect(await redis.client.zscore(positions, "bob")).toBe("1"));
    await acl("-evalsha", "-eval");
    await sender.send(room, { from: "ann", body: "after" });
    await eventually(() => expect(codes).toEqual(["KIT_NO_PERMISSION"]), { timeoutMs: 20_000 });
    await acl("+evalsha", "+eval");
    await eventually(() => expect(bodies).toEqual(["before", "after"]), { timeoutMs: 20_000 });
    await eventually(() => expect(codes).toEqual(["KIT_NO_PERMISSION", "KIT_RECOVERED"]));
    stop.abort();
    await rejection(listening);
  });
});

describe("a lost connection", () => {
  it("that swallowed the reply of a send duplicates nothing", async () => {
    const { proxy, chat } = await proxied();
    proxy.down.cutNext = 1;
    const before = proxy.stats.resets;
    const sent = await chat.send(room, { from: "ann", body: "once" });
    expect(proxy.stats.resets).toBe(before + 1);
    expect(sent.seq).toBe(1);
    expect((await chat.inspect(room)).head).toBe(1);
  });

  it("that swallowed replies of a worker delivers the same messages to it, and acknowledges once", async () => {
    const { proxy, chat } = await proxied();
    const box = chat.mailbox("box");
    for (const body of upTo(4)) await box.send({ from: "ann", body });
    // The scripts are known to the server from here on, so that the reply that is lost is the result.
    await (await box.take())[0]!.ack();
    proxy.down.cutNext = 1;
    const before = proxy.stats.resets;
    const taken = await box.take({ limit: 2, leaseMs: 3_600_000 });
    expect(taken).toMatchObject([
      { body: 2, deliveries: 1 },
      { body: 3, deliveries: 1 },
    ]);
    proxy.down.cutNext = 1;
    expect(await taken[0]!.ack()).toBe(true);
    proxy.down.cutNext = 1;
    expect(await taken[1]!.release()).toBe(true);
    expect(proxy.stats.resets).toBe(before + 3);
    expect(await box.stats()).toMatchObject({ length: 2, leased: 0 });
  });

  it("leaves the outcome of a send without a reply unknown, and its client id settles it", async () => {
    const { proxy, chat } = await proxied({ deadlineMs: 300 });
    // The script is known to the server from here on, so that what is lost is the result.
    await eventually(() => chat.send(room, { from: "ann", body: "x", clientId: "m0" }));
    proxy.down.hole = true;
    const error = await rejection(chat.send(room, { from: "ann", body: "x", clientId: "m1" }));
    expect(error).toMatchObject({ code: "KIT_UNKNOWN_OUTCOME", op: "m1", retryable: true });
    proxy.heal();
    proxy.resetAll();
    const again = await eventually(() => chat.send(room, { from: "ann", body: "x", clientId: "m1" }));
    expect([again.seq, again.duplicate]).toEqual([2, true]);
  });

  it("stores one message for a send under retry(): with a client id, or else it rejects with one", async () => {
    const { proxy, chat } = await proxied({ deadlineMs: 300 });
    await eventually(() => chat.send(room, { from: "ann", body: "x", clientId: "m0" }));
    const first = losingOnce(proxy, () => chat.send(room, { from: "ann", body: "y" }));
    const error = (await rejection(retry(first.attempt, { waitMs: 20_000 }))) as KitUnknownOutcomeError;
    expect(error).toMatchObject({ code: "KIT_UNKNOWN_OUTCOME", op: expect.any(String) as unknown, retryable: false });
    await eventually(() => chat.send(room, { from: "ann", body: "y", clientId: error.op }));
    const second = losingOnce(proxy, () => chat.send(room, { from: "ann", body: "z", clientId: "m2" }));
    await retry(second.attempt, { waitMs: 20_000 });
    expect([first.tries(), second.tries() > 1, (await chat.inspect(room)).head]).toEqual([1, true, 3]);
  });

  it("never leaves the outcome of a send unknown that only waited for the number of shards", async () => {
    const { proxy, chat } = await proxied({ deadlineMs: 1_000 });
    const send = (body: string): Promise<unknown> => rejection(chat.send(room, { from: "ann", body }));
    await chat.send(room, { from: "ann", body: "known" });
    const other = await proxied({ deadlineMs: 100 });
    proxy.down.hole = other.proxy.down.hole = true;
    const first = send("sent");
    // The second waits for the first, and has some time left when the first is late.
    await rejection(other.chat.inspect(room));
    const second = send("waits");
    proxy.refuse = true;
    proxy.resetAll();
    expect(await first).toMatchObject({ code: "KIT_UNKNOWN_OUTCOME" });
    expect(await second).toMatchObject({ code: "KIT_UNAVAILABLE", retryable: true });
    proxy.heal();
    proxy.refuse = false;
    const { head } = await eventually(() => chat.inspect(room));
    expect(head).toBe(2);
  });

  it("of a waiter is replaced, and no message that arrived meanwhile is missed", async () => {
    const { proxy, chat } = await proxied();
    const { token } = await chat.fetch("bob");
    const waiting = watched(chat.wait("bob", { token }));
    await untilBlocked(redis.server.nodes[0]!);
    proxy.refuse = true;
    proxy.resetAll();
    await sendMany(fixture.make(), "ann", 1);
    expect(waiting.isSettled).toBe(false);
    proxy.refuse = false;
    expect(await waiting.promise).toBe(true);
    expect(seqsOf(await eventually(() => chat.fetch("bob", { token })))).toEqual([1]);
  });

  it("of a waiter whose server keeps refusing it is reported by a typed error", async () => {
    const { proxy, chat } = await proxied();
    const { token } = await chat.fetch("bob");
    const errors: unknown[] = [];
    chat.on("error", (error) => errors.push(error));
    const waiting = watched(chat.wait("bob", { token }));
    await untilBlocked(redis.server.nodes[0]!);
    await redis.client.set(fixture.keysOf(room).activity, "no stream");
    proxy.resetAll();
    await eventually(() => expect(errors[0]).toMatchObject({ code: "KIT_SERVER" }));
    await chat.close();
    await waiting.promise.catch(() => undefined);
    await redis.client.del(fixture.keysOf(room).activity);
  });

  it("of a wait is reported once, and again when it is over", async () => {
    const { proxy, chat } = await proxied({ deadlineMs: 300 });
    const { token } = await chat.fetch("bob");
    const errors: string[] = [];
    chat.on("error", ({ code }) => errors.push(code));
    const waiting = watched(chat.wait("bob", { token }));
    await untilBlocked(redis.server.nodes[0]!);
    proxy.refuse = true;
    proxy.resetAll();
    await eventually(() => expect(errors).toEqual(["KIT_UNAVAILABLE"]), { timeoutMs: 20_000 });
    proxy.refuse = false;
    // The blocked read itself lasts for longer.
    await eventually(() => expect(errors).toEqual(["KIT_UNAVAILABLE", "KIT_RECOVERED"]));
    expect(waiting.isSettled).toBe(false);
    await sendMany(fixture.make(), "ann", 1);
    expect(await waiting.promise).toBe(true);
  });

  it("of a waiter that is half-open is noticed and replaced", async () => {
    const { proxy, chat } = await proxied();
    const { token } = await chat.fetch("bob");
    const waiting = watched(chat.wait("bob", { token }));
    await untilBlocked(redis.server.nodes[0]!);
    const before = proxy.stats.accepted;
    proxy.down.hole = true;
    await sendMany(fixture.make(), "ann", 1);
    await eventually(() => expect(proxy.stats.accepted).toBeGreaterThan(before), { timeoutMs: 25_000 });
    expect(waiting.isSettled).toBe(false);
    proxy.heal();
    expect(await waiting.promise).toBe(true);
  });

  it("is waited out by a listener, with one error for its beginning and one for its end", async () => {
    const { proxy, chat } = await proxied({ deadlineMs: 300 });
    const seen: number[] = [];
    const errors: string[] = [];
    chat.on("error", ({ code }) => errors.push(code));
    const controller = new AbortController();
    const listening = chat.listen("bob", { signal: controller.signal }).each(({ seq }) => void seen.push(seq));
    await sendMany(fixture.make(), "ann", 2);
    await eventually(() => expect(seen).toEqual([1, 2]));
    proxy.refuse = true;
    proxy.resetAll();
    await sendMany(fixture.make(), "ann", 3);
    await eventually(() => expect(errors.length).toBeGreaterThan(0), { timeoutMs: 10_000 });
    proxy.refuse = false;
    await eventually(() => expect(seen).toEqual(upTo(5)), { timeoutMs: 15_000 });
    await eventually(async () => expect((await fixture.make().unread("bob")).size).toBe(0), { timeoutMs: 10_000 });
    await eventually(() => expect(errors.at(-1)).toBe("KIT_RECOVERED"), { timeoutMs: 15_000 });
    expect(errors).toEqual([expect.stringMatching(/^KIT_(UNAVAILABLE|UNKNOWN_OUTCOME)$/), "KIT_RECOVERED"]);
    controller.abort("enough");
    expect(await rejection(listening)).toBe("enough");
  });
});

describe("close", () => {
  it("waits for the acknowledgements of a worker, on connections of its own", async () => {
    const chat = fixture.make({ isolate: true });
    const box = chat.mailbox("box");
    for (const body of upTo(2)) await box.send({ from: "ann", body });
    const messages = await box.take({ limit: 2 });
    const settling = [messages[0]!.ack(), messages[1]!.release()];
    await chat.close();
    expect(await Promise.all(settling)).toEqual([true, true]);
  });

  it("waits for sends under way, and ends waits and listeners", async () => {
    const chat = fixture.make();
    await chat.create(room, { members: ["ann", "bob"] });
    const { token } = await chat.fetch("bob");
    const waiting = watched(chat.wait("bob", { token }));
    const listening = watched(chat.listen("bob").each(() => undefined));
    await untilBlocked(redis.server.nodes[0]!);
    const sending = sendMany(chat, "ann", 50);
    // Nobody takes a copy, so that this one lasts longest.
    const durable = chat.send(room, { from: "ann", body: "x", durable: { replicas: 1, timeoutMs: 300 } });
    await chat.close();
    expect(await durable).toMatchObject({ duplicate: false, durability: { outcome: "short" } });
    await sending;
    expect(await rejection(waiting.promise)).toMatchObject({ code: "KIT_CLOSED" });
    expect(await rejection(listening.promise)).toMatchObject({ code: "KIT_CLOSED" });
    expect((await fixture.make().inspect(room)).head).toBe(51);
  });
});
