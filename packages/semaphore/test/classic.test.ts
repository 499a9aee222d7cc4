import { eventually, useRedis } from "@kit/testing";
import { aborted, closedPort, promptMs, rejection, RequestProxy, timed, watched } from "@tooling/vitest/helpers";
import { Redis } from "ioredis";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import type { Semaphore } from "../src/index.js";
import { clockAhead, fixtureOf, enqueue, type MadeWith, name } from "./harness.js";

/** Each test shows that this semaphore does not have a known defect of those in "Redis in Action". The name is the defect. */
const redis = useRedis(vitest, { permanentKeys: ["*"] });
const fixture = fixtureOf(redis);
const ourHolders = async (): Promise<string[]> =>
  (await fixture.db.zrange(fixture.keysOf(name).permits, "0", "-1")).map((permitRecord) => permitRecord.split("|")[0]!);

const hourMs = 3_600_000;

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
const mortalSemaphore = async (options?: MadeWith): Promise<{ semaphore: Semaphore; proxy: RequestProxy }> => {
  const { client, proxy } = await mortal();
  // The scripts are known to the server from here on.
  await (await fixture.on(client, { name: "warm-up" }).acquire()).release();
  proxy.reset();
  return { semaphore: fixture.on(client, options), proxy };
};

describe("defects of the classic semaphore, absent here", () => {
  it("a client whose clock is 10 ms slow steals a permit", async () => {
    const permit = await fixture.make({ permits: 1 }).acquire();
    const slow = await fixture.spawn({ permits: 1 }, clockAhead(-10));
    expect(await slow.tryAcquire()).toBeNull();
    expect(await ourHolders()).toEqual([permit.token]);
  });

  it("a client whose clock is fast by the time limit removes everybody", async () => {
    const permit = await fixture.make({ permits: 1 }).acquire();
    const fast = await fixture.spawn({ permits: 1 }, clockAhead(hourMs));
    expect(await fast.tryAcquire()).toBeNull();
    await permit.extend();
    expect(await permit.release()).toBe("released");
  });

  it("a client whose clock is slow by the time limit is removed by everybody", async () => {
    const peer = await fixture.spawn({ permits: 1 }, clockAhead(-hourMs));
    const permit = await peer.acquire();
    expect(await fixture.make({ permits: 1 }).tryAcquire()).toBeNull();
    expect([await peer.isHeld(permit), await ourHolders()]).toEqual([true, [permit.token]]);
  });

  it("it fails immediately, however soon a permit is free", async () => {
    const semaphore = fixture.make({ permits: 1 });
    const permit = await semaphore.acquire();
    const waiter = await enqueue(semaphore);
    await permit.release();
    expect((await waiter.promise).isHeld).toBe(true);
  });
});

describe("defects of the classic fair semaphore, absent here", () => {
  it("between the number and the entry another comes in, and both are within the limit", async () => {
    const ours = await mortalSemaphore({ permits: 1 });
    const held = ours.proxy.hold(/evalsha/i);
    const early = watched(ours.semaphore.acquire());
    await held.reached;
    const permit = await fixture.make({ permits: 1 }).acquire();
    held.release();
    await fixture.untilWaiting(name, 1);
    expect([early.isSettled, await ourHolders()]).toEqual([false, [permit.token]]);
    await permit.release();
    await early.promise;
  });

  it("a later caller may be first, because there is no queue", async () => {
    const semaphore = fixture.make({ permits: 1 });
    const permit = await semaphore.acquire();
    const first = await enqueue(fixture.on(redis.connect(), { permits: 1 }));
    const late = await enqueue(semaphore);
    await permit.release();
    const next = await first.promise;
    expect(late.isSettled).toBe(false);
    await next.release();
    await late.promise;
  });
});

describe("defects of the classic refresh, absent here", () => {
  it("a refresh brings a lost permit back, and a crash leaves it there", async () => {
    const ours = await mortalSemaphore({ permits: 1 });
    const permit = await ours.semaphore.acquire({ renew: false });
    await fixture.expire(permit);
    const successor = await fixture.make({ permits: 1 }).acquire();
    const seen: string[][] = [];
    ours.proxy.before = async () => void seen.push(await ourHolders());
    expect(await rejection(permit.extend())).toMatchObject({ code: "KIT_PERMIT_LOST", reason: "expired" });
    // One request, before and after which it is not there.
    expect([...seen, await ourHolders()]).toEqual([[successor.token], [successor.token]]);
  });

  it("there is no automatic renewal: a permit that is in use expires", async () => {
    const semaphore = fixture.make({ permits: 1, leaseMs: 2_400 });
    const permit = await semaphore.acquire();
    const end = async (): Promise<number> => {
      const [, score] = await fixture.db.zrange(fixture.keysOf(name).permits, "0", "-1", "WITHSCORES");
      return Number(score);
    };
    const firstEnd = await end();
    await eventually(async () => expect(await end()).toBeGreaterThan(firstEnd + 2_400));
    expect([permit.isHeld, await semaphore.tryAcquire()]).toEqual([true, null]);
  });

  it("the holder learns that it lost its permit only when it asks", async () => {
    const permit = await fixture.make({ permits: 1, leaseMs: 900 }).acquire();
    await fixture.expire(permit);
    expect(await aborted(permit.signal)).toMatchObject({ code: "KIT_PERMIT_LOST", reason: "expired" });
    expect(() => permit.assertHeld()).toThrow(/was lost/);
  });
});

describe("defects of the classic acquire with a lock, absent here", () => {
  it("one crash closes the semaphore forever", async () => {
    const ours = await mortalSemaphore({ permits: 1, leaseMs: 300 });
    await ours.proxy.crashAt(/evalsha/i, ours.semaphore.acquire());
    const holder = await mortalSemaphore({ permits: 1, leaseMs: 300 });
    await holder.semaphore.acquire();
    holder.proxy.cut();
    const { awakeMs, value } = await timed(fixture.make({ permits: 1 }).acquire({ waitMs: 10_000 }));
    expect(awakeMs).toBeLessThan(promptMs);
    expect(value.isHeld).toBe(true);
  });

  it('"lock busy" and "full" look the same', async () => {
    // Nobody is turned away because another is asking; full is null, and that nobody could be asked is an error.
    const semaphore = fixture.make({ permits: 2 });
    const crowd = await Promise.all([semaphore, fixture.on(redis.connect())].map((one) => one.tryAcquire()));
    expect(crowd.map((permit) => permit?.isHeld)).toEqual([true, true]);
    expect(await semaphore.tryAcquire()).toBeNull();
    const nowhere = redis.connect({ port: closedPort, retryStrategy: () => 1_000 });
    const unasked = fixture.on(nowhere, { deadlineMs: 200 });
    expect(await rejection(unasked.tryAcquire())).toMatchObject({ code: "KIT_UNAVAILABLE" });
  });

  it("six round trips to acquire, and one to release", async () => {
    const ours = await mortalSemaphore({ permits: 1 });
    const permit = await ours.semaphore.acquire();
    expect(ours.proxy.requests).toBe(1);
    await permit.release();
    expect(ours.proxy.requests).toBe(2);
  });
});
