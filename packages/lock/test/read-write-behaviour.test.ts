import { eventually, useRedis } from "@kit/testing";
import {
  aborted,
  endMigrations,
  guardUsers,
  inModes,
  migrateLogin,
  moveSlot,
  onMovingSlots,
  promptMs,
  rejection,
  renewedTwice,
  timed,
} from "@tooling/vitest/helpers";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { createLock, LockLostError, type LockOptions } from "../src/index.js";
import type { ReadWriteLease, ReadWriteLock } from "../src/read-write/index.js";
import * as scripts from "../src/read-write/scripts/index.js";
import { user } from "./acl.js";
import { fixtureOf, name, type ReadWriteFixture, works } from "./read-write-harness.js";

/** The behaviour of a read/write lock, on one server or on a Cluster, with a `login` as that user. */
inModes({ single: user.loginForText, cluster: user.login }, (mode, login) => {
  const where = mode === "cluster" ? "Cluster" : "single server";
  describe(`a read/write lock on a ${where}${login ? ", as its ACL user" : ""}`, () => {
    const redis = useRedis(vitest, { mode, args: login ? user.serverArgs(mode) : [] });
    if (login) guardUsers(redis);
    const slots = onMovingSlots(redis, scripts, true);
    let lazyFixture: ReadWriteFixture | undefined;
    const fixture = (): ReadWriteFixture => (lazyFixture ??= fixtureOf(redis, login));
    /** Leases that outlast a test on any machine. */
    const make = (options?: LockOptions): ReadWriteLock =>
      fixture().make({ leaseMs: 60_000, renew: false, ...options });

    it("serves readers and writers from acquire to release", async () => {
      await works(fixture(), make(), name);
    });

    describe("readers and writers", () => {
      // Case 46 of the survey.
      it("share: many readers hold it together, a writer alone", async () => {
        const lock = make();
        const loop = async (who: number): Promise<void> => {
          const locks = who % 4 === 0 ? lock.write : lock.read;
          for (let round = 0; round < 10; round++)
            await locks.using(name, async (lease) => {
              counts[lease.mode]++;
              mostReaders = Math.max(mostReaders, counts.read);
              expect(counts.write === 0 || (counts.write === 1 && counts.read === 0)).toBe(true);
              await fixture().db.ping();
              expect(counts.write === 0 || counts.read === 0).toBe(true);
              counts[lease.mode]--;
            });
        };
        const counts = { read: 0, write: 0 };
        let mostReaders = 0;
        await Promise.all(Array.from({ length: 12 }, (_, who) => loop(who)));
        expect(mostReaders).toBeGreaterThan(1);
      });

      // Case 47.
      it("come in order of arrival: a stream of readers does not starve a writer", async () => {
        const { enqueue } = fixture();
        const lock = make();
        let isOver = false;
        const readers: string[] = [];
        const stream = async (): Promise<void> => {
          while (!isOver)
            await lock.read.using(name, async () => {
              readers.push("r");
              await fixture().db.ping();
            });
        };
        const streams = [stream(), stream(), stream(), stream()];
        for (let round = 0; round < 5; round++) {
          const writer = await enqueue(lock, "write", name);
          const before = readers.length;
          const lease = await writer.promise;
          // Each stream may have had one reader in the lock, or before the writer.
          expect(readers.length - before).toBeLessThanOrEqual(8);
          await lease.release();
        }
        isOver = true;
        await Promise.all(streams);
        expect(readers.length).toBeGreaterThan(5);
      });

      it("come in order of arrival: a stream of writers does not starve a reader", async () => {
        const { enqueue, untilWaiting } = fixture();
        const lock = make();
        const order: string[] = [];
        const held = await lock.write.acquire(name);
        const all = [];
        for (const one of ["write", "read", "read", "write"] as const)
          all.push(
            (await enqueue(lock, one, name, { holder: one })).promise.then(async (lease) => {
              order.push(lease.mode);
              await lease.release();
            }),
          );
        await untilWaiting(name, 4);
        await held.release();
        await Promise.all(all);
        expect(order).toEqual(["write", "read", "read", "write"]);
      });

      // Case 48.
      it("W R R: both readers come in together when the writer's lease expires", async () => {
        const { enqueue, holders } = fixture();
        const lock = make();
        await lock.write.acquire(name, { leaseMs: 1_000, renew: false, holder: "w" });
        const readers = [
          await enqueue(lock, "read", name, { holder: "r1" }),
          await enqueue(lock, "read", name, { holder: "r2" }),
        ];
        const { awakeMs, value } = await timed(() => Promise.all(readers.map(({ promise }) => promise)));
        expect(awakeMs).toBeLessThan(1_000 + promptMs);
        expect(await holders(name)).toEqual(["r1", "r2"]);
        expect((value as ReadWriteLease[]).map(({ isHeld }) => isHeld)).toEqual([true, true]);
      });

      // Case 50.
      it("a reader that died is replaced by the writer when its own lease is over, and one that renews is not", async () => {
        const { enqueue, end } = fixture();
        const lock = make();
        const zombie = await lock.read.acquire(name, { leaseMs: 60_000, renew: false, holder: "zombie" });
        const living = await lock.read.acquire(name, { leaseMs: 6_000, renew: true, holder: "living" });
        const writer = await enqueue(lock, "write", name);
        await end(zombie);
        await renewedTwice([living]);
        expect([living.isHeld, writer.isSettled]).toEqual([true, false]);
        await living.release();
        await (await writer.promise).release();
      });

      // Case 53.
      it("a short reader shortens no other lease: its end changes nothing for the others and the writer", async () => {
        const { enqueue, holders } = fixture();
        const lock = make();
        const long = await lock.read.acquire(name, { leaseMs: 60_000, renew: false, holder: "long" });
        await lock.read.acquire(name, { leaseMs: 300, renew: false, holder: "short" });
        const writer = await enqueue(lock, "write", name);
        await eventually(async () => expect(await holders(name)).toEqual(["long"]));
        expect([long.isHeld, writer.isSettled]).toEqual([true, false]);
        await long.release();
        await (await writer.promise).release();
      });

      it("let readers in when the writer ahead of them gives up", async () => {
        const { enqueue, untilWaiting } = fixture();
        const lock = make();
        const first = await lock.read.acquire(name);
        const controller = new AbortController();
        const writer = await enqueue(lock, "write", name, { signal: controller.signal });
        const reader = await enqueue(lock, "read", name);
        expect(reader.isSettled).toBe(false);
        controller.abort(new Error("never mind"));
        await rejection(writer.promise);
        await (await reader.promise).release();
        await untilWaiting(name, 0);
        await first.release();
      });

      it("pass the waiting writers of a killed process after two to three seconds, and no living one", async () => {
        const { connect, db, enqueue, keysOf, on, untilWaiting } = fixture();
        const first = await make().read.acquire(name);
        const peer = await fixture().spawn();
        for (let waiters = 1; waiters <= 2; waiters++) {
          // It is killed in the queue, and never settles.
          void peer.acquire().catch(() => undefined);
          await untilWaiting(name, waiters);
        }
        const reader = await enqueue(make(), "read", name);
        const other = await enqueue(on(connect()), "read", name);
        // The first writer is asked for a heartbeat every second, and answers.
        const answers = new Set<string>();
        await eventually(
          async () => {
            const { "#": _, ...waiters } = await db.hgetall(keysOf(name).waiters);
            for (const waiter of Object.values(waiters)) answers.add(/ -\d+$/.exec(waiter)?.[0] ?? "");
            expect(answers.size).toBeGreaterThan(4);
          },
          { timeoutMs: 20_000 },
        );
        expect([reader.isSettled, other.isSettled]).toEqual([false, false]);

        await peer.kill();
        const { awakeMs } = await timed(Promise.all([reader.promise, other.promise]));
        // A writer without a heartbeat counts as dead after 15 s.
        expect(awakeMs).toBeLessThan(6_000);
        expect(await make().read.tryAcquire(name)).toMatchObject({ mode: "read" });
        // A living writer is not passed.
        const writer = await enqueue(make(), "write", name);
        expect(await make().read.tryAcquire(name)).toBeNull();
        expect([first.isHeld, writer.isSettled]).toEqual([true, false]);
      });

      it("are refused a single try after a waiting writer", async () => {
        const { enqueue } = fixture();
        const lock = make();
        const first = await lock.read.acquire(name);
        const writer = await enqueue(lock, "write", name);
        expect(await lock.read.tryAcquire(name)).toBeNull();
        await first.release();
        const lease = await writer.promise;
        expect(await lock.read.tryAcquire(name)).toBeNull();
        await lease.release();
        expect(await lock.read.tryAcquire(name)).toMatchObject({ mode: "read", fencingToken: null });
      });

      it("do not meet a lock of createLock with the same name", async () => {
        const plain = createLock(fixture().connect(), { prefix: redis.prefix, deadlineMs: 10_000 });
        redis.defer(() => plain.close({ timeoutMs: 0 }));
        const lease = await plain.acquire(name);
        expect(await make().write.tryAcquire(name)).not.toBeNull();
        expect(lease.isHeld).toBe(true);
      });
    });

    describe("a lease", () => {
      // Case 52.
      it("is downgraded in one step, contended: readers come in, the writer after them waits", async () => {
        const { enqueue, holders } = fixture();
        const lock = make({ holder: "w" });
        const lease = await lock.write.acquire(name);
        const { signal } = lease;
        const reader = await enqueue(lock, "read", name, { holder: "r" });
        const writer = await enqueue(lock, "write", name);
        const { fencingToken } = lease;
        await lease.downgrade();
        expect(lease).toMatchObject({ mode: "read", isHeld: true, fencingToken });
        await reader.promise;
        expect(await holders(name)).toEqual(["r", "w"]);
        await lease.downgrade();
        await lease.extend(7_000);
        expect([writer.isSettled, signal.aborted]).toEqual([false, false]);
        await lease.release();
        await (await reader.promise).release();
        await (await writer.promise).release();
      });

      it("is upgraded only as the last reader, with a new fencing token that its release and events name", async () => {
        const lock = make();
        const released = new Promise((resolve) =>
          lock.on("released", (event) => event.mode === "write" && resolve(event)),
        );
        const [lease, beside] = [await lock.read.acquire(name), await lock.read.acquire(name)];
        expect([await lease.tryUpgrade(), lease.mode, lease.fencingToken]).toEqual([false, "read", null]);
        await beside.release();
        expect([await lease.tryUpgrade(), lease.mode]).toEqual([true, "write"]);
        const { fencingToken } = lease;
        expect(await lock.inspect(name)).toMatchObject({ state: "write", fencingToken });
        expect(await lock.read.tryAcquire(name)).toBeNull();
        expect(await lease.release()).toBe("released");
        expect(await released).toEqual({ name, mode: "write", fencingToken });
        const next = await lock.write.acquire(name);
        expect(BigInt(next.fencingToken)).toBeGreaterThan(BigInt(fencingToken!));
      });

      it("counts as a reader's after a downgrade was sent, whatever the reply to an earlier upgrade is", async () => {
        const lock = make();
        const lease = await lock.read.acquire(name);
        const upgrading = lease.tryUpgrade();
        await lease.downgrade();
        expect([await upgrading, lease.mode]).toEqual([false, "read"]);
        expect(await lock.inspect(name)).toMatchObject({ state: "read" });
      });

      it("changes its mode in the middle of using, which releases it all the same", async () => {
        const lock = make();
        const modes = await lock.write.using(name, async (lease) => {
          await lease.downgrade();
          return [lease.mode, (await lock.read.tryAcquire(name)) !== null];
        });
        expect(modes).toEqual(["read", true]);
        expect(await lock.inspect(name)).toMatchObject({ holding: 1 });
      });

      it("is lost when a change of its mode finds it gone", async () => {
        const { end } = fixture();
        const lock = make();
        for (const change of ["downgrade", "tryUpgrade"] as const) {
          const lease = await lock.write.acquire(name, { renew: false });
          await end(lease);
          expect(await rejection(lease[change]())).toBeInstanceOf(LockLostError);
          expect(await aborted(lease.signal)).toMatchObject({ reason: "expired" });
          expect(await rejection(lease[change]())).toMatchObject({ code: "KIT_LOCK_LOST" });
        }
      });

      it("moves to another process by its text, with its mode and its fencing token", async () => {
        const lock = make();
        const writer = await lock.write.acquire(name);
        const { fencingToken } = writer;
        const resumed = await make().resume(writer.handOver());
        expect(resumed).toMatchObject({ mode: "write", fencingToken });
        await resumed.downgrade();
        const reader = await lock.read.acquire(name);
        expect(await make().resume(reader.serialise())).toMatchObject({ mode: "read", fencingToken: null });
        expect(await resumed.release()).toBe("released");
      });

      it("is renewed, in either mode, together with leases of other names", async () => {
        const lock = make({ leaseMs: 3_000, renew: true });
        const leases = [
          await lock.read.acquire(name),
          await lock.write.acquire("another"),
          await lock.read.acquire(name),
        ];
        await leases[1]!.downgrade();
        await renewedTwice(leases);
        expect(leases.map(({ isHeld }) => isHeld)).toEqual([true, true, true]);
        for (const lease of leases) expect(await lease.release()).toBe("released");
      });
    });

    it("leaves nothing except the fence and the last ticket", async () => {
      const { keysOf, db } = fixture();
      await works(fixture(), make(), name);
      const { leases, fence, queue, waiters } = keysOf(name);
      expect([await db.exists(leases), await db.exists(queue)]).toEqual([0, 0]);
      expect(await db.hkeys(waiters)).toEqual(["#"]);
      expect(await db.pttl(fence)).toBeGreaterThan(6 * 86_400_000);
    });

    if (mode === "cluster")
      it("keeps its holders and its waiters through a move of their slot", async () => {
        const { enqueue, keysOf, nodeOf } = fixture();
        const [lock, elsewhere] = [make(), make()];
        const readers = [await lock.read.acquire(name), await elsewhere.read.acquire(name)];
        const writer = await enqueue(lock, "write", name, { waitMs: 60_000 });
        const late = await enqueue(elsewhere, "read", name, { waitMs: 60_000 });
        const from = await nodeOf(name);
        const to = redis.server.nodes.find((node) => node !== from)!;
        const slot = String(await from.call("CLUSTER", "KEYSLOT", keysOf(name).leases));
        const keys = await moveSlot(redis.server.nodes, { slot, from, to, login: login ? migrateLogin : [] });
        expect(keys).toEqual(expect.arrayContaining(Object.values(keysOf(name))));
        for (const reader of readers) expect(await reader.release()).toBe("released");
        const lease = await writer.promise;
        expect(late.isSettled).toBe(false);
        await lease.release();
        await (await late.promise).release();
        await endMigrations(redis.server.nodes);
      });

    if (mode === "cluster") slots.itRanAll();
  });
});
