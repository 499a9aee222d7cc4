import { KitError } from "@kit/core";
import { eventually, FaultProxy, useRedis } from "@kit/testing";
import { atBest, promptMs, rejection, sentTwice, timed } from "@tooling/vitest/helpers";
import { Redis } from "ioredis";
import * as vitest from "vitest";
import { beforeEach, describe, expect, it } from "vitest";
import type { Semaphore } from "../src/index.js";
import { fixtureOf, enqueue, type MadeWith, name } from "./harness.js";

const redis = useRedis(vitest);
const fixture = fixtureOf(redis);
const reason = new Error("never mind");

const isFree = async (): Promise<void> => {
  await eventually(async () => {
    const { permits, queue, ready, waiters } = fixture.keysOf(name);
    expect(await fixture.db.exists(permits, queue, ready)).toBe(0);
    expect((await fixture.db.hkeys(waiters)).filter((field) => field !== "#")).toEqual([]);
  });
};

describe("an acquire that is given up while it travels", () => {
  let proxy: FaultProxy;
  beforeEach(async () => {
    proxy = await FaultProxy.start({ port: redis.server.nodes[0]!.port });
    redis.defer(() => proxy.close());
  });
  const clientThrough = (): Redis => {
    const client = new Redis({ port: proxy.port, disconnectTimeout: 50, retryStrategy: () => 20 });
    client.on("error", () => undefined);
    redis.defer(() => client.disconnect());
    return client;
  };
  const through = (options: MadeWith = {}): Semaphore => fixture.on(clientThrough(), { permits: 1, ...options });
  const near = (): Semaphore => fixture.make({ permits: 1 });

  it("rejects at once, and the permit that it was granted is given back", async () => {
    const semaphore = through();
    await (await semaphore.acquire()).release();
    await fixture.db.del(fixture.keysOf(name).meta);
    proxy.up.latencyMs = 1_500;
    const controller = new AbortController();
    const tried = rejection(semaphore.tryAcquire({ signal: controller.signal }));
    setImmediate(() => setImmediate(() => controller.abort(reason)));
    expect(await tried).toBe(reason);
    // It is still on its way to the server.
    const granted = (): Promise<number> => fixture.db.exists(fixture.keysOf(name).meta);
    expect(await granted()).toBe(0);
    await eventually(async () => expect(await granted()).toBe(1));
    await isFree();
  });

  it("passes a grant on that crosses its abort", async () => {
    const semaphore = near();
    // Not only after the two seconds for which it was granted.
    await atBest(1_700, async () => {
      const holder = await semaphore.acquire();
      const controller = new AbortController();
      const crossing = await enqueue(through(), { signal: controller.signal });
      const behind = await enqueue(semaphore);
      proxy.down.latencyMs = 300;
      await holder.release();
      expect(await semaphore.inspect()).toMatchObject({ used: 1, waiters: 1 });
      controller.abort(reason);
      expect(await rejection(crossing.promise)).toBe(reason);
      const { awakeMs, value } = await timed(behind.promise);
      proxy.heal();
      await value.release();
      return awakeMs;
    });
    await isFree();
  });

  it.each(["up", "down"] as const)("is undone also when the undoing is lost on its way %s", async (way) => {
    const holder = await near().acquire();
    const controller = new AbortController();
    const waiter = await enqueue(through(), { signal: controller.signal });
    proxy[way].cutNext = 1;
    controller.abort(reason);
    expect(await rejection(waiter.promise)).toBe(reason);
    await fixture.untilWaiting(name, 0);
    await holder.release();
    await isFree();
  });

  describe("of which a copy comes after its end", () => {
    let client: Redis;
    let semaphore: Semaphore;
    beforeEach(async () => {
      client = clientThrough();
      // Long enough that a copy which a busy machine delays is not refused.
      semaphore = fixture.on(client, { permits: 1, deadlineMs: 3_000 });
      // From here on the server has the scripts, and the client its inbox.
      const permit = await semaphore.acquire();
      await rejection(semaphore.acquire({ waitMs: 50 }));
      await fixture.untilWaiting(name, 0);
      await permit.release();
    });
    /** The copy makes a key, which goes when the server takes no more copies: not after a whole lease, or the 15 s of a waiter. */
    const comesAndGoes = async (key: string): Promise<void> => {
      await eventually(async () => expect(await fixture.db.exists(key)).toBe(0));
      await eventually(async () => expect(await fixture.db.exists(key)).toBe(1));
      const { awakeMs } = await timed(eventually(async () => expect(await fixture.db.exists(key)).toBe(0)));
      expect(awakeMs).toBeLessThan(14_000);
    };

    it("holds nothing when the permit was given back before", async () => {
      const permit = await sentTwice(proxy, client, 600, () => semaphore.acquire({ leaseMs: 120_000 }));
      expect(await permit.release()).toBe("released");
      await comesAndGoes(fixture.keysOf(name).permits);
      await isFree();
    });

    it("stands in no queue when its caller had given up before", async () => {
      const holder = await near().acquire();
      const controller = new AbortController();
      const { signal } = controller;
      const waiting = rejection(sentTwice(proxy, client, 600, () => semaphore.acquire({ signal })));
      await fixture.untilWaiting(name, 1);
      controller.abort(reason);
      expect(await waiting).toBe(reason);
      await comesAndGoes(fixture.keysOf(name).queue);
      await holder.release();
      await isFree();
    });
  });

  it("waits no longer than waitMs, also for a server that says nothing", async () => {
    const semaphore = through({ deadlineMs: 20_000 });
    await semaphore.tryAcquire().then((permit) => permit?.release());
    proxy.down.hole = true;
    const { ms, awakeMs, value } = await timed(() => rejection(semaphore.acquire({ waitMs: 200 })));
    expect(KitError.is(value)).toBe(true);
    expect(ms).toBeGreaterThan(190);
    expect(awakeMs).toBeLessThan(promptMs);
    proxy.heal();
    await isFree();
  });
});

describe("an acquire that was abandoned during an outage", () => {
  it("rejects at once and never runs when the server is back", async () => {
    const client = redis.connect({ retryStrategy: () => 20 });
    // At once: the deadline is longer than a test may take.
    const semaphore = fixture.on(client, { deadlineMs: 600_000 });
    await semaphore.inspect();
    const [node] = redis.server.nodes;
    await node!.kill();
    await eventually(() => expect(client.status).not.toBe("ready"));
    const controller = new AbortController();
    const { signal } = controller;
    const waiting = Promise.all([
      rejection(semaphore.acquire({ signal })),
      rejection(semaphore.tryAcquire({ signal })),
    ]);
    setImmediate(() => controller.abort(reason));
    expect(await waiting).toEqual([reason, reason]);
    await node!.start();
    await eventually(() => expect(client.status).toBe("ready"));
    // Behind whatever the client may still have had to send.
    await client.ping();
    await eventually(async () => expect(await redis.keys()).toEqual([]));
  });

  it("is refused by the server when it arrives too late", async () => {
    const semaphore = fixture.make({ deadlineMs: 1_000 });
    // From here on the server's clock is known.
    await (await semaphore.acquire()).release();
    const { meta } = fixture.keysOf(name);
    // Each grant gives it its seven days again.
    await fixture.db.pexpire(meta, 60_000);
    const [node] = redis.server.nodes;
    node!.pause();
    expect(await rejection(semaphore.tryAcquire({ weight: 2 }))).toMatchObject({ code: "KIT_UNKNOWN_OUTCOME" });
    // Goes on until well after the time for which anybody waited for the first.
    await rejection(fixture.make({ name: "another", deadlineMs: 1_000 }).tryAcquire());
    node!.resume();
    await redis.client.ping();
    await isFree();
    expect(await fixture.db.pttl(meta)).toBeLessThanOrEqual(60_000);
  });

  it("is one acquire, however often the caller's client gave up on it by commandTimeout", async () => {
    const semaphore = fixture.on(redis.connect({ commandTimeout: 300 }), { permits: 9 });
    await (await semaphore.acquire()).release();
    await redis.server.call("CLIENT", "PAUSE", "800", "ALL");
    const permit = await semaphore.tryAcquire({ weight: 4 });
    expect(await semaphore.inspect()).toMatchObject({ used: 4, holders: [{ weight: 4 }] });
    expect(await permit?.release()).toBe("released");
    await isFree();
  });
});
