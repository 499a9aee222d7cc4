import type { RedisMode, RedisNode, TestRedis } from "@kit/testing";
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
  type AcquireOptions,
  createSemaphore,
  type Permit,
  type Semaphore,
  type SemaphoreEvents,
  type SemaphoreOptions,
} from "../src/index.js";
import { type SemaphoreKeys, semaphoreKeys } from "../src/keys.js";

/** The semaphore of a test, unless it has several. */
export const name = "renderer";

/** Options of a semaphore that has two permits, unless it is said otherwise. */
export type MadeWith = Partial<SemaphoreOptions> & { readonly name?: string };

type Client = Parameters<typeof createSemaphore>[0];
type Base = LeaseFixture<TestRedis<RedisMode>, Semaphore, MadeWith, SemaphoreKeys, Client, Redis>;

/** The members of its server that a semaphore test needs. */
export interface SemaphoreFixture extends Base {
  /** Ends a permit now, on the server: whoever holds it has not heard of it. */
  expire(permit: { readonly token: string }): Promise<void>;
  /** The time of the server, or of one node, in milliseconds. */
  now(node?: Pick<RedisNode, "call">): Promise<number>;
  /** How much of the semaphore is in use, by the server's clock. */
  used(): Promise<number>;
}

/** With a `login` all semaphores are that user's, and only the tests' own commands go over the shared client. */
export const fixtureOf = (redis: TestRedis<RedisMode>, login?: Login): SemaphoreFixture => {
  // A Cluster has the same commands.
  const db = (): Redis => redis.client as Redis;
  const keysOf = (own: string): SemaphoreKeys => semaphoreKeys(redis.prefix, own);
  const now: SemaphoreFixture["now"] = async (node) => {
    const [seconds, micros] = (await (node ? node.call("TIME") : db().time())) as [string, string];
    return Number(seconds) * 1_000 + Math.floor(Number(micros) / 1_000);
  };
  const base: Base = leaseFixture(redis, login, {
    name,
    create: (client: Client, { name: own = name, permits = 2, ...options }: MadeWith) =>
      createSemaphore(client, own, { permits, ...options }),
    keysOf,
    heldKey: ({ permits }) => permits,
    waiting: ({ waiters }) => db().hkeys(waiters),
    module: new URL("programs/leaser.mjs", import.meta.url),
  });
  return Object.assign(base, {
    expire: async ({ token }: { readonly token: string }) => {
      const { permits } = keysOf(name);
      const permitRecords = await db().zrange(permits, "0", "-1");
      const permitRecord = permitRecords.find((one) => one.startsWith(`${token}|`));
      if (permitRecord === undefined) throw new Error("there is no such permit");
      await db().zadd(permits, "XX", 1, permitRecord);
    },
    now,
    used: async () => {
      const permitRecords = await db().zrangebyscore(keysOf(name).permits, `(${String(await now())}`, "+inf");
      return permitRecords.reduce((sum, permitRecord) => sum + Number(permitRecord.split("|")[1]), 0);
    },
  });
};

/** Arguments of Node that set a process's clock ahead. */
export const clockAhead = (ms: number): readonly string[] => [
  "--import",
  new URL(`programs/shifted-clock.mjs?${String(ms)}`, import.meta.url).href,
];

/** The next event of a kind. */
export const next = async <Name extends keyof SemaphoreEvents>(
  semaphore: Semaphore,
  event: Name,
): Promise<SemaphoreEvents[Name][0]> =>
  await new Promise((resolve) => semaphore.once(event, (...[fact]: SemaphoreEvents[Name]) => resolve(fact)));

/** Asks for a permit, and resolves once that acquire is in the queue and listens, or has one. */
export const enqueue = (semaphore: Semaphore, options?: AcquireOptions): Promise<Watched<Permit>> =>
  enqueued(semaphore, semaphore.name, () => semaphore.acquire(options));

/** Takes so many permits, one after another. */
export const take = async (semaphore: Semaphore, count: number, options?: AcquireOptions): Promise<Permit[]> => {
  const taken: Permit[] = [];
  for (let index = 0; index < count; index++) taken.push(await semaphore.acquire(options));
  return taken;
};

/** The whole life of a group, with a hand-off and everything that reads a reply. */
export const works = async (semaphore: Semaphore): Promise<void> => {
  const first = await semaphore.acquire({ tenant: "a", weight: 3, holder: "first" });
  // One that finds others holding and nobody waiting is answered in short.
  expect(await (await semaphore.acquire({ tenant: "b" })).release()).toBe("released");
  await first.extend(5_000);
  expect(await semaphore.tryAcquire({ tenant: "a" })).toBeNull();
  const waiter = await enqueue(semaphore, { tenant: "a", weight: 2, holder: "second" });
  expect(await semaphore.inspect()).toMatchObject({
    permits: 5,
    permitsPerTenant: 3,
    used: 3,
    holders: [{ holder: "first", weight: 3, tenant: "a" }],
    waiters: 1,
    queue: [{ holder: "second", weight: 2, tenant: "a" }],
  });
  expect(await first.release()).toBe("released");
  const { awakeMs, value: second } = await timed(waiter.promise);
  expect(awakeMs).toBeLessThan(promptMs);
  await semaphore.setPermits({ permits: 5, permitsPerTenant: 3 });
  const resumed = await semaphore.resume(second.handOver());
  expect(await resumed.release()).toBe("released");
  expect(await second.release()).toBe("not-held");
  expect(await semaphore.using(({ weight }) => weight, { tenant: "b", weight: 2 })).toBe(2);
  expect((await semaphore.inspect()).used).toBe(0);
};
