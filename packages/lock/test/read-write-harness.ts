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
import type { AcquireOptions, LockOptions } from "../src/index.js";
import { type ReadWriteKeys, readWriteKeys } from "../src/keys.js";
import { createReadWriteLock, type ReadWriteLease, type ReadWriteLock } from "../src/read-write/index.js";

export type Mode = "read" | "write";

type Client = Parameters<typeof createReadWriteLock>[0];
type Base = LeaseFixture<TestRedis<RedisMode>, ReadWriteLock, LockOptions, ReadWriteKeys, Client, Redis>;

/** The read/write lock of a test, unless it has several. */
export const name = "prices";

/** The members of its server that a test of a read/write lock needs. */
export interface ReadWriteFixture extends Base {
  /** Acquires, and resolves once that acquire is in the queue and listens. */
  enqueue(lock: ReadWriteLock, mode: Mode, name: string, options?: AcquireOptions): Promise<Watched<ReadWriteLease>>;
  /** The labels of those who hold the lock now. */
  holders(name: string): Promise<string[]>;
  /** Ends a lease on the server, as time does. */
  end(lease: ReadWriteLease): Promise<void>;
}

/** With a `login` all locks are that user's, and only the tests' own commands go over the shared client. */
export const fixtureOf = (redis: TestRedis<RedisMode>, login?: Login): ReadWriteFixture => {
  const base: Base = leaseFixture(redis, login, {
    name,
    create: (client: Client, options: LockOptions) => createReadWriteLock(client, options),
    keysOf: (own) => readWriteKeys(redis.prefix)(own),
    heldKey: ({ leases }) => leases,
    module: new URL("programs/read-write-leaser.mjs", import.meta.url),
  });
  return Object.assign(base, {
    enqueue: (lock: ReadWriteLock, mode: Mode, own: string, options?: AcquireOptions) =>
      enqueued<ReadWriteLease>(lock, own, () => lock[mode].acquire(own, options)),
    holders: async (own: string) =>
      (await base.db.zrangebyscore(base.keysOf(own).leases, `(${String(Date.now())}`, "+inf"))
        .map((record) => record.split("|")[2]!)
        .toSorted(),
    end: async ({ name: own, mode, token, holder }: ReadWriteLease) => {
      const record = `${mode === "read" ? "r" : "w"}|${token}|${holder}`;
      // As in `lapse`: with the lease goes the key, unless others hold the lock.
      expect(await base.db.zadd(base.keysOf(own).leases, "XX", "CH", "1", record)).toBe(1);
    },
  });
};

/** The whole life of a read/write lock, with hand-offs and everything that reads a reply. */
export const works = async (fixture: ReadWriteFixture, lock: ReadWriteLock, own: string): Promise<void> => {
  const first = await lock.read.acquire(own, { holder: "first" });
  const beside = await lock.read.acquire(own, { holder: "beside" });
  await first.extend(5_000);
  expect(await lock.write.tryAcquire(own)).toBeNull();
  // A lease that was waited for lasts its full length from the beginning if it is not renewed.
  const steady = { leaseMs: 60_000, renew: false };
  const writer = await fixture.enqueue(lock, "write", own, { holder: "writer", ...steady });
  const late = await fixture.enqueue(lock, "read", own, { holder: "late", ...steady });
  expect(await lock.inspect(own)).toMatchObject({
    state: "read",
    holding: 2,
    waiters: 2,
    queue: [
      { mode: "write", holder: "writer" },
      { mode: "read", holder: "late" },
    ],
  });
  expect(await first.tryUpgrade()).toBe(false);
  expect(await first.release()).toBe("released");
  expect(await beside.release()).toBe("released");
  const { awakeMs, value: held } = await timed(writer.promise);
  expect(awakeMs).toBeLessThan(promptMs);
  expect(held.fencingToken).toMatch(/^\d{16}$/);
  await held.downgrade();
  const reader = await late.promise;
  expect(await reader.release()).toBe("released");
  expect(await held.tryUpgrade()).toBe(true);
  expect(await held.release()).toBe("released");
  expect(await lock.write.using(own, ({ mode }) => mode)).toBe("write");
  expect(await lock.inspect(own)).toMatchObject({ state: "free", holding: 0, waiters: 0 });
};
