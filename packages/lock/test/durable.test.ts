import { useRedis } from "@kit/testing";
import { rejection } from "@tooling/vitest/helpers";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import type { DurableOption } from "../src/index.js";
import { createReadWriteLock } from "../src/read-write/index.js";
import { enqueue, fixtureOf } from "./harness.js";

// No replica here.
const redis = useRedis(vitest, { persistence: "always" });
const fixture = fixtureOf(redis);
const name = "chest";
const short: DurableOption = { replicas: 1, timeoutMs: 20 };
const local: DurableOption = { replicas: 0, fsync: "local" };
const refusal = { code: "KIT_LOCK_NOT_DURABLE", resource: name, message: expect.stringContaining("0 of 1 replicas") };

describe("a lock with the option durable", () => {
  it("gives no lease that the replicas have not confirmed, and leaves the lock free", async () => {
    const lock = fixture.make({ durable: short });
    const acquired: unknown[] = [];
    lock.on("acquired", (event) => acquired.push(event));
    expect(await rejection(lock.acquire(name))).toMatchObject(refusal);
    const plain = await fixture.make().acquire(name, { waitMs: 60_000 });
    // By push, too: the grant is written by the connection of the holder before.
    const waiter = await enqueue(lock, name);
    await plain.release();
    expect(await rejection(waiter.promise)).toMatchObject(refusal);
    expect(await rejection(lock.tryAcquire(name))).toMatchObject(refusal);
    expect(await rejection(lock.acquireAll([name]))).toMatchObject(refusal);
    expect(acquired).toEqual([]);
    await (await fixture.make().acquire(name, { waitMs: 60_000 })).release();
  });

  it("emits no loss of a lease that ends before it is confirmed, because no caller had it", async () => {
    const lock = fixture.make({ durable: { replicas: 1, timeoutMs: 3_600_000 } });
    const events: unknown[] = [];
    for (const event of ["acquired", "lost", "released"] as const) lock.on(event, (fact) => events.push(fact));
    const acquiring = rejection(lock.acquire(name, { leaseMs: 1_500 }));
    const { db } = fixture;
    await expect.poll(() => db.del(fixture.keysOf(name).lease)).toBe(1);
    expect(await acquiring).toMatchObject({ code: "KIT_LOCK_LOST", reason: "expired" });
    expect(events).toEqual([]);
  });

  it("gives a lease that the disk has confirmed, immediately and by push", async () => {
    const lock = fixture.make({ durable: local });
    const first = await lock.acquire(name);
    expect(await lock.tryAcquire(name)).toBeNull();
    const waiter = await enqueue(lock, name);
    await first.release();
    const second = await waiter.promise;
    expect(BigInt(second.fencingToken)).toBeGreaterThan(BigInt(first.fencingToken));
    second.assertHeld();
    expect(await second.release()).toBe("released");
  });

  it("confirms readers and writers", async () => {
    const { client, prefix } = redis;
    const options = { prefix, deadlineMs: 10_000 };
    await using unsafe = createReadWriteLock(client, { ...options, durable: short });
    await using safe = createReadWriteLock(client, { ...options, durable: local });
    for (const mode of ["read", "write"] as const) {
      expect(await rejection(unsafe[mode].acquire(name))).toMatchObject(refusal);
      await (await safe[mode].acquire(name, { waitMs: 60_000 })).release();
    }
  });

  it("confirms an upgrade, and makes a lease whose upgrade is not confirmed a reader's again", async () => {
    const { client, prefix } = redis;
    const options = { prefix, deadlineMs: 10_000 };
    await using unsafe = createReadWriteLock(client, { ...options, durable: short });
    await using safe = createReadWriteLock(client, { ...options, durable: local });
    await using plain = createReadWriteLock(client, options);
    const reader = await safe.read.acquire(name);
    // No replica here confirms it.
    const refused = await unsafe.resume(reader.serialise());
    expect(await rejection(refused.tryUpgrade())).toMatchObject(refusal);
    expect([refused.mode, refused.isHeld]).toEqual(["read", true]);
    const upgrading = reader.tryUpgrade();
    await reader.downgrade();
    expect([await upgrading, reader.mode]).toEqual([false, "read"]);
    const beside = await plain.read.acquire(name);
    expect(await reader.tryUpgrade()).toBe(false);
    await beside.release();
    expect([await reader.tryUpgrade(), reader.mode]).toEqual([true, "write"]);
    expect(await plain.inspect(name)).toMatchObject({ state: "write", fencingToken: reader.fencingToken });
    // It is a writer's already, and stays one.
    const writer = await unsafe.resume(reader.handOver());
    expect([await writer.tryUpgrade(), writer.mode]).toEqual([true, "write"]);
    expect(await writer.release()).toBe("released");
  });

  it("ends the confirmation with waitMs, the caller's signal, and close()", async () => {
    const lock = fixture.make({ durable: { replicas: 1, timeoutMs: 3_600_000 } });
    expect(await rejection(lock.acquire(name, { waitMs: 200 }))).toMatchObject({ retryable: true });
    const { db } = fixture;
    const aborting = new AbortController();
    const aborted = rejection(lock.acquire(name, { signal: aborting.signal }));
    await expect.poll(() => db.exists(fixture.keysOf(name).lease)).toBe(1);
    aborting.abort(new Error("enough"));
    expect(await aborted).toMatchObject({ message: "enough" });
    await expect.poll(() => db.exists(fixture.keysOf(name).lease)).toBe(0);
    const closed = rejection(lock.acquire(name));
    await expect.poll(() => db.exists(fixture.keysOf(name).lease)).toBe(1);
    await lock.close({ timeoutMs: 0 });
    expect(await closed).toMatchObject({ code: "KIT_CLOSED" });
    await expect.poll(() => db.exists(fixture.keysOf(name).lease)).toBe(0);
  });
});
