import { eventually, FaultProxy, useRedis } from "@kit/testing";
import { aMonitor, callsOf, promptMs, timed, type Watched } from "@tooling/vitest/helpers";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import type { Lease, Lock } from "../src/index.js";
import { fixtureOf, enqueue, next } from "./harness.js";

const redis = useRedis(vitest);
const fixture = fixtureOf(redis);
const name = "chest";

/** Several clients, each with a lock that has its inbox open already. */
const warmLocks = async (count: number): Promise<Lock[]> => {
  const locks = Array.from({ length: count }, () => fixture.on(redis.connect()));
  for (const lock of locks) {
    const lease = await lock.acquire("warm-up");
    const waiter = await enqueue(lock, "warm-up");
    await lease.release();
    await (await waiter.promise).release();
  }
  return locks;
};

describe("contenders", () => {
  it("are kept apart, each with a larger fencing token than the one before", async () => {
    const locks = Array.from({ length: 4 }, () => fixture.on(redis.connect()));
    const counter = `${redis.prefix}:counter`;
    await fixture.db.set(counter, 0, "PX", 60_000);
    const fences: bigint[] = [];
    let inside = 0;
    let most = 0;
    const loop = async (lock: Lock): Promise<void> => {
      for (let round = 0; round < 10; round++)
        await lock.using(name, async ({ fencingToken }) => {
          most = Math.max(most, ++inside);
          fences.push(BigInt(fencingToken));
          const seen = Number(await fixture.db.get(counter));
          await fixture.db.set(counter, seen + 1, "PX", 60_000);
          inside--;
        });
    };
    await Promise.all(locks.flatMap((lock) => Array.from({ length: 8 }, () => loop(lock))));
    expect(most).toBe(1);
    expect(await fixture.db.get(counter)).toBe("320");
    expect(fences).toEqual(fences.toSorted((a, b) => (a < b ? -1 : 1)));
    expect(new Set(fences).size).toBe(320);
  });

  it("are granted the lock in the order in which they queued", async () => {
    const locks = await warmLocks(3);
    const holder = await locks[0]!.acquire(name);
    const order: number[] = [];
    const turns: Watched<Lease>[] = [];
    for (let turn = 0; turn < 60; turn++) {
      const waiter = await enqueue(locks[(turn * 7) % 3]!, name);
      turns.push(waiter);
      void waiter.promise.then((lease) => {
        order.push(turn);
        return lease.release();
      });
    }
    await holder.release();
    await Promise.all(turns.map(({ promise }) => promise));
    expect(order).toEqual(turns.map((_, turn) => turn));
  });

  it("share the lock evenly: of 64 loops none has more than 1.1 times the turns of another", async () => {
    const locks = await warmLocks(4);
    const turns = Array.from({ length: 64 }, () => 0);
    const wanted = 64 * 40;
    let total = 0;
    const loop = async (index: number): Promise<void> => {
      while (total < wanted)
        await locks[index % locks.length]!.using(name, () => {
          if (total++ < wanted) turns[index]!++;
        });
    };
    await Promise.all(turns.map((_, index) => loop(index)));
    expect(turns.reduce((sum, count) => sum + count, 0)).toBe(wanted);
    expect(Math.max(...turns) / Math.min(...turns)).toBeLessThanOrEqual(1.1);
  });
});

describe("what waiting costs", () => {
  it("is two commands per hand-off, however many wait", async () => {
    const locks = await warmLocks(4);
    const calls = new Map<string, number>();
    const monitor = await aMonitor(redis);
    monitor.on("monitor", (_: string, [command, script = ""]: string[]) => {
      if (command === "evalsha") calls.set(script, (calls.get(script) ?? 0) + 1);
    });
    const [turns, rounds] = [16, 20];
    const loop = async (lock: Lock): Promise<void> => {
      for (let round = 0; round < rounds; round++) await lock.using(name, () => fixture.db.ping());
    };
    await Promise.all(Array.from({ length: turns }, (_, index) => loop(locks[index % 4]!)));
    // One to ask and one to give back. A third script are the heartbeats, on a slow machine one now and then.
    await eventually(() => {
      const [asked, gaveBack, ...others] = [...calls.values()].sort((one, other) => other - one);
      expect([asked, gaveBack]).toEqual([turns * rounds, turns * rounds]);
      expect(others.length).toBeLessThanOrEqual(1);
      expect(others[0] ?? 0).toBeLessThan((turns * rounds) / 4);
    });
  });

  it("is one heartbeat for all waiters of a client in five seconds", async () => {
    const locks = await warmLocks(4);
    const holder = await locks[0]!.acquire(name, { renew: false, leaseMs: 60_000 });
    const waits = Array.from({ length: 1_000 }, (_, index) => locks[index % 4]!.acquire(name));
    for (const wait of waits) wait.catch(() => undefined);
    await fixture.untilWaiting(name, 1_000);
    await Promise.all(locks.map((lock) => lock.inspect(name)));
    const [node] = redis.server.nodes;
    const startedAt = performance.now();
    const before = await callsOf(node!, "evalsha");
    const heartbeats = await eventually(
      async () => {
        const calls = (await callsOf(node!, "evalsha")) - before;
        // Each beats within six seconds.
        if (calls < 4 || performance.now() - startedAt < 6_500) throw new Error("not every client has beaten yet");
        return calls;
      },
      { timeoutMs: 30_000 },
    );
    // At least four seconds from one to the next, over the time that it took to look; and one that finds no script.
    const most = 1 + Math.ceil((performance.now() - startedAt) / 4_000);
    expect(heartbeats).toBeLessThanOrEqual(4 * most);
    const first = next(locks[0]!, "acquired");
    await holder.release();
    expect(await first).toMatchObject({ name });
  });
});

describe("messages and replies that arrive out of order", () => {
  /** A lock whose answers come late as long as that is wanted, with its inbox open, and another without delays. */
  const delayed = async (): Promise<{ slow: Lock; quick: Lock; proxy: FaultProxy }> => {
    const proxy = await FaultProxy.start({ port: redis.server.nodes[0]!.port });
    redis.defer(() => proxy.close());
    const slow = fixture.on(redis.connect({ port: proxy.port }), { deadlineMs: 5_000 });
    const quick = fixture.on(redis.connect());
    for (const lock of [slow, quick]) {
      const lease = await lock.acquire("warm-up");
      await lock.acquire("warm-up", { waitMs: 30 }).catch(() => undefined);
      await lease.release();
    }
    return { slow, quick, proxy };
  };

  it("accepts a grant that is pushed before the reply that it is in the queue", async () => {
    const { slow, quick, proxy } = await delayed();
    const holder = await quick.acquire(name, { leaseMs: 20_000 });
    proxy.down.latencyMs = 400;
    const waiting = slow.acquire(name, { leaseMs: 20_000, renew: false });
    await fixture.untilWaiting(name, 1);
    proxy.down.latencyMs = 0;
    await holder.release();
    const { awakeMs, value: lease } = await timed(waiting);
    expect(awakeMs).toBeLessThan(promptMs);
    expect(await lease.release()).toBe("released");
  });

  it("does not take a release for a loss when its answer was lost and another was quicker than its repetition", async () => {
    const { slow, quick, proxy } = await delayed();
    const lease = await slow.acquire(name);
    proxy.down.cutNext = 1;
    const releasing = lease.release();
    const key = fixture.keysOf(name).lease;
    await eventually(async () => expect(await fixture.db.exists(key)).toBe(0), { intervalMs: 1 });
    const next = await quick.acquire(name);
    expect(await releasing).toBe("released");
    expect(await next.release()).toBe("released");
  });
});
