import { useRedis } from "@kit/testing";
import { renewedTwice } from "@tooling/vitest/helpers";
import Redlock5 from "redlock5";
import type { Redis } from "ioredis";
import * as vitest from "vitest";
import { expect, it } from "vitest";
import { createCompatibleLock } from "../src/compatible/index.js";

const redis = useRedis(vitest, { mode: "cluster", permanentKeys: ["*"] });

it("holds names of several slots, renews them, and excludes redlock, on a Cluster", async () => {
  const lock = createCompatibleLock(redis.client, { prefix: redis.prefix, leaseMs: 2_000, deadlineMs: 10_000 });
  redis.defer(() => lock.close({ timeoutMs: 0 }));
  const names = ["a", "b", "c", "d", "e"].map((name) => `${redis.prefix}:${name}`);
  // redlock takes a Cluster as it takes a Redis.
  const old = new Redlock5([redis.client as unknown as Redis], { retryCount: 0 });
  const leases = await Promise.all(names.map((name) => lock.acquire(name)));
  await renewedTwice(leases);
  const tries = await Promise.allSettled(names.map((name) => old.acquire([name], 10_000)));
  expect(tries.map(({ status }) => status)).toEqual(names.map(() => "rejected"));
  const waits = names.map((name) => lock.acquire(name));
  expect(await Promise.all(leases.map((lease) => lease.release()))).toEqual(names.map(() => "released"));
  for (const wait of waits) expect(await (await wait).release()).toBe("released");
  for (const name of names) await (await old.acquire([name], 10_000)).release();
});
