import { eventually, useRedis } from "@kit/testing";
import { aborted, guardUsers, inModes, promptMs, rejection, timed } from "@tooling/vitest/helpers";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { type AcquireOptions, type Lease, type LeaseSet, type Lock, LockLostError } from "../src/index.js";
import { user } from "./acl.js";
import { enqueue, fixtureOf, type LockFixture, next } from "./harness.js";

const reason = new Error("never mind");

/** The behaviour of several names at once, on one server or on a Cluster, where the names lie on several nodes. */
inModes({ single: user.loginForText, cluster: user.login }, (mode, login) => {
  describe(`several names on a ${mode === "cluster" ? "Cluster" : "single server"}`, () => {
    const redis = useRedis(vitest, { mode, args: login ? user.serverArgs(mode) : [] });
    if (login) guardUsers(redis);
    let lazyFixture: LockFixture | undefined;
    const fixture = (): LockFixture => (lazyFixture ??= fixtureOf(redis, login));
    const names = ["bow", "chest", "lamp", "sword", "well"];
    const [bow, chest, lamp, sword, well] = names as [string, string, string, string, string];
    const key = (name: string): string => fixture().keysOf(name).lease;

    /** The names that somebody holds, by the server. */
    const held = async (): Promise<string[]> => {
      const exist = await Promise.all(names.map((name) => fixture().db.exists(key(name))));
      return names.filter((_, index) => exist[index] === 1);
    };
    const untilHeld = (wanted: readonly string[]): Promise<void> =>
      eventually(async () => expect(await held()).toEqual(wanted));
    const untilNoneWaits = async (): Promise<void> => {
      for (const name of names) await fixture().untilWaiting(name, 0);
    };
    /** Asks for a set, and resolves once it stands in a queue. */
    const enqueueAll = async (
      lock: Lock,
      wanted: readonly string[],
      options?: AcquireOptions,
    ): Promise<{ readonly promise: Promise<LeaseSet>; readonly waitsFor: string }> => {
      const waiting = next(lock, "waiting");
      const promise = lock.acquireAll(wanted, options);
      promise.catch(() => undefined);
      return { promise, waitsFor: (await waiting).name };
    };

    describe("a set", () => {
      it("holds each name under a lease and its own fencing token, duplicates once", async () => {
        const set = await fixture()
          .make({ holder: "me" })
          .acquireAll([lamp, bow, lamp, chest, bow], { leaseMs: 9_000 });
        expect(set.names).toEqual([bow, chest, lamp]);
        expect(await held()).toEqual([bow, chest, lamp]);
        const owners = await Promise.all(set.names.map((name) => fixture().db.get(key(name))));
        expect(owners.every((owner) => owner?.endsWith("|me"))).toBe(true);
        expect(new Set(owners).size).toBe(3);
        expect([...set.fencingTokens.keys()]).toEqual([bow, chest, lamp]);
        for (const [name, token] of set.fencingTokens)
          expect(await fixture().db.get(fixture().keysOf(name).fence)).toBe(`1:${token}`);
        expect([set.isHeld, set.signal.aborted, set.remainingMs > 0]).toEqual([true, false, true]);
        set.assertHeld();
        expect(await set.release()).toBe("released");
        expect(await held()).toEqual([]);
        expect([set.isHeld, set.signal.aborted, set.remainingMs]).toEqual([false, false, 0]);
        expect(() => set.assertHeld()).toThrow("it was released");
        expect(await set.release()).toBe("released");
      });

      it.each<[string, unknown, string]>([
        ["an empty list", [], "RangeError"],
        ["a text", "chest", "TypeError"],
        ["nothing", undefined, "TypeError"],
        ["101 names", Array.from({ length: 101 }, (_, index) => `name-${String(index)}`), "RangeError"],
        ["an empty name", ["chest", ""], "KitError"],
        ["a name that is a number", ["chest", 1], "KitError"],
        ["a name of 513 bytes", ["chest", "x".repeat(513)], "KitError"],
      ])("refuses %s before it sends anything", async (_what, wrong, error) => {
        const lock = fixture().make();
        const before = await fixture().scriptCalls();
        const given = wrong as readonly string[];
        for (const call of [
          () => lock.acquireAll(given),
          () => lock.tryAcquireAll(given),
          () => lock.usingAll(given, () => expect.unreachable()),
        ])
          expect(await rejection(call())).toMatchObject({ name: error });
        expect(await fixture().scriptCalls()).toBe(before);
        expect(await redis.keys()).toEqual([]);
      });

      it("may have a hundred names", async () => {
        const many = Array.from({ length: 100 }, (_, index) => `name-${String(index)}`);
        const lock = fixture().make();
        const set = await lock.acquireAll([...many, ...many]);
        expect(set.fencingTokens.size).toBe(100);
        expect(await lock.tryAcquire("name-99")).toBeNull();
        expect(await set.release()).toBe("released");
      });

      it("excludes what overlaps, and runs next to what does not", async () => {
        const lock = fixture().make();
        const set = await lock.acquireAll([bow, chest]);
        expect(await lock.tryAcquireAll([chest, lamp])).toBeNull();
        expect(await lock.tryAcquire(bow)).toBeNull();
        const other = await lock.acquireAll([lamp, sword], { waitMs: 0 });
        expect(await held()).toEqual([bow, chest, lamp, sword]);
        await set.release();
        await other.release();
        await using again = await lock.tryAcquireAll([chest, lamp]);
        expect(again?.isHeld).toBe(true);
      });

      it("is taken as a whole or not at all", async () => {
        const lock = fixture().make();
        const lease = await lock.acquire(lamp);
        expect(await lock.tryAcquireAll(names)).toBeNull();
        expect(await rejection(lock.acquireAll(names, { waitMs: 0 }))).toMatchObject({
          code: "KIT_LOCK_TIMEOUT",
          resource: lamp,
        });
        await untilHeld([lamp]);
        await untilNoneWaits();
        await lease.release();
      });

      it("is one round trip with one command per name if all are free, to acquire and to release", async () => {
        const client = fixture().connect();
        const lock = fixture().on(client);
        // The scripts are known by now.
        await (await lock.acquireAll(names)).release();
        const calls = watchCalls(client);
        const set = await lock.acquireAll(names);
        expect(calls.end()).toEqual({ calls: names.length, together: names.length });
        const releases = watchCalls(client);
        await set.release();
        expect(releases.end()).toEqual({ calls: names.length, together: names.length });
      });

      it("is extended as a whole, and refuses a length that is none", async () => {
        const { db } = fixture();
        const set = await fixture().make().acquireAll([bow, chest], { leaseMs: 3_000, renew: false });
        await set.extend(60_000);
        for (const name of set.names) expect(await db.pttl(key(name))).toBeGreaterThan(50_000);
        expect(set.remainingMs).toBeGreaterThan(50_000);
        await expect(set.extend(1.5)).rejects.toThrow(RangeError);
        await set.release();
        expect(await rejection(set.extend())).toMatchObject({ code: "KIT_LOCK_LOST", reason: "released" });
      });

      it("lasts as long as the shortest of its leases", async () => {
        const { make, db } = fixture();
        const lock = make();
        const last = await lock.acquire(chest);
        const waiting = await enqueueAll(lock, [bow, chest], { leaseMs: 30_000, renew: false });
        await eventually(async () => expect(await db.pttl(key(bow))).toBeLessThan(29_000));
        await last.release();
        const set = await waiting.promise;
        expect(await db.pttl(key(chest))).toBeGreaterThan(29_000);
        expect(set.remainingMs).toBeLessThan(29_000);
      });

      it("is used and released, even after an error", async () => {
        const lock = fixture().make();
        expect(await lock.usingAll([chest, bow], async ({ names: own }) => [own, await held()])).toEqual([
          [bow, chest],
          [bow, chest],
        ]);
        expect(await held()).toEqual([]);
        const failing = lock.usingAll([chest, bow], () => {
          throw reason;
        });
        expect(await rejection(failing)).toBe(reason);
        expect(await held()).toEqual([]);
        await expect(lock.usingAll([bow], undefined as never)).rejects.toThrow(TypeError);
        {
          await using set = await lock.acquireAll([chest, bow]);
          expect(set.isHeld).toBe(true);
        }
        expect(await held()).toEqual([]);
      });
    });

    describe("a set that waits", () => {
      it("holds the names before the one it waits for, however long, and none after", async () => {
        const lock = fixture().make();
        const lease = await lock.acquire(chest);
        const waiting = await enqueueAll(lock, [lamp, chest, bow, sword], { leaseMs: 4_000 });
        expect(waiting.waitsFor).toBe(chest);
        await untilHeld([bow, chest]);
        // Longer than its leases.
        expect(await rejection(lock.acquire(bow, { waitMs: 5_000 }))).toMatchObject({ code: "KIT_LOCK_TIMEOUT" });
        await (await lock.tryAcquire(lamp))!.release();
        await lease.release();
        const { awakeMs, value: set } = await timed(waiting.promise);
        expect(awakeMs).toBeLessThan(promptMs);
        expect(await held()).toEqual([bow, chest, lamp, sword]);
        expect(await set.release()).toBe("released");
      });

      it("continues from name to name, and is served in order of arrival at each", async () => {
        const [first, second] = [fixture().make(), fixture().on(fixture().connect())];
        const leases = new Map<string, Lease>();
        for (const name of [bow, lamp]) leases.set(name, await first.acquire(name));
        const set = await enqueueAll(first, [bow, chest, lamp]);
        const behind = await enqueue(second, bow);
        const before = await enqueue(second, lamp);
        const toLamp = next(first, "waiting");
        await leases.get(bow)!.release();
        expect(await toLamp).toMatchObject({ name: lamp });
        await fixture().untilWaiting(lamp, 2);
        await leases.get(lamp)!.release();
        // It came to this queue after that one.
        await (await before.promise).release();
        await (await set.promise).release();
        await (await behind.promise).release();
      });

      it("has one waitMs, and leaves nothing when that is over", async () => {
        const [lock, other] = [fixture().make(), fixture().on(fixture().connect())];
        const [first, second] = [await other.acquire(bow), await other.acquire(lamp)];
        const startedAt = performance.now();
        const waiting = await enqueueAll(lock, names, { waitMs: 4_000 });
        await eventually(() => expect(performance.now() - startedAt).toBeGreaterThan(2_000));
        await first.release();
        const { ms, value: error } = await timed(rejection(waiting.promise));
        expect(error).toMatchObject({ code: "KIT_LOCK_TIMEOUT", resource: lamp, holder: expect.any(String) as string });
        expect(String(error)).toContain("within 4000 ms");
        // A wait of its own for the second name would end 4,000 ms after the first was free.
        expect(ms).toBeLessThan(3_900);
        await untilHeld([lamp]);
        await untilNoneWaits();
        await second.release();
      });

      it("rejects immediately when its signal aborts, and leaves nothing", async () => {
        const [lock, other] = [fixture().make(), fixture().on(fixture().connect())];
        const lease = await other.acquire(lamp);
        const controller = new AbortController();
        const waiting = await enqueueAll(lock, names, { signal: controller.signal });
        await untilHeld([bow, chest, lamp]);
        controller.abort(reason);
        expect(await rejection(waiting.promise)).toBe(reason);
        await untilHeld([lamp]);
        await untilNoneWaits();
        const before = await fixture().scriptCalls();
        expect(await rejection(lock.acquireAll(names, { signal: controller.signal }))).toBe(reason);
        expect(await fixture().scriptCalls()).toBe(before);
        await lease.release();
      });

      it("rejects when its object is closed, and leaves nothing", async () => {
        const [lock, other] = [fixture().on(fixture().connect()), fixture().make()];
        const lease = await other.acquire(lamp);
        const waiting = await enqueueAll(lock, names);
        const closing = lock.close({ timeoutMs: 60_000 });
        expect(await rejection(waiting.promise)).toMatchObject({ code: "KIT_CLOSED" });
        expect((await timed(closing)).awakeMs).toBeLessThan(promptMs);
        await untilHeld([lamp]);
        await untilNoneWaits();
        await lease.release();
      });

      it("rejects with the loss of a name that it held meanwhile, and leaves nothing", async () => {
        const [lock, other] = [fixture().make(), fixture().on(fixture().connect())];
        const lease = await other.acquire(lamp);
        const waiting = await enqueueAll(lock, names, { leaseMs: 6_000 });
        await untilHeld([bow, chest, lamp]);
        await fixture().db.del(key(chest));
        expect(await rejection(waiting.promise)).toMatchObject({ code: "KIT_LOCK_LOST", resource: chest });
        await untilHeld([lamp]);
        await untilNoneWaits();
        await lease.release();
      });

      it("does not delay a set without a common name", async () => {
        const lock = fixture().make();
        const lease = await lock.acquire(lamp);
        const waiting = await enqueueAll(lock, [bow, lamp]);
        for (let round = 0; round < 5; round++)
          expect(await (await lock.acquireAll([chest, sword, well], { waitMs: 0 })).release()).toBe("released");
        await lease.release();
        await (await waiting.promise).release();
      });
    });

    describe("the loss of one name", () => {
      it("is the loss of the set, and frees the others", async () => {
        const lock = fixture().make();
        const set = await lock.acquireAll([bow, chest, lamp], { leaseMs: 6_000 });
        const waiter = await enqueue(lock, lamp);
        const token = set.fencingTokens.get(chest);
        await fixture().db.del(key(chest));
        const loss = await aborted(set.signal);
        expect(loss).toMatchObject({ code: "KIT_LOCK_LOST", reason: "expired", resource: chest, fencingToken: token });
        const { awakeMs, value: lease } = await timed(waiter.promise);
        expect(awakeMs).toBeLessThan(promptMs);
        await untilHeld([lamp]);
        expect([set.isHeld, set.remainingMs]).toEqual([false, 0]);
        expect(() => set.assertHeld()).toThrow(LockLostError);
        expect(await rejection(set.extend())).toBe(loss);
        expect(await set.release()).toBe("not-held");
        await lease.release();
      });

      it("is an error of usingAll, which an error of the routine precedes", async () => {
        const lock = fixture().make();
        const losing = async (set: LeaseSet): Promise<void> => {
          await fixture().db.del(key(chest));
          await aborted(set.signal);
        };
        const error = await rejection(lock.usingAll([bow, chest], losing, { leaseMs: 6_000 }));
        expect(error).toMatchObject({ code: "KIT_LOCK_LOST", resource: chest });
        const failing = lock.usingAll([bow, chest], async (set) => {
          await losing(set);
          throw reason;
        });
        expect(await rejection(failing)).toBe(reason);
      });

      it("is noticed at the release at the latest", async () => {
        const lock = fixture().make();
        const error = await rejection(
          lock.usingAll([bow, chest, lamp], () => fixture().db.del(key(chest)), { renew: false }),
        );
        expect(error).toMatchObject({ code: "KIT_LOCK_LOST", resource: chest });
        expect(await held()).toEqual([]);
        const set = await lock.acquireAll([bow, chest, lamp], { renew: false });
        await fixture().db.del(key(lamp));
        expect(await set.release()).toBe("not-held");
        expect(await held()).toEqual([]);
      });
    });

    describe("a failure of one name", () => {
      const spoil = (name: string): Promise<unknown> =>
        fixture().db.multi().del(key(name)).rpush(key(name), "stranger").pexpire(key(name), 60_000).exec();

      it("on the way rejects, and frees what was taken", async () => {
        const lock = fixture().make();
        await spoil(chest);
        for (const call of [() => lock.acquireAll(names), () => lock.tryAcquireAll(names)]) {
          expect(await rejection(call())).toMatchObject({ code: "KIT_KEY_TYPE" });
          await untilHeld([chest]);
        }
        await fixture().db.del(key(chest));
      });

      it("at the release leaves the others released", async () => {
        const lock = fixture().make();
        const set = await lock.acquireAll([bow, chest, lamp], { renew: false });
        await spoil(chest);
        expect(await rejection(set.release())).toMatchObject({ code: "KIT_KEY_TYPE" });
        expect(await held()).toEqual([chest]);
        await fixture().db.del(key(chest));
      });
    });

    describe("callers with the names in opposite orders", () => {
      /** Runs all callers at once, each `rounds` times. Counts overlaps, and tokens that did not grow. */
      const compete = async (
        wanted: readonly (readonly string[])[],
        rounds: number,
      ): Promise<{ sections: number; overlaps: number; shrunk: number }> => {
        const locks = Array.from({ length: 4 }, () => fixture().on(fixture().connect()));
        const inside = new Set<string>();
        const newest = new Map<string, bigint>();
        const found = { sections: 0, overlaps: 0, shrunk: 0 };
        const loop = async (own: readonly string[], lock: Lock): Promise<void> => {
          for (let round = 0; round < rounds; round++)
            await lock.usingAll(
              own,
              async ({ fencingTokens }) => {
                found.sections++;
                for (const [name, text] of fencingTokens) {
                  if (inside.has(name)) found.overlaps++;
                  inside.add(name);
                  if (BigInt(text) <= (newest.get(name) ?? 0n)) found.shrunk++;
                  newest.set(name, BigInt(text));
                }
                await fixture().db.exists(key(bow));
                for (const name of fencingTokens.keys()) inside.delete(name);
              },
              { waitMs: 200_000, leaseMs: 200_000, renew: false },
            );
        };
        await Promise.all(wanted.map((own, index) => loop(own, locks[index % locks.length]!)));
        return found;
      };

      it("do not wait for each other forever: two of them", async () => {
        const both = [bow, chest];
        expect(await compete([both, both.toReversed()], 100)).toEqual({ sections: 200, overlaps: 0, shrunk: 0 });
        expect(await held()).toEqual([]);
      });

      it("do not wait for each other forever: two hundred over five names", async () => {
        // Neighbours in a circle, the third name between them, and all five; every other caller the other way round.
        const wanted = Array.from({ length: 200 }, (_, index) => {
          const from = (step: number): string => names[(index + step) % names.length]!;
          const own = index % 20 === 0 ? names : index % 3 === 0 ? [from(0), from(2)] : [from(0), from(1), from(2)];
          return index % 2 === 0 ? own : own.toReversed();
        });
        expect(await compete(wanted, 3)).toEqual({ sections: 600, overlaps: 0, shrunk: 0 });
        expect(await held()).toEqual([]);
        await untilNoneWaits();
      });
    });

    if (mode === "cluster")
      it("are on several nodes here", async () => {
        const nodes = await Promise.all(names.map((name) => fixture().nodeOf(name)));
        expect(new Set(nodes).size).toBeGreaterThan(1);
      });
  });
});

/** Counts the commands of a client, and how many of them were sent before the first was answered. */
const watchCalls = (client: object): { end(): { calls: number; together: number } } => {
  const watch = client as { call: (...args: unknown[]) => Promise<unknown> };
  const { call } = watch;
  let [calls, together, answered] = [0, 0, 0];
  watch.call = async (...args: unknown[]) => {
    calls++;
    if (answered === 0) together++;
    return await call.apply(client, args).finally(() => answered++);
  };
  return {
    end: () => {
      watch.call = call;
      return { calls, together };
    },
  };
};
