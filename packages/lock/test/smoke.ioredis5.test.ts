import { connect } from "@kit/core";
import * as testing from "@kit/testing";
import { describeLeasingProcess, describeSmoke } from "@tooling/vitest/conformance";
import { inboxes } from "@tooling/vitest/helpers";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { conformance } from "./conformance.js";
import { fixtureOf, enqueue, next } from "./harness.js";
import { leasingOf } from "./leasing.js";

const { eventually } = testing;
const redis = testing.useRedis(vitest);
const fixture = fixtureOf(redis);
const name = "chest";

describeSmoke(conformance, { connect, ...testing, redis });
describeLeasingProcess(leasingOf(redis));

describe("a lock on ioredis 5", () => {
  it("hands over between processes", async () => {
    const lock = fixture.make();
    const held = await lock.acquire(name);
    const peer = await fixture.spawn();
    const acquiring = peer.acquire(name);
    await fixture.untilWaiting(name, 1);
    await held.release();
    const lease = await acquiring;
    expect(BigInt(lease.fencingToken)).toBeGreaterThan(BigInt(held.fencingToken));
    expect(await peer.release(lease)).toBe("released");
  });

  it("loses neither its lease nor a place in the queue when its connections are killed", async () => {
    const lock = fixture.on(redis.connect({ retryStrategy: () => 20 }));
    const holder = await lock.acquire(name);
    const waiter = await enqueue(lock, name);
    for (const type of ["pubsub", "normal"]) {
      await redis.server.call("CLIENT", "KILL", "TYPE", type);
      await eventually(async () => expect(await inboxes(redis.server.nodes)).toBe(1));
    }
    await fixture.untilWaiting(name, 1);
    const granted = next(lock, "acquired");
    expect(await holder.release()).toBe("released");
    expect(await granted).toMatchObject({ name });
    await (await waiter.promise).release();
  });
});
