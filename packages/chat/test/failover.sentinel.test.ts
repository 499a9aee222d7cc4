import { connect, type Connection } from "@kit/core";
import { eventually, type RedisNode, useRedis } from "@kit/testing";
import { inStep, rejection } from "@tooling/vitest/helpers";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { drain, fixtureOf, permanentKeys, room, sendMany, upTo } from "./harness.js";

const redis = useRedis(vitest, { mode: "sentinel", permanentKeys });
const fixture = fixtureOf(redis);

/** A client that kit made, for one test. */
const owned = async (): Promise<Connection> => {
  const client = await connect({ url: redis.url, deadlineMs: 10_000 });
  redis.defer(() => client.close());
  return client;
};

/** Kills the master, and waits for the next. The old one comes back before the test ends. */
const failOver = async (): Promise<void> => {
  const [old] = redis.server.nodes as [RedisNode];
  await old.kill();
  redis.defer(() => old.start());
  await eventually(async () => expect(await redis.server.master()).not.toBe(old), { timeoutMs: 15_000 });
};

describe("a chat whose master fails", () => {
  it("loses no message that had reached the next one, and its listener continues in order", async () => {
    const [sender, reader] = [fixture.on(await owned()), fixture.on(await owned())];
    await sender.create(room, { members: ["ann", "bob"] });
    await sendMany(sender, "ann", 20);
    const seen: number[] = [];
    const controller = new AbortController();
    const listening = reader.listen("bob", { signal: controller.signal }).each(({ seq }) => void seen.push(seq));
    await eventually(() => expect(seen).toEqual(upTo(20)));
    await eventually(async () => expect((await sender.unread("bob")).size).toBe(0));
    await inStep(redis.server.nodes[0]!, redis.server.replicas);
    await failOver();
    await eventually(() => sender.send(room, { from: "ann", body: "after", clientId: "after" }), { timeoutMs: 20_000 });
    await eventually(() => expect(seen).toEqual(upTo(21)), { timeoutMs: 20_000 });
    controller.abort("enough");
    expect(await rejection(listening)).toBe("enough");
    expect((await sender.inspect(room)).head).toBe(21);
  });

  it("reports lost messages to readers, and misses none of the later ones", async () => {
    const chat = fixture.on(await owned());
    await chat.create(room, { members: ["ann", "bob"] });
    await sendMany(chat, "ann", 3);
    await inStep(redis.server.nodes[0]!, redis.server.replicas);
    // As if the last of what the master did had not reached its replicas when it died: they get copies from before.
    const [master] = redis.server.nodes as [RedisNode];
    const { heads, messages, activity, positions } = fixture.keysOf(room);
    const keys = [heads, messages, activity, positions, fixture.memberKey(room, "ann")];
    const copies = keys.map((key) => `${key}:copy`);
    const save = "redis.call('SET', KEYS[2], redis.call('DUMP', KEYS[1]))";
    const restore = "redis.call('RESTORE', KEYS[1], 0, redis.call('GET', KEYS[2]), 'REPLACE')";
    for (const [index, key] of keys.entries()) await master.call("EVAL", save, "2", key, copies[index]!);
    await sendMany(chat, "ann", 2);
    const { messages: all, token } = await drain(chat, "bob");
    const iterator = chat.listen("bob")[Symbol.asyncIterator]();
    for (const seq of upTo(5)) expect((await iterator.next()).value).toMatchObject({ seq });
    await inStep(master, redis.server.replicas);
    for (const replica of redis.server.replicas) {
      await replica.call("CONFIG", "SET", "replica-read-only", "no");
      for (const [index, key] of keys.entries()) await replica.call("EVAL", restore, "2", key, copies[index]!);
    }
    await failOver();
    const send = (body: string) => chat.send(room, { from: "ann", body, clientId: body });
    for (const body of ["other 4", "other 5"]) await eventually(() => send(body), { timeoutMs: 20_000 });
    expect(await rejection(chat.ack("bob", all.at(-1)!))).toMatchObject({ code: "KIT_CHAT_FORKED" });
    const { value } = await iterator.next();
    expect(value).toMatchObject({ reset: "fork" });
    await iterator.return?.(undefined);
    const bodies = (await drain(chat, "bob", { token })).messages.map(({ body }) => body);
    expect(bodies.slice(-2)).toEqual(["other 4", "other 5"]);
  });
});
