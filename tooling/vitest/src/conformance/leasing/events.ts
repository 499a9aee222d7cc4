import { describe, expect, it, vi } from "vitest";
import { rejection } from "../../promises.js";
import { command, type Leasing, next } from "./leasing.js";

const waitedMs = expect.any(Number) as unknown;
const killConnections = ["KILL", "TYPE", "normal", "SKIPME", "yes"] as const;

/** The events of an object with leases. */
export const describeLeaseEvents = (leasing: Leasing): void => {
  const { make, name, ground } = leasing;
  const { redis, eventually } = ground;

  describe("events", () => {
    it("show the life of leases in order", async () => {
      const leaser = make();
      const story: (readonly unknown[])[] = [];
      const kinds = ["acquired", "waiting", "stillWaiting", "requeued", "released", "lost", "mismatch", "error"];
      for (const kind of kinds) leaser.on(kind, (...facts) => story.push([kind, ...facts]));
      const first = await leaser.acquire({ holder: "first" });
      const waiting = leaser.acquire();
      await leasing.untilWaiting(1);
      await first.release();
      const second = await waiting;
      await leasing.expire(second);
      await rejection(second.extend());
      expect(story.slice(0, 2)).toEqual([
        ["acquired", { ...leasing.facts(first), waitedMs }],
        ["waiting", leasing.waitingBehind("first")],
      ]);
      // The push may be faster than the reply to the release.
      expect(story.slice(2, 4).toSorted(([a], [b]) => (String(a) < String(b) ? -1 : 1))).toEqual([
        ["acquired", { ...leasing.facts(second), waitedMs }],
        ["released", leasing.facts(first)],
      ]);
      expect(story.slice(4)).toEqual([["lost", { ...leasing.facts(second), reason: "expired" }]]);
    });

    it("report a wait without an end once, after half a minute", async () => {
      await make().acquire({ renew: false, leaseMs: 600_000, holder: "the other" });
      const leaser = make();
      const reported: unknown[] = [];
      leaser.on("stillWaiting", (event) => reported.push(event));
      const abort = new AbortController();
      const { signal } = abort;
      const waits = [leaser.acquire({ signal }), leaser.acquire({ signal, waitMs: 300_000 })].map(rejection);
      await Promise.all([next(leaser, "waiting"), next(leaser, "waiting")]);
      const now = performance.now.bind(performance);
      const spy = vi.spyOn(performance, "now").mockImplementation(() => now() + 30_000);
      try {
        for (let round = 0; round < 2; round++) {
          const before = await leasing.scriptCalls();
          await redis.server.call("CLIENT", ...killConnections);
          await eventually(async () => expect(await leasing.scriptCalls()).toBeGreaterThan(before));
          // Its reply comes after that of the heartbeat.
          await leaser.inspect();
          expect(reported).toEqual([{ ...leasing.waitingBehind("the other"), waitedMs }]);
        }
      } finally {
        spy.mockRestore();
        abort.abort();
      }
      await Promise.all(waits);
    });
  });

  describe("an error", () => {
    it("names the call that was made, also where a heartbeat failed", async () => {
      const leaser = make();
      await leaser.acquire();
      const waiter = await leaser.enqueue();
      const { queue } = leasing.keysOf(name);
      await command(leasing, "DEL", queue);
      await command(leasing, "SET", queue, "not ours", "EX", "60");
      await redis.server.call("CLIENT", ...killConnections);
      expect(await rejection(waiter.promise)).toMatchObject({
        message: expect.stringContaining(`${leasing.what}.acquire of "${name}" failed: `) as unknown,
      });
    });
  });
};
