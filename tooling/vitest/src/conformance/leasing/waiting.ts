import { describe, expect, it } from "vitest";
import { rejection, watched } from "../../promises.js";
import { inboxes } from "../../servers.js";
import { promptMs, timed } from "../../time.js";
import { command, expectWithin, type Leasing, unreachable } from "./leasing.js";

/** What a waiter is promised: its turn in order of arrival, the end of its wait, and a queue without the dead. */
export const describeWaiting = (leasing: Leasing): void => {
  const { name, ground, make } = leasing;
  const { redis, eventually } = ground;

  describe("waiting", () => {
    it("ends at waitMs, and the error has the holder; a waitMs of 0 and a try are one command", async () => {
      const leaser = make();
      await leaser.acquire({ holder: "the first" });
      for (const waitMs of [250, 0, 250]) {
        const { ms, awakeMs, value } = await timed(() => rejection(leaser.acquire({ waitMs })));
        expect(value).toMatchObject({ ...leasing.timeoutOf("the first"), resource: name, retryable: true });
        expectWithin((value as { msLeft: number }).msLeft, 1, 10_000);
        expect(ms).toBeGreaterThan(waitMs - 10);
        expect(awakeMs).toBeLessThan(promptMs);
      }
      await leasing.untilWaiting(0);
      for (const once of [() => rejection(leaser.acquire({ waitMs: 0 })), () => leaser.tryAcquire()]) {
        const before = await leasing.scriptCalls();
        await once();
        expect((await leasing.scriptCalls()) - before).toBe(1);
      }
      expect(await leaser.tryAcquire()).toBeNull();
    });

    it("ends at waitMs also behind one that waits longer, however long the lease is", async () => {
      const leaser = make();
      const held = await leaser.acquire({ leaseMs: 60_000 });
      const patient = await leaser.enqueue();
      const { ms, awakeMs, value } = await timed(() => rejection(leaser.acquire({ waitMs: 300 })));
      expect(value).toMatchObject(leasing.timeoutOf(held.holder));
      expect(ms).toBeGreaterThan(290);
      expect(awakeMs).toBeLessThan(promptMs);
      await leasing.untilWaiting(1);
      expect(patient.isSettled).toBe(false);
      await held.release();
      await patient.promise;
    });

    it("reports an unreachable server at the deadline, by its address", async () => {
      const leaser = leasing.on(unreachable(leasing), { deadlineMs: 1_000 });
      const { ms, awakeMs, value } = await timed(() =>
        Promise.all([rejection(leaser.acquire()), rejection(leaser.tryAcquire())]),
      );
      expect(ms).toBeGreaterThan(990);
      expect(awakeMs).toBeLessThan(promptMs);
      const address = redis.server.mode === "cluster" ? /the cluster|127\.0\.0\.1/ : /127\.0\.0\.1:1\b/;
      for (const error of value) {
        expect(error).toMatchObject({ code: "KIT_UNAVAILABLE" });
        expect(String(error)).toMatch(address);
      }
    });

    it("lasts through a refusal that passes by itself, without a limit as well, and reports it once", async () => {
      const leaser = make({ deadlineMs: 200 });
      const codes: unknown[] = [];
      leaser.on("error", (error) => codes.push((error as { code: unknown }).code));
      const demand = (replicas: string): Promise<unknown> =>
        Promise.all(redis.server.nodes.map((node) => node.call("CONFIG", "SET", "min-replicas-to-write", replicas)));
      const refusals = async (): Promise<number> => {
        const texts = await Promise.all(redis.server.nodes.map((node) => node.call("INFO", "errorstats")));
        return texts.reduce<number>(
          (sum, text) => sum + Number(/NOREPLICAS:count=(\d+)/.exec(String(text))?.[1] ?? 0),
          0,
        );
      };
      const before = await refusals();
      await demand("1");
      redis.defer(() => demand("0"));
      const endless = watched(leaser.acquire());
      // Within the deadline of a command, it is sent about five times.
      await eventually(async () => expect((await refusals()) - before).toBeGreaterThan(20));
      expect([endless.isSettled, codes]).toEqual([false, ["KIT_SERVER"]]);
      await demand("0");
      expect((await endless.promise).isHeld).toBe(true);
      expect(codes).toEqual(["KIT_SERVER", "KIT_RECOVERED"]);

      // Its end reports no further failure.
      await demand("1");
      const controller = new AbortController();
      const given = rejection(leaser.acquire({ signal: controller.signal }));
      await eventually(() => expect(codes).toHaveLength(3));
      controller.abort(new Error("never mind"));
      expect(await given).toMatchObject({ message: "never mind" });
      await demand("0");
      await leaser.tryAcquire();
      await eventually(() => expect(codes.slice(2)).toEqual(["KIT_SERVER", "KIT_RECOVERED"]));
    });

    it("grants nothing to a waiter that was cancelled before the lease was released", async () => {
      const leaser = make();
      const held = await leaser.acquire();
      const controller = new AbortController();
      const reason = new Error("never mind");
      const cancelled = await leaser.enqueue({ signal: controller.signal });
      const waiter = await leaser.enqueue();
      controller.abort(reason);
      expect(await rejection(cancelled.promise)).toBe(reason);
      // Not only when its next heartbeat is due.
      expect((await timed(leasing.untilWaiting(1))).awakeMs).toBeLessThan(promptMs);
      await held.release();
      expect(await (await waiter.promise).release()).toBe("released");
      expect(await leasing.used()).toBe(0);
    });

    it("serves three processes in the order of their arrival", async () => {
      const peers = await Promise.all([1, 2, 3].map(() => leasing.spawn()));
      const held = await make().acquire();
      const served: number[] = [];
      const turns: Promise<unknown>[] = [];
      const order = [2, 0, 1, 1, 2, 0, 0, 1, 2];
      for (const [turn, index] of order.entries()) {
        const peer = peers[index]!;
        turns.push(
          peer.acquire().then(async (granted) => {
            served.push(turn);
            await peer.release(granted);
          }),
        );
        await leasing.untilWaiting(turn + 1);
      }
      await held.release();
      await Promise.all(turns);
      expect(served).toEqual(order.map((_, turn) => turn));
    });

    it("passes over a first waiter whose process died", async () => {
      const leaser = make();
      const held = await leaser.acquire();
      const dead = await leasing.spawn();
      dead.acquire().catch(() => undefined);
      await leasing.untilWaiting(1);
      const waiter = await leaser.enqueue();
      await dead.kill();
      await eventually(async () => expect(await inboxes(redis.server.nodes)).toBe(1));
      await held.release();
      const { awakeMs } = await timed(waiter.promise);
      // On a Cluster nobody can see that it died: its grant of two seconds must run out.
      expect(awakeMs).toBeLessThan(redis.server.mode === "cluster" ? 10_000 : promptMs);
    });

    it("gives waiters that come and go no influence on anyone's turn", async () => {
      const leaser = make();
      const held = await leaser.acquire();
      const patient = await leaser.enqueue();
      const place = (): Promise<unknown> =>
        command(leasing, "ZRANGE", leasing.keysOf(name).queue, "0", "-1", "WITHSCORES");
      const ticket = await place();
      const impatient = Array.from({ length: 40 }, (_, index) => leaser.acquire({ waitMs: 20 + index }));
      const outcomes = await Promise.allSettled(impatient);
      expect(outcomes.every(({ status }) => status === "rejected")).toBe(true);
      await leasing.untilWaiting(1);
      expect(await place()).toEqual(ticket);
      await held.release();
      expect((await timed(patient.promise)).awakeMs).toBeLessThan(promptMs);
    });

    it("lets no try pass while others wait, also when the lease has run out", async () => {
      const leaser = make();
      const held = await leaser.acquire({ renew: false });
      const waiter = await leaser.enqueue();
      const other = leasing.on(leasing.connect());
      expect(await other.tryAcquire()).toBeNull();
      await leasing.expire(held);
      expect(await other.tryAcquire()).toBeNull();
      expect((await timed(waiter.promise)).awakeMs).toBeLessThan(promptMs);
    });

    it("is refused beyond maxWaiters", async () => {
      const leaser = make({ maxWaiters: 2 });
      const held = await leaser.acquire();
      const waiters = [await leaser.enqueue(), await leaser.enqueue()];
      const full = { code: leasing.fullCode, resource: name, maxWaiters: 2, retryable: true };
      expect(await rejection(leaser.acquire())).toMatchObject(full);
      await held.release();
      for (const { promise } of waiters) await (await promise).release();
      expect(await leaser.tryAcquire()).not.toBeNull();
    });
  });
};
