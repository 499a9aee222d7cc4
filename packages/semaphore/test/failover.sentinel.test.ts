import { eventually, type RedisNode, useRedis } from "@kit/testing";
import { aborted, inStep, rejection } from "@tooling/vitest/helpers";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { PermitLostError, type Semaphore } from "../src/index.js";
import { owned, servesThrough } from "./failover-behaviour.js";
import { fixtureOf, enqueue, name, take } from "./harness.js";

const redis = useRedis(vitest, { mode: "sentinel" });
const fixture = fixtureOf(redis);

const allInStep = (): Promise<void> => inStep(redis.server.nodes[0]!, redis.server.replicas);

/** As if the last of what the master did had not reached its replicas when it died. */
const lostOnReplicas = async (...keys: readonly string[]): Promise<void> => {
  await allInStep();
  for (const replica of redis.server.replicas) {
    await replica.call("CONFIG", "SET", "replica-read-only", "no");
    await replica.call("DEL", ...keys);
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

const works = async (semaphore: Semaphore): Promise<void> => {
  await (await semaphore.acquire({ waitMs: 30_000 })).release();
};

describe("a semaphore whose master fails", () => {
  it("keeps its holders, and serves who waits in order, on clients that are borrowed and owned", async () => {
    await servesThrough(redis, fixture, [name, "another"], async () => {
      await allInStep();
      return await failOver();
    });
  });

  it("notifies each holder whose permit went with it, and counts only what is left", async () => {
    const semaphore = fixture.on(await owned(redis), { permits: 4, leaseMs: 8_000 });
    const held = await take(semaphore, 2, { weight: 2 });
    const { permits } = fixture.keysOf(name);
    await lostOnReplicas(permits);
    await failOver();
    for (const permit of held) expect(await aborted(permit.signal)).toBeInstanceOf(PermitLostError);
    const other = fixture.on(await owned(redis), { permits: 4 });
    const next = await other.acquire({ weight: 4, waitMs: 30_000 });
    expect((await other.inspect()).used).toBe(4);
    expect(await held[0]!.release()).toBe("not-held");
    expect((await other.inspect()).used).toBe(4);
    await next.release();
  });

  it("takes a waiter whose place was lost with it into the queue again, without an error", async () => {
    const [holding, waiting] = [fixture.on(await owned(redis)), fixture.on(await owned(redis))];
    const held = await take(holding, 2);
    const waiter = await enqueue(waiting, { waitMs: 60_000 });
    const { queue, ready, waiters } = fixture.keysOf(name);
    await lostOnReplicas(queue, ready, waiters);
    const master = await failOver();
    await eventually(async () => expect(await master.call("ZCARD", queue)).toBe(1), { timeoutMs: 20_000 });
    expect(waiter.isSettled).toBe(false);
    await held[0]!.release();
    await (await waiter.promise).release();
  });

  it("rejects in time, typed and not as if it were full, who asks while there is no master", async () => {
    const semaphore = fixture.on(await owned(redis), { deadlineMs: 500 });
    await works(semaphore);
    const [old] = redis.server.nodes as [RedisNode];
    await old.kill();
    redis.defer(() => old.start());
    expect(await rejection(semaphore.tryAcquire())).toMatchObject({ code: "KIT_UNAVAILABLE" });
    await eventually(() => works(semaphore), { timeoutMs: 30_000 });
  });
});

describe("a semaphore behind Sentinels", () => {
  it("does what it does on a single server", async () => {
    const group = fixture.on(await owned(redis), { permits: 3, permitsPerTenant: 2 });
    const permit = await group.acquire({ tenant: "a", weight: 2 });
    expect(await group.tryAcquire({ tenant: "a" })).toBeNull();
    const waiter = await enqueue(group, { tenant: "a" });
    expect(await group.inspect()).toMatchObject({ used: 2, waiters: 1 });
    await permit.extend();
    await permit.release();
    await (await waiter.promise).release();
    await group.setPermits(9);
    expect(await group.using(({ weight }) => weight, { tenant: "b" })).toBe(1);
  });
});
