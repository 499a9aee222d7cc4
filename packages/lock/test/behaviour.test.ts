import { fromNodeRedis } from "@kit/core/node-redis";
import { eventually, useRedis } from "@kit/testing";
import { describeHolding, describeMovedSlot, describeRecovery, describeWaiting } from "@tooling/vitest/conformance";
import { aborted, guardUsers, inModes, lapse, onMovingSlots } from "@tooling/vitest/helpers";
import { onNodeRedis } from "@tooling/vitest/node-redis";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import type { Lease } from "../src/index.js";
import * as scripts from "../src/scripts/index.js";
import { user } from "./acl.js";
import { enqueue, fixtureOf } from "./harness.js";
import { leasingOf } from "./leasing.js";

/**
 * The behaviour of a lock, on one server or on a Cluster. With a `login` it is what
 * a lock does as that user, where the server knows nobody else but the tests.
 */
inModes(
  { single: user.loginForText, cluster: user.login, nodeRedis: onNodeRedis(user.login, fromNodeRedis) },
  (mode, login) => {
    describe(`a lock on a ${mode === "cluster" ? "Cluster" : "single server"}${login ? ", as its ACL user" : ""}`, () => {
      const redis = useRedis(vitest, { mode, args: login ? user.serverArgs(mode) : [] });
      if (login) guardUsers(redis);
      const slots = onMovingSlots(redis, scripts, true);
      const fixture = fixtureOf(redis, login);
      const { make, keysOf } = fixture;
      const leasing = leasingOf(redis, login);
      const name = "chest";
      const key = (): string => keysOf(name).lease;

      describeHolding(leasing);
      describeWaiting(leasing);
      describeRecovery(leasing);

      describe("holding", () => {
        it("has the right value and expiry after acquire, extend and release", async () => {
          const { db } = fixture;
          const lease = await make({ holder: "me" }).acquire(name, { leaseMs: 3_000 });
          expect(await db.get(key())).toBe(`${lease.token}|me`);
          expectWithin(await db.pttl(key()), 1, 3_000);
          await lease.extend(9_000);
          expect(await db.get(key())).toBe(`${lease.token}|me`);
          expectWithin(await db.pttl(key()), 3_001, 9_000);
          expect(lease.leaseMs).toBe(9_000);
          expect(await lease.release()).toBe("released");
          expect(await db.exists(key())).toBe(0);
        });

        // A lease without an end cannot be asked for; only a stranger can make one, by PERSIST.
        it("gives a lease whose end was taken away its end back at the next renewal", async () => {
          const { db } = fixture;
          const lock = make();
          const lease = await lock.acquire(name, { leaseMs: 4_500 });
          await db.persist(key());
          expect(await lock.inspect(name)).toMatchObject({ state: "held", msLeft: Infinity });
          expect(await lock.tryAcquire(name)).toBeNull();
          await eventually(async () => expectWithin(await db.pttl(key()), 1, 4_500));
          expect(lease.isHeld).toBe(true);
        });

        it("distinguishes a lease that was deleted from one that another took", async () => {
          const { db } = fixture;
          const lock = make();
          const deleted = await lock.acquire(name, { leaseMs: 3_000 });
          await db.del(key());
          expect(await aborted(deleted.signal)).toMatchObject({
            reason: "expired",
            fencingToken: deleted.fencingToken,
          });
          const taken = await lock.acquire(name, { leaseMs: 3_000 });
          await db.set(key(), "somebody|else", "PX", 5_000);
          expect(await aborted(taken.signal)).toMatchObject({ reason: "taken", fencingToken: taken.fencingToken });
          expect(await taken.release()).toBe("not-held");
          expect(await db.get(key())).toBe("somebody|else");
        });

        it("gives every grant a larger fencing token, even after expiry, force and a clock that went back", async () => {
          const { db } = fixture;
          const lock = make();
          const tokens: bigint[] = [];
          const take = async (renew = true): Promise<Lease> => {
            const lease = await lock.acquire(name, { renew });
            tokens.push(BigInt(lease.fencingToken));
            return lease;
          };
          for (let round = 0; round < 20; round++) await (await take()).release();
          await take(false);
          await lapse(db, key());
          await take(false);
          expect(await lock.forceRelease(name)).not.toBeNull();
          await (await take()).release();
          // An hour ahead of the server's clock, as if that had been set back by an hour.
          const ahead = tokens.at(-1)! + 3_600_000_000n;
          await db.set(keysOf(name).fence, `1:${String(ahead)}`, "PX", 60_000);
          await (await take()).release();
          expect(tokens.at(-1)).toBe(ahead + 1n);
          await take();
          const waiter = await enqueue(lock, name);
          await lock.forceRelease(name);
          tokens.push(BigInt((await waiter.promise).fencingToken));
          expect(tokens).toEqual([...new Set(tokens)].sort((a, b) => (a < b ? -1 : 1)));
        });

        it("stays taken for minHoldMs after a short job, and is the first waiter's then", async () => {
          const { db } = fixture;
          const lock = make({ minHoldMs: 3_600_000, holder: "me" });
          const token = await lock.using(name, ({ fencingToken }) => fencingToken);
          expect(await make().tryAcquire(name)).toBeNull();
          expect(await lock.inspect(name)).toMatchObject({ state: "held", holder: "me", fencingToken: token });
          await lapse(db, key());
          const short = await make({ minHoldMs: 500 }).acquire(name, { leaseMs: 3_600_000 });
          const waiter = await enqueue(make(), name);
          expect(await short.release()).toBe("released");
          const next = await waiter.promise;
          // Microseconds of the server.
          expect(BigInt(next.fencingToken) - BigInt(short.fencingToken)).toBeGreaterThanOrEqual(499_000n);
          expect(await next.release()).toBe("released");
        });
      });

      describe("waiting", () => {
        it("hands over by force to the first who waits, and the former holder learns of it", async () => {
          const { db } = fixture;
          const lock = make();
          const former = await lock.acquire(name, { holder: "hangs", leaseMs: 1_500 });
          const waiter = await enqueue(lock, name, { holder: "waits" });
          expect(await lock.forceRelease(name)).toBe("hangs");
          const lease = await waiter.promise;
          expect(await aborted(former.signal)).toMatchObject({ reason: "taken" });
          expect(await former.release()).toBe("not-held");
          expect(await db.get(key())).toBe(`${lease.token}|waits`);
          await lease.release();
          expect(await lock.forceRelease(name)).toBeNull();
        });

        it("shows any caller the holder, time left, fencing token and waiters", async () => {
          const lock = make();
          expect(await lock.inspect(name)).toEqual({
            state: "free",
            holder: null,
            fencingToken: null,
            msLeft: null,
            waiters: 0,
            queue: [],
          });
          const lease = await lock.acquire(name, { holder: "first", leaseMs: 5_000 });
          for (let index = 0; index < 12; index++) await enqueue(lock, name, { holder: `waiter ${String(index)}` });
          const seen = await lock.inspect(name);
          expect(seen).toMatchObject({ state: "held", holder: "first", fencingToken: lease.fencingToken, waiters: 12 });
          expectWithin(seen.msLeft, 1, 5_000);
          expect(seen.queue).toEqual(Array.from({ length: 10 }, (_, index) => ({ holder: `waiter ${String(index)}` })));
        });
      });

      if (mode === "cluster") {
        describeMovedSlot(leasing);
        slots.itRanAll();
      }
    });
  },
);

const expectWithin = (value: number | null | undefined, least: number, most: number): void => {
  expect(value).toBeGreaterThanOrEqual(least);
  expect(value).toBeLessThanOrEqual(most);
};
