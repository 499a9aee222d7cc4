import { describe, expect, it } from "vitest";
import { callsOf, inboxes } from "../../servers.js";
import { promptMs, timed } from "../../time.js";
import { type Leasing, proxied } from "./leasing.js";

/** The order of arrival where a client or a process is new. */
export const describeLeaseArrival = (leasing: Leasing): void => {
  const { ground } = leasing;
  const { redis, eventually } = ground;

  describe("the order of arrival at a client's first wait", () => {
    it("is that of the first command, not that of the connection for pushes", async () => {
      const held = await leasing.make().acquire();
      const { proxy, connect } = await proxied(ground);
      const [slow, quick] = [connect(), redis.connect()];
      for (const client of [slow, quick]) await (await leasing.on(client, { name: "another" }).acquire()).release();
      const [far, near] = [leasing.on(slow), leasing.on(quick)];
      proxy.down.latencyMs = 100;
      const served: string[] = [];
      const before = await callsOf(redis.server, "evalsha");
      const first = far.acquire().then((lease) => (served.push("far"), lease.release()));
      await eventually(async () => expect(await callsOf(redis.server, "evalsha")).toBeGreaterThan(before));
      const second = await near.enqueue();
      const last = second.promise.then((lease) => (served.push("near"), lease.release()));
      await held.release();
      await Promise.all([first, last]);
      expect(served).toEqual(["far", "near"]);
    });

    it("is kept where thousands come at once to a name that nobody has used", async () => {
      const leaser = leasing.on(redis.connect(), { deadlineMs: 60_000 });
      const turns = Array.from({ length: 2_000 }, (_, index) => index);
      const served: number[] = [];
      const turn = async (index: number): Promise<void> => {
        // A pushed grant lasts as long: one that ends while the machine stalls is asked for anew, at the end.
        const lease = await leaser.acquire({ leaseMs: 600_000, renew: false });
        served.push(index);
        await lease.release();
      };
      await Promise.all(turns.map(turn));
      expect(served).toEqual(turns);
    });
  });

  it("the first command of a process hands what has ended to the first living waiter", async () => {
    const [holder, waiter] = [leasing.on(redis.connect()), leasing.on(redis.connect())];
    const held = await holder.acquire({ leaseMs: 60_000, renew: false });
    const dead = await leasing.spawn();
    dead.acquire().catch(() => undefined);
    await leasing.untilWaiting(1);
    const waiting = await waiter.enqueue();
    await dead.kill();
    await eventually(async () => expect(await inboxes(redis.server.nodes)).toBe(1));
    await leasing.expire(held);
    const newcomer = leasing.on(redis.connect());
    const behind = newcomer.acquire();
    const { awakeMs, value } = await timed(waiting.promise);
    expect(awakeMs).toBeLessThan(promptMs);
    expect([await leasing.used(), await newcomer.tryAcquire()]).toEqual([1, null]);
    await value.release();
    expect(await (await behind).release()).toBe("released");
    expect(await held.release()).toBe("not-held");
  });
};
