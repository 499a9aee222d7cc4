import { eventually, useRedis } from "@kit/testing";
import { proxied } from "@tooling/vitest/conformance";
import { inboxes, lapse, rejection } from "@tooling/vitest/helpers";
import type { Redis } from "ioredis";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import type { Lease } from "../src/index.js";
import { enqueue, fixtureOf } from "./harness.js";
import { leasingOf } from "./leasing.js";

const redis = useRedis(vitest);
const fixture = fixtureOf(redis);
const leasing = leasingOf(redis);
const name = "chest";

describe("a client that its owner ends", () => {
  it("rejects who waits, and serves again once it is connected again", async () => {
    const client = redis.connect();
    const lock = fixture.on(client);
    const holder = await fixture.make().acquire(name);
    const waiters = [await enqueue(lock, name), await enqueue(lock, name)];
    const refused = Promise.all(waiters.map(({ promise }) => rejection(promise)));
    client.disconnect();
    const error = { code: "KIT_CLOSED", message: "The client is closed" };
    expect(await refused).toMatchObject([error, error]);
    await eventually(async () => expect(await inboxes(redis.server.nodes)).toBe(0));
    await client.connect();
    const waiter = await enqueue(lock, name);
    await holder.release();
    expect(await (await waiter.promise).release()).toBe("released");
  });
});

describe("a lease that has ended before it is released", () => {
  const ends: Record<string, (lease: Lease) => Promise<unknown>> = {
    "was deleted": () => fixture.db.del(fixture.keysOf(name).lease),
    "ran out": () => lapse(fixture.db, fixture.keysOf(name).lease),
    "was released by another handle": async (lease) => await (await fixture.make().resume(lease.serialise())).release(),
    "was released by another handle, to one who waited": async (lease) => {
      const next = await enqueue(fixture.on(redis.connect()), name);
      await (await fixture.make().resume(lease.serialise())).release();
      await next.promise;
    },
  };

  it.each(Object.keys(ends))("is not held, where it %s", async (how) => {
    const lock = fixture.make();
    const lease = await lock.acquire(name);
    await ends[how]!(lease);
    expect(await lease.release()).toBe("not-held");
  });

  it.each(Object.keys(ends))("makes using() reject, where it %s", async (how) => {
    const lock = fixture.make();
    const error = await rejection(lock.using(name, (lease) => ends[how]!(lease)));
    expect(error).toMatchObject({ code: "KIT_LOCK_LOST", reason: "expired" });
  });
});

describe("a waiter whose client has lost its connection", () => {
  it("is passed over, since it could not give the lock back, and keeps its place", async () => {
    const { proxy, connect } = await proxied(leasing.ground);
    const away = connect() as Redis;
    const here = fixture.on(redis.connect());
    const holder = await fixture.make().acquire(name);
    const first = await enqueue(fixture.on(away), name);
    const second = await enqueue(here, name);
    const third = await enqueue(here, name);
    // The connection for pushes lives on.
    proxy.refuse = true;
    await redis.server.call("CLIENT", "KILL", "ID", String(await away.client("ID")));
    await eventually(async () => expect(await inboxes(redis.server.nodes)).toBe(1));
    await holder.release();
    const lease = await second.promise;
    expect(first.isSettled).toBe(false);
    proxy.refuse = false;
    await eventually(async () => expect(await inboxes(redis.server.nodes)).toBe(2));
    await lease.release();
    const late = await first.promise;
    expect(third.isSettled).toBe(false);
    await late.release();
    await (await third.promise).release();
  });
});
