import { eventually, type RedisNode, useRedis } from "@kit/testing";
import { aborted, inStep, rejection } from "@tooling/vitest/helpers";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { type Lock, LockLostError } from "../src/index.js";
import { owned, servesThrough } from "./failover-behaviour.js";
import { fixtureOf, enqueue } from "./harness.js";

const redis = useRedis(vitest, { mode: "sentinel" });
const fixture = fixtureOf(redis);
const name = "chest";

const allInStep = (): Promise<void> => inStep(redis.server.nodes[0]!, redis.server.replicas);

/** As if the last of what the master did had not reached its replicas when it died. */
const lostOnReplicas = async (...commands: readonly string[][]): Promise<void> => {
  await allInStep();
  for (const replica of redis.server.replicas) {
    await replica.call("CONFIG", "SET", "replica-read-only", "no");
    for (const command of commands) await replica.call(...command);
  }
};

/** Kills the master, and waits for the next. The old one comes back before the test ends. */
const failOver = async (): Promise<RedisNode> => {
  const [old] = redis.server.nodes as [RedisNode];
  await old.kill();
  redis.defer(() => old.start());
  await eventually(async () => expect(await redis.server.master()).not.toBe(old), { timeoutMs: 30_000 });
  return redis.server.master();
};

const works = async (lock: Lock): Promise<void> => {
  await (await lock.acquire("afterwards", { waitMs: 30_000 })).release();
};

describe("a lock whose master fails", () => {
  it("keeps its holders, and serves who waits in order, on clients that are borrowed and owned", async () => {
    await servesThrough(redis, fixture, [name, "another"], async () => {
      await allInStep();
      return await failOver();
    });
  });

  it("notifies the holder whose lease went with it, and grants the next a larger fencing token", async () => {
    const holding = fixture.on(await owned(redis), { leaseMs: 8_000 });
    const other = fixture.on(await owned(redis));
    const held = await holding.acquire(name);
    const { lease, fence } = fixture.keysOf(name);
    await lostOnReplicas(["DEL", lease, fence]);
    await failOver();
    expect(await aborted(held.signal)).toBeInstanceOf(LockLostError);
    const next = await other.acquire(name, { waitMs: 30_000 });
    expect(BigInt(next.fencingToken)).toBeGreaterThan(BigInt(held.fencingToken));
    expect(await held.release()).toBe("not-held");
    expect(next.isHeld).toBe(true);
    await next.release();
  });

  it("hands out larger fencing tokens also when the last one was ahead of the new master's clock", async () => {
    const lock = fixture.on(await owned(redis));
    const { fence } = fixture.keysOf(name);
    const before = await lock.acquire(name);
    await before.release();
    await allInStep();
    // As from a clock that was an hour ahead.
    const ahead = (BigInt(before.fencingToken) + 3_600_000_000n).toString();
    const [master] = redis.server.nodes as [RedisNode];
    await master.call("SET", fence, `1:${ahead}`, "PX", "600000");
    await allInStep();
    const granted = await lock.acquire(name);
    expect(BigInt(granted.fencingToken)).toBe(BigInt(ahead) + 1n);
    await allInStep();
    await failOver();
    await granted.release();
    const next = await lock.acquire(name, { waitMs: 30_000 });
    expect(BigInt(next.fencingToken)).toBeGreaterThan(BigInt(granted.fencingToken));
    await next.release();
  });

  it("takes a waiter whose place was lost with it into the queue again, without an error", async () => {
    const [holding, waiting] = [fixture.on(await owned(redis)), fixture.on(await owned(redis))];
    const held = await holding.acquire(name);
    const waiter = await enqueue(waiting, name, { waitMs: 60_000 });
    const { queue, waiters } = fixture.keysOf(name);
    await lostOnReplicas(["DEL", queue, waiters]);
    const master = await failOver();
    await eventually(async () => expect(await master.call("ZCARD", queue)).toBe(1), { timeoutMs: 20_000 });
    expect(waiter.isSettled).toBe(false);
    await held.release();
    await (await waiter.promise).release();
  });

  it("rejects in time, typed, who asks while there is no master", async () => {
    const lock = fixture.on(await owned(redis), { deadlineMs: 500 });
    await works(lock);
    const [old] = redis.server.nodes as [RedisNode];
    await old.kill();
    redis.defer(() => old.start());
    expect(await rejection(lock.acquire(name, { waitMs: 0 }))).toMatchObject({ code: "KIT_UNAVAILABLE" });
    await eventually(() => works(lock), { timeoutMs: 30_000 });
  });
});

describe("a lock whose master is stopped and goes on", () => {
  it("is held by one at a time by the word of the new master, and the old one grants nothing to our clients", async () => {
    const [holding, waiting] = [fixture.on(await owned(redis)), fixture.on(await owned(redis))];
    const idle = fixture.on(await owned(redis));
    await works(idle);
    const held = await holding.acquire(name);
    const waiter = await enqueue(waiting, name, { waitMs: 60_000 });
    await allInStep();
    const [old] = redis.server.nodes as [RedisNode];
    const pausedAt = performance.now();
    old.pause();
    await eventually(async () => expect(await redis.server.master()).not.toBe(old), { timeoutMs: 30_000 });
    const master = await redis.server.master();
    await eventually(() => expect(performance.now() - pausedAt).toBeGreaterThan(6_000), { timeoutMs: 10_000 });
    old.resume();
    const scripts = async (node: RedisNode): Promise<number> =>
      Number(/cmdstat_evalsha:calls=(\d+)/.exec(String(await node.call("INFO", "commandstats")))?.[1] ?? 0);
    // It answers once it has read all that stood in its sockets.
    await old.call("PING");
    const before = await scripts(old);
    const other = await idle.tryAcquire("other");
    expect(await master.call("EXISTS", fixture.keysOf("other").lease)).toBe(1);
    await other?.release();
    expect(held.isHeld).toBe(true);
    await held.release();
    const next = await waiter.promise;
    expect(BigInt(next.fencingToken)).toBeGreaterThan(BigInt(held.fencingToken));
    await next.release();
    // It took none of all that.
    expect(await scripts(old)).toBe(before);
  });
});

describe("a lock behind Sentinels", () => {
  it("does what it does on a single server", async () => {
    const lock = fixture.on(await owned(redis));
    const lease = await lock.acquire(name);
    expect(await lock.tryAcquire(name)).toBeNull();
    const waiter = await enqueue(lock, name);
    expect(await lock.inspect(name)).toMatchObject({ waiters: 1 });
    await lease.extend();
    await lease.release();
    await (await waiter.promise).release();
    expect(await lock.using(name, ({ fencingToken }) => fencingToken)).toMatch(/^\d+$/);
  });
});
