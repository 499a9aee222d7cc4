import { slotOf } from "@kit/core/toolkit";
import { useRedis } from "@kit/testing";
import { describeLeaseShard } from "@tooling/vitest/conformance";
import { endMigrations, rejection, watched } from "@tooling/vitest/helpers";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { fenceGrows, fixtureOf, ownClient } from "./harness.js";
import { leasingOf } from "./leasing.js";

const redis = useRedis(vitest, { mode: "cluster", replicas: 1 });
const fixture = fixtureOf(redis);

describeLeaseShard(leasingOf(redis), fenceGrows);

describe("a lock whose slot moves", () => {
  it("makes acquires wait as long as the move takes; a single try reports what moves", async () => {
    // Another lock than that of the tests above, whose slot stays.
    const name = "moving chest";
    const slot = String(slotOf(fixture.keysOf(name).lease));
    const from = await fixture.nodeOf(name);
    const to = redis.server.nodes.find((node) => node !== from)!;
    const [fromId, toId] = [String(await from.call("CLUSTER", "MYID")), String(await to.call("CLUSTER", "MYID"))];
    const holder = fixture.on(await ownClient(redis));
    const held = await holder.acquire(name);
    await to.call("CLUSTER", "SETSLOT", slot, "IMPORTING", fromId);
    await from.call("CLUSTER", "SETSLOT", slot, "MIGRATING", toId);
    redis.defer(async () => {
      await Promise.allSettled([to, from].map((node) => node.call("CLUSTER", "SETSLOT", slot, "STABLE")));
      await endMigrations(redis.server.nodes);
    });
    // The keys of the queue do not exist yet, so no call can be served before the slot has moved.
    const patient = { deadlineMs: 300 };
    const client = await ownClient(redis);
    // One of ioredis itself, which tries for itself before it says what it waits for, and one of ours.
    const waiting = [fixture.make(), fixture.on(client, patient)].map((lock) =>
      watched(lock.acquire(name, { waitMs: 60_000 })),
    );
    const trying = fixture.on(client, patient);
    for (let tries = 0; tries < 2; tries++)
      expect(await rejection(trying.tryAcquire(name))).toMatchObject({
        code: "KIT_CLUSTER",
        retryable: true,
        message: expect.stringContaining("the slot of its keys is moving") as unknown,
      });
    expect(waiting.map(({ isSettled }) => isSettled)).toEqual([false, false]);
    // Whatever the reason is: as when one call's error aborts its siblings, or none.
    for (const reason of [await rejection(trying.tryAcquire(name)), null]) {
      const controller = new AbortController();
      const given = watched(trying.acquire(name, { signal: controller.signal }));
      controller.abort(reason);
      expect(await given.promise.catch((error: unknown) => error)).toBe(reason);
    }
    expect(await rejection(fixture.on(client, patient).acquire(name, { waitMs: 500 }))).toMatchObject({
      code: "KIT_LOCK_TIMEOUT",
    });
    const keys = (await from.call("CLUSTER", "GETKEYSINSLOT", slot, "100")) as string[];
    await from.call("MIGRATE", to.host, String(to.port), "", "0", "5000", "KEYS", ...keys);
    for (const node of [to, ...redis.server.nodes]) await node.call("CLUSTER", "SETSLOT", slot, "NODE", toId);
    expect(await held.release()).toBe("released");
    const tokens = [held.fencingToken];
    for (const { promise } of waiting)
      void promise.then(async (next) => {
        tokens.push(next.fencingToken);
        await next.release();
      });
    await Promise.all(waiting.map(({ promise }) => promise));
    expect(tokens.map(Number)).toEqual([...tokens].map(Number).sort((a, b) => a - b));
    expect(new Set(tokens).size).toBe(3);
  });
});
