import { connect } from "@kit/core";
import { eventually, FaultProxy, useRedis } from "@kit/testing";
import { aborted, rejection } from "@tooling/vitest/helpers";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { createLock, LockLostError } from "../src/index.js";
import { fixtureOf } from "./harness.js";

const redis = useRedis(vitest);
const fixture = fixtureOf(redis);
const name = "torch";

describe("Lease.handOver", () => {
  it("leaves the lease to whoever resumes it, whatever becomes of the first object", async () => {
    const giver = fixture.make({ leaseMs: 2_000 });
    const taker = fixture.make();
    const given = await giver.acquire(name);
    const taken = await taker.resume(given.handOver());
    expect(await given.release()).toBe("not-held");
    await given[Symbol.asyncDispose]();
    await giver.close({ timeoutMs: 0 });
    expect(given.signal.aborted).toBe(false);
    expect(await taker.tryAcquire(name)).toBeNull();
    expect(taken.isHeld).toBe(true);
    expect(await taken.release()).toBe("released");
  });

  it("ends what the first handle may do", async () => {
    const lease = await fixture.make({ leaseMs: 2_000 }).acquire(name);
    lease.handOver();
    expect(lease.isHeld).toBe(false);
    expect(() => lease.assertHeld()).toThrow(LockLostError);
    expect(await rejection(lease.extend())).toMatchObject({ reason: "handed-over" });
    expect(() => lease.handOver()).toThrow(LockLostError);
  });

  it("gives the text out of using, which does not take the lease for a lost one", async () => {
    const text = await fixture.make().using(name, (lease) => lease.handOver());
    const resumed = await fixture.make().resume(text);
    expect(await resumed.release()).toBe("released");
  });

  it("lets the lease run out when nobody resumes it", async () => {
    const lock = fixture.make();
    const lease = await lock.acquire(name, { leaseMs: 2_000 });
    lease.handOver();
    await lock.using(name, () => undefined, { waitMs: 20_000 });
    expect((await lock.inspect(name)).state).toBe("free");
  });
});

describe("Lock.resume", () => {
  it("goes on with what is left of maxHoldMs", async () => {
    const lock = fixture.make();
    const startedAt = performance.now();
    const lease = await lock.acquire(name, { leaseMs: 2_000, maxHoldMs: 1_500 });
    await eventually(() => {
      if (performance.now() - startedAt < 500) throw new Error("not yet");
    });
    // One whose time begins only now, and before that of the other if it began anew.
    const fresh = await lock.acquire("fresh", { leaseMs: 2_000, maxHoldMs: 1_500 });
    const resumed = await lock.resume(lease.handOver());
    const ended: string[] = [];
    resumed.signal.addEventListener("abort", () => ended.push("resumed"));
    fresh.signal.addEventListener("abort", () => ended.push("fresh"));
    await aborted(fresh.signal);
    expect(ended).toEqual(["resumed", "fresh"]);
    expect(resumed.signal.reason).toMatchObject({ reason: "max-hold" });
    expect(performance.now() - startedAt).toBeGreaterThan(1_400);
  });

  it("holds without a limit what had none, whatever the object's own default is", async () => {
    const lease = await fixture.make().acquire(name, { leaseMs: 3_000 });
    const resumed = await fixture.make({ maxHoldMs: 50 }).resume(lease.handOver());
    expect(resumed.remainingMs).toBeGreaterThan(100);
    await resumed.release();
  });

  it("does not start to renew a lease whose renewal had been stopped", async () => {
    const lease = await fixture.make().acquire(name, { leaseMs: 2_000 });
    lease.stopRenewal();
    const resumed = await fixture.make().resume(lease.handOver());
    await eventually(() => {
      if (!resumed.signal.aborted) throw new Error("still held");
    });
    expect((resumed.signal.reason as LockLostError).reason).toBe("stopped");
  });
});

describe("Lease.extend to less", () => {
  it("counts from the moment it is sent, whether or not its answer comes", async () => {
    const { port } = redis.server.nodes[0]!;
    await using proxy = await FaultProxy.start({ port });
    const client = await connect({ url: proxy.url, deadlineMs: 30_000 });
    redis.defer(() => client.close());
    const lock = fixture.on(client, { deadlineMs: 500 });
    const lease = await eventually(() => lock.acquire(name, { leaseMs: 30_000 }));
    // The request arrives, the answer is late.
    proxy.down.latencyMs = 1_500;
    const extended = rejection(lease.extend(100));
    const others = fixture.make();
    // One that queued before the server had the new end notices it up to six seconds late.
    const next = await others.acquire(name, { waitMs: 30_000 });
    expect(lease.isHeld).toBe(false);
    expect(lease.signal.aborted).toBe(true);
    await next.release();
    proxy.heal();
    await extended;
  });

  it("gives the lease its new length, also when renewed", async () => {
    const lease = await fixture.make().acquire(name, { leaseMs: 30_000 });
    await lease.extend(600);
    expect(lease.leaseMs).toBe(600);
    expect(lease.remainingMs).toBeLessThanOrEqual(600);
    let least = 600;
    await eventually(() => {
      least = Math.min(least, lease.remainingMs);
      if (least > 500 || lease.remainingMs < least + 50) throw new Error("not renewed yet");
    });
    expect(lease.remainingMs).toBeLessThanOrEqual(600);
    expect(lease.isHeld).toBe(true);
    await lease.release();
  });
});

describe("the texts for people", () => {
  it("has no line breaks or escape codes of a name or label", async () => {
    const lock = fixture.make();
    const wild = "ev\n\u001b[31mil\u0000";
    const lease = await lock.acquire(wild, { holder: wild });
    const error = await rejection(lock.acquire(wild, { waitMs: 0 }));
    expect(String(error)).not.toMatch(/\p{Cc}/u);
    expect(error).toMatchObject({ resource: wild, holder: wild });
    await lease.release();
  });

  it("names holder and time left after the very first wait of an object", async () => {
    const lease = await fixture.make().acquire(name, { holder: "Ada" });
    // The server's answer must have come by then.
    await eventually(async () => {
      const error = await rejection(fixture.make().acquire(name, { waitMs: 50 }));
      expect(error).toMatchObject({ code: "KIT_LOCK_TIMEOUT", holder: "Ada", msLeft: expect.any(Number) as number });
    });
    await lease.release();
  });

  it("says that a lease without expiry has no end", async () => {
    const lock = fixture.make();
    const lease = await lock.acquire(name);
    await fixture.db.persist(fixture.keysOf(name).lease);
    expect(await rejection(lock.acquire(name, { waitMs: 0 }))).toMatchObject({ msLeft: Infinity });
    await lease.release();
  });
});

describe("Options", () => {
  it.each([
    ["null", null, "`null`"],
    ["a text", "fast", '`"fast"`'],
    ["a misspelt name", { leasems: 5 }, '`"leasems"`'],
  ])("refuses %s", async (_, options, shown) => {
    const lock = fixture.make();
    for (const refused of [
      () => createLock(redis.client, options as never),
      () => lock.acquire(name, options as never),
      () => lock.tryAcquire(name, options as never),
      () => lock.using(name, () => undefined, options as never),
      () => lock.close(options as never),
    ]) {
      const error = await rejection((async () => await refused())());
      expect(error).toBeInstanceOf(TypeError);
      expect(String(error)).toContain(shown);
    }
    expect((await lock.inspect(name)).state).toBe("free");
  });

  it("refuses a routine that is none, before it takes the lock", async () => {
    const lock = fixture.make();
    const error = await rejection(lock.using(name, undefined as never));
    expect(String(error)).toBe("TypeError: Expected `routine` to be a function, got undefined");
    expect((await lock.inspect(name)).fencingToken).toBeNull();
  });
});
