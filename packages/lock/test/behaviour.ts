import { KitError, KitUnavailableError } from "@kit/core";
import { eventually, type RedisMode, type RedisNode, useRedis } from "@kit/testing";
import {
  aborted,
  atBest,
  closedPort,
  endMigrations,
  guardUsers,
  inboxes,
  lapse,
  type Login,
  migrateLogin,
  moveSlot,
  onMovingSlots,
  promptMs,
  rejection,
  timed,
  type Watched,
  watched,
} from "@tooling/vitest/helpers";
import { Cluster, Redis } from "ioredis";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { type Lease, LockLostError, LockTimeoutError } from "../src/index.js";
import * as scripts from "../src/scripts/index.js";
import { user } from "./acl.js";
import { fixtureOf, enqueue, type LockFixture, next } from "./harness.js";

/**
 * The behaviour of a lock, on one server or on a Cluster. With a `login` it is what
 * a lock does as that user, where the server knows nobody else but the tests.
 */
export const lockBehaviour = (mode: RedisMode, login?: Login): void => {
  describe(`a lock on a ${mode === "cluster" ? "Cluster" : "single server"}${login ? ", as its ACL user" : ""}`, () => {
    const redis = useRedis(vitest, { mode, args: login ? user.serverArgs(mode) : [] });
    if (login) guardUsers(redis);
    const slots = onMovingSlots(redis, scripts, true);
    let lazyFixture: LockFixture | undefined;
    const fixture = (): LockFixture => (lazyFixture ??= fixtureOf(redis, login));
    const name = "chest";
    const key = (): string => fixture().keysOf(name).lease;

    describe("holding", () => {
      it("has the right value and expiry after acquire, extend and release", async () => {
        const { make, db } = fixture();
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

      it.each([0, -1, 9, 1.5, Number.NaN, Infinity, 86_400_001, "1000", null])(
        "refuses a lease of %s",
        async (leaseMs) => {
          const lock = fixture().make();
          const error = await rejection(lock.acquire(name, { leaseMs: leaseMs as number }));
          expect(error).toBeInstanceOf(typeof leaseMs === "number" ? RangeError : TypeError);
          expect(String(error)).toContain("an integer from 10 to 86400000");
          expect(await redis.keys()).toEqual([]);
        },
      );

      it("gives a lease that ran out to the next caller", async () => {
        const lock = fixture().make();
        const { ms, awakeMs, value } = await timed(async () => [
          await lock.acquire(name, { leaseMs: 1_000, renew: false }),
          await lock.acquire(name),
        ]);
        const [first, second] = value as [Lease, Lease];
        expect(ms).toBeGreaterThan(995);
        expect(awakeMs).toBeLessThan(promptMs);
        expect(BigInt(second.fencingToken)).toBeGreaterThan(BigInt(first.fencingToken));
        expect(first.isHeld).toBe(false);
        expect(second.isHeld).toBe(true);
      });

      it("answers a second release with the first one's outcome, and asks nobody", async () => {
        const lock = fixture().make();
        const lease = await lock.acquire(name);
        const first = lease.release();
        expect(lease.release()).toBe(first);
        expect(await first).toBe("released");
        const before = await fixture().scriptCalls();
        expect(await lease.release()).toBe("released");
        expect(await fixture().scriptCalls()).toBe(before);
      });

      it("never releases a lock that another holds by now", async () => {
        const { make, db } = fixture();
        const stale = await make().acquire(name, { renew: false });
        // The first holder believes in its ten seconds; the server has ended them.
        await lapse(db, key());
        const owner = await make({ holder: "next" }).acquire(name);
        expect(stale.isHeld).toBe(true);
        expect(await stale.release()).toBe("not-held");
        expect(await db.get(key())).toBe(`${owner.token}|next`);
        expect(await owner.release()).toBe("released");
      });

      it("never brings a lost lease back by extending it", async () => {
        const { make, db } = fixture();
        const lease = await make().acquire(name);
        await db.del(key());
        const error = await rejection(lease.extend(5_000));
        expect(error).toMatchObject({
          name: "LockLostError",
          code: "KIT_LOCK_LOST",
          reason: "expired",
          resource: name,
        });
        expect(await db.exists(key())).toBe(0);
        expect(lease.signal.aborted).toBe(true);
      });

      it("replaces what is left by what an extend asks for, and takes only integers", async () => {
        const { make, db } = fixture();
        const lease = await make().acquire(name, { leaseMs: 4_000, renew: false });
        await lease.extend(8_000);
        await lease.extend(3_000);
        expectWithin(await db.pttl(key()), 1, 3_000);
        expectWithin(lease.remainingMs, 1, 3_000);
        await expect(lease.extend(7_000.5)).rejects.toThrow(RangeError);
        expect(await db.pttl(key())).toBeLessThanOrEqual(3_000);
      });

      // A lease without an end cannot be asked for; only a stranger can make one, by PERSIST.
      it("gives a lease whose end was taken away its end back at the next renewal", async () => {
        const { make, db } = fixture();
        const lock = make();
        const lease = await lock.acquire(name, { leaseMs: 9_000 });
        await db.persist(key());
        expect(await lock.inspect(name)).toMatchObject({ state: "held", msLeft: Infinity });
        expect(await lock.tryAcquire(name)).toBeNull();
        await eventually(async () => expectWithin(await db.pttl(key()), 1, 9_000));
        expect(lease.isHeld).toBe(true);
      });

      it("renews a lease over many periods and keeps the others out", async () => {
        const { make, on } = fixture();
        const lease = await make().acquire(name, { leaseMs: 1_500 });
        const other = on(fixture().connect());
        // Six renewals long.
        await expect(other.acquire(name, { waitMs: 3_000 })).rejects.toThrow(LockTimeoutError);
        expect(await other.tryAcquire(name)).toBeNull();
        expect([lease.isHeld, lease.signal.aborted]).toEqual([true, false]);
        expect(await lease.release()).toBe("released");
      });

      it("lets the lease lapse after stopRenewal", async () => {
        const { make } = fixture();
        const lock = make();
        const lease = await lock.acquire(name, { leaseMs: 300 });
        lease.stopRenewal();
        const next = lock.acquire(name);
        expect(await aborted(lease.signal)).toMatchObject({ reason: "stopped" });
        await expect(next).resolves.toMatchObject({ isHeld: true });
      });

      it("has one renewal under way at a time", async () => {
        const { on, nodeOf } = fixture();
        const client = fixture().connect() as Redis;
        const lock = on(client);
        const lease = await lock.acquire(name, { leaseMs: 1_500 });
        const call = client.call.bind(client) as (...args: unknown[]) => Promise<unknown>;
        let flying = 0;
        let most = 0;
        let renewals = 0;
        client.call = (async (...args: unknown[]) => {
          most = Math.max(most, ++flying);
          renewals++;
          return await call(...args).finally(() => flying--);
        }) as typeof client.call;
        const node = await nodeOf(name);
        // Longer than the third of the lease after which a renewal is due.
        for (let wanted = 1; wanted <= 3; wanted++) {
          await node.call("CLIENT", "PAUSE", "600", "ALL");
          await eventually(() => expect(renewals).toBeGreaterThanOrEqual(wanted));
          await eventually(() => expect(flying).toBe(0));
        }
        expect(most).toBe(1);
        expect(lease.isHeld).toBe(true);
      });

      it("distinguishes a lease that was deleted from one that another took", async () => {
        const { make, db } = fixture();
        const lock = make();
        const deleted = await lock.acquire(name, { leaseMs: 900 });
        await db.del(key());
        expect(await aborted(deleted.signal)).toMatchObject({ reason: "expired", fencingToken: deleted.fencingToken });
        const taken = await lock.acquire(name, { leaseMs: 900 });
        await db.set(key(), "somebody|else", "PX", 5_000);
        expect(await aborted(taken.signal)).toMatchObject({ reason: "taken", fencingToken: taken.fencingToken });
        expect(await taken.release()).toBe("not-held");
        expect(await db.get(key())).toBe("somebody|else");
      });

      it("shows a loss also to a signal that is first read after it", async () => {
        const { make, db } = fixture();
        const lock = make();
        const lease = await lock.acquire(name, { leaseMs: 900 });
        const lost = next(lock, "lost");
        await db.del(key());
        expect(await lost).toEqual({ name, fencingToken: lease.fencingToken, reason: "expired" });
        expect(lease.signal.aborted).toBe(true);
        expect(lease.signal.reason).toMatchObject({ code: "KIT_LOCK_LOST" });
      });

      it("can be disposed of while it is being extended", async () => {
        const { make, db } = fixture();
        const lock = make();
        let extending: Promise<void> | undefined;
        {
          await using lease = await lock.acquire(name);
          extending = lease.extend();
          extending.catch(() => undefined);
        }
        expect(await rejection(extending)).toMatchObject({ reason: "released" });
        expect(await db.exists(key())).toBe(0);
      });

      it("leaves what remains as it was after an extend that failed", async () => {
        const { make, nodeOf } = fixture();
        const lease = await make({ deadlineMs: 1_000 }).acquire(name, { leaseMs: 30_000, renew: false });
        const node = await nodeOf(name);
        node.pause();
        const before = lease.remainingMs;
        const error = await rejection(lease.extend(60_000));
        node.resume();
        expect(KitError.is(error)).toBe(true);
        expect(lease.remainingMs).toBeLessThan(before);
        expect(lease.isHeld).toBe(true);
        expect(lease.leaseMs).toBe(30_000);
      });

      it("can be released again after a release that got no answer", async () => {
        const { make, nodeOf, db } = fixture();
        const lease = await make({ deadlineMs: 1_000 }).acquire(name);
        const node = await nodeOf(name);
        node.pause();
        const error = await rejection(lease.release());
        node.resume();
        expect(KitError.is(error)).toBe(true);
        expect(await lease.release()).toBe("released");
        expect(await db.exists(key())).toBe(0);
      });

      it("gives every grant a larger fencing token, also after expiry, force and a clock that went back", async () => {
        const { make, db, keysOf } = fixture();
        const lock = make();
        const tokens: bigint[] = [];
        const take = async (renew = true): Promise<Awaited<ReturnType<typeof lock.acquire>>> => {
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

      it("distinguishes names by case, length, braces and prefix", async () => {
        const { make } = fixture();
        const lock = make();
        const names = [
          "a",
          "A",
          "{a}",
          "{a",
          "a}",
          "a:lease",
          "a%7B",
          " a",
          "ä",
          "a\u0308",
          "x".repeat(512),
          "x".repeat(511),
        ];
        const leases = await Promise.all(names.map((one) => lock.tryAcquire(one)));
        expect(leases.filter((lease) => lease === null)).toEqual([]);
        expect(await Promise.all(names.map((one) => lock.tryAcquire(one)))).toEqual(names.map(() => null));
        expect(await rejection(lock.acquire("x".repeat(1_000)))).toMatchObject({ code: "KIT_NAME" });
        const elsewhere = make({ prefix: `${redis.prefix}-other` });
        expect(await elsewhere.tryAcquire("a")).not.toBeNull();
      });

      it("moves to another process by its text", async () => {
        const { make, spawn, db } = fixture();
        const lock = make();
        const lease = await lock.acquire(name, { leaseMs: 1_000 });
        const peer = await spawn();
        const resumed = await peer.resume(lease.serialise());
        expect(resumed).toMatchObject({ token: lease.token, fencingToken: lease.fencingToken });
        lease.stopRenewal();
        // Ours would end now; the other process keeps the lock alive, for longer than one lease.
        expect(await aborted(lease.signal)).toMatchObject({ reason: "stopped" });
        await expect(lock.acquire(name, { waitMs: 1_300 })).rejects.toThrow(LockTimeoutError);
        expect(await peer.release(resumed)).toBe("released");
        expect(await db.exists(key())).toBe(0);
      });

      it.each(["the first holder", "the one that resumed it"])(
        "is released once, by %s: the other's release comes too late",
        async (first) => {
          const { make } = fixture();
          const lease = await make().acquire(name);
          const resumed = await make().resume(lease.serialise());
          const waiter = await enqueue(make(), name);
          const [early, late] = first === "the first holder" ? [lease, resumed] : [resumed, lease];
          expect(await early.release()).toBe("released");
          await waiter.promise;
          expect(await late.release()).toBe("not-held");
        },
      );

      it("can be resumed only while it is held", async () => {
        const lock = fixture().make();
        const lease = await lock.acquire(name);
        const text = lease.serialise();
        await lease.release();
        expect(await rejection(lock.resume(text))).toMatchObject({ code: "KIT_LOCK_LOST", reason: "expired" });
        await lock.acquire(name);
        expect(await rejection(lock.resume(text))).toMatchObject({ code: "KIT_LOCK_LOST", reason: "taken" });
      });
    });

    describe("using", () => {
      it("lets the routine's own error win over the loss", async () => {
        const { make, db } = fixture();
        const lock = make();
        const own = new Error("the routine's own");
        const losing = async (signal: AbortSignal): Promise<void> => {
          await db.del(key());
          await aborted(signal);
        };
        const failed = lock.using(
          name,
          async ({ signal }) => {
            await losing(signal);
            throw own;
          },
          { leaseMs: 900 },
        );
        expect(await rejection(failed)).toBe(own);
        const ended = lock.using(name, async ({ signal }) => losing(signal), { leaseMs: 900 });
        expect(await rejection(ended)).toBeInstanceOf(LockLostError);
      });

      it("passes on what the routine returns, throws and rejects with, and frees the lock each time", async () => {
        const { make, db } = fixture();
        const lock = make();
        const own = new Error("the routine's own");
        expect(await lock.using(name, ({ isHeld }) => ({ isHeld }))).toEqual({ isHeld: true });
        expect(await db.exists(key())).toBe(0);
        const thrown = lock.using(name, () => {
          throw own;
        });
        expect(await rejection(thrown)).toBe(own);
        expect(await db.exists(key())).toBe(0);
        expect(await rejection(lock.using(name, () => Promise.reject(own)))).toBe(own);
        expect(await db.exists(key())).toBe(0);
      });
    });

    describe("waiting", () => {
      it("gives up at waitMs, with holder and time left", async () => {
        const { make } = fixture();
        const lock = make();
        await lock.acquire(name, { holder: "the first" });
        for (const _round of ["the first wait", "a later wait"]) {
          const { ms, awakeMs, value: error } = await timed(() => rejection(lock.acquire(name, { waitMs: 250 })));
          expect(error).toBeInstanceOf(LockTimeoutError);
          expect(error).toMatchObject({
            code: "KIT_LOCK_TIMEOUT",
            resource: name,
            holder: "the first",
            retryable: true,
          });
          expectWithin((error as LockTimeoutError).msLeft, 1, 10_000);
          expect(ms).toBeGreaterThan(240);
          expect(awakeMs).toBeLessThan(promptMs);
        }
        await fixture().untilWaiting(name, 0);
      });

      it("reports an unreachable server in time and by its address", async () => {
        const port = closedPort;
        const at = { host: "127.0.0.1", port };
        const client =
          mode === "cluster"
            ? new Cluster([at], { redisOptions: { disconnectTimeout: 50 } })
            : new Redis({ ...at, disconnectTimeout: 50 });
        redis.defer(() => client.disconnect());
        const lock = fixture().on(client, { deadlineMs: 1_000 });
        const patient = watched(fixture().on(client, { deadlineMs: 20_000 }).tryAcquire(name));
        const error = await rejection(lock.acquire(name));
        expect(error).toBeInstanceOf(KitUnavailableError);
        expect(String(error)).toMatch(mode === "cluster" ? /the cluster|127\.0\.0\.1/ : `127.0.0.1:${String(port)}`);
        expect(patient.isSettled).toBe(false);
      });

      it("tries once with a waitMs of 0, and takes no other number for ever", async () => {
        const { make, scriptCalls } = fixture();
        const lock = make();
        const lease = await lock.acquire(name);
        const before = await scriptCalls();
        await expect(lock.acquire(name, { waitMs: 0 })).rejects.toThrow(LockTimeoutError);
        expect((await scriptCalls()) - before).toBe(1);
        for (const waitMs of [-1, Infinity, 0.5])
          await expect(lock.acquire(name, { waitMs })).rejects.toThrow(RangeError);
        const waiter = await enqueue(lock, name);
        await lease.release();
        expect(await waiter.promise).toMatchObject({ isHeld: true });
      });

      it("ends a wait at waitMs however long the holder's lease and the next look are", async () => {
        const { make, untilWaiting } = fixture();
        const lock = make();
        await lock.acquire(name, { leaseMs: 60_000 });
        const patient = await enqueue(lock, name);
        const hasty = await timed(() => rejection(lock.acquire(name, { waitMs: 300 })));
        expect(hasty.value).toBeInstanceOf(LockTimeoutError);
        expect(hasty.ms).toBeGreaterThan(290);
        expect(hasty.awakeMs).toBeLessThan(promptMs);
        await untilWaiting(name, 1);
        expect(patient.isSettled).toBe(false);
        await lock.forceRelease(name);
        await patient.promise;
      });

      it("never touches Redis with a signal that has aborted already", async () => {
        const { on } = fixture();
        const client = fixture().connect({ lazyConnect: true }, { lazyConnect: true });
        const lock = on(client);
        const reason = new Error("too late");
        const signal = AbortSignal.abort(reason);
        expect(await rejection(lock.acquire(name, { signal }))).toBe(reason);
        expect(await rejection(lock.tryAcquire(name, { signal }))).toBe(reason);
        expect(client.status).toBe("wait");
      });

      it("never grants to a waiter that was cancelled before the lock was freed", async () => {
        const { make, untilWaiting } = fixture();
        const lock = make();
        const lease = await lock.acquire(name);
        const controller = new AbortController();
        const reason = new Error("never mind");
        const cancelled = await enqueue(lock, name, { signal: controller.signal });
        const waiter = await enqueue(lock, name);
        controller.abort(reason);
        expect(await rejection(cancelled.promise)).toBe(reason);
        await untilWaiting(name, 1);
        await lease.release();
        const second = await waiter.promise;
        expect(await second.release()).toBe("released");
        expect((await lock.inspect(name)).state).toBe("free");
      });

      it("serves four processes in the order of their arrival", async () => {
        const { make, spawn, untilWaiting } = fixture();
        const peers = await Promise.all([spawn(), spawn(), spawn(), spawn()]);
        const holder = await make().acquire(name);
        const served: number[] = [];
        const turns: Promise<unknown>[] = [];
        const order = [2, 0, 3, 1, 1, 3, 0, 2, 0, 0, 3, 2];
        for (const [turn, index] of order.entries()) {
          const peer = peers[index]!;
          turns.push(
            peer.acquire(name).then(async (lease) => {
              served.push(turn);
              await peer.release(lease);
            }),
          );
          await untilWaiting(name, turn + 1);
        }
        await holder.release();
        await Promise.all(turns);
        expect(served).toEqual(order.map((_, turn) => turn));
      });

      it("passes over a first waiter whose process died", async () => {
        const { make, spawn, untilWaiting } = fixture();
        const lock = make();
        const holder = await lock.acquire(name);
        const dead = await spawn();
        dead.acquire(name).catch(() => undefined);
        await untilWaiting(name, 1);
        const waiter = await enqueue(lock, name);
        await dead.kill();
        await eventually(async () => expect(await inboxes(redis.server.nodes)).toBe(1));
        await holder.release();
        const { awakeMs } = await timed(waiter.promise);
        // On a Cluster nobody can see that it died: its grant of two seconds must run out.
        expect(awakeMs).toBeLessThan(mode === "cluster" ? 10_000 : promptMs);
      });

      it("gives waiters that come and go no influence on anyone's turn", async () => {
        const { make, db, keysOf, untilWaiting } = fixture();
        const lock = make();
        const holder = await lock.acquire(name);
        const patient = await enqueue(lock, name);
        const { queue } = keysOf(name);
        const ticket = await db.zrange(queue, "0", "-1", "WITHSCORES");
        const impatient = Array.from({ length: 40 }, (_, index) => lock.acquire(name, { waitMs: 20 + index }));
        const outcomes = await Promise.allSettled(impatient);
        expect(outcomes.every(({ status }) => status === "rejected")).toBe(true);
        await untilWaiting(name, 1);
        expect(await db.zrange(queue, "0", "-1", "WITHSCORES")).toEqual(ticket);
        await holder.release();
        expect((await timed(patient.promise)).awakeMs).toBeLessThan(promptMs);
      });

      it("refuses a single try while others wait, also when the lease has run out", async () => {
        const { make, on, db } = fixture();
        const lock = make();
        await lock.acquire(name, { renew: false });
        const waiter = await enqueue(lock, name);
        const other = on(fixture().connect());
        expect(await other.tryAcquire(name)).toBeNull();
        await lapse(db, key());
        expect(await other.tryAcquire(name)).toBeNull();
        expect((await timed(waiter.promise)).awakeMs).toBeLessThan(promptMs);
      });

      it("hands over by force to the first who waits, and the former holder learns of it", async () => {
        const { make, db } = fixture();
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

      it("refuses more waiters than maxWaiters", async () => {
        const { make } = fixture();
        const lock = make({ maxWaiters: 2 });
        const holder = await lock.acquire(name);
        const first = await enqueue(lock, name);
        const second = await enqueue(lock, name);
        const error = await rejection(lock.acquire(name));
        expect(error).toMatchObject({ code: "KIT_LOCK_QUEUE_FULL", resource: name, maxWaiters: 2, retryable: true });
        await holder.release();
        await (await first.promise).release();
        await (await second.promise).release();
        expect(await lock.tryAcquire(name)).not.toBeNull();
      });

      it("shows holder, time left, fencing token and waiters to whoever looks", async () => {
        const { make } = fixture();
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

    describe("a holder or a server that is gone", () => {
      it("whose last writes are lost has what it grants to those who were served or gave up released at once", async () => {
        const renewing = fixture().make();
        const limited = fixture().make({ leaseMs: 60_000, renew: false });
        const holder = await renewing.acquire(name);
        const waiters: Watched<Lease>[] = [];
        for (let index = 0; index < 10; index++)
          waiters.push(await enqueue(index % 2 === 0 ? renewing : limited, name));
        const abort = new AbortController();
        const gone = await enqueue(limited, name, { signal: abort.signal });
        const passedOn = await enqueue(renewing, name);
        const { lease, fence: _, ...line } = fixture().keysOf(name);
        const { db } = fixture();
        const kept = await Promise.all(
          Object.values(line).map(async (key) => [key, await db.dumpBuffer(key)] as const),
        );
        abort.abort();
        await rejection(gone.promise);
        await holder.release();
        for (const waiter of waiters) await (await waiter.promise).release();
        const last = await passedOn.promise;
        await last.extend();
        const text = last.handOver();
        // As a replica that had not heard of all that.
        await Promise.all([lease, ...Object.values(line)].map((key) => db.del(key)));
        for (const [key, dump] of kept) if (dump) await db.restore(key, 20_000, dump);
        expect(await limited.tryAcquire(name)).toBeNull();
        // A lease that was handed over is left to its new holder.
        await eventually(async () => expect(await db.get(lease)).toBe(`${last.token}|${last.holder}`), {
          timeoutMs: 1_500,
        });
        expect(await (await renewing.resume(text)).release()).toBe("released");
      });

      it("is replaced when its lease is over", async () => {
        const { make, spawn } = fixture();
        const peer = await spawn();
        await peer.acquire(name, { leaseMs: 600 });
        const lock = make();
        const waiter = await enqueue(lock, name);
        await peer.kill();
        const { awakeMs } = await timed(waiter.promise);
        expect(awakeMs).toBeLessThan(promptMs);
      });

      it("is replaced as soon in front of many waiters of one process as in front of one", async () => {
        // Each step of waiting for one's turn is 20 ms, half a second at most.
        await atBest(250, async () => {
          const lock = fixture().make();
          const lease = await lock.acquire(name, { leaseMs: 1_000, renew: false });
          const expired = aborted(lease.signal);
          const waiters = Array.from({ length: 40 }, () => lock.acquire(name));
          for (const waiter of waiters) waiter.catch(() => undefined);
          await expired;
          const { awakeMs } = await timed(Promise.race(waiters));
          await lock.close({ timeoutMs: 0 });
          return awakeMs;
        });
      });

      it("notifies the holder when the server comes back without its data", async () => {
        const { make, nodeOf } = fixture();
        const lock = make();
        const lease = await lock.acquire(name);
        const node = await nodeOf(name);
        await node.kill();
        await node.start();
        expect(await aborted(lease.signal)).toMatchObject({ reason: "expired" });
        expect(await eventually(() => lock.tryAcquire(name, {}))).not.toBeNull();
      });

      it("is waited for while the server is killed and comes back", async () => {
        const { make, nodeOf } = fixture();
        const lock = make();
        await lock.acquire(name, { renew: false, leaseMs: 60_000 });
        const waiter = await enqueue(lock, name);
        const requeued = next(lock, "requeued");
        const node = await nodeOf(name);
        await node.kill();
        await node.start();
        expect(await requeued).toEqual({ name });
        expect(await waiter.promise).toMatchObject({ isHeld: true });
      });

      it("keeps its lock when its connections are killed, and lets nobody in beside it", async () => {
        const { on, db } = fixture();
        const lock = on(fixture().connect());
        const lease = await lock.acquire(name, { leaseMs: 9_000 });
        const endsAt = async (): Promise<number> => Date.now() + (await db.pttl(key()));
        const firstEnd = await endsAt();
        const waiter = await enqueue(lock, name);
        const other = fixture().make();
        for (let round = 0; round < 3; round++) {
          for (const type of ["normal", "pubsub"])
            for (const node of redis.server.nodes) await node.call("CLIENT", "KILL", "TYPE", type);
          expect(await eventually(() => other.tryAcquire(name))).toBeNull();
        }
        // It is renewed over the new connections.
        await eventually(async () => expect(await endsAt()).toBeGreaterThan(firstEnd + 2_000));
        await expect(other.acquire(name, { waitMs: 1_000 })).rejects.toThrow(LockTimeoutError);
        expect([lease.isHeld, waiter.isSettled]).toEqual([true, false]);
        expect(await lease.release()).toBe("released");
        expect(await waiter.promise).toMatchObject({ isHeld: true });
      });

      it("goes on through SCRIPT FLUSH and a server that is busy", async () => {
        const { make, nodeOf, db } = fixture();
        const lock = make();
        const flush = (): Promise<unknown> =>
          Promise.all(redis.server.nodes.map((node) => node.call("SCRIPT", "FLUSH")));
        const lease = await lock.acquire(name);
        await flush();
        const waiter = await enqueue(lock, name);
        const node = await nodeOf(name);
        const busy = node.call("EVAL", "local n = 0 for i = 1, 2e7 do n = n + i end return 1", "0");
        await flush();
        await busy;
        expect(lease.isHeld).toBe(true);
        await flush();
        expect(await lease.release()).toBe("released");
        const second = await waiter.promise;
        await flush();
        await second.extend();
        await flush();
        expect(await lock.inspect(name)).toMatchObject({ state: "held" });
        await flush();
        expect(await second.release()).toBe("released");
        expect(await db.exists(key())).toBe(0);
      });
    });

    if (mode === "cluster")
      it("keeps its holder and its waiters through a move of their slot", async () => {
        const { make, nodeOf, keysOf, db } = fixture();
        const lock = make();
        const holder = await lock.acquire(name);
        const waiters = [await enqueue(lock, name), await enqueue(lock, name)];
        const source = await nodeOf(name);
        const target = redis.server.nodes.find((node) => node !== source)!;
        const slot = String(await source.call("CLUSTER", "KEYSLOT", key()));
        const move = async (from: RedisNode, to: RedisNode): Promise<void> => {
          const moved = { slot, from, to, login: login ? migrateLogin : [] };
          const keys = await moveSlot(redis.server.nodes, moved);
          expect(keys).toEqual(expect.arrayContaining(Object.values(keysOf(name))));
        };
        await move(source, target);
        expect(await holder.release()).toBe("released");
        const second = await waiters[0]!.promise;
        expect(waiters[1]!.isSettled).toBe(false);
        await move(target, source);
        expect(await second.release()).toBe("released");
        expect(await waiters[1]!.promise).toMatchObject({ isHeld: true });
        expect(await db.zcard(keysOf(name).queue)).toBe(0);
        await endMigrations(redis.server.nodes);
      });

    if (mode === "cluster") slots.itRanAll();
  });
};

const expectWithin = (value: number | null | undefined, least: number, most: number): void => {
  expect(value).toBeGreaterThanOrEqual(least);
  expect(value).toBeLessThanOrEqual(most);
};
