import { useRedis } from "@kit/testing";
import { describeLeaseOptions } from "@tooling/vitest/conformance";
import * as vitest from "vitest";
import { expect, it } from "vitest";
import { createLock } from "../src/index.js";
import { lockKeys, readWriteKeys } from "../src/keys.js";
import { createReadWriteLock } from "../src/read-write/index.js";
import { leasingOf } from "./leasing.js";

const redis = useRedis(vitest);

describeLeaseOptions(leasingOf(redis));

it.each([null, "fast"])("refuses %o for options", (options) => {
  const { client } = redis;
  expect(() => createLock(client, options as never)).toThrow(TypeError);
});

it("keeps the fencing token of an unused name for keepMs, of both kinds of locks", async () => {
  const { client, prefix } = redis;
  const options = { prefix, keepMs: 60_000 };
  await using lock = createLock(client, options);
  await using readWrite = createReadWriteLock(client, options);
  const first = await lock.using("chest", ({ fencingToken }) => fencingToken);
  await readWrite.write.using("chest", () => undefined);
  for (const { fence } of [lockKeys(prefix)("chest"), readWriteKeys(prefix)("chest")]) {
    expect(await client.pttl(fence)).toBeGreaterThan(0);
    expect(await client.pttl(fence)).toBeLessThanOrEqual(60_000);
    // As time does.
    await client.del(fence);
  }
  expect(await lock.using("chest", ({ fencingToken }) => BigInt(fencingToken) > BigInt(first))).toBe(true);
});
