import { fromNodeRedis } from "@kit/core/node-redis";
import { eventually, useRedis } from "@kit/testing";
import { describeHolding, describeMovedSlot, describeRecovery, describeWaiting } from "@tooling/vitest/conformance";
import {
  aborted,
  guardUsers,
  inModes,
  lapse,
  onMovingSlots,
  promptMs,
  rejection,
  timed,
} from "@tooling/vitest/helpers";
import { onNodeRedis } from "@tooling/vitest/node-redis";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { type Semaphore, type SemaphoreEvents, SemaphoreTimeoutError } from "../src/index.js";
import * as scripts from "../src/scripts/index.js";
import { user } from "./acl.js";
import { enqueue, fixtureOf, name, next, take } from "./harness.js";
import { leasingOf } from "./leasing.js";

/**
 * The behaviour of a semaphore, on one server or on a Cluster. With a `login` it is what a semaphore does as that user, where the
 * server knows nobody else but the tests.
 */
inModes(
  { single: user.loginForText, cluster: user.login, nodeRedis: onNodeRedis(user.login, fromNodeRedis) },
  (mode, login) => {
    const where = mode === "cluster" ? "Cluster" : "single server";
    describe(`a semaphore on a ${where}${login ? ", as its ACL user" : ""}`, () => {
      const redis = useRedis(vitest, { mode, args: login ? user.serverArgs(mode) : [] });
      if (login) guardUsers(redis);
      // On a single server the scripts keep no key from vanishing.
      const slots = mode === "cluster" ? onMovingSlots(redis, scripts, true) : undefined;
      const fixture = fixtureOf(redis, login);
      const { make } = fixture;
      const leasing = leasingOf(redis, login);
      const untilWaiting = (waiters: number): Promise<void> => fixture.untilWaiting(name, waiters);
      const queueOf = async (semaphore: Semaphore): Promise<string[]> =>
        (await semaphore.inspect()).queue.map(({ holder }) => holder);

      describeHolding(leasing);
      describeWaiting(leasing);
      describeRecovery(leasing);

      describe("counting", () => {
        it("grants as many permits as there are, lets the next wait, and gives it the first that comes back", async () => {
          const semaphore = make({ permits: 3 });
          const permits = await take(semaphore, 3);
          expect(new Set(permits.map(({ token }) => token)).size).toBe(3);
          expect(await semaphore.tryAcquire()).toBeNull();
          const waiter = await enqueue(semaphore);
          await expect(semaphore.acquire({ waitMs: 50 })).rejects.toThrow(SemaphoreTimeoutError);
          expect(waiter.isSettled).toBe(false);
          expect(await permits[1]!.release()).toBe("released");
          const { awakeMs, value } = await timed(waiter.promise);
          expect(awakeMs).toBeLessThan(promptMs);
          expect([value.isHeld, permits[0]!.isHeld, permits[1]!.isHeld, permits[2]!.isHeld]).toEqual([
            true,
            true,
            false,
            true,
          ]);
          expect(await fixture.used()).toBe(3);
        });

        it("shares the permits among all objects of a name, and gives back all of them", async () => {
          const one = make({ permits: 4 });
          const two = fixture.on(fixture.connect(), { permits: 4 });
          const other = make({ name: "other", permits: 1 });
          const permits = [...(await take(one, 2)), ...(await take(two, 2))];
          expect([await one.tryAcquire(), await two.tryAcquire()]).toEqual([null, null]);
          expect(await other.tryAcquire()).not.toBeNull();
          expect(await make({ prefix: `${redis.prefix}-other`, permits: 1 }).tryAcquire()).not.toBeNull();
          for (const permit of permits) expect(await permit.release()).toBe("released");
          expect(await fixture.db.exists(fixture.keysOf(name).permits)).toBe(0);
          expect(await take(two, 4)).toHaveLength(4);
        });

        it("reaches its limit with a hundred tasks of three objects, and never passes it", async () => {
          const objects = [make({ permits: 7 }), make({ permits: 7 }), fixture.on(fixture.connect(), { permits: 7 })];
          let [inside, most, mostOnServer, done] = [0, 0, 0, 0];
          const task = async (semaphore: Semaphore): Promise<void> => {
            await semaphore.using(async () => {
              most = Math.max(most, ++inside);
              mostOnServer = Math.max(mostOnServer, await fixture.used());
              inside--;
            });
            done++;
          };
          await Promise.all(Array.from({ length: 100 }, (_, index) => task(objects[index % 3]!)));
          expect([most, mostOnServer, done]).toEqual([7, 7, 100]);
          expect((await objects[0]!.inspect()).used).toBe(0);
        });

        it("takes and gives back in chunks", async () => {
          const semaphore = make({ permits: 10 });
          const chunks = [await take(semaphore, 5), await take(semaphore, 5)];
          expect(await semaphore.tryAcquire()).toBeNull();
          await Promise.all(chunks[0]!.map((permit) => permit.release()));
          expect((await semaphore.inspect()).free).toBe(5);
          const again = await Promise.all([1, 2, 3, 4, 5].map(() => semaphore.acquire()));
          expect(await semaphore.tryAcquire()).toBeNull();
          await Promise.all([...chunks[1]!, ...again].map((permit) => permit.release()));
          expect((await semaphore.inspect()).free).toBe(10);
        });

        it("never has more room after permits are released twice, or by another caller", async () => {
          const semaphore = make();
          const [first, second] = await take(semaphore, 2);
          const text = second!.serialise();
          expect(await first!.release()).toBe("released");
          expect(await first!.release()).toBe("released");
          const taken = await semaphore.acquire();
          const forged = text.replace(second!.token, crypto.randomUUID());
          expect(await rejection(semaphore.resume(forged))).toMatchObject({ code: "KIT_PERMIT_LOST" });
          expect(await semaphore.tryAcquire()).toBeNull();
          expect([second!.isHeld, taken.isHeld, await fixture.used()]).toEqual([true, true, 2]);
        });

        it("releases many together, of which some have expired, and counts correctly", async () => {
          const semaphore = make({ permits: 6 });
          const permits = await take(semaphore, 6);
          await fixture.expire(permits[1]!);
          await fixture.expire(permits[4]!);
          const outcomes = await Promise.all(permits.map((permit) => permit.release()));
          expect(outcomes).toEqual(["released", "not-held", "released", "released", "not-held", "released"]);
          expect(await take(semaphore, 6)).toHaveLength(6);
          expect(await semaphore.tryAcquire()).toBeNull();
        });

        it("leaves no key without expiry, and only its counters when it is unused", async () => {
          const { db, keysOf } = fixture;
          const semaphore = make({ permits: 1, permitsPerTenant: 1 });
          const permit = await semaphore.acquire({ tenant: "a", leaseMs: 1_000 });
          const waiter = await enqueue(semaphore, { tenant: "a" });
          const keys = keysOf(name);
          expect(await db.pttl(keys.permits)).toBeGreaterThan(1_000);
          for (const key of await redis.keys()) expect([key, (await db.pttl(key)) > 0]).toEqual([key, true]);
          await permit.release();
          await (await waiter.promise).release();
          expect((await redis.keys()).toSorted()).toEqual([keys.meta, keys.waiters].toSorted());
          expect(await db.hkeys(keys.meta)).toEqual(["layout", "permits", "perTenant"]);
          expect(await db.hkeys(keys.waiters)).toEqual(["#"]);
          for (const key of await redis.keys()) expect(await db.pexpire(key, 1)).toBe(1);
          await eventually(async () => expect(await redis.keys()).toEqual([]));
          expect(await semaphore.tryAcquire({ tenant: "b" })).not.toBeNull();
        });

        it("leaves no trace of a queue without waiters", async () => {
          const { keysOf } = fixture;
          const semaphore = make({ permits: 3, permitsPerTenant: 2 });
          const { permits, meta } = keysOf(name);
          const held = await semaphore.acquire({ tenant: "a", weight: 2 });
          expect((await redis.keys()).toSorted()).toEqual([meta, permits].toSorted());
          expect(await semaphore.tryAcquire({ tenant: "b" })).not.toBeNull();
          expect(await semaphore.inspect()).toMatchObject({ used: 3, waiters: 0 });
          await held.release();
          expect(await semaphore.tryAcquire({ tenant: "b" })).not.toBeNull();
          expect((await redis.keys()).toSorted()).toEqual([meta, permits].toSorted());
        });
      });

      describe("a permit", () => {
        it("with a short lease and one with a long lease do each other no harm", async () => {
          const { db, keysOf } = fixture;
          const semaphore = make();
          const long = await semaphore.acquire({ leaseMs: 60_000, renew: false });
          const short = await semaphore.acquire({ leaseMs: 1_000, renew: false });
          const waiter = await enqueue(semaphore, { leaseMs: 1_000, renew: false });
          const third = await waiter.promise;
          expect([short.isHeld, long.isHeld]).toEqual([false, true]);
          expect(await aborted(third.signal)).toMatchObject({ reason: "stopped" });
          expect(await db.pttl(keysOf(name).permits)).toBeGreaterThan(60_000);
          const last = await semaphore.acquire();
          expect(await semaphore.tryAcquire()).toBeNull();
          expect([await long.release(), await last.release()]).toEqual(["released", "released"]);
        });
      });

      describe("waiting", () => {
        it("times out with how full it was, and for how long", async () => {
          const semaphore = make({ permits: 5 });
          await semaphore.acquire({ weight: 3 });
          await semaphore.acquire({ weight: 2, leaseMs: 20_000 });
          for (const waitMs of [0, 50]) {
            // Where the server did not reply in time, the use is unknown.
            const error = await eventually(async () => {
              const refusal = (await rejection(semaphore.acquire({ waitMs }))) as SemaphoreTimeoutError;
              expect(refusal).toMatchObject({ permits: 5, used: 5 });
              return refusal;
            });
            expectWithin(error.msLeft, 1, 10_000);
          }
        });

        it("serves lower priorities first, and equal ones in order of arrival", async () => {
          const semaphore = make({ permits: 1 });
          const permit = await semaphore.acquire();
          const served: string[] = [];
          const turns: Promise<void>[] = [];
          for (const [holder, priority] of [
            ["later", 5],
            ["normal 1", undefined],
            ["urgent 1", -1_000],
            ["last", 1_000],
            ["normal 2", 0],
            ["urgent 2", -1_000],
          ] as const) {
            const waiter = await enqueue(semaphore, { holder, priority });
            turns.push(
              waiter.promise.then(async (granted) => {
                served.push(holder);
                await granted.release();
              }),
            );
          }
          const order = ["urgent 1", "urgent 2", "normal 1", "normal 2", "later", "last"];
          expect(await queueOf(semaphore)).toEqual(order);
          await permit.release();
          await Promise.all(turns);
          expect(served).toEqual(order);
        });
      });

      describe("weights", () => {
        it("count, exactly, up to a thousand million", async () => {
          const most = 1_000_000_000;
          const semaphore = make({ permits: most });
          const heavy = await semaphore.acquire({ weight: 4_000 });
          const rest = await semaphore.acquire({ weight: most - 4_001 });
          const light = await semaphore.acquire();
          expect(await semaphore.inspect()).toMatchObject({ used: most, free: 0 });
          expect(await semaphore.tryAcquire()).toBeNull();
          await heavy.release();
          expect((await semaphore.inspect()).free).toBe(4_000);
          expect(await semaphore.tryAcquire({ weight: 4_001 })).toBeNull();
          await Promise.all([rest.release(), light.release()]);
          expect((await semaphore.acquire({ weight: most })).weight).toBe(most);
        });

        it("are refused when the limits never have room for them, and then nothing waits", async () => {
          const semaphore = make({ permits: 3 });
          for (const attempt of [semaphore.acquire({ weight: 4 }), semaphore.tryAcquire({ weight: 4 })])
            expect(await rejection(attempt)).toMatchObject({ code: "KIT_SEMAPHORE_WEIGHT", weight: 4, most: 3 });
          await untilWaiting(0);
          const group = make({ name: "group", permits: 9, permitsPerTenant: 2 });
          const refused = group.acquire({ weight: 3, tenant: "a" });
          expect(await rejection(refused)).toMatchObject({ code: "KIT_SEMAPHORE_WEIGHT", most: 2 });
        });

        it("add up: several single ones that come back make room for a heavy one, and not before", async () => {
          const semaphore = make({ permits: 3 });
          const permits = await take(semaphore, 3);
          const heavy = await enqueue(semaphore, { weight: 3, holder: "heavy" });
          const before = await fixture.scriptCalls();
          for (const permit of permits.slice(0, 2)) await permit.release();
          expect([heavy.isSettled, await queueOf(semaphore)]).toEqual([false, ["heavy"]]);
          // Nobody was woken for nothing: the two releases, and the look.
          expect((await fixture.scriptCalls()) - before).toBe(3);
          await permits[2]!.release();
          const { awakeMs, value } = await timed(heavy.promise);
          expect(awakeMs).toBeLessThan(promptMs);
          expect(value.weight).toBe(3);
        });

        it("keep their order: a heavy one that waits holds up light ones that would fit", async () => {
          const semaphore = make({ permits: 4 });
          const permit = await semaphore.acquire({ weight: 2 });
          const heavy = await enqueue(semaphore, { weight: 3, holder: "heavy" });
          const light = await enqueue(semaphore, { holder: "light" });
          expect(await semaphore.tryAcquire()).toBeNull();
          expect(await fixture.on(fixture.connect(), { permits: 4 }).tryAcquire()).toBeNull();
          expect(await queueOf(semaphore)).toEqual(["heavy", "light"]);
          await permit.release();
          // Both fit then.
          expect((await heavy.promise).isHeld && (await light.promise).isHeld).toBe(true);
          expect(await fixture.used()).toBe(4);
        });

        it("let waiters after a heavy one in as soon as it gives up", async () => {
          const semaphore = make({ permits: 2 });
          await semaphore.acquire();
          const heavy = await enqueue(semaphore, { weight: 2, waitMs: 400 });
          const light = await enqueue(semaphore);
          expect(await rejection(heavy.promise)).toBeInstanceOf(SemaphoreTimeoutError);
          expect((await timed(light.promise)).awakeMs).toBeLessThan(promptMs);
        });
      });

      describe("a group", () => {
        it("grants to a tenant that returns, in one call, while the dead permits of others are left", async () => {
          const group = make({ permits: 1_000, permitsPerTenant: 2, leaseMs: 600_000, renew: false });
          const others = Array.from({ length: 300 }, (_, index) => `other-${String(index)}`);
          await Promise.all([...others, "bob", "bob"].map((tenant) => group.acquire({ tenant })));
          const { permits } = fixture.keysOf(name);
          const held = async (): Promise<string[]> => await fixture.db.zrangebyscore(permits, "(0", "+inf");
          for (const record of await held()) await fixture.db.zadd(permits, record.includes("|bob|") ? 2 : 1, record);
          expect(await group.tryAcquire({ tenant: "bob" })).not.toBeNull();
          expect(await held()).toHaveLength(101);
          expect(await group.tryAcquire({ tenant: "bob" })).not.toBeNull();
          expect(await group.tryAcquire({ tenant: "bob" })).toBeNull();
        });

        it("gives each tenant its own number of permits, and a full tenant delays no other", async () => {
          const group = make({ permits: 10, permitsPerTenant: 2 });
          const permits = await take(group, 2, { tenant: "a" });
          expect(permits[0]!.tenant).toBe("a");
          const waiters = [
            await enqueue(group, { tenant: "a", holder: "a1" }),
            await enqueue(group, { tenant: "a", holder: "a2" }),
          ];
          expect(await group.tryAcquire({ tenant: "a" })).toBeNull();
          expect(await take(group, 2, { tenant: "b" })).toHaveLength(2);
          await permits[0]!.release();
          const first = await waiters[0]!.promise;
          expect(waiters[1]!.isSettled).toBe(false);
          await first.release();
          expect((await waiters[1]!.promise).holder).toBe("a2");
          expect(await group.inspect()).toMatchObject({ permits: 10, permitsPerTenant: 2, used: 4, free: 6 });
        });

        it("gives all tenants together no more than there are, in order of arrival if each has room", async () => {
          const group = make({ permits: 3, permitsPerTenant: 2 });
          const [a] = await take(group, 2, { tenant: "a" });
          const b = await group.acquire({ tenant: "b" });
          const waiting: string[] = [];
          const served: string[] = [];
          for (const tenant of ["a", "b", "c", "b"]) {
            const holder = `${tenant}${String(waiting.push(tenant))}`;
            const waiter = await enqueue(group, { tenant, holder });
            void waiter.promise.then(() => served.push(holder), ignore);
          }
          expect(await queueOf(group)).toEqual(["a1", "b2", "c3", "b4"]);
          await a!.release();
          await eventually(() => expect(served).toEqual(["a1"]));
          await b.release();
          await eventually(() => expect(served).toEqual(["a1", "b2"]));
          expect(await queueOf(group)).toEqual(["c3", "b4"]);
          expect(await fixture.used()).toBe(3);
        });

        it("counts by weight, and serves its tenants by priority", async () => {
          const group = make({ permits: 10, permitsPerTenant: 4 });
          const all = await group.acquire({ tenant: "a", weight: 4 });
          const rest = [
            await group.acquire({ tenant: "b", weight: 4 }),
            await group.acquire({ tenant: "c", weight: 2 }),
          ];
          const second = await enqueue(group, { tenant: "d", weight: 3 });
          const first = await enqueue(group, { tenant: "e", weight: 2, priority: -1 });
          await all.release();
          const granted = await first.promise;
          // Two are free, of three.
          expect([second.isSettled, await fixture.used()]).toEqual([false, 8]);
          await granted.release();
          expect((await second.promise).weight).toBe(3);
          await Promise.all(rest.map((permit) => permit.release()));
        });

        it("lets who was held up by its own tenant look when a permit ends by which it has room among all", async () => {
          const group = make({ permits: 3, permitsPerTenant: 2 });
          const long = await group.acquire({ tenant: "a", leaseMs: 60_000 });
          const waiter = await enqueue(group, { tenant: "a", weight: 2 });
          for (let index = 0; index < 2; index++) await group.acquire({ tenant: "b", leaseMs: 2_000, renew: false });
          await long.release();
          expect(waiter.isSettled).toBe(false);
          // Not only at its next sign of life, which is five seconds away.
          expect((await timed(waiter.promise)).awakeMs).toBeLessThan(promptMs);
        });

        it("keeps tenants apart whatever their names are", async () => {
          const group = make({ permits: 100, permitsPerTenant: 1 });
          const tenants = ["a", "A", "a ", "a!", "ab", "|", "a|b", "%41", "ä", "\u0000", "__proto__", "x".repeat(128)];
          for (const tenant of tenants) {
            expect(await group.tryAcquire({ tenant })).toMatchObject({ tenant });
            expect(await group.tryAcquire({ tenant })).toBeNull();
          }
          const { holders, used } = await group.inspect();
          expect(used).toBe(tenants.length);
          for (const { tenant } of holders) expect(tenants).toContain(tenant);
        });
      });

      describe("limits", () => {
        it("raised, let in all waiters that fit immediately, in order", async () => {
          const semaphore = make({ permits: 2 });
          await take(semaphore, 2);
          const served: number[] = [];
          const waiters = [];
          for (let index = 0; index < 5; index++) {
            const waiter = await enqueue(make({ permits: 2 }), { weight: index === 3 ? 2 : 1 });
            void waiter.promise.then(() => served.push(index), ignore);
            waiters.push(waiter);
          }
          await semaphore.setPermits(5);
          await eventually(() => expect(new Set(served)).toEqual(new Set([0, 1, 2])));
          // One of weight 2 is next, and one behind it.
          await semaphore.setPermits(6);
          expect(await semaphore.inspect()).toMatchObject({ permits: 6, used: 5, waiters: 2 });
          await semaphore.setPermits(8);
          await Promise.all(waiters.map(({ promise }) => promise));
          expect(await fixture.used()).toBe(8);
        });

        it("raised, let in a thousand", async () => {
          const semaphore = make({ permits: 1 });
          await semaphore.acquire();
          const waiting = Promise.all(Array.from({ length: 1_000 }, () => semaphore.acquire()));
          await untilWaiting(1_000);
          await semaphore.setPermits(1_001);
          expect((await waiting).every(({ isHeld }) => isHeld)).toBe(true);
          expect(await semaphore.inspect()).toMatchObject({ used: 1_001, free: 0, waiters: 0 });
        });

        it("lowered, take no permit away, and grant none until enough are released", async () => {
          const semaphore = make({ permits: 4 });
          const permits = await take(semaphore, 4);
          await semaphore.setPermits(2);
          expect(await semaphore.inspect()).toMatchObject({ permits: 2, used: 4, free: 0 });
          for (const permit of permits) await permit.extend();
          const waiter = await enqueue(semaphore);
          for (const permit of permits.slice(0, 2)) {
            await permit.release();
            expect(await semaphore.tryAcquire()).toBeNull();
          }
          expect(waiter.isSettled).toBe(false);
          await permits[2]!.release();
          expect((await waiter.promise).isHeld && permits[3]!.isHeld).toBe(true);
          expect(await fixture.used()).toBe(2);
        });

        it("of 0 grant nothing, not even a weight that never fits, until they are raised", async () => {
          const semaphore = make({ permits: 0 });
          expect(await semaphore.tryAcquire()).toBeNull();
          expect(await rejection(semaphore.acquire({ waitMs: 50 }))).toMatchObject({ permits: 0, used: 0 });
          const waiters = [await enqueue(semaphore), await enqueue(semaphore, { weight: 3 })];
          expect(await semaphore.inspect()).toMatchObject({ permits: 0, used: 0, free: 0, waiters: 2 });
          await semaphore.setPermits(3);
          const first = await waiters[0]!.promise;
          await semaphore.setPermits(0);
          await first.release();
          expect(await semaphore.tryAcquire()).toBeNull();
          expect(waiters[1]!.isSettled).toBe(false);
          await semaphore.setPermits(3);
          expect((await waiters[1]!.promise).weight).toBe(3);
        });

        it("below a waiter's weight refuse it when its turn comes, and delay no waiter after it", async () => {
          const semaphore = make({ permits: 4 });
          const permits = await take(semaphore, 4);
          const requeued: string[] = [];
          semaphore.on("requeued", () => requeued.push("requeued"));
          const heavy = await enqueue(semaphore, { weight: 3 });
          const light = await enqueue(semaphore);
          const behind = await enqueue(semaphore, { weight: 4 });
          await semaphore.setPermits(2);
          const { awakeMs, value } = await timed(rejection(heavy.promise));
          expect(value).toMatchObject({ code: "KIT_SEMAPHORE_WEIGHT", weight: 3, most: 2 });
          expect(awakeMs).toBeLessThan(promptMs);
          expect([light.isSettled, behind.isSettled, requeued.length]).toEqual([false, false, 1]);
          for (const permit of permits.slice(0, 3)) await permit.release();
          expect((await light.promise).isHeld).toBe(true);
          expect(await rejection(behind.promise)).toMatchObject({ code: "KIT_SEMAPHORE_WEIGHT", weight: 4, most: 2 });
          expect([requeued.length, await fixture.used()]).toEqual([2, 2]);
          await untilWaiting(0);
        });

        it("of each tenant below a weight have it refused in its tenant, and leave the other tenants alone", async () => {
          const group = make({ permits: 2, permitsPerTenant: 2 });
          const permits = await take(group, 2, { tenant: "a" });
          const heavy = await enqueue(group, { tenant: "b", weight: 2 });
          const light = await enqueue(group, { tenant: "b" });
          const other = await enqueue(group, { tenant: "c" });
          await group.setPermits({ permitsPerTenant: 1 });
          expect(await rejection(heavy.promise)).toMatchObject({ code: "KIT_SEMAPHORE_WEIGHT", weight: 2, most: 1 });
          expect([light.isSettled, other.isSettled]).toEqual([false, false]);
          for (const permit of permits) await permit.release();
          expect([(await light.promise).tenant, (await other.promise).tenant]).toEqual(["b", "c"]);
        });

        it.each(["a", "~bob", "| !"])("of each tenant change alone or with the others: %s", async (tenant) => {
          const group = make({ permits: 9, permitsPerTenant: 1 });
          await group.acquire({ tenant });
          const waiters = [
            await enqueue(group, { tenant }),
            await enqueue(group, { tenant }),
            await enqueue(group, { tenant, weight: 1 }),
          ];
          await group.setPermits({ permitsPerTenant: 3 });
          // At once: not at the next heartbeat.
          const raised = await timed(Promise.all(waiters.slice(0, 2).map(({ promise }) => promise)));
          expect(raised.awakeMs).toBeLessThan(promptMs);
          expect(waiters[2]!.isSettled).toBe(false);
          await group.setPermits(3);
          expect(await group.inspect()).toMatchObject({ permits: 3, permitsPerTenant: 3, used: 3 });
          await group.setPermits({ permits: 4, permitsPerTenant: 4 });
          await waiters[2]!.promise;
        });

        it("are the first user's limits; an object with other limits reports each difference once", async () => {
          const first = make({ permits: 2 });
          const other = make({ permits: 5 });
          const reported: SemaphoreEvents["mismatch"][0][] = [];
          const never: unknown[] = [];
          other.on("mismatch", (event) => reported.push(event));
          first.on("mismatch", (event) => never.push(event));
          const configured = { permits: 5, permitsPerTenant: undefined };
          await first.acquire();
          const permit = await other.acquire();
          expect(await other.tryAcquire()).toBeNull();
          await permit.release();
          await (await other.acquire()).release();
          expect(reported).toEqual([{ configured, stored: { permits: 2, permitsPerTenant: undefined } }]);
          // Its own change is no difference to whoever makes it, nor is one to what others were made with.
          await first.setPermits(5);
          await other.acquire();
          await first.acquire();
          expect(reported).toHaveLength(1);
          await first.setPermits(6);
          await first.acquire();
          await other.acquire();
          expect(reported.slice(1)).toEqual([{ configured, stored: { permits: 6, permitsPerTenant: undefined } }]);
          expect(never).toEqual([]);
        });

        it("are forgotten with the counts when the name is unused, and then the next user's limits apply", async () => {
          const first = make({ permits: 1 });
          const next = make({ permits: 3 });
          await (await first.acquire()).release();
          await lapse(fixture.db, fixture.keysOf(name).meta);
          expect((await next.inspect()).permits).toBe(3);
          const heavy = await next.acquire({ weight: 2 });
          expect((await first.inspect()).permits).toBe(3);
          // Also while permits are held: those are counted anew.
          await lapse(fixture.db, fixture.keysOf(name).meta);
          expect(await next.tryAcquire({ weight: 2 })).toBeNull();
          const light = await next.acquire();
          expect(await next.inspect()).toMatchObject({ permits: 3, used: 3 });
          await Promise.all([heavy.release(), light.release()]);
          expect((await next.inspect()).used).toBe(0);
        });

        it("differ even if one has tenants and the other has none", async () => {
          const group = make({ permits: 2, permitsPerTenant: 1 });
          await group.acquire({ tenant: "a" });
          const plain = make({ permits: 2 });
          const reported = next(plain, "mismatch");
          expect(await plain.tryAcquire()).not.toBeNull();
          expect(await reported).toEqual({
            configured: { permits: 2, permitsPerTenant: undefined },
            stored: { permits: 2, permitsPerTenant: 1 },
          });
        });

        it("make a group of a plain semaphore, and end it, with those who hold and wait in place", async () => {
          const plain = make({ permits: 3 });
          const group = make({ permits: 3, permitsPerTenant: 1 });
          const stored = async (): Promise<unknown[]> => {
            const { permits, permitsPerTenant, used, waiters } = await plain.inspect();
            return [permits, permitsPerTenant, used, waiters];
          };
          await plain.acquire();
          // Nothing but the whole limits tenants as long as it is none.
          const [held] = await take(group, 2, { tenant: "a" });
          expect(await stored()).toEqual([3, null, 3, 0]);
          await group.setPermits({ permits: 5, permitsPerTenant: 2 });
          expect(await group.tryAcquire({ tenant: "a" })).toBeNull();
          const waiter = await enqueue(group, { tenant: "a" });
          expect(await stored()).toEqual([5, 2, 3, 1]);
          expect(await group.inspect({ tenant: "a" })).toMatchObject({ used: 2, free: 0, waiters: 1 });
          // On nobody's account: within the limit of all alone.
          const free = await plain.tryAcquire({ weight: 2 });
          expect(free).not.toBeNull();
          await free!.release();
          await plain.setPermits({ permitsPerTenant: null });
          await waiter.promise;
          expect(await stored()).toEqual([5, null, 4, 0]);
          expect(await held!.release()).toBe("released");
          expect(await plain.inspect({ tenant: "a" })).toMatchObject({ used: 2, free: 2 });
        });

        it("leave the texts of permits good that were taken as a group, or before it was one", async () => {
          const plain = make({ permits: 3 });
          const group = make({ permits: 3, permitsPerTenant: 1 });
          const ofGroup = await group.acquire({ tenant: "a" });
          const ofPlain = await plain.acquire();
          const [first, second] = [await plain.resume(ofGroup.handOver()), await group.resume(ofPlain.handOver())];
          expect([first.tenant, second.tenant]).toEqual(["a", null]);
          expect([await first.release(), await second.release()]).toEqual(["released", "released"]);
        });

        it("that could not be changed are not reported, and inspect shows those that differ", async () => {
          const semaphore = make({ permits: 2 });
          await (await semaphore.acquire()).release();
          const reported: SemaphoreEvents["mismatch"][0][] = [];
          const other = make({ permits: 4, deadlineMs: 1_000 });
          other.on("mismatch", (event) => reported.push(event));
          await other.inspect();
          expect(reported.map(({ stored }) => stored.permits)).toEqual([2]);
          const { meta } = fixture.keysOf(name);
          await fixture.db.multi().rename(meta, `${meta}-kept`).rpush(meta, "spoilt").pexpire(meta, 5_000).exec();
          expect(await rejection(other.setPermits(9))).toMatchObject({ code: "KIT_KEY_TYPE" });
          await fixture.db.rename(`${meta}-kept`, meta);
          await other.inspect();
          expect(reported).toHaveLength(1);
        });
      });

      describe("inspect", () => {
        it("of one tenant shows its permits, and how many more it could have", async () => {
          const group = make({ permits: 7, permitsPerTenant: 4 });
          await take(group, 3, { tenant: "a" });
          await group.acquire({ tenant: "b", weight: 3, holder: "b's" });
          expect(await group.inspect({ tenant: "a" })).toMatchObject({ used: 3, free: 1, waiters: 0 });
          const waiter = await enqueue(group, { tenant: "b", weight: 2, holder: "b's next" });
          const { holders, ...seen } = await group.inspect({ tenant: "b" });
          expect(seen).toEqual({
            permits: 7,
            permitsPerTenant: 4,
            used: 3,
            free: 1,
            waiters: 1,
            queue: [{ holder: "b's next", weight: 2, tenant: "b" }],
          });
          expect(holders).toMatchObject([{ holder: "b's", weight: 3, tenant: "b" }]);
          await group.setPermits({ permits: 8, permitsPerTenant: 5 });
          await waiter.promise;
          expect(await group.inspect({ tenant: "b" })).toMatchObject({ used: 5, free: 0, waiters: 0 });
          expect(await group.inspect({ tenant: "nobody's" })).toMatchObject({ used: 0, holders: [], queue: [] });
        });

        it("shows limits, use, holders and waiters, and of each the first ten", async () => {
          const semaphore = make({ permits: 12 });
          expect(await semaphore.inspect()).toEqual({
            permits: 12,
            permitsPerTenant: null,
            used: 0,
            free: 12,
            holders: [],
            waiters: 0,
            queue: [],
          });
          expect(await redis.keys()).toEqual([]);
          for (let index = 0; index < 11; index++)
            await semaphore.acquire({ holder: `h${String(index)}`, leaseMs: 60_000 - 1_000 * index });
          for (let index = 0; index < 12; index++) await enqueue(semaphore, { holder: `w${String(index)}`, weight: 2 });
          const seen = await semaphore.inspect();
          expect(seen).toMatchObject({ used: 11, free: 1, waiters: 12 });
          expect(seen.holders.map(({ holder }) => holder)).toEqual(
            Array.from({ length: 10 }, (_, index) => `h${String(10 - index)}`),
          );
          expectWithin(seen.holders[0]!.msLeft, 30_000, 50_000);
          expect(seen.queue).toEqual(
            Array.from({ length: 10 }, (_, index) => ({ holder: `w${String(index)}`, weight: 2, tenant: null })),
          );
        });

        it("leaves out expired permits that no call has dropped yet", async () => {
          const semaphore = make({ permits: 9 });
          const heavy = await semaphore.acquire({ weight: 5 });
          await semaphore.acquire({ weight: 2, holder: "stays" });
          await fixture.expire(heavy);
          expect(await semaphore.inspect()).toMatchObject({ used: 2, free: 7, holders: [{ holder: "stays" }] });
        });
      });

      if (mode === "cluster") describeMovedSlot(leasing);

      slots?.itRanAll();
    });
  },
);

/** A test that fails elsewhere says why; its waiters are not to be heard beside it. */
const ignore = (): void => undefined;

const expectWithin = (value: number | null | undefined, least: number, most: number): void => {
  expect(value).toBeGreaterThanOrEqual(least);
  expect(value).toBeLessThanOrEqual(most);
};
