import { eventually, FaultProxy, useRedis } from "@kit/testing";
import { lapse } from "@tooling/vitest/helpers";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { readWriteKeys } from "../src/keys.js";
import { createReadWriteLock } from "../src/read-write/index.js";
import { enqueue, fixtureOf, next } from "./harness.js";

const redis = useRedis(vitest);
const fixture = fixtureOf(redis);
const name = "chest";
const leaseKey = (): string => fixture.keysOf(name).lease;
const minuteMs = 60_000;

describe("a lock with lockDelayMs", () => {
  const make = (): ReturnType<typeof fixture.make> => fixture.make({ lockDelayMs: minuteMs, holder: "me" });

  it.each([
    ["ran out", { leaseMs: 100, renew: false }, "stopped"],
    ["came to the end of maxHoldMs", { maxHoldMs: 100 }, "max-hold"],
  ])("stays taken after its lease %s, and is then free", async (_, options, reason) => {
    const lock = make();
    const lost = next(lock, "lost");
    // A grant whose reply comes after its end is undone.
    const lease = await eventually(() => lock.acquire(name, options));
    expect(lease.remainingMs).toBeLessThanOrEqual(100);
    expect(await lost).toMatchObject({ reason });
    // Also after the cleaning up that a lock without the option does.
    expect(await lease.release()).toBe("not-held");
    expect(await fixture.make().tryAcquire(name)).toBeNull();
    expect(await lock.inspect(name)).toMatchObject({ state: "held", holder: "me" });
    expect(await fixture.db.pttl(leaseKey())).toBeGreaterThan(0);
    expect(await fixture.db.pttl(leaseKey())).toBeLessThanOrEqual(minuteMs + 100);
    await lapse(fixture.db, leaseKey());
    await (await fixture.make().acquire(name, { waitMs: minuteMs })).release();
  });

  it("stays taken when its holder was cut off, also once the holder is back", async () => {
    await using proxy = await FaultProxy.start({ port: redis.server.nodes[0]!.port });
    const client = redis.connect({ port: proxy.port });
    const lock = fixture.on(client, { lockDelayMs: minuteMs, deadlineMs: 200 });
    lock.on("error", () => undefined);
    await eventually(() => lock.acquire(name, { leaseMs: 300 }));
    const lost = next(lock, "lost");
    proxy.down.hole = true;
    expect(await lost).toMatchObject({ reason: "deadline" });
    proxy.heal();
    client.disconnect(true);
    await expect
      .poll(async () => await lock.inspect("other").catch(() => undefined), { timeout: 20_000 })
      .toBeDefined();
    expect(await fixture.make().tryAcquire(name)).toBeNull();
  });

  it("is free immediately after a release, and after close()", async () => {
    const lock = make();
    expect(await (await lock.acquire(name)).release()).toBe("released");
    expect(await fixture.db.exists(leaseKey())).toBe(0);
    await lock.acquire(name);
    await lock.close({ timeoutMs: 0 });
    await expect.poll(() => fixture.db.exists(leaseKey())).toBe(0);
  });

  it("is counted on for its lease alone, however it was granted, and renewed with the delay", async () => {
    const lock = make();
    const first = await lock.acquire(name);
    expect(first.remainingMs).toBeLessThanOrEqual(10_000);
    const waiter = await enqueue(lock, name);
    await first.release();
    const pushed = await waiter.promise;
    expect(pushed.remainingMs).toBeLessThanOrEqual(2_000);
    expect(await fixture.db.pttl(leaseKey())).toBeGreaterThan(minuteMs);
    await pushed.extend(5_000);
    expect(pushed.remainingMs).toBeLessThanOrEqual(5_000);
    expect(await fixture.db.pttl(leaseKey())).toBeGreaterThan(minuteMs + 2_000);
    await pushed.release();
    // Behind a waiter that is dead the reply has the rest of the lease.
    await fixture.db.zadd(fixture.keysOf(name).queue, "1", "dead");
    const behind = await lock.acquire(name);
    expect(behind.remainingMs).toBeGreaterThan(2_000);
    expect(behind.remainingMs).toBeLessThanOrEqual(10_000);
    await behind.release();
  });

  it("keeps a read/write lock taken by a reader or a writer whose lease was lost", async () => {
    const { client, prefix } = redis;
    await using lock = createReadWriteLock(client, { prefix, lockDelayMs: minuteMs });
    const { leases } = readWriteKeys(prefix)(name);
    for (const mode of ["read", "write"] as const) {
      const lost = next(lock as never, "lost");
      const lease = await eventually(() => lock[mode].acquire(name, { leaseMs: 100, renew: false }));
      expect(lease.remainingMs).toBeLessThanOrEqual(100);
      await lost;
      expect(await lock.write.tryAcquire(name)).toBeNull();
      await client.del(leases);
      const renewed = await lock[mode].acquire(name);
      await renewed.extend(5_000);
      const [, end] = await client.zrange(leases, "0", "-1", "WITHSCORES");
      expect(Number(end) - Number((await client.time())[0]) * 1_000).toBeGreaterThan(minuteMs + 2_000);
      expect(renewed.remainingMs).toBeLessThanOrEqual(5_000);
      await renewed.release();
      expect(await client.exists(leases)).toBe(0);
    }
  });
});

describe("a lock with minHoldMs", () => {
  const make = (minHoldMs: number): ReturnType<typeof fixture.make> => fixture.make({ minHoldMs, holder: "me" });

  it("stays taken after a short job, under the holder's label", async () => {
    const lock = make(minuteMs);
    const token = await lock.using(name, ({ fencingToken }) => fencingToken);
    expect(await lock.tryAcquire(name)).toBeNull();
    expect(await lock.inspect(name)).toMatchObject({ state: "held", holder: "me", fencingToken: token });
    expect(await fixture.db.pttl(leaseKey())).toBeLessThanOrEqual(minuteMs);
    await lapse(fixture.db, leaseKey());
    const later = await lock.acquire(name);
    expect(BigInt(later.fencingToken)).toBeGreaterThan(BigInt(token));
    await later.release();
    expect(await lock.forceRelease(name)).toBe("me");
    expect(await fixture.db.exists(leaseKey())).toBe(0);
  });

  it("is free immediately after a longer job", async () => {
    const lock = make(20);
    await lock.using(name, () => {
      const startedAt = performance.now();
      return expect.poll(() => performance.now() - startedAt).toBeGreaterThan(100);
    });
    expect(await fixture.db.exists(leaseKey())).toBe(0);
  });

  it("lets the first waiter in when the time is over, not at the end of the lease", async () => {
    const lock = make(500);
    const lease = await lock.acquire(name, { leaseMs: minuteMs });
    const waiter = await enqueue(fixture.make(), name, { waitMs: 30_000 });
    expect(await lease.release()).toBe("released");
    const granted = await waiter.promise;
    // The instants of both grants, in microseconds of the server.
    expect(BigInt(granted.fencingToken) - BigInt(lease.fencingToken)).toBeGreaterThanOrEqual(499_000n);
    await granted.release();
  });

  it("does not apply to sets of several names", async () => {
    const lock = make(minuteMs);
    await lock.usingAll([name, "lamp"], () => undefined);
    expect(await fixture.db.exists(leaseKey())).toBe(0);
  });
});
