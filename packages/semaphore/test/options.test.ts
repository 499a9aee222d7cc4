import { useRedis } from "@kit/testing";
import { expectRefusal, rejection } from "@tooling/vitest/helpers";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { createSemaphore } from "../src/index.js";
import { fixtureOf, enqueue, keyOf, name } from "./harness.js";

const redis = useRedis(vitest);
const fixture = fixtureOf(redis);

describe("createSemaphore", () => {
  it.each(["{", "}", "{}", "a{b}c", "%7B", "a\u0000b", "a\nb", "a\tb", "a:b", "a|b", " ", "…", "👩‍🚀", "\u202e"])(
    "escapes the hostile name %j, all of whose keys share one slot",
    async (hostile) => {
      const semaphore = fixture.make({ name: hostile, permits: 1 });
      const permit = await semaphore.acquire();
      const waiter = await enqueue(semaphore);
      const keys = Object.values(fixture.keysOf(hostile));
      expect(new Set(await redis.keys())).toEqual(new Set(keys));
      const tags = keys.map((key) => /^[^{}]*\{([^{}]+)\}:(?:permits|meta|queue|ready|waiters)$/.exec(key)?.[1]);
      expect(new Set(tags).size).toBe(1);
      await permit.release();
      await (await waiter.promise).release();
    },
  );

  it("has the defaults that the README says", async () => {
    const own = `${redis.prefix}-default`;
    const semaphore = createSemaphore(redis.client, own, { permits: 1 });
    redis.defer(() => semaphore.close({ timeoutMs: 0 }));
    const permit = await semaphore.acquire();
    expect(permit).toMatchObject({ leaseMs: 10_000, weight: 1, tenant: null });
    expect(permit.holder).toMatch(new RegExp(`:${String(process.pid)}$`));
    expect(await fixture.db.zrange(keyOf("kit", own, "permits"), "0", "-1")).toEqual([
      `${permit.token}|1||${permit.holder}`,
    ]);
    await permit.release();
  });

  it("never writes into the caller's object, nor reads it again", async () => {
    const options = { permits: 1, prefix: redis.prefix, leaseMs: 1_000 };
    const frozen = createSemaphore(redis.client, name, Object.freeze({ ...options }));
    redis.defer(() => frozen.close({ timeoutMs: 0 }));
    const changing = { ...options };
    const other = createSemaphore(redis.client, name, changing);
    redis.defer(() => other.close({ timeoutMs: 0 }));
    Object.assign(changing, { leaseMs: 99_999, prefix: "elsewhere", permits: 9 });
    const permit = await frozen.acquire(Object.freeze({ waitMs: 100 }));
    expect(await other.tryAcquire()).toBeNull();
    await permit.release();
    expect((await other.acquire()).leaseMs).toBe(1_000);
  });
});

describe("acquire", () => {
  it("refuses a tenant that is half a surrogate pair, and any tenant outside of groups", async () => {
    const group = fixture.make({ permitsPerTenant: 1 });
    expect(await rejection(group.acquire({ tenant: "a\ud800" }))).toBeInstanceOf(RangeError);
    expect(await rejection(fixture.make().acquire({ tenant: "a" }))).toBeInstanceOf(TypeError);
    expect(await rejection(group.inspect({ tenant: "a\ud800" }))).toBeInstanceOf(RangeError);
    expect(await redis.keys()).toEqual([]);
  });

  it("refuses a routine that is none", async () => {
    expect(await rejection(fixture.make().using(undefined as never))).toBeInstanceOf(TypeError);
    expect(await redis.keys()).toEqual([]);
  });

  it.each(["a|b", "two\nlines", "granted\t1\t2\t3", "nul\u0000byte", "👩‍🚀 on board", "%s %d {}", "x".repeat(128)])(
    "keeps the hostile label and tenant %j through hand-off, renewal and release",
    async (text) => {
      const group = fixture.make({ permits: 1, permitsPerTenant: 1, holder: text });
      const first = await group.acquire({ tenant: text });
      const waiter = await enqueue(group, { tenant: text });
      const shown = { holder: text, tenant: text, weight: 1 };
      expect(await group.inspect()).toMatchObject({ holders: [shown], queue: [shown] });
      await first.extend();
      expect(await first.release()).toBe("released");
      const second = await waiter.promise;
      expect(second).toMatchObject({ holder: text, tenant: text });
      await second.extend();
      expect(await second.release()).toBe("released");
    },
  );
});

describe("setPermits", () => {
  it.each([undefined, null, "3", {}, [], { permits: undefined }])("refuses %o for limits", async (none) => {
    expect(await rejection(fixture.make().setPermits(none as never))).toBeInstanceOf(TypeError);
    expect(await redis.keys()).toEqual([]);
  });

  it("refuses a limit of tenants where there are none", async () => {
    expect(await rejection(fixture.make().setPermits({ permits: 3, permitsPerTenant: 1 }))).toBeInstanceOf(TypeError);
    expect(await redis.keys()).toEqual([]);
  });
});

describe("extend", () => {
  it.each([9, 86_400_001, 1.5, Number.NaN, "1000", null])("refuses %o, and changes nothing", async (leaseMs) => {
    const permit = await fixture.make().acquire({ leaseMs: 5_000, renew: false });
    const wanted = "an integer from 10 to 86400000";
    expectRefusal(await rejection(permit.extend(leaseMs as number)), "leaseMs", leaseMs, wanted);
    expect(permit.leaseMs).toBe(5_000);
  });
});
