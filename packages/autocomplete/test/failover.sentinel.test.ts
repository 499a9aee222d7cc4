import { Redis } from "ioredis";
import { connect } from "@kit/core";
import { eventually, type RedisNode, useRedis } from "@kit/testing";
import { inStep, rejection } from "@tooling/vitest/helpers";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import type { Connection } from "@kit/core";
import { expectWhole, fixtureOf, name, named, permanentKeys, texts } from "./harness.js";

const redis = useRedis(vitest, { mode: "sentinel", permanentKeys });
const fixture = fixtureOf(redis);

const owned = async (): Promise<Connection> => {
  const client = await connect({ url: redis.url, deadlineMs: 10_000 });
  redis.defer(() => client.close());
  return client;
};
const allInStep = (): Promise<void> => inStep(redis.server.nodes[0]!, redis.server.replicas);

/** Kills the master, and waits for the next. The old one comes back before the test ends. */
const failOver = async (): Promise<void> => {
  const [old] = redis.server.nodes as [RedisNode];
  await old.kill();
  redis.defer(() => old.start());
  await eventually(async () => expect(await redis.server.master()).not.toBe(old), { timeoutMs: 30_000 });
};

describe("a replica", () => {
  it.each(["alphabetical", "weight"] as const)("answers an index in %s order on its own client", async (order) => {
    const writer = fixture.index({ order });
    await writer.putMany(named("Ann Lee", "Anna", "Bob"));
    const [replica] = redis.server.replicas as [RedisNode];
    const client = new Redis({ port: replica.port, disconnectTimeout: 50 });
    redis.defer(() => client.disconnect());
    const reader = fixture.indexOn(client, { order });
    await allInStep();
    expect(texts(await reader.suggest("ann"))).toEqual(["Ann Lee", "Anna"]);
    expect(texts(await reader.suggest("lee ann", { words: "any-order" }))).toEqual(["Ann Lee"]);
    // It was the replica, which takes no writes.
    expect(await rejection(reader.put({ id: "1", text: "Cy" }))).toBeInstanceOf(Error);
    await writer.rebuild(named("Annika"));
    await allInStep();
    expect(texts(await reader.suggest("ann"))).toEqual(["Annika"]);
  });
});

describe("a failover", () => {
  it("keeps index and book on clients that are borrowed and owned, and ends a rebuild with an error or with success", async () => {
    const client = await owned();
    const index = fixture.indexOn(client, { order: "weight" });
    const borrowed = fixture.index({ order: "weight" });
    const book = fixture.bookOn(client, { maxAgeMs: 0 });
    await index.putMany(named("Ann", "Anna"));
    await book.record("Ann");

    let letOn = (): void => undefined;
    const gate = new Promise<void>((resolve) => (letOn = resolve));
    let arrive = (): void => undefined;
    const arrived = new Promise<void>((resolve) => (arrive = resolve));
    const source = async function* () {
      yield* named(...Array.from({ length: 120 }, (_, at) => `New ${at}`));
      // No batch is under way while the source produces more.
      arrive();
      await gate;
      yield* named("New last");
    };
    const rebuilding = index.rebuild(source()).then(
      ({ items }) => items,
      (error: unknown) => (error as { code: string }).code,
    );
    await arrived;
    expect((await index.inspect()).staged).toBeGreaterThan(50);
    await allInStep();
    await failOver();
    await eventually(async () => expect(texts(await index.suggest("ann"))).toEqual(["Ann", "Anna"]), {
      timeoutMs: 30_000,
    });
    await eventually(async () => expect(texts(await borrowed.suggest("ann"))).toEqual(["Ann", "Anna"]), {
      timeoutMs: 30_000,
    });
    expect((await book.list()).items).toMatchObject([{ id: "Ann" }]);
    await index.put({ id: "Abe", text: "Abe" });
    letOn();
    // The staged generation was in step, so it goes on.
    expect(await rebuilding).toBe(121);
    expect(texts(await index.suggest("new l"))).toEqual(["New last"]);
    expect(texts(await index.suggest("a"))).toEqual(["Abe"]);
    await expectWhole(client as never, fixture.keysOf());
  });

  it("rejects in time, typed, while there is no master, and a change that was lost with it can be made again", async () => {
    const client = await owned();
    await fixture.indexOn(client).put({ id: "1", text: "Ann" });
    const index = fixture.indexOn(client, { deadlineMs: 500 });
    await allInStep();
    const [old] = redis.server.nodes as [RedisNode];
    await old.kill();
    redis.defer(() => old.start());
    expect(await rejection(index.suggest("a"))).toMatchObject({ code: "KIT_UNAVAILABLE" });
    expect(await rejection(index.put({ id: "2", text: "Abe" }))).toMatchObject({
      code: expect.stringMatching(/^KIT_(UNAVAILABLE|UNKNOWN_OUTCOME)$/),
    });
    const patient = fixture.indexOn(client);
    await eventually(() => patient.put({ id: "2", text: "Abe" }), { timeoutMs: 30_000 });
    expect(texts(await patient.suggest("a"))).toEqual(["Abe", "Ann"]);
    expect(index.name).toBe(name);
  });
});
