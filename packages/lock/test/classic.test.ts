import { eventually, useRedis } from "@kit/testing";
import { aborted, lapse, promptMs, rejection, RequestProxy, timed } from "@tooling/vitest/helpers";
import { Redis } from "ioredis";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import type { Lease, Lock, LockOptions } from "../src/index.js";
import { fixtureOf, enqueue } from "./harness.js";

/** Each test shows that this lock does not have a known defect of the lock in "Redis in Action". The name is the defect. */
const redis = useRedis(vitest, { permanentKeys: ["*"] });
const fixture = fixtureOf(redis);
const name = "chest";
const ourKey = (): string => fixture.keysOf(name).lease;

/** A connection that stays lost when it is cut, as that of a crashed process does. */
const mortal = async (): Promise<{ client: Redis; proxy: RequestProxy }> => {
  const proxy = await RequestProxy.open(redis.server.nodes[0]!.port);
  redis.defer(() => proxy[Symbol.asyncDispose]());
  const client = new Redis(proxy.url, { retryStrategy: () => null, disconnectTimeout: 50 });
  client.on("error", () => undefined);
  redis.defer(() => client.disconnect());
  await client.ping();
  proxy.reset();
  return { client, proxy };
};
const mortalLock = async (options?: LockOptions): Promise<{ lock: Lock; proxy: RequestProxy }> => {
  const { client, proxy } = await mortal();
  const lock = fixture.on(client, options);
  await lock.tryAcquire("warm-up", { renew: false });
  proxy.reset();
  return { lock, proxy };
};

/** A guarded resource: it refuses a fencing token that is older than the newest it has seen. */
const guardedWrite = async (value: string, fencingToken: string): Promise<boolean> => {
  const script = `
    local newest = redis.call('HGET', KEYS[1], 'fence')
    if newest and #newest == #ARGV[2] and newest > ARGV[2] then return 0 end
    redis.call('HSET', KEYS[1], 'value', ARGV[1], 'fence', ARGV[2])
    return 1`;
  return (await fixture.db.eval(script, 1, `${redis.prefix}:guarded`, value, fencingToken)) === 1;
};

describe("defects of the classic lock, absent here", () => {
  it("a crash holds it forever", async () => {
    const ours = await mortalLock({ leaseMs: 300 });
    await ours.lock.acquire(name);
    ours.proxy.cut();
    const { awakeMs, value } = await timed(fixture.make().acquire(name, { waitMs: 10_000 }));
    expect(awakeMs).toBeLessThan(promptMs);
    expect(value.isHeld).toBe(true);
  });

  it("busy polling: a waiter sends its command over and over", async () => {
    await fixture.make().acquire(name, { renew: false, leaseMs: 60_000 });
    const { lock, proxy } = await mortalLock();
    await rejection(lock.acquire(name, { waitMs: 1_000 }));
    // A place in the queue, where it listens, and leaving it; and twice what the server did not know yet.
    expect(proxy.requests).toBeLessThanOrEqual(7);
  });

  it("four round trips, one to acquire and three to release", async () => {
    const ours = await mortalLock();
    await (await ours.lock.acquire(name)).release();
    expect(ours.proxy.requests).toBe(2);
  });

  it("release retries without bound while another client changes the key", async () => {
    const ours = await mortalLock();
    const lease = await ours.lock.acquire(name);
    ours.proxy.reset();
    ours.proxy.before = async () => {
      await fixture.db.expire(ourKey(), 10);
    };
    expect(await lease.release()).toBe("released");
    expect(ours.proxy.requests).toBe(1);
  });

  it("a later caller may win, because there is no queue", async () => {
    const lock = fixture.make();
    const holder = await lock.acquire(name);
    const early = await enqueue(fixture.on(redis.connect()), name);
    const late = await enqueue(lock, name);
    await holder.release();
    const lease = await early.promise;
    expect(late.isSettled).toBe(false);
    await lease.release();
    await late.promise;
  });
});

describe("the four classic symptoms, absent here", () => {
  it("symptom 1: it is released by another after it expired", async () => {
    const slow = await fixture.make().acquire(name);
    await lapse(fixture.db, ourKey());
    const next = await fixture.on(redis.connect()).acquire(name);
    expect(await slow.release()).toBe("not-held");
    expect(await fixture.db.get(ourKey())).toBe(`${next.token}|${next.holder}`);
  });

  it("symptom 2: a crashed holder goes undetected while others wait", async () => {
    const ours = await mortalLock({ leaseMs: 300 });
    await ours.lock.acquire(name);
    const waiter = await enqueue(fixture.make(), name);
    ours.proxy.cut();
    expect((await timed(waiter.promise)).awakeMs).toBeLessThan(promptMs);
  });

  it("symptom 2: a crash before EXPIRE holds it forever", async () => {
    const ours = await mortalLock({ leaseMs: 6_000 });
    await ours.lock.acquire(name);
    ours.proxy.cut();
    // There is no step between taking the lock and bounding it.
    expect(ours.proxy.requests).toBe(1);
    expect(await fixture.db.pttl(ourKey())).toBeGreaterThan(0);
  });

  it("symptom 3: several hold it at the same time", async () => {
    const holders = [redis.connect(), redis.connect(), redis.connect()];
    const leases: Lease[] = [];
    for (const holder of holders) {
      if (leases.length > 0) await lapse(fixture.db, ourKey());
      leases.push(await fixture.on(holder, { leaseMs: 1_200 }).acquire(name));
    }
    // The first two get an error; only the last one holds the lock.
    await Promise.all(leases.slice(0, 2).map(({ signal }) => aborted(signal)));
    expect(leases.map(({ isHeld }) => isHeld)).toEqual([false, false, true]);
  });

  it("symptom 4: each holder believes that it is alone, and an update is lost", async () => {
    const [a, b] = [redis.connect(), redis.connect()];
    const [first, second] = [fixture.on(a), fixture.on(b)];
    const stale = await first.acquire(name);
    await lapse(fixture.db, ourKey());
    const fresh = await second.acquire(name);
    expect(await guardedWrite("second's", fresh.fencingToken)).toBe(true);
    expect(await guardedWrite("first's", stale.fencingToken)).toBe(false);
    expect(await fixture.db.hget(`${redis.prefix}:guarded`, "value")).toBe("second's");
  });
});

describe("defects of the classic lock with a time limit, absent here", () => {
  it("a crash between SETNX and EXPIRE is repaired only if another client happens to wait", async () => {
    const ours = await mortalLock({ leaseMs: 300 });
    const acquiring = rejection(ours.lock.acquire(name));
    const reply = ours.proxy.hold(/evalsha/i);
    await reply.reached;
    ours.proxy.cut();
    await acquiring;
    const left = await fixture.db.pttl(ourKey());
    expect(left === -2 || (left > 0 && left <= 300)).toBe(true);
  });

  it("seconds only: 1,050 ms become two seconds", async () => {
    await fixture.make().acquire(name, { leaseMs: 1_050, renew: false });
    expect(await fixture.db.pttl(ourKey())).toBeLessThanOrEqual(1_050);
  });

  it("the holder never learns that it lost the lock, and writes on", async () => {
    const next = redis.connect();
    const slow = await fixture.make().acquire(name, { leaseMs: 900 });
    await lapse(fixture.db, ourKey());
    const fresh = await fixture.on(next).acquire(name);
    expect(await guardedWrite("fresh", fresh.fencingToken)).toBe(true);
    expect(await aborted(slow.signal)).toMatchObject({ reason: "taken" });
    expect(() => slow.assertHeld()).toThrow(/was lost/);
    expect(await guardedWrite("slow", slow.fencingToken)).toBe(false);
  });

  it("a waiter puts its own limit on a holder's lock, which then vanishes unnoticed", async () => {
    const lock = fixture.make();
    const lease = await lock.acquire(name, { leaseMs: 60_000 });
    await rejection(fixture.on(redis.connect()).acquire(name, { leaseMs: 100, waitMs: 300 }));
    expect(await fixture.db.pttl(ourKey())).toBeGreaterThan(50_000);
    await eventually(async () => expect((await lock.inspect(name)).waiters).toBe(0));
    expect(await lease.release()).toBe("released");
  });
});
