import { describe, expect, it } from "vitest";
import { aborted, rejection } from "../../promises.js";
import { clock, promptMs, timed } from "../../time.js";
import { expectWithin, type Held, type Leasing, lossOf, next, serving } from "./leasing.js";

/** What a holder is promised: its lease, longer or shorter, its end, and its life in another object or process. */
export const describeHolding = (leasing: Leasing): void => {
  const { ground, make } = leasing;
  const { redis, eventually } = ground;
  const timeout = { code: leasing.timeoutOf("").code };

  describe("a lease", () => {
    it("that ran out goes to the next", async () => {
      const leaser = make();
      const startedAt = clock();
      // A grant whose reply comes after its end is undone.
      const first = await eventually(() => leaser.acquire({ leaseMs: 1_000, renew: false }));
      const { awakeMs, value: second } = await timed(leaser.acquire());
      expect(clock() - startedAt).toBeGreaterThan(995);
      expect(awakeMs).toBeLessThan(promptMs);
      expect([first.isHeld, await first.release(), second.isHeld]).toEqual([false, "not-held", true]);
      expect(await leasing.used()).toBe(1);
    });

    it("that another has by now is not released by its former holder", async () => {
      const stale = await make().acquire({ renew: false });
      // The first holder counts on its ten seconds, which the server has ended.
      await leasing.expire(stale);
      const owner = await make().acquire({ holder: "next" });
      expect([stale.isHeld, await stale.release()]).toEqual([true, "not-held"]);
      expect((await make().inspect()).holders).toMatchObject([leasing.shown(owner)]);
      expect(await owner.release()).toBe("released");
    });

    it("is released once: a second release has the first one's outcome, and sends nothing", async () => {
      const held = await make().acquire();
      const first = held.release();
      expect(held.release()).toBe(first);
      expect(await first).toBe("released");
      const before = await leasing.scriptCalls();
      expect(await held.release()).toBe("released");
      expect(await leasing.scriptCalls()).toBe(before);
    });

    it("that has ended is not brought back by extending it, whether or not another has it", async () => {
      for (const isTaken of [false, true]) {
        const held = await make().acquire({ leaseMs: 60_000 });
        await leasing.expire(held);
        const other = isTaken ? await make().acquire() : undefined;
        const error = await rejection(held.extend(5_000));
        expect(error).toMatchObject(lossOf(leasing, isTaken ? leasing.takenReason : "expired"));
        expect(held.signal.reason).toBe(error);
        expect(await leasing.used()).toBe(isTaken ? 1 : 0);
        await other?.release();
      }
    });

    it("has the length that an extend gave it, longer or shorter, and each renewal gives it as much again", async () => {
      const held = await make().acquire({ leaseMs: 30_000 });
      await held.extend(60_000);
      expectWithin(await leasing.msLeft(), 30_001, 60_000);
      await held.extend(2_000);
      expect(held.leaseMs).toBe(2_000);
      // The server keeps the former end.
      expectWithin(await leasing.msLeft(), 30_001, 60_000);
      let least = 2_000;
      await eventually(() => {
        expectWithin(held.remainingMs, 1, 2_000);
        least = Math.min(least, held.remainingMs);
        if (least > 1_800 || held.remainingMs < least + 50) throw new Error("not renewed yet");
      });
      expect(await held.release()).toBe("released");
      expect(await leasing.used()).toBe(0);
    });

    it("stays held through its renewals, and ends after stopRenewal, also where it is extended then", async () => {
      const held = await make().acquire({ leaseMs: 1_500 });
      const other = leasing.on(leasing.connect());
      // Longer than a lease.
      expect(await rejection(other.acquire({ waitMs: 2_000 }))).toMatchObject(timeout);
      expect(await other.tryAcquire()).toBeNull();
      expect([held.isHeld, held.signal.aborted]).toEqual([true, false]);
      // Longer than a test.
      await held.extend(600_000);
      held.stopRenewal();
      await held.extend(500);
      const waiter = await other.enqueue();
      expect(await aborted(held.signal)).toMatchObject({ reason: "stopped" });
      expect((await waiter.promise).isHeld).toBe(true);
    });

    it("that is gone is reported lost, also by a signal that is first read after it", async () => {
      const leaser = make();
      const held = await leaser.acquire({ leaseMs: 1_500 });
      const lost = next(leaser, "lost");
      await leasing.expire(held);
      expect(await lost).toEqual({ ...leasing.facts(held), reason: "expired" });
      expect(held.signal.aborted).toBe(true);
      expect(held.signal.reason).toMatchObject(lossOf(leasing, "expired"));
    });

    it("can be disposed of while it is being extended", async () => {
      let extending: Promise<void> | undefined;
      {
        await using held = await make().acquire();
        extending = held.extend();
        extending.catch(() => undefined);
      }
      expect(await rejection(extending)).toMatchObject({ reason: "released" });
      expect(await leasing.used()).toBe(0);
    });

    it("stays as it was after an extend and a release without an answer, and can be released again", async () => {
      const held = await make({ deadlineMs: 1_000 }).acquire({ leaseMs: 30_000, renew: false });
      const node = await serving(leasing);
      node.pause();
      const before = held.remainingMs;
      const extending = await rejection(held.extend(60_000));
      expect([held.isHeld, held.leaseMs, held.remainingMs < before]).toEqual([true, 30_000, true]);
      const releasing = await rejection(held.release());
      node.resume();
      for (const error of [extending, releasing])
        expect(error).toMatchObject({ code: expect.stringMatching(/^KIT_/) as unknown });
      expect(await held.release()).toBe("released");
      expect(await leasing.used()).toBe(0);
    });

    it("is another's where name or prefix differs by case, length or braces", async () => {
      const names = ["a", "A", "{a}", "{a", "a}", "a:lease", "a:permits", "a%7B", " a", "ä", "a\u0308"];
      names.push("x".repeat(512), "x".repeat(511));
      const all = names.map((one) => make({ name: one }));
      all.push(make({ name: "a", prefix: `${redis.prefix}-other` }));
      expect((await Promise.all(all.map((one) => one.tryAcquire()))).includes(null)).toBe(false);
      expect(await Promise.all(all.map((one) => one.tryAcquire()))).toEqual(all.map(() => null));
    });

    it("moves to another process by its text", async () => {
      const peer = await leasing.spawn();
      const leaser = make();
      const held = await leaser.acquire({ leaseMs: 3_000 });
      const resumed = await peer.resume(held.serialise());
      expect(resumed.token).toBe(held.token);
      held.stopRenewal();
      // Ours would end now. The other process keeps it alive, for longer than one lease.
      expect(await aborted(held.signal)).toMatchObject({ reason: "stopped" });
      expect(await rejection(leaser.acquire({ waitMs: 500 }))).toMatchObject(timeout);
      expect(await peer.release(resumed)).toBe("released");
      expect(await leasing.used()).toBe(0);
    });

    it.each(["the first holder", "the one that resumed it"])(
      "is released once, by %s: the other's release comes too late",
      async (first) => {
        const held = await make().acquire();
        const resumed = await make().resume(held.serialise());
        const waiter = await make().enqueue();
        const [early, late] = first === "the first holder" ? [held, resumed] : [resumed, held];
        expect(await early.release()).toBe("released");
        await waiter.promise;
        expect(await late.release()).toBe("not-held");
      },
    );

    it("can be resumed only while it is held", async () => {
      const leaser = make();
      const held = await leaser.acquire();
      const text = held.serialise();
      await held.release();
      expect(await rejection(leaser.resume(text))).toMatchObject(lossOf(leasing, "expired"));
      await leaser.acquire();
      expect(await rejection(leaser.resume(text))).toMatchObject(lossOf(leasing, leasing.takenReason));
      const forged = text.replace(held.token, crypto.randomUUID());
      expect(await rejection(leaser.resume(forged))).toMatchObject({ code: leasing.lostCode });
      expect(await leasing.used()).toBe(1);
    });
  });

  describe("using", () => {
    it("passes on what the routine returns, throws and rejects with, and releases each time", async () => {
      const leaser = make();
      const own = new Error("the routine's own");
      expect(await leaser.using(({ isHeld }) => ({ isHeld }))).toEqual({ isHeld: true });
      expect(await leasing.used()).toBe(0);
      const thrown = leaser.using(() => {
        throw own;
      });
      expect(await rejection(thrown)).toBe(own);
      expect(await leasing.used()).toBe(0);
      expect(await rejection(leaser.using(() => Promise.reject(own)))).toBe(own);
      expect(await leasing.used()).toBe(0);
    });

    it("rejects with the loss after the routine has ended, and with the routine's own error before that", async () => {
      const leaser = make({ leaseMs: 1_500 });
      let ends = 0;
      const losing = (end: () => void): Promise<void> =>
        leaser.using(async (held) => {
          await leasing.expire(held);
          await aborted(held.signal);
          await make().inspect();
          ends++;
          end();
        });
      expect(await rejection(losing(() => undefined))).toMatchObject(lossOf(leasing, "expired"));
      expect(ends).toBe(1);
      const own = new Error("the routine's own");
      const failing = losing(() => {
        throw own;
      });
      expect(await rejection(failing)).toBe(own);
    });

    it("rejects with the loss when another got it unnoticed", async () => {
      const leaser = make();
      const other: Held[] = [];
      const losing = leaser.using(async (held) => {
        await leasing.expire(held);
        other.push(await make().acquire());
      });
      expect(await rejection(losing)).toMatchObject({ code: leasing.lostCode });
      expect((await leaser.inspect()).holders).toMatchObject([leasing.shown(other[0]!)]);
    });
  });
};
