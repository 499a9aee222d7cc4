import * as vitest from "vitest";
import { createLock, type Lease } from "@kit/lock";
import { eventually, useRedis } from "@kit/testing";

const { expect, test } = vitest;
const redis = useRedis(vitest);

test("two servers do not write the report at the same time", async () => {
  await using one = createLock(redis.client, { prefix: redis.prefix });
  await using other = createLock(redis.connect(), { prefix: redis.prefix });
  await using lease = await one.acquire("report");
  expect(lease.isHeld).toBe(true);
  expect(await other.tryAcquire("report")).toBeNull();
});

test("the report stops when its lease is lost", async () => {
  await using lock = createLock(redis.client, { prefix: redis.prefix, leaseMs: 300 });
  const lease: Lease = await lock.acquire("report");
  await lock.forceRelease("report"); // as an operator does, or a failover that loses writes
  await eventually(() => expect(lease.signal.aborted).toBe(true));
});
