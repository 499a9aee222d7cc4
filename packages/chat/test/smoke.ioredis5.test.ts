import { connect } from "@kit/core";
import { eventually, useRedis } from "@kit/testing";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import type { Chat } from "../src/index.js";
import { fixtureOf, permanentKeys, room, seqsOf, untilBlocked } from "./harness.js";

const redis = useRedis(vitest, { permanentKeys });
const fixture = fixtureOf(redis);

/** All that a chat does with its client: scripts, sends that go together, blocked reads, bytes. */
const works = async (chat: Chat): Promise<void> => {
  await chat.create(room, { members: ["ann", "bob"] });
  const { token } = await chat.fetch("bob");
  const waiting = chat.wait("bob", { token });
  await untilBlocked(redis.server.nodes[0]!);
  const bodies = ["text", { n: 1 }, new Uint8Array([0, 255])];
  await Promise.all(bodies.map((body) => chat.send(room, { from: "ann", body })));
  expect(await waiting).toBe(true);
  const page = await chat.fetch("bob", { token });
  expect(seqsOf(page)).toEqual([1, 2, 3]);
  expect(page.chats[0]!.messages.map(({ body }) => body)).toEqual(bodies);
  await chat.ack("bob", page.chats[0]!.messages);
  expect((await chat.unread("bob")).size).toBe(0);
  const box = chat.mailbox("box");
  const taking = box.take({ waitMs: 60_000 });
  await box.send({ from: "ann", body: "x" });
  expect(await (await taking)[0]!.ack()).toBe(true);
  await chat.delete("box");
  await chat.delete(room);
  await chat.close();
};

describe("a chat on ioredis 5", () => {
  it("works on a borrowed client with a prefix, which gets its listeners back", async () => {
    const client = redis.connect({ keyPrefix: "app:" });
    await client.ping();
    const before = client.eventNames().map((event) => [event, client.listenerCount(event)]);
    await works(fixture.on(client));
    expect(client.eventNames().map((event) => [event, client.listenerCount(event)])).toEqual(before);
  });

  it("works on connections of its own, and on a client of core's connect()", async () => {
    await works(fixture.make({ isolate: true }));
    const connection = await connect({ url: redis.url, deadlineMs: 30_000 });
    redis.defer(() => connection.close());
    await works(fixture.on(connection));
  });

  it("continues when its connections are killed", async () => {
    const chat = fixture.on(redis.connect({ retryStrategy: () => 20 }));
    await chat.create(room, { members: ["ann", "bob"] });
    const seen: unknown[] = [];
    const end = new AbortController();
    const listening = chat.listen("bob", { signal: end.signal }).each(({ body }) => void seen.push(body));
    await untilBlocked(redis.server.nodes[0]!);
    await redis.server.call("CLIENT", "KILL", "TYPE", "normal");
    await eventually(() => chat.send(room, { from: "ann", body: 1, clientId: "m" }));
    await eventually(() => expect(seen).toEqual([1]), { timeoutMs: 10_000 });
    end.abort("enough");
    await expect(listening).rejects.toBe("enough");
  });
});
