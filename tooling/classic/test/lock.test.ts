import { eventually } from "@kit/testing";
import type { Redis } from "ioredis";
import { describe, expect, it } from "vitest";
import {
  acquireLock,
  acquireLockBySet,
  acquireLockWithTimeout,
  acquireOwnerlessLock,
  classicKeys,
  releaseLock,
  releaseOwnerlessLock,
} from "../src/index.js";
import { calls, lapse, useClassic } from "./harness.js";

const classic = useClassic();
const NAME = "chest";
const lockKey = (): string => classicKeys(classic.prefix).lock(NAME);

/** A pair of classic acquire and release on one name. `acquire` resolves to null when it gives up. */
interface Flavour {
  acquire(redis: Redis, waitMs: number, seconds?: number): Promise<string | null>;
  release(redis: Redis, token: string): Promise<boolean>;
}
const release: Flavour["release"] = (redis, token) => releaseLock(redis, NAME, token, classic.prefix);
const untimed: Flavour = {
  acquire: (redis, waitMs) => acquireLock(redis, NAME, waitMs, classic.prefix),
  release,
};
const timed: Flavour = {
  acquire: (redis, waitMs, seconds = 10) => acquireLockWithTimeout(redis, NAME, waitMs, seconds, classic.prefix),
  release,
};
const bySet: Flavour = {
  acquire: (redis, waitMs, seconds = 10) => acquireLockBySet(redis, NAME, waitMs, seconds, classic.prefix),
  release,
};
const ownerless: Flavour = {
  acquire: async (redis, waitMs, seconds = 10) =>
    (await acquireOwnerlessLock(redis, NAME, waitMs, seconds, classic.prefix)) ? "no owner" : null,
  release: async (redis) => {
    await releaseOwnerlessLock(redis, NAME, classic.prefix);
    return true;
  },
};
const flavours = {
  SETNX: untimed,
  "SETNX then EXPIRE": timed,
  "SET NX EX": bySet,
  "SETNX without owner": ownerless,
};

describe.each(Object.entries(flavours))("the classic lock (%s)", (_name, lock) => {
  it("keeps four contenders apart and leaves nothing behind", async () => {
    const clients = await classic.connectMany(4);
    const counter = `${classic.prefix}counter`;
    await Promise.all(
      clients.map(async (redis) => {
        for (let round = 0; round < 10; round += 1) {
          const token = (await lock.acquire(redis, 20_000))!;
          await redis.set(counter, Number(await redis.get(counter)) + 1);
          await lock.release(redis, token);
        }
      }),
    );
    expect(await clients[0]!.get(counter)).toBe("40");
    expect(await clients[0]!.exists(lockKey())).toBe(0);
  });

  it("gives up after its time limit while another holds it", async () => {
    const [holder, waiter] = await pair();
    expect(await lock.acquire(holder, 1000)).not.toBeNull();
    expect(await lock.acquire(waiter, 50)).toBeNull();
  });
});

describe("the classic release", () => {
  it("releases only its own token", async () => {
    const [holder, other] = await pair();
    const token = (await untimed.acquire(holder, 1000))!;
    expect(await release(other, "someone else's")).toBe(false);
    expect(await other.get(lockKey())).toBe(token);
    expect(await release(holder, token)).toBe(true);
  });
});

describe("faults of the classic lock", () => {
  it("a crash holds it for ever", async () => {
    const { redis: holder, proxy } = await classic.connectThroughProxy();
    const waiter = await classic.connect();
    const token = await untimed.acquire(holder, 1000);
    proxy.cut();
    expect(await untimed.acquire(waiter, 300)).toBeNull();
    expect(await waiter.get(lockKey())).toBe(token);
    expect(await waiter.pttl(lockKey())).toBe(-1);
  });

  it("busy polling: a waiter sends its command over and over", async () => {
    const [holder, waiter] = await pair();
    const token = (await untimed.acquire(holder, 1000))!;
    const before = await calls(holder, "setnx");
    const polling = untimed.acquire(waiter, 60_000);
    // The waiter may reject after the test; the assertions below decide.
    polling.catch(() => undefined);
    await eventually(async () => expect((await calls(holder, "setnx")) - before).toBeGreaterThan(20));
    await release(holder, token);
    expect(await polling).not.toBeNull();
  });

  it("four round trips, one to acquire and three to release", async () => {
    const { redis, proxy } = await classic.connectThroughProxy();
    const token = (await untimed.acquire(redis, 1000))!;
    expect(proxy.requests).toBe(1);
    await release(redis, token);
    expect(proxy.requests).toBe(4);
  });

  it("release retries without bound for as long as a waiter touches the key", async () => {
    const { redis: holder, proxy } = await classic.connectThroughProxy();
    const waiter = await classic.connect();
    const token = (await untimed.acquire(holder, 1000))!;
    const touches = 300;
    let tries = 0;
    proxy.before = async (text) => {
      if (!/exec/i.test(text)) return;
      tries += 1;
      if (tries <= touches) await waiter.expire(lockKey(), 10);
    };
    expect(await release(holder, token)).toBe(true);
    expect(tries).toBe(touches + 1);
  });

  it("symptom 1: a slow holder releases the lock of the next one after its own expired", async () => {
    const [slow, next] = await pair();
    const token = (await ownerless.acquire(slow, 1000))!;
    await lapse(next, lockKey());
    expect(await ownerless.acquire(next, 1000)).not.toBeNull();
    await ownerless.release(slow, token);
    expect(await next.exists(lockKey())).toBe(0);
  });

  it("symptom 2: a crashed holder goes undetected while others wait", async () => {
    const { redis: holder, proxy } = await classic.connectThroughProxy();
    const waiter = await classic.connect();
    const id = await holder.client("ID");
    await ownerless.acquire(holder, 1000, 60);
    proxy.cut();
    await expect.poll(() => waiter.client("LIST")).not.toContain(`id=${id} `);
    expect(await ownerless.acquire(waiter, 300)).toBeNull();
    expect(await waiter.pttl(lockKey())).toBeGreaterThan(50_000);
  });

  it("symptom 2: a crash before EXPIRE holds the lock without owner for ever", async () => {
    const { redis: holder, proxy } = await classic.connectThroughProxy();
    const waiter = await classic.connect();
    await proxy.crashAt(/expire/i, ownerless.acquire(holder, 1000));
    expect(await ownerless.acquire(waiter, 300)).toBeNull();
    expect(await waiter.pttl(lockKey())).toBe(-1);
  });

  it("symptom 3: several hold it at once", async () => {
    expect(await threeHolders()).toHaveLength(3);
  });

  it("symptom 4: each holder works as if alone, and an update is lost", async () => {
    const holders = await threeHolders();
    const counter = `${classic.prefix}counter`;
    const seen = await Promise.all(holders.map(async (redis) => Number(await redis.get(counter))));
    for (const [index, redis] of holders.entries()) await redis.set(counter, seen[index]! + 1);
    expect(await holders[0]!.get(counter)).toBe("1");
  });
});

describe("faults of the classic lock with a time limit", () => {
  it("a crash between SETNX and EXPIRE is repaired only if another client happens to wait", async () => {
    const { redis: holder, proxy } = await classic.connectThroughProxy();
    const waiter = await classic.connect();
    await proxy.crashAt(/expire/i, timed.acquire(holder, 1000));
    expect(await waiter.pttl(lockKey())).toBe(-1);
    expect(await timed.acquire(waiter, 50, 10)).toBeNull();
    expect(await waiter.pttl(lockKey())).toBeGreaterThan(5_000);
  });

  it.each([
    ["SETNX then EXPIRE", timed],
    ["SET NX EX", bySet],
  ])("seconds only: 50 ms become a second (%s)", async (_name, lock) => {
    const redis = await classic.connect();
    await lock.acquire(redis, 1000, 0.05);
    expect(await redis.pttl(lockKey())).toBeGreaterThan(500);
  });

  it.each([
    ["SETNX then EXPIRE", timed],
    ["SET NX EX", bySet],
  ])("the holder never learns that it lost the lock, and writes on (%s)", async (_name, lock) => {
    const [slow, next] = await pair();
    const counter = `${classic.prefix}counter`;
    const token = (await lock.acquire(slow, 1000))!;
    const seen = Number(await slow.get(counter));
    await lapse(next, lockKey());
    await lock.acquire(next, 1000);
    await next.incrby(counter, 10);
    await slow.set(counter, seen + 1);
    expect(await next.get(counter)).toBe("1");
    expect(await lock.release(slow, token)).toBe(false);
  });

  it("a timed waiter puts its limit on an untimed holder's lock, which then vanishes unnoticed", async () => {
    const [holder, waiter] = await pair();
    const token = (await untimed.acquire(holder, 1000))!;
    expect(await holder.pttl(lockKey())).toBe(-1);
    expect(await timed.acquire(waiter, 5_000, 1)).not.toBeNull();
    expect(await untimed.release(holder, token)).toBe(false);
  });
});

async function pair(): Promise<[Redis, Redis]> {
  return [await classic.connect(), await classic.connect()];
}

/** A's lock expires and B takes it; B's expires and C takes it. All three hold it, and none was notified. */
async function threeHolders(): Promise<Redis[]> {
  const [a, b, c] = (await classic.connectMany(3)) as [Redis, Redis, Redis];
  const inside: Redis[] = [];
  const enter = async (redis: Redis): Promise<string> => {
    const token = await ownerless.acquire(redis, 1000);
    if (token === null) throw new Error("the lock was refused");
    inside.push(redis);
    return token;
  };
  await enter(a);
  await lapse(a, lockKey());
  await enter(b);
  await lapse(a, lockKey());
  await enter(c);
  return inside;
}
