import { connect, type Connection } from "@kit/core";
import { eventually, type RedisMode, type RedisNode, type TestRedis } from "@kit/testing";
import { expect } from "vitest";
import type { Semaphore } from "../src/index.js";
import { enqueue, type SemaphoreFixture, take } from "./harness.js";

/** A client that kit made, for one test. */
export const owned = async (redis: TestRedis<RedisMode>): Promise<Connection> => {
  const client = await connect({ url: redis.url, deadlineMs: 10_000 });
  redis.defer(() => client.close());
  return client;
};

/** How long the first permit of a semaphore to end has on a node. */
const msLeftOn = async (node: RedisNode, fixture: SemaphoreFixture, name: string): Promise<number> => {
  const [, ending] = (await node.call("ZRANGE", fixture.keysOf(name).permits, "0", "0", "WITHSCORES")) as string[];
  const [seconds] = (await node.call("TIME")) as string[];
  return Number(ending ?? 0) - Number(seconds) * 1_000;
};

/**
 * Holds and waits for two semaphores, one on borrowed clients and one on clients of our own, across a failover:
 * `failOver` resolves with the master that serves both from then on.
 */
export const servesThrough = async (
  redis: TestRedis<RedisMode>,
  fixture: SemaphoreFixture,
  [name, another]: readonly [string, string],
  failOver: () => Promise<RedisNode>,
): Promise<void> => {
  const pair = (own: string, clients: readonly Parameters<SemaphoreFixture["on"]>[0][]): Semaphore[] =>
    clients.map((client) => fixture.on(client, { name: own, permits: 3 }));
  const borrowed = pair(name, [fixture.connect(), fixture.connect()]);
  const ours = pair(another, [await owned(redis), await owned(redis)]);
  const work = async (own: string, [holding, waiting]: readonly Semaphore[]) => ({
    own,
    holding: holding!,
    held: [...(await take(holding!, 1)), await holding!.acquire({ weight: 2 })],
    first: await enqueue(waiting!, { weight: 2, waitMs: 60_000 }),
    second: await enqueue(waiting!, { waitMs: 60_000 }),
  });
  const all = [await work(name, borrowed), await work(another, ours)];
  const master = await failOver();
  for (const { own, holding, held, first, second } of all) {
    const [light, heavy] = held;
    // Renewed on the new master: they cannot have more than they had when the old one died.
    await eventually(async () => expect(await msLeftOn(master, fixture, own)).toBeGreaterThan(9_000), {
      timeoutMs: 30_000,
    });
    expect([light!.isHeld, heavy!.isHeld, first.isSettled, second.isSettled]).toEqual([true, true, false, false]);
    expect(await light!.release()).toBe("released");
    // Room for the second, but the first is heavy.
    expect(await holding.tryAcquire()).toBeNull();
    expect([first.isSettled, second.isSettled]).toEqual([false, false]);
    expect(await heavy!.release()).toBe("released");
    const granted = [await first.promise, await second.promise];
    expect(await holding.inspect()).toMatchObject({ permits: 3, used: 3, waiters: 0 });
    for (const permit of granted) expect(await permit.release()).toBe("released");
  }
};
