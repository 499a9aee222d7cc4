import { useRedis } from "@kit/testing";
import { describeLeaseEvents } from "@tooling/vitest/conformance";
import { rejection } from "@tooling/vitest/helpers";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { fixtureOf } from "./harness.js";
import { leasingOf } from "./leasing.js";

const redis = useRedis(vitest);
const fixture = fixtureOf(redis);
const name = "chest";

describeLeaseEvents(leasingOf(redis));

describe("events of the lock", () => {
  it("count the wait from the call on", async () => {
    const lock = fixture.make();
    const holder = await lock.acquire(name);
    const waited = new Promise<number>((resolve) => lock.on("acquired", ({ waitedMs }) => resolve(waitedMs)));
    const startedAt = performance.now();
    const waiting = lock.acquire(name);
    await fixture.untilWaiting(name, 1);
    await rejection(lock.acquire(name, { waitMs: 100 }));
    const atLeast = performance.now() - startedAt;
    await holder.release();
    await waiting;
    expect(await waited).toBeGreaterThanOrEqual(Math.floor(atLeast));
    expect(await waited).toBeLessThanOrEqual(performance.now() - startedAt);
  });
});
