import { eventually, useRedis } from "@kit/testing";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { fixtureOf, next } from "./harness.js";

const redis = useRedis(vitest);
const fixture = fixtureOf(redis);

describe("a wait without an end", () => {
  it("is reported once, after half a minute", async () => {
    await fixture.make({ permits: 1 }).acquire({ renew: false, leaseMs: 600_000 });
    const semaphore = fixture.make({ permits: 1 });
    const reported: unknown[] = [];
    semaphore.on("stillWaiting", (event) => reported.push(event));
    const abort = new AbortController();
    const waiting = next(semaphore, "waiting");
    const endless = semaphore.acquire({ signal: abort.signal }).catch(() => undefined);
    await waiting;
    const now = performance.now.bind(performance);
    const spy = vitest.vi.spyOn(performance, "now").mockImplementation(() => now() + 30_000);
    try {
      for (let round = 0; round < 2; round++) {
        await redis.server.call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes");
        await eventually(() =>
          expect(reported).toEqual([{ position: 0, used: 1, permits: 1, waitedMs: expect.any(Number) as number }]),
        );
      }
    } finally {
      spy.mockRestore();
      abort.abort();
    }
    await endless;
  });
});
