import { useRedis } from "@kit/testing";
import { expectRefusal, rejection } from "@tooling/vitest/helpers";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { createLock, type LockOptions } from "../src/index.js";
import { fixtureOf, enqueue, keyOf } from "./harness.js";

const redis = useRedis(vitest);
const fixture = fixtureOf(redis);
const name = "chest";

describe("createLock", () => {
  it("has the defaults that the README says", async () => {
    const lock = createLock(redis.client);
    redis.defer(() => lock.close({ timeoutMs: 0 }));
    const own = `${redis.prefix}-default`;
    const lease = await lock.acquire(own);
    expect(lease.leaseMs).toBe(10_000);
    expect(lease.holder).toMatch(new RegExp(`:${String(process.pid)}$`));
    expect(await fixture.db.get(keyOf("kit", own, "lease"))).toBe(`${lease.token}|${lease.holder}`);
    await lease.release();
  });

  it("never writes into the caller's object, nor reads it again", async () => {
    const options = { prefix: redis.prefix, leaseMs: 1_000, holder: "mine" };
    const lock = createLock(redis.client, Object.freeze({ ...options }));
    redis.defer(() => lock.close({ timeoutMs: 0 }));
    const changing: { -readonly [Option in keyof LockOptions]: LockOptions[Option] } = { ...options };
    const other = createLock(redis.client, changing);
    redis.defer(() => other.close({ timeoutMs: 0 }));
    changing.leaseMs = 99_999;
    changing.prefix = "elsewhere";
    const lease = await lock.acquire(name, Object.freeze({ waitMs: 100 }));
    expect(await other.tryAcquire(name)).toBeNull();
    await lease.release();
    expect((await other.acquire(name)).leaseMs).toBe(1_000);
  });
});

describe("acquire", () => {
  it.each(["{", "}", "{}", "a{b}c", "}{", "%7B", "a\u0000b", "a\nb", "a\tb", "a:b", "a|b", " ", "…", "👩‍🚀", "\u202e"])(
    "escapes the hostile name %j, all of whose keys share one slot",
    async (hostile) => {
      const lock = fixture.make();
      const lease = await lock.acquire(hostile);
      const waiter = await enqueue(lock, hostile);
      const keys = Object.values(fixture.keysOf(hostile));
      expect(new Set(await redis.keys())).toEqual(new Set(keys));
      const tags = keys.map((key) => /^[^{}]*\{([^{}]+)\}:(?:lease|fence|queue|waiters)$/.exec(key)?.[1]);
      expect(new Set(tags).size).toBe(1);
      // eslint-disable-next-line no-control-regex
      expect(tags[0]).toMatch(/^[^\u0000-\u001f:]+$/);
      await lease.release();
      await (await waiter.promise).release();
    },
  );

  it.each([
    "a|b",
    "|",
    "two words",
    "two\nlines",
    "tab\there",
    "granted\t1\t2\t3",
    "nul\u0000byte",
    "1:2:3",
    "👩‍🚀 on board",
    "ünïcödé",
    "%s %d {}",
    "x".repeat(128),
  ])("keeps the hostile holder label %j through hand-off, renewal and release", async (holder) => {
    const lock = fixture.make({ holder });
    const first = await lock.acquire(name);
    const waiter = await enqueue(lock, name);
    expect(await lock.inspect(name)).toMatchObject({ holder, queue: [{ holder }] });
    expect(await rejection(lock.acquire(name, { waitMs: 0 }))).toMatchObject({ holder });
    await first.extend();
    expect(await first.release()).toBe("released");
    const second = await waiter.promise;
    expect(second.holder).toBe(holder);
    expect(await lock.inspect(name)).toMatchObject({ state: "held", holder, waiters: 0 });
    await second.extend();
    expect(await second.release()).toBe("released");
  });
});

describe("extend", () => {
  it.each([9, 86_400_001, 1.5, Number.NaN, "1000", null])("refuses %o, and changes nothing", async (leaseMs) => {
    const lease = await fixture.make().acquire(name, { leaseMs: 5_000, renew: false });
    expectRefusal(
      await rejection(lease.extend(leaseMs as number)),
      "leaseMs",
      leaseMs,
      "an integer from 10 to 86400000",
    );
    expect(lease.leaseMs).toBe(5_000);
    expect(await fixture.db.pttl(fixture.keysOf(name).lease)).toBeLessThanOrEqual(5_000);
  });
});

describe("resume", () => {
  it.each([
    ["no JSON", "{"],
    ["null", "null"],
    ["a number", "42"],
    ["another object", "{}"],
    ["another layout", JSON.stringify({ kit: "lock", layout: 2, name, token: "t", fencingToken: "1" })],
    ["no name", JSON.stringify({ kit: "lock", layout: 1, token: "t", fencingToken: "1" })],
    ["no token", JSON.stringify({ kit: "lock", layout: 1, name, fencingToken: "1" })],
    ["a fencing token that is none", JSON.stringify({ kit: "lock", layout: 1, name, token: "t", fencingToken: "x" })],
    ["a fencing token that is a number", JSON.stringify({ kit: "lock", layout: 1, name, token: "t", fencingToken: 1 })],
    ["a number instead of text", 42],
    ["undefined", undefined],
  ])("refuses %s, without repeating it, and never touches Redis", async (_what, text) => {
    const client = redis.connect({ lazyConnect: true });
    const error = await rejection(fixture.on(client).resume(text as string));
    expect(error).toBeInstanceOf(TypeError);
    expect(String(error)).toBe("TypeError: Expected the text of `serialise()`, of a lock of this version");
    expect(client.status).toBe("wait");
  });

  it("refuses a serialised lease with an option that is none", async () => {
    const lease = await fixture.make().acquire(name);
    const saved = JSON.parse(lease.serialise()) as Record<string, unknown>;
    const error = await rejection(fixture.make().resume(JSON.stringify({ ...saved, leaseMs: "long" })));
    expectRefusal(error, "leaseMs", "long", "an integer from 10 to 86400000");
  });

  it("carries all settings of the lease", async () => {
    const settings = { leaseMs: 4_000, renew: false, maxHoldMs: 60_000, holder: "mover" };
    const lease = await fixture.make().acquire(name, settings);
    await lease.extend(5_000);
    const saved = JSON.parse(lease.serialise()) as Record<string, unknown>;
    expect(saved).toEqual({
      kit: "lock",
      layout: 1,
      name,
      token: lease.token,
      fencingToken: lease.fencingToken,
      ...settings,
      leaseMs: 5_000,
      // The rest of it.
      maxHoldMs: expect.any(Number) as number,
    });
    expect(saved["maxHoldMs"]).toBeGreaterThan(50_000);
    expect(saved["maxHoldMs"]).toBeLessThan(60_000);
    const resumed = await fixture.make({ leaseMs: 1_000, holder: "other" }).resume(lease.serialise());
    expect(resumed).toMatchObject({ name, holder: "mover", leaseMs: 5_000, fencingToken: lease.fencingToken });
    expect(await resumed.release()).toBe("released");
  });
});
