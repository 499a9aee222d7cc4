import * as vitest from "vitest";
import { createLock, type Lease } from "@kit/lock";
import { eventually, useRedis } from "@kit/testing";

const { expect, test } = vitest;
const redis = useRedis(vitest);

test("the report stops when its lease is lost", async () => {
  await using lock = createLock(redis.client, { prefix: redis.prefix, leaseMs: 300 });
  const lease: Lease = await lock.acquire("report");
  await lock.forceRelease("report"); // as an operator does, or a failover that loses writes
  await eventually(() => expect(lease.signal.aborted).toBe(true));
});
