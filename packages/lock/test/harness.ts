import { connect, type Connection } from "@kit/core";
import type { RedisMode, TestRedis } from "@kit/testing";
import {
  enqueued,
  type LeaseFixture,
  leaseFixture,
  type Login,
  promptMs,
  timed,
  type Watched,
} from "@tooling/vitest/helpers";
import type { Redis } from "ioredis";
import { expect } from "vitest";
import {
  createLock,
  type AcquireOptions,
  type Lease,
  type Lock,
  type LockEvents,
  type LockOptions,
} from "../src/index.js";
import { lockKeys, type LockKeys } from "../src/keys.js";

type Client = Parameters<typeof createLock>[0];

/** The lock of a test, unless it has several. */
export const name = "chest";

/** The members of its server that a lock test needs. */
export type LockFixture = LeaseFixture<TestRedis<RedisMode>, Lock, LockOptions, LockKeys, Client, Redis>;

/** With a `login` all locks are that user's, and only the tests' own commands go over the shared client. */
export const fixtureOf = (redis: TestRedis<RedisMode>, login?: Login): LockFixture =>
  leaseFixture(redis, login, {
    name,
    create: (client: Client, options: LockOptions) => createLock(client, options),
    keysOf: (own) => lockKeys(redis.prefix)(own),
    heldKey: ({ lease }) => lease,
    module: new URL("programs/leaser.mjs", import.meta.url),
  });

/** The next event of a kind. */
export const next = async <Name extends keyof LockEvents>(lock: Lock, event: Name): Promise<LockEvents[Name][0]> =>
  await new Promise((resolve) => lock.once(event, (...[fact]: LockEvents[Name]) => resolve(fact)));

/** Asks for a lock, and resolves once that acquire is in the queue and listens. */
export const enqueue = (lock: Lock, own: string, options?: AcquireOptions): Promise<Watched<Lease>> =>
  enqueued(lock, own, () => lock.acquire(own, options));

/** A client that kit made, for one test. */
export const ownClient = async (redis: TestRedis<RedisMode>): Promise<Connection> => {
  const client = await connect({ url: redis.url, deadlineMs: 10_000 });
  redis.defer(() => client.close());
  return client;
};

/** Whether a lease was granted after another. */
export const fenceGrows = (former: object, next: object): boolean =>
  BigInt((next as Lease).fencingToken) > BigInt((former as Lease).fencingToken);

/** The whole life of a lock, with a hand-off and everything that reads a reply. */
export const works = async (lock: Lock, own: string): Promise<void> => {
  const first = await lock.acquire(own, { holder: "first" });
  await first.extend(5_000);
  expect(await lock.tryAcquire(own)).toBeNull();
  const waiter = await enqueue(lock, own, { holder: "second" });
  expect(await lock.inspect(own)).toMatchObject({
    state: "held",
    holder: "first",
    fencingToken: first.fencingToken,
    waiters: 1,
    queue: [{ holder: "second" }],
  });
  expect(await first.release()).toBe("released");
  const { awakeMs, value: second } = await timed(waiter.promise);
  expect(awakeMs).toBeLessThan(promptMs);
  expect(BigInt(second.fencingToken)).toBeGreaterThan(BigInt(first.fencingToken));
  expect(await lock.forceRelease(own)).toBe("second");
  expect(await second.release()).toBe("not-held");
  expect(await lock.using(own, ({ isHeld }) => isHeld)).toBe(true);
  const tokens = await lock.usingAll([own, `${own}-2`], ({ fencingTokens }) => [...fencingTokens.keys()]);
  expect(tokens).toEqual([own, `${own}-2`]);
  expect(await lock.inspect(own)).toMatchObject({ state: "free", msLeft: null });
};
