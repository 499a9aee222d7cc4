import { KitError } from "@kit/core";
import { eventually, useRedis } from "@kit/testing";
import { describeLeaseLoss } from "@tooling/vitest/conformance";
import { callsOf, rejection, renewedTwice, timed } from "@tooling/vitest/helpers";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { type Permit, PermitLostError } from "../src/index.js";
import { clockAhead, fixtureOf, name, next, take } from "./harness.js";
import { leasingOf } from "./leasing.js";

const redis = useRedis(vitest);
const fixture = fixtureOf(redis);

describeLeaseLoss(leasingOf(redis));

describe("a renewal", () => {
  it("needs one command for a hundred permits", async () => {
    const semaphore = fixture.make({ permits: 100, leaseMs: 3_000 });
    const permits = await take(semaphore, 100);
    const before = await callsOf(redis.server, "evalsha");
    const renewals = await renewedTwice(permits);
    // They were taken one after another, and do not all fall due together.
    expect((await callsOf(redis.server, "evalsha")) - before).toBeLessThanOrEqual(renewals / 10);
    expect(permits.every(({ isHeld }) => isHeld)).toBe(true);
    await Promise.all(permits.map((permit) => permit.release()));
  });

  it("of two semaphores is reported by each of them when it fails, and continues when one is closed", async () => {
    const client = fixture.connect();
    const [a, b] = ["a", "b"].map((own) => fixture.on(client, { name: own, leaseMs: 6_000, deadlineMs: 500 }));
    // An outage is reported once. On a slow machine it may begin before the pause.
    const failures = Promise.all([next(a!, "error"), next(b!, "error")]);
    const [first, second] = [await eventually(() => a!.acquire()), await eventually(() => b!.acquire())];
    await fixture.db.call("CLIENT", "PAUSE", "3000", "ALL");
    expect((await failures).every((error) => KitError.is(error) && error.retryable)).toBe(true);
    await eventually(() => expect(Math.min(first.remainingMs, second.remainingMs)).toBeGreaterThan(4_100));
    await a!.close({ timeoutMs: 0 });
    expect(first.isHeld).toBe(false);
    const { permits } = fixture.keysOf("b");
    const [permitRecord] = (await fixture.db.zrange(permits, "0", "-1")) as [string];
    const endsAt = async (): Promise<number> => Number(await fixture.db.zscore(permits, permitRecord));
    const before = await endsAt();
    await eventually(async () => expect(await endsAt()).toBeGreaterThan(before));
    expect(second.isHeld).toBe(true);
  });

  it("of one permit that is gone notifies its holder, and leaves the others alone", async () => {
    const semaphore = fixture.make({ leaseMs: 3_000 });
    const [gone, stays] = (await take(semaphore, 2)) as [Permit, Permit];
    const lost = next(semaphore, "lost");
    await fixture.expire(gone);
    expect(await lost).toEqual({ weight: 1, tenant: null, reason: "expired" });
    expect([gone.signal.aborted, stays.signal.aborted, stays.isHeld]).toEqual([true, false, true]);
    // Read only now.
    expect(gone.signal.reason).toBeInstanceOf(PermitLostError);
  });
});

describe("clocks", () => {
  it("of a process that is an hour off neither lets more in nor costs a permit", async () => {
    const hour = 3_600_000;
    const peers = await Promise.all([hour, -hour].map((ms) => fixture.spawn({ permits: 2 }, clockAhead(ms))));
    for (const [index, peer] of peers.entries())
      expect(((await peer.now()) - Date.now()) * (index === 0 ? 1 : -1)).toBeGreaterThan(hour - 60_000);
    const semaphore = fixture.make();
    const [ours] = await take(semaphore, 1, { leaseMs: 2_000 });
    const fast = await peers[0]!.acquire({ leaseMs: 2_000 });
    expect(await peers[1]!.tryAcquire()).toBeNull();
    // Longer than the leases: all are renewed, and nobody else gets in.
    const late = peers[1]!.acquire({ leaseMs: 2_000 });
    await fixture.untilWaiting(name, 1);
    await rejection(semaphore.acquire({ waitMs: 2_200 }));
    expect([await fixture.used(), await semaphore.tryAcquire(), await peers[0]!.tryAcquire()]).toEqual([2, null, null]);
    expect([ours!.isHeld, await peers[0]!.isHeld(fast)]).toEqual([true, true]);
    await ours!.release();
    const slow = await late;
    await rejection(semaphore.acquire({ waitMs: 2_200 }));
    expect([await peers[1]!.isHeld(slow), await fixture.used()]).toEqual([true, 2]);
    // A permit of a clock that is ahead ends when the server says.
    await peers[0]!.kill();
    const { awakeMs } = await timed(semaphore.acquire());
    // Not by its clock, which is an hour ahead or behind.
    expect(awakeMs).toBeLessThan(10_000);
    expect(await fixture.used()).toBe(2);
  });
});
