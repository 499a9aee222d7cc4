import type { Redis } from "ioredis";
import { describe, expect, it } from "vitest";
import {
  acquireFairSemaphore,
  acquireLock,
  acquireSemaphore,
  acquireSemaphoreWithLock,
  classicKeys,
  refreshFairSemaphore,
  releaseFairSemaphore,
  releaseLock,
  releaseSemaphore,
  type SemaphoreOptions,
} from "../src/index.js";
import { useClassic } from "./harness.js";

const classic = useClassic();
const NAME = "market";
const HOUR_MS = 3_600_000;

const keys = (): { readonly holders: string; readonly owners: string; readonly lock: string } => {
  const { lock, semaphore, semaphoreOwners } = classicKeys(classic.prefix);
  return { holders: semaphore(NAME), owners: semaphoreOwners(NAME), lock: lock(`semaphore:${NAME}`) };
};

/** A pair of classic acquire and release on one name, with a clock error of the client. */
interface Flavour {
  acquire(redis: Redis, limit: number, options?: SemaphoreOptions): Promise<string | null>;
  release(redis: Redis, token: string): Promise<boolean>;
}
const off = (byMs: number): SemaphoreOptions => ({ now: () => Date.now() + byMs });
const basic: Flavour = {
  acquire: (redis, limit, options) => acquireSemaphore(redis, NAME, limit, { prefix: classic.prefix, ...options }),
  release: (redis, token) => releaseSemaphore(redis, NAME, token, classic.prefix),
};
const releaseFair: Flavour["release"] = (redis, token) => releaseFairSemaphore(redis, NAME, token, classic.prefix);
const fair: Flavour = {
  acquire: (redis, limit, options) => acquireFairSemaphore(redis, NAME, limit, { prefix: classic.prefix, ...options }),
  release: releaseFair,
};
const raceFree: Flavour = {
  acquire: (redis, limit, options) =>
    acquireSemaphoreWithLock(redis, NAME, limit, { prefix: classic.prefix, ...options }),
  release: releaseFair,
};
const refresh = (redis: Redis, token: string): Promise<boolean> =>
  refreshFairSemaphore(redis, NAME, token, { prefix: classic.prefix });

const flavours = { basic: basic, fair: fair, "with lock": raceFree };

describe.each(Object.entries(flavours))("the classic semaphore (%s)", (_name, semaphore) => {
  it("lets the limit in and no more, and the next once one has left", async () => {
    const redis = await classic.connect();
    const first = await semaphore.acquire(redis, 2);
    expect([first, await semaphore.acquire(redis, 2)]).toEqual([expect.any(String), expect.any(String)]);
    expect(await semaphore.acquire(redis, 2)).toBeNull();
    expect(await semaphore.release(redis, first!)).toBe(true);
    expect(await semaphore.release(redis, first!)).toBe(false);
    expect(await semaphore.acquire(redis, 2)).not.toBeNull();
  });

  it("leaves no holder behind when it refuses", async () => {
    const redis = await classic.connect();
    const token = await semaphore.acquire(redis, 1);
    expect(await semaphore.acquire(redis, 1)).toBeNull();
    expect(await redis.zrange(keys().holders, "0", "-1")).toEqual([token]);
    await semaphore.release(redis, token!);
    expect(await redis.exists(keys().holders, keys().owners, keys().lock)).toBe(0);
  });

  it("expires the permit of a holder whose time limit has passed", async () => {
    const redis = await classic.connect();
    const lapsed = await semaphore.acquire(redis, 1, off(-10_001));
    expect(await semaphore.acquire(redis, 1)).not.toBeNull();
    expect(await semaphore.release(redis, lapsed!)).toBe(false);
  });

  it("lets all of six clients through a limit of two in the end", async () => {
    const clients = await classic.connectMany(6);
    const deadline = Date.now() + 20_000;
    let through = 0;
    await Promise.all(
      clients.map(async (redis) => {
        for (let round = 0; round < 3;) {
          const token = await semaphore.acquire(redis, 2);
          if (token !== null) {
            await semaphore.release(redis, token);
            through += 1;
            round += 1;
          }
          if (Date.now() > deadline) throw new Error("not every client got a permit");
        }
      }),
    );
    expect(through).toBe(18);
  });
});

describe("the classic refresh", () => {
  it("renews a holder's permit for its whole time limit", async () => {
    const redis = await classic.connect();
    const token = await fair.acquire(redis, 1, off(-9_000));
    expect(await refresh(redis, token!)).toBe(true);
    expect(await fair.acquire(redis, 1, off(9_000))).toBeNull();
  });

  it("reports that a permit was lost", async () => {
    const redis = await classic.connect();
    const token = await fair.acquire(redis, 1, off(-10_001));
    const next = await fair.acquire(redis, 1);
    expect(await refresh(redis, token!)).toBe(false);
    expect(await redis.zrange(keys().holders, "0", "-1")).toEqual([next]);
  });
});

describe("faults of the classic semaphore", () => {
  it("a client whose clock is 10 ms slow takes a permit, and its holder is not notified", async () => {
    const [holder, slow] = await pair();
    const at = Date.now();
    const token = await basic.acquire(holder, 1, { now: () => at });
    const stolen = await basic.acquire(slow, 1, { now: () => at - 10 });
    expect([token, stolen]).toEqual([expect.any(String), expect.any(String)]);
    expect(await basic.release(holder, token!)).toBe(true);
  });

  it("fails at once: no waiting for a permit that is free a moment later", async () => {
    const { redis, proxy } = await classic.connectThroughProxy();
    await basic.acquire(redis, 1);
    proxy.reset();
    expect(await basic.acquire(redis, 1)).toBeNull();
    expect(proxy.requests).toBe(2);
  });
});

describe("faults of the classic fair semaphore", () => {
  it("between counter and insert another client gets the permit, and then both hold it", async () => {
    const { redis: first, proxy } = await classic.connectThroughProxy();
    const second = await classic.connect();
    const held = proxy.hold(/zadd/i);
    const early = fair.acquire(first, 1);
    await held.reached;
    const late = await fair.acquire(second, 1);
    held.release();
    expect([await early, late]).toEqual([expect.any(String), expect.any(String)]);
    expect(await second.zcard(keys().owners)).toBe(2);
  });

  it.each([
    ["two seconds ahead of a limit of one second", 2_000],
    ["an hour ahead", HOUR_MS],
  ])("a client whose clock is %s removes all holders", async (_how, aheadMs) => {
    const [holder, ahead] = await pair();
    const timeoutSeconds = aheadMs === HOUR_MS ? 10 : 1;
    const token = await fair.acquire(holder, 1, { timeoutSeconds });
    expect(await fair.acquire(ahead, 1, { timeoutSeconds, ...off(aheadMs) })).not.toBeNull();
    expect(await fair.release(holder, token!)).toBe(false);
  });

  it("the permit of a client whose clock is an hour behind goes to the next caller", async () => {
    const [behind, next] = await pair();
    const token = await fair.acquire(behind, 1, off(-HOUR_MS));
    expect(await fair.acquire(next, 1)).not.toBeNull();
    expect(await fair.release(behind, token!)).toBe(false);
  });
});

describe("faults of the classic refresh", () => {
  it("a lost permit is momentarily back among the holders, above the limit", async () => {
    const { redis: slow, proxy } = await classic.connectThroughProxy();
    const other = await classic.connect();
    const token = await fair.acquire(slow, 1, off(-10_001));
    await fair.acquire(other, 1);
    const held = proxy.hold(/zrem/i);
    const refreshed = refresh(slow, token!);
    await held.reached;
    expect(await other.zcard(keys().holders)).toBe(2);
    held.release();
    expect(await refreshed).toBe(false);
    expect(await other.zcard(keys().holders)).toBe(1);
  });

  it("a crash in that moment leaves the lost permit there for another time limit", async () => {
    const { redis: slow, proxy } = await classic.connectThroughProxy();
    const other = await classic.connect();
    const token = await fair.acquire(slow, 1, off(-10_001));
    const next = await fair.acquire(other, 1);
    await proxy.crashAt(/zrem/i, refresh(slow, token!));
    expect(await fair.release(other, next!)).toBe(true);
    expect(await other.zrange(keys().holders, "0", "-1")).toEqual([token]);
  });
});

describe("faults of the classic acquire with a lock", () => {
  it("one crash while the lock is held closes the semaphore for ever", async () => {
    const { redis: holder, proxy } = await classic.connectThroughProxy();
    const other = await classic.connect();
    await proxy.crashAt(/zremrangebyscore/i, raceFree.acquire(holder, 5));
    expect(await raceFree.acquire(other, 5)).toBeNull();
    expect(await other.zcard(keys().holders)).toBe(0);
    expect(await other.pttl(keys().lock)).toBe(-1);
  });

  it("lock busy and full look the same", async () => {
    const [holder, other] = await pair();
    const lock = await acquireLock(holder, `semaphore:${NAME}`, 1_000, classic.prefix);
    const busy = await raceFree.acquire(other, 1);
    await releaseLock(holder, `semaphore:${NAME}`, lock!, classic.prefix);
    await raceFree.acquire(holder, 1);
    const full = await raceFree.acquire(other, 1);
    expect([busy, full]).toEqual([null, null]);
  });

  it("extra round trips: six to acquire where the fair semaphore has two", async () => {
    const { redis, proxy } = await classic.connectThroughProxy();
    await fair.acquire(redis, 2);
    expect(proxy.requests).toBe(2);
    proxy.reset();
    await raceFree.acquire(redis, 2);
    expect(proxy.requests).toBe(6);
  });
});

async function pair(): Promise<[Redis, Redis]> {
  return [await classic.connect(), await classic.connect()];
}
