import { connect } from "@kit/core";
import { eventually, FaultProxy, useRedis } from "@kit/testing";
import { describeLeaseHandover } from "@tooling/vitest/conformance";
import { aborted, rejection } from "@tooling/vitest/helpers";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { fixtureOf } from "./harness.js";
import { leasingOf } from "./leasing.js";

const redis = useRedis(vitest);
const fixture = fixtureOf(redis);
const name = "torch";

describeLeaseHandover(leasingOf(redis));

describe("Lock.resume", () => {
  it("holds without a limit what had none, whatever the object's own default is", async () => {
    const lease = await fixture.make().acquire(name, { leaseMs: 3_000 });
    const resumed = await fixture.make({ maxHoldMs: 50 }).resume(lease.handOver());
    expect(resumed.remainingMs).toBeGreaterThan(100);
    await resumed.release();
  });

  it("does not start to renew a lease whose renewal had been stopped", async () => {
    const lease = await fixture.make().acquire(name, { leaseMs: 1_000 });
    lease.stopRenewal();
    const resumed = await fixture.make().resume(lease.handOver());
    expect(await aborted(resumed.signal)).toMatchObject({ reason: "stopped" });
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

  it("reports that a lease without expiry has no end", async () => {
    const lock = fixture.make();
    const lease = await lock.acquire(name);
    await fixture.db.persist(fixture.keysOf(name).lease);
    expect(await rejection(lock.acquire(name, { waitMs: 0 }))).toMatchObject({ msLeft: Infinity });
    await lease.release();
  });
});
