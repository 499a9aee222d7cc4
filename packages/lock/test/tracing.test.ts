import { useRedis } from "@kit/testing";
import { rejection } from "@tooling/vitest/helpers";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { fixtureOf } from "./harness.js";

const redis = useRedis(vitest);
const fixture = fixtureOf(redis);
const name = "chest";

describe("events of the lock", () => {
  it("show the life of a lock in order", async () => {
    const lock = fixture.make();
    const story: unknown[] = [];
    for (const event of ["acquired", "waiting", "stillWaiting", "requeued", "released", "lost", "error"] as const)
      lock.on(event, (...facts: readonly unknown[]) => story.push([event, ...facts]));
    const first = await lock.acquire(name, { holder: "first" });
    const waiting = lock.acquire(name);
    await fixture.untilWaiting(name, 1);
    await first.release();
    const second = await waiting;
    await fixture.db.del(fixture.keysOf(name).lease);
    await rejection(second.extend());
    expect(story).toEqual([
      ["acquired", { name, fencingToken: first.fencingToken, waitedMs: expect.any(Number) }],
      ["waiting", { name, position: 0, holder: "first" }],
      // The push may be faster than the reply to the release.
      ...[
        ["acquired", { name, fencingToken: second.fencingToken, waitedMs: expect.any(Number) }],
        ["released", { name, fencingToken: first.fencingToken }],
      ].toSorted(([a], [b]) => order(story, a) - order(story, b)),
      ["lost", { name, fencingToken: second.fencingToken, reason: "expired" }],
    ]);
  });

  it("count the wait from the call on", async () => {
    const lock = fixture.make();
    const holder = await lock.acquire(name);
    const waited = new Promise<number>((resolve) => lock.on("acquired", ({ waitedMs }) => resolve(waitedMs)));
    const startedAt = performance.now();
    const waiting = lock.acquire(name);
    await fixture.untilWaiting(name, 1);
    await rejection(lock.acquire(name, { waitMs: 100 }));
    const atLeast = performance.now() - startedAt;
    await holder.release();
    await waiting;
    expect(await waited).toBeGreaterThanOrEqual(Math.floor(atLeast));
    expect(await waited).toBeLessThanOrEqual(performance.now() - startedAt);
  });
});

const order = (story: readonly unknown[], event: unknown): number =>
  story.findLastIndex((entry) => (entry as unknown[])[0] === event);
