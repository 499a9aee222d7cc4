import { connect, type Connection } from "@kit/core";
import { eventually, type RedisMode, type RedisNode, type TestRedis } from "@kit/testing";
import { expect } from "vitest";
import type { Lock } from "../src/index.js";
import { enqueue, type LockFixture } from "./harness.js";

/** A client that kit made, for one test. */
export const owned = async (redis: TestRedis<RedisMode>): Promise<Connection> => {
  const client = await connect({ url: redis.url, deadlineMs: 10_000 });
  redis.defer(() => client.close());
  return client;
};

/**
 * Holds and waits for two names, one on borrowed clients and one on clients of our own, across a failover: `failOver`
 * resolves with the master that serves both from then on.
 */
export const servesThrough = async (
  redis: TestRedis<RedisMode>,
  fixture: LockFixture,
  [name, another]: readonly [string, string],
  failOver: () => Promise<RedisNode>,
): Promise<void> => {
  const borrowed = [fixture.connect(), fixture.connect()].map((client) => fixture.on(client)) as [Lock, Lock];
  const ours = [fixture.on(await owned(redis)), fixture.on(await owned(redis))] as [Lock, Lock];
  const work = async ([holding, waiting]: [Lock, Lock], resource: string) => ({
    resource,
    holding,
    held: await holding.acquire(resource),
    first: await enqueue(waiting, resource, { waitMs: 60_000 }),
    second: await enqueue(waiting, resource, { waitMs: 60_000 }),
  });
  const all = [await work(borrowed, name), await work(ours, another)];
  const master = await failOver();
  for (const { resource, holding, held, first, second } of all) {
    // Renewed on the new master: it cannot have more than it had when the old one died.
    await eventually(
      async () => expect(await master.call("PTTL", fixture.keysOf(resource).lease)).toBeGreaterThan(9_000),
      { timeoutMs: 30_000 },
    );
    expect([held.isHeld, first.isSettled, second.isSettled]).toEqual([true, false, false]);
    expect(await held.release()).toBe("released");
    const next = await first.promise;
    expect(second.isSettled).toBe(false);
    await next.release();
    const last = await second.promise;
    const tokens = [held, next, last].map(({ fencingToken }) => BigInt(fencingToken));
    expect(tokens[0]! < tokens[1]! && tokens[1]! < tokens[2]!).toBe(true);
    await last.release();
    expect(await holding.tryAcquire(resource).then((lease) => lease?.release())).toBe("released");
  }
};
