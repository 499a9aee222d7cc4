import { describe, expect, it } from "vitest";
import { runProgram } from "../../programs.js";
import { aborted, rejection, watched } from "../../promises.js";
import { closedPort } from "../../servers.js";
import { promptMs, timed } from "../../time.js";
import { closedError, command, exists, isFree, type Leasing } from "./leasing.js";

const program = new URL("closing.mjs", import.meta.url);

/** `close()` with holders and waiters, and the end of a process. */
export const describeLeaseClosing = (leasing: Leasing): void => {
  const { name, ground } = leasing;
  const { redis } = ground;
  const pause = (): Promise<unknown> => redis.server.call("CLIENT", "PAUSE", "150", "ALL");
  const queued = async (): Promise<unknown> => await command(leasing, "ZCARD", leasing.keysOf(name).queue);

  describe("close", () => {
    it("rejects the waiters, and removes each from the queue", async () => {
      const leaser = leasing.make();
      const holder = await leasing.on(redis.connect()).acquire();
      const waiters = [await leaser.enqueue(), await leaser.enqueue()];
      const errors = Promise.all(waiters.map(({ promise }) => rejection(promise)));
      await leaser.close();
      expect(await errors).toMatchObject([closedError, closedError]);
      expect(await queued()).toBe(0);
      expect(await holder.release()).toBe("released");
    });

    it("also rejects a waiter whose place in the queue is confirmed at the moment of close()", async () => {
      const leaser = leasing.make();
      const holder = await leasing.on(redis.connect()).acquire();
      await rejection(leaser.acquire({ waitMs: 50 }));
      let closing: Promise<void> | undefined;
      // All three replies arrive together. The event of the first is emitted while the others are not yet processed.
      leaser.once("waiting", () => void (closing = leaser.close({ timeoutMs: 100 })));
      const errors = await Promise.all([1, 2, 3].map(() => rejection(leaser.acquire())));
      expect(errors).toMatchObject([closedError, closedError, closedError]);
      await closing;
      expect(await queued()).toBe(0);
      expect(await holder.release()).toBe("released");
    });

    it("waits for leases that are held, which go on being renewed", async () => {
      const leaser = leasing.make();
      const held = await leaser.acquire({ leaseMs: 2_000 });
      const closing = watched(leaser.close());
      await rejection(leasing.on(redis.connect()).acquire({ waitMs: 2_500 }));
      expect([closing.isSettled, held.isHeld]).toEqual([false, true]);
      await held.release();
      await closing.promise;
      expect(await exists(leasing, leasing.heldKey(name))).toBe(0);
    });

    it("revokes held leases at timeoutMs, and releases them", async () => {
      const leaser = leasing.make();
      const held = await leaser.acquire();
      const waiter = await leasing.on(redis.connect()).enqueue();
      const { ms, awakeMs } = await timed(() => leaser.close({ timeoutMs: 100 }));
      expect(ms).toBeGreaterThan(95);
      expect(awakeMs).toBeLessThan(promptMs);
      expect(await aborted(held.signal)).toMatchObject({ reason: "closed" });
      expect(await held.release()).toBe("not-held");
      expect((await timed(waiter.promise)).awakeMs).toBeLessThan(promptMs);
    });

    it.each(["tryAcquire", "acquire"] as const)(
      "leaves nothing held by a call of %s that is under way",
      async (call) => {
        const leaser = leasing.make();
        await (await leaser.acquire()).release();
        await pause();
        const outcome = rejection(leaser[call]());
        await leaser.close({ timeoutMs: 0 });
        expect(await outcome).toMatchObject(closedError);
        await isFree(leasing);
      },
    );

    it.each([false, true])("lets a release that is under way finish (isolate: %s)", async (isolate) => {
      const leaser = leasing.make({ isolate });
      const held = await leaser.acquire();
      await pause();
      const releasing = held.release();
      await leaser.close();
      expect(await releasing).toBe("released");
      expect(await exists(leasing, leasing.heldKey(name))).toBe(0);
    });

    it("ends in time and leaves no timer behind when the server is gone", async () => {
      const leaser = leasing.on(redis.connect({ retryStrategy: () => 20 }), { deadlineMs: 1_000 });
      await leaser.acquire();
      const gaveUp = rejection((await leaser.enqueue()).promise);
      const [node] = redis.server.nodes;
      await node!.kill();
      const { awakeMs } = await timed(() => leaser.close({ timeoutMs: 100 }));
      await node!.start();
      expect(awakeMs).toBeLessThan(promptMs);
      expect(await gaveUp).toMatchObject(closedError);
    });
  });

  describeLeasingProcess(leasing);
};

/** The end of a process with leases; also for the smoke file that runs with the other major of ioredis. */
export const describeLeasingProcess = (leasing: Leasing): void => {
  const { name, ground } = leasing;
  const { redis } = ground;
  describe("a process", () => {
    const run = (how: string, url = redis.url): Promise<object> =>
      runProgram(redis, program, [leasing.module.href, how, url, redis.prefix, name]);
    const silence = { printed: "", code: 0 };

    it("ends by itself after close(), and has printed nothing", async () => {
      expect(await run("close")).toEqual(silence);
      expect(await exists(leasing, leasing.heldKey(name))).toBe(0);
    });

    it("ends by itself while it holds a lease, and has printed nothing", async () => {
      expect(await run("hold")).toEqual(silence);
      expect(await exists(leasing, leasing.heldKey(name))).toBe(1);
    });

    it("gets one typed error where there is no Redis, and has printed nothing", async () => {
      expect(await run("absent", `redis://127.0.0.1:${String(closedPort)}`)).toEqual(silence);
    });
  });
};
