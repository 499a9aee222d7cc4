import { AsyncLocalStorage } from "node:async_hooks";
import { afterEach, describe, expect, it, vi } from "vitest";
import { aborted, rejection } from "../../promises.js";
import { callsOf } from "../../servers.js";
import { block, clock, cutOffRenewed, renewedTwice, timed, watchStalls } from "../../time.js";
import { type Leasing, lossOf, next } from "./leasing.js";

/** A lease is never believed in longer than the server keeps it, nor given up without a need. */
export const describeLeaseLoss = (leasing: Leasing): void => {
  const { name, ground, make } = leasing;
  const { redis, eventually } = ground;
  const evals = (): Promise<number> => callsOf(redis.server, "evalsha");

  it("is heard in the async context of who listens, whichever request finds the loss", async () => {
    const requests = new AsyncLocalStorage<string>();
    const heard: unknown[] = [];
    const hear = (): void => void heard.push(requests.getStore());
    const leaser = make({ leaseMs: 30_000 });
    requests.run("listener", () => leaser.on("lost", hear));
    const held = await requests.run("holder", async () => {
      const lease = await leaser.acquire();
      lease.signal.addEventListener("abort", hear);
      return lease;
    });
    await leasing.expire(held);
    expect(await requests.run("other", () => rejection(held.extend()))).toMatchObject({ code: leasing.lostCode });
    expect(heard).toEqual(["holder", "listener"]);
  });

  describe("a server that falls silent", () => {
    it("costs a lease before it can have ended, by the local clock", async () => {
      const held = await make({ leaseMs: 3_000 }).acquire();
      const node = redis.server.nodes[0]!;
      const { renewedAt, ends } = await cutOffRenewed([held], () => leasing.msLeft(), {
        cut: () => node.pause(),
        mend: () => node.resume(),
      });
      expect(clock() + held.remainingMs).toBeLessThanOrEqual(ends[0]!);
      // How late this process was for everything meanwhile.
      const stalls = watchStalls();
      await aborted(held.signal);
      const [at, lateMs] = [clock(), stalls.end().sum];
      expect(() => held.assertHeld()).toThrow(expect.objectContaining({ code: leasing.lostCode }));
      expect(at - lateMs).toBeLessThanOrEqual(ends[0]!);
      expect(at - renewedAt).toBeGreaterThan(2_500);
      expect(held.signal.reason).toMatchObject(lossOf(leasing, "deadline"));
      node.resume();
      expect(await held.release()).toBe("not-held");
      await eventually(async () => expect(await leasing.used()).toBe(0));
    });

    it("emits one error, and after the end of the lease another with the next command that works", async () => {
      const leaser = make({ leaseMs: 3_000, deadlineMs: 200 });
      const held = await eventually(() => leaser.acquire());
      const codes: unknown[] = [];
      leaser.on("error", (error) => codes.push((error as { readonly code: string }).code));
      const [node] = redis.server.nodes;
      node!.pause();
      await aborted(held.signal);
      // After a stall of the loop, the end of the lease can come before the end of the renewal.
      await eventually(() => expect(codes).toEqual([expect.stringMatching(/^KIT_(UNAVAILABLE|UNKNOWN_OUTCOME)$/)]));
      node!.resume();
      await eventually(async () => await (await leaser.acquire()).release());
      expect(codes.slice(1)).toEqual(["KIT_RECOVERED"]);
    });

    it("costs an acquire no more than its time, if the command came too late", async () => {
      const leaser = make();
      await (await leaser.acquire()).release();
      const [node] = redis.server.nodes;
      node!.pause();
      const refused = rejection(leaser.acquire({ waitMs: 100 }));
      block(200);
      node!.resume();
      block(200);
      const error = (await refused) as Error;
      expect(error).toMatchObject({ code: expect.stringMatching(/_TIMEOUT$/) as string });
      // Another try would have had no reply within the millisecond that it had, or the lease.
      expect(error.cause).toBeUndefined();
      await eventually(async () => expect(await leasing.used()).toBe(0));
    });

    it("costs nothing when it speaks again in time", async () => {
      const leaser = make({ leaseMs: 6_000, deadlineMs: 200 });
      const held = await eventually(() => leaser.acquire());
      const [node] = redis.server.nodes;
      const failed = next(leaser, "error");
      node!.pause();
      expect(await failed).toMatchObject({ retryable: true });
      node!.resume();
      await eventually(async () => expect(await leasing.msLeft()).toBeGreaterThan(4_000));
      expect([held.isHeld, held.signal.aborted]).toEqual([true, false]);
    });
  });

  describe("a renewal", () => {
    it("that finds something else at the key for a moment is no verdict", async () => {
      const leaser = make({ leaseMs: 6_000 });
      const held = await leaser.acquire();
      const key = leasing.heldKey(name);
      const atKey = (...commands: readonly string[]): Promise<unknown> =>
        redis.server.call("EVAL", commands.join("; "), "2", key, `${key}-kept`);
      const before = await evals();
      const reported = next(leaser, "error");
      await atKey(
        "redis.call('RENAME', KEYS[1], KEYS[2])",
        "redis.call('RPUSH', KEYS[1], 'stranger')",
        "redis.call('PEXPIRE', KEYS[1], 60000)",
      );
      expect(await rejection(held.extend())).toMatchObject({ code: "KIT_KEY_TYPE", key });
      await eventually(async () => expect((await evals()) - before).toBeGreaterThanOrEqual(2));
      expect(await reported).toMatchObject({ code: "KIT_KEY_TYPE", key });
      await atKey("redis.call('RENAME', KEYS[2], KEYS[1])");
      await leasing.setMsLeft(3_000);
      await eventually(async () => expect(await leasing.msLeft()).toBeGreaterThan(4_000));
      expect([held.isHeld, held.signal.aborted]).toEqual([true, false]);
    });

    it("takes one command for the leases of a hundred names", async () => {
      const leases = await Promise.all(
        Array.from({ length: 100 }, (_, index) => make({ name: `${name} ${String(index)}`, leaseMs: 3_000 }).acquire()),
      );
      const before = await evals();
      const renewals = await renewedTwice(leases);
      // They fall due together only as far as they were taken together.
      expect((await evals()) - before).toBeLessThanOrEqual(renewals / 10);
      expect(leases.every(({ isHeld }) => isHeld)).toBe(true);
      expect(new Set(await Promise.all(leases.map((lease) => lease.release())))).toEqual(new Set(["released"]));
    });
  });

  describe("a blocked event loop", () => {
    it("makes assertHeld throw first thing when the lease is over", async () => {
      const leaser = make();
      const held = await leaser.acquire({ leaseMs: 1_500 });
      const lost = next(leaser, "lost");
      held.assertHeld();
      block(1_550);
      expect([held.isHeld, held.remainingMs]).toEqual([false, 0]);
      expect(() => held.assertHeld()).toThrow(expect.objectContaining(lossOf(leasing, "deadline")));
      expect(held.signal.aborted).toBe(true);
      expect(await lost).toEqual({ ...leasing.facts(held), reason: "deadline" });
      expect(await held.release()).toBe("not-held");
    });
  });

  describe("a wall clock", () => {
    afterEach(() => {
      vi.restoreAllMocks();
    });

    it.each([3_600_000, -3_600_000])("that jumps by %i ms has leases renewed at once, and costs none", async (jump) => {
      const held = await make().acquire({ leaseMs: 60_000 });
      await leasing.setMsLeft(30_000);
      const now = Date.now.bind(Date);
      vi.spyOn(Date, "now").mockImplementation(() => now() + jump);
      await eventually(async () => expect(await leasing.msLeft()).toBeGreaterThan(50_000));
      expect([held.isHeld, held.signal.aborted]).toEqual([true, false]);
      expect(held.remainingMs).toBeGreaterThan(50_000);
    });
  });

  describe("maxHoldMs", () => {
    it("ends renewal so that nobody holds longer, and bounds the server's end too", async () => {
      const leaser = make({ leaseMs: 10_000, maxHoldMs: 1_500 });
      const startedAt = clock();
      const held = await leaser.acquire();
      expect(await leasing.msLeft()).toBeLessThanOrEqual(1_500);
      await held.extend(5_000);
      expect(await leasing.msLeft()).toBeLessThanOrEqual(1_500);
      expect(held.remainingMs).toBeLessThanOrEqual(1_500);
      expect(await aborted(held.signal)).toMatchObject({ reason: "max-hold" });
      expect(clock() - startedAt).toBeGreaterThan(1_400);
      await eventually(async () => expect(await leasing.used()).toBe(0));
    });
  });

  describe("using", () => {
    it("keeps the result when only the release finds no server, and says so by an event", async () => {
      const leaser = make({ deadlineMs: 1_000 });
      const [node] = redis.server.nodes;
      const failed = next(leaser, "error");
      const result = await leaser.using(() => {
        node!.pause();
        return "done";
      });
      node!.resume();
      expect(result).toBe("done");
      expect(await failed).toMatchObject({ code: "KIT_UNKNOWN_OUTCOME" });
      await eventually(async () => expect(await leasing.used()).toBe(0));
    });
  });

  describe("a server that loses its data and all connections at once", () => {
    it("serves all who wait without a pause, once they are connected again", async () => {
      const held = await make().acquire();
      const leasers = [redis.connect(), redis.connect()].map((client) => leasing.on(client));
      const sections = leasers.flatMap((leaser) =>
        Array.from({ length: 20 }, () => leaser.acquire().then((lease) => lease.release())),
      );
      await leasing.untilWaiting(sections.length);
      // In one step, so that no command comes in between.
      for (const command of [
        "MULTI",
        "FLUSHALL",
        "CLIENT KILL TYPE normal SKIPME yes",
        "CLIENT KILL TYPE pubsub",
        "EXEC",
      ])
        await redis.server.call(...(command.split(" ") as [string]));
      // If no waiter could be notified, one would come every two seconds.
      expect((await timed(Promise.all(sections))).awakeMs).toBeLessThan(5_000);
      expect(await held.release()).toBe("not-held");
    });
  });
};
