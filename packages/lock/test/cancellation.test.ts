import { useRedis } from "@kit/testing";
import { describeLeaseCancellation, isFree } from "@tooling/vitest/conformance";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { LockTimeoutError, type Lock } from "../src/index.js";
import { fixtureOf } from "./harness.js";
import { leasingOf } from "./leasing.js";

const redis = useRedis(vitest);
const fixture = fixtureOf(redis);
const leasing = leasingOf(redis);
const name = "chest";
const reason = new Error("never mind");

/** Seeded, so that a failing run can be had again. */
const randomOf = (seed: number): (() => number) => {
  let state = seed;
  return () => {
    state = (state * 1_664_525 + 1_013_904_223) % 2 ** 32;
    return state / 2 ** 32;
  };
};

describeLeaseCancellation(leasing);

describe("giving up in the middle of contention", () => {
  const storm = async (
    wait: (lock: Lock, ms: number) => Promise<unknown>,
  ): Promise<{ held: number; gaveUp: number }> => {
    const locks = Array.from({ length: 3 }, () => fixture.on(redis.connect()));
    // A caller that gives up before there is a connection gets that error.
    await Promise.all(locks.map((lock) => lock.inspect(name)));
    const random = randomOf(20_261_120);
    let [inside, most, held, gaveUp] = [0, 0, 0, 0];
    const loop = async (lock: Lock): Promise<void> => {
      // However quick the machine is: until enough of both have happened.
      for (let round = 0; round < 15 || (round < 1_000 && Math.min(held, gaveUp) <= 20); round++) {
        const outcome = await wait(lock, random() < 0.5 ? Math.floor(random() * 12) : 20_000).catch(
          (error: unknown) => error,
        );
        if (outcome instanceof Error) {
          if (outcome !== reason && !(outcome instanceof LockTimeoutError)) throw outcome;
          gaveUp++;
          continue;
        }
        const lease = outcome as Awaited<ReturnType<Lock["acquire"]>>;
        most = Math.max(most, ++inside);
        await fixture.db.ping();
        held++;
        inside--;
        expect(await lease.release()).toBe("released");
      }
    };
    await Promise.all(locks.flatMap((lock) => Array.from({ length: 10 }, () => loop(lock))));
    expect(most).toBe(1);
    return { held, gaveUp };
  };

  it("leaves no lease and no place in the queue behind, by AbortSignal", async () => {
    const { held, gaveUp } = await storm(async (lock, ms) => {
      const controller = new AbortController();
      const timer = setTimeout(() => controller.abort(reason), ms);
      return await lock.acquire(name, { signal: controller.signal }).finally(() => clearTimeout(timer));
    });
    expect(Math.min(held, gaveUp)).toBeGreaterThan(20);
    await isFree(leasing);
  });

  it("leaves no lease and no place in the queue behind, by waitMs", async () => {
    const { held, gaveUp } = await storm((lock, ms) => lock.acquire(name, { waitMs: ms }));
    expect(Math.min(held, gaveUp)).toBeGreaterThan(20);
    await isFree(leasing);
  });
});
