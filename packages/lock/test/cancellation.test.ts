import { getEventListeners } from "node:events";
import { KitError } from "@kit/core";
import { eventually, FaultProxy, useRedis } from "@kit/testing";
import { atBest, promptMs, rejection, sentTwice, stateOf, timed } from "@tooling/vitest/helpers";
import { Redis } from "ioredis";
import * as vitest from "vitest";
import { beforeEach, describe, expect, it } from "vitest";
import { LockTimeoutError, type Lock, type LockOptions } from "../src/index.js";
import { fixtureOf, enqueue } from "./harness.js";

const redis = useRedis(vitest);
const fixture = fixtureOf(redis);
const name = "chest";
const reason = new Error("never mind");

/** Seeded, so that a failing run can be had again. */
const randomOf = (seed: number): (() => number) => {
  let state = seed;
  return () => {
    state = (state * 1_664_525 + 1_013_904_223) % 2 ** 32;
    return state / 2 ** 32;
  };
};

const isFree = async (): Promise<void> => {
  await eventually(async () => {
    const { lease, queue, waiters } = await stateOf(fixture.db, fixture.keysOf(name));
    expect([lease.type, queue.type]).toEqual(["none", "none"]);
    expect(Object.keys((waiters.value ?? {}) as object).filter((field) => field !== "#")).toEqual([]);
  });
};

describe("giving up in the middle of contention", () => {
  const storm = async (
    wait: (lock: Lock, ms: number) => Promise<unknown>,
  ): Promise<{ held: number; gaveUp: number }> => {
    const locks = Array.from({ length: 3 }, () => fixture.on(redis.connect()));
    // A caller that gives up before there is a connection is told that.
    await Promise.all(locks.map((lock) => lock.inspect(name)));
    const random = randomOf(20_261_120);
    let [inside, most, held, gaveUp] = [0, 0, 0, 0];
    const loop = async (lock: Lock): Promise<void> => {
      // However quick the machine is: until enough of both have happened.
      for (let round = 0; round < 15 || (round < 1_000 && Math.min(held, gaveUp) <= 20); round++) {
        const outcome = await wait(lock, random() < 0.5 ? Math.floor(random() * 12) : 20_000).catch(
          (error: unknown) => error,
        );
        if (outcome instanceof Error) {
          if (outcome !== reason && !(outcome instanceof LockTimeoutError)) throw outcome;
          gaveUp++;
          continue;
        }
        const lease = outcome as Awaited<ReturnType<Lock["acquire"]>>;
        most = Math.max(most, ++inside);
        await fixture.db.ping();
        held++;
        inside--;
        expect(await lease.release()).toBe("released");
      }
    };
    await Promise.all(locks.flatMap((lock) => Array.from({ length: 10 }, () => loop(lock))));
    expect(most).toBe(1);
    return { held, gaveUp };
  };

  it("leaves no lease and no place in the queue behind, by AbortSignal", async () => {
    const { held, gaveUp } = await storm(async (lock, ms) => {
      const controller = new AbortController();
      const timer = setTimeout(() => controller.abort(reason), ms);
      return await lock.acquire(name, { signal: controller.signal }).finally(() => clearTimeout(timer));
    });
    expect(Math.min(held, gaveUp)).toBeGreaterThan(20);
    await isFree();
  });

  it("leaves no lease and no place in the queue behind, by waitMs", async () => {
    const { held, gaveUp } = await storm((lock, ms) => lock.acquire(name, { waitMs: ms }));
    expect(Math.min(held, gaveUp)).toBeGreaterThan(20);
    await isFree();
  });
});

describe("an AbortSignal", () => {
  it("carries one listener for a hundred waiters, and none after them", async () => {
    const lock = fixture.make();
    const lease = await lock.acquire(name);
    const controller = new AbortController();
    const { signal } = controller;
    const waits = Array.from({ length: 100 }, () => lock.acquire(name, { signal }));
    const outcomes = Promise.allSettled(waits);
    await fixture.untilWaiting(name, 100);
    expect(getEventListeners(signal, "abort")).toHaveLength(1);
    controller.abort(reason);
    expect((await outcomes).every((outcome) => outcome.status === "rejected" && outcome.reason === reason)).toBe(true);
    expect(getEventListeners(signal, "abort")).toHaveLength(0);
    await fixture.untilWaiting(name, 0);
    await lease.release();
  });

  it("has no influence on a lease once it is held", async () => {
    const lock = fixture.make();
    const controller = new AbortController();
    const lease = await lock.acquire(name, { signal: controller.signal });
    controller.abort(reason);
    await lease.extend();
    expect([lease.isHeld, lease.signal.aborted]).toEqual([true, false]);
    expect(await lease.release()).toBe("released");
  });
});

describe("an acquire that is given up while it travels", () => {
  let proxy: FaultProxy;
  beforeEach(async () => {
    proxy = await FaultProxy.start({ port: redis.server.nodes[0]!.port });
    redis.defer(() => proxy.close());
  });
  const through = (options?: LockOptions): Lock => {
    const client = new Redis({ port: proxy.port, disconnectTimeout: 50, retryStrategy: () => 20 });
    client.on("error", () => undefined);
    redis.defer(() => client.disconnect());
    return fixture.on(client, options);
  };

  it("rejects at once, and what it was granted is given back", async () => {
    const lock = through();
    await lock.inspect("warm-up");
    await lock.tryAcquire("warm-up");
    proxy.up.latencyMs = 1_500;
    const controller = new AbortController();
    const tried = rejection(lock.tryAcquire(name, { signal: controller.signal }));
    setImmediate(() => setImmediate(() => controller.abort(reason)));
    expect(await tried).toBe(reason);
    // It is still on its way to the server.
    const granted = (): Promise<number> => fixture.db.exists(fixture.keysOf(name).fence);
    expect(await granted()).toBe(0);
    await eventually(async () => expect(await granted()).toBe(1));
    await isFree();
  });

  it("rejects at once when it would have queued, and the place in the queue is given back", async () => {
    const holder = await fixture.make().acquire(name);
    const lock = through();
    const warm = await enqueue(lock, name, { waitMs: 60_000 });
    proxy.up.latencyMs = 1_500;
    const controller = new AbortController();
    const waiting = rejection(lock.acquire(name, { signal: controller.signal }));
    setImmediate(() => setImmediate(() => controller.abort(reason)));
    expect(await waiting).toBe(reason);
    const tickets = (): Promise<string | null> => fixture.db.hget(fixture.keysOf(name).waiters, "#");
    expect(await tickets()).toBe("1");
    // It does come to stand in the queue, by its ticket, and leaves it again.
    await eventually(async () => expect(await tickets()).toBe("2"));
    await fixture.untilWaiting(name, 1);
    proxy.up.latencyMs = 0;
    await holder.release();
    await (await warm.promise).release();
  });

  it("passes a grant on that crosses its abort", async () => {
    const near = fixture.make();
    // Not only after the two seconds for which it was granted.
    await atBest(1_700, async () => {
      const holder = await near.acquire(name);
      const controller = new AbortController();
      const crossing = await enqueue(through(), name, { signal: controller.signal });
      const behind = await enqueue(near, name);
      proxy.down.latencyMs = 300;
      await holder.release();
      expect(await near.inspect(name)).toMatchObject({ state: "held", waiters: 1 });
      controller.abort(reason);
      expect(await rejection(crossing.promise)).toBe(reason);
      const { awakeMs, value: lease } = await timed(behind.promise);
      proxy.heal();
      await lease.release();
      return awakeMs;
    });
    await isFree();
  });

  it("is undone also when the undoing itself is lost", async () => {
    const near = fixture.make();
    const holder = await near.acquire(name);
    const controller = new AbortController();
    const waiter = await enqueue(through(), name, { signal: controller.signal });
    proxy.up.cutNext = 1;
    controller.abort(reason);
    expect(await rejection(waiter.promise)).toBe(reason);
    await eventually(() => expect(proxy.stats.droppedBytes).toBeGreaterThan(0));
    await fixture.untilWaiting(name, 0);
    await holder.release();
    await isFree();
  });

  it("is undone also when the reply to the undoing is lost", async () => {
    const near = fixture.make();
    const holder = await near.acquire(name);
    const controller = new AbortController();
    const waiter = await enqueue(through(), name, { signal: controller.signal });
    proxy.down.cutNext = 1;
    controller.abort(reason);
    expect(await rejection(waiter.promise)).toBe(reason);
    await fixture.untilWaiting(name, 0);
    await holder.release();
    await isFree();
  });

  it("leaves no lease behind when a copy of it comes after it was released", async () => {
    const client = new Redis({ port: proxy.port, disconnectTimeout: 50, retryStrategy: () => 20 });
    client.on("error", () => undefined);
    redis.defer(() => client.disconnect());
    // Long enough that a copy which a busy machine delays is not refused.
    const lock = fixture.on(client, { deadlineMs: 3_000 });
    // From here on the server has the scripts.
    await (await lock.acquire(name)).release();
    const lease = await sentTwice(proxy, client, 600, () => lock.acquire(name, { leaseMs: 120_000 }));
    expect(await lease.release()).toBe("released");
    const held = (): Promise<number> => fixture.db.exists(fixture.keysOf(name).lease);
    expect(await held()).toBe(0);
    await eventually(async () => expect(await held()).toBe(1));
    // When the server takes no more copies; not after a whole lease.
    await eventually(async () => expect(await held()).toBe(0));
    await isFree();
  });

  it.each([
    ["before the first command", async (lock: Lock) => await lock.inspect("warm-up")],
    ["before the first wait", async (lock: Lock) => await lock.tryAcquire("warm-up")],
    ["after the first wait", async (lock: Lock) => await rejection(lock.acquire("warm-up", { waitMs: 50 }))],
  ])("waits no longer than waitMs, also for a server that says nothing: %s", async (_when, warm) => {
    const lock = through({ deadlineMs: 20_000 });
    await fixture.make().acquire("warm-up");
    await warm(lock);
    proxy.down.hole = true;
    const { ms, awakeMs, value } = await timed(() => rejection(lock.acquire(name, { waitMs: 200 })));
    expect(KitError.is(value)).toBe(true);
    expect(ms).toBeGreaterThan(190);
    expect(awakeMs).toBeLessThan(promptMs);
    proxy.heal();
    await isFree();
  });
});

describe("an acquire that was abandoned during an outage", () => {
  it.each([
    ["a first command", false],
    ["a later command", true],
  ])("rejects at once and never runs when the server is back: %s", async (_what, warm) => {
    const client = redis.connect({ retryStrategy: () => 20 });
    // At once: the deadline is longer than a test may take.
    const lock = fixture.on(client, { deadlineMs: 600_000 });
    if (warm) await lock.tryAcquire("warm-up");
    else await lock.inspect(name);
    const [node] = redis.server.nodes;
    await node!.kill();
    await eventually(() => expect(client.status).not.toBe("ready"));
    const controller = new AbortController();
    const waiting = rejection(lock.acquire(name, { signal: controller.signal }));
    const tried = rejection(lock.tryAcquire(name, { signal: controller.signal }));
    setImmediate(() => controller.abort(reason));
    expect(await Promise.all([waiting, tried])).toEqual([reason, reason]);
    await node!.start();
    await eventually(() => expect(client.status).toBe("ready"));
    // Behind whatever the client may still have had to send.
    await client.ping();
    await eventually(async () => expect(await redis.keys()).toEqual([]));
  });

  it("is refused by the server when it arrives too late", async () => {
    const lock = fixture.make({ deadlineMs: 1_000 });
    // From here on the server's clock is known.
    await (await lock.acquire("warm-up")).release();
    const [node] = redis.server.nodes;
    node!.pause();
    const error = await rejection(lock.tryAcquire(name));
    // Goes on until well after the time for which anybody waited for the first.
    await rejection(lock.tryAcquire("another"));
    node!.resume();
    expect(error).toMatchObject({ code: "KIT_UNKNOWN_OUTCOME" });
    await redis.client.ping();
    await eventually(async () => expect((await lock.inspect(name)).fencingToken).toBeNull());
    await isFree();
  });

  it("never runs when the caller's client gave up on it by commandTimeout", async () => {
    const lock = fixture.on(redis.connect({ commandTimeout: 300 }), { deadlineMs: 700 });
    await lock.tryAcquire("warm-up");
    await redis.server.call("CLIENT", "PAUSE", "1200", "ALL");
    expect(await rejection(lock.tryAcquire(name))).toMatchObject({
      code: "KIT_UNKNOWN_OUTCOME",
      op: expect.any(String),
    });
    // Answered only after the pause, when all that was sent has run.
    await redis.client.ping();
    await isFree();
    expect((await lock.inspect(name)).fencingToken).toBeNull();
  });

  it("is one acquire, however often the caller's client gave up on it by commandTimeout", async () => {
    const lock = fixture.on(redis.connect({ commandTimeout: 300 }));
    await lock.tryAcquire("warm-up");
    await redis.server.call("CLIENT", "PAUSE", "800", "ALL");
    const lease = await lock.tryAcquire(name);
    expect(await lock.inspect(name)).toMatchObject({ state: "held", fencingToken: lease?.fencingToken });
    expect(await lease?.release()).toBe("released");
    await isFree();
  });
});
