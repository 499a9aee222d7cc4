import { useRedis } from "@kit/testing";
import { recordTraces, rejection } from "@tooling/vitest/helpers";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { fixtureOf, name } from "./harness.js";

const redis = useRedis(vitest);
const fixture = fixtureOf(redis);
const record = (channelName: string): ReturnType<typeof recordTraces> => recordTraces(redis, channelName);

describe("diagnostics channels", () => {
  it("tell of an acquire, a try and a release", async () => {
    const [acquires, releases] = [record("kit:semaphore.acquire"), record("kit:semaphore.release")];
    const semaphore = fixture.make({ permits: 1 });
    const permit = await semaphore.acquire({ waitMs: 500 });
    expect(await semaphore.tryAcquire()).toBeNull();
    await permit.release();
    await permit.release();
    expect(acquires.events.map(([kind]) => kind).slice(0, 4)).toEqual(["start", "end", "asyncStart", "asyncEnd"]);
    expect(acquires.events[0]![1]).toEqual({ name, waitMs: 500 });
    const ends = acquires.events.filter(([kind]) => kind === "asyncEnd").map(([, context]) => context);
    expect(ends).toEqual([
      { name, waitMs: 500, result: permit },
      { name, waitMs: 0, result: null },
    ]);
    expect(releases.events.map(([kind]) => kind)).toEqual(["start", "end", "asyncStart", "asyncEnd"]);
    expect(releases.events.at(-1)![1]).toMatchObject({ name, result: "released" });
  });

  it("tell of an acquire that failed", async () => {
    const semaphore = fixture.make({ permits: 1 });
    await semaphore.acquire();
    const { events } = record("kit:semaphore.acquire");
    const error = await rejection(semaphore.acquire({ waitMs: 30 }));
    expect(events.find(([kind]) => kind === "error")?.[1]).toEqual({ name, waitMs: 30, error });
  });
});

describe("events", () => {
  it("tell the story of a group in order", async () => {
    const group = fixture.make({ permits: 3, permitsPerTenant: 2 });
    const story: (readonly unknown[])[] = [];
    for (const event of [
      "acquired",
      "waiting",
      "stillWaiting",
      "requeued",
      "released",
      "lost",
      "mismatch",
      "error",
    ] as const)
      group.on(event, (...facts: readonly unknown[]) => story.push([event, ...facts]));
    const first = await group.acquire({ weight: 2, tenant: "a" });
    const waiting = group.acquire({ tenant: "a" });
    await fixture.untilWaiting(name, 1);
    await first.release();
    const second = await waiting;
    await fixture.expire(second);
    await rejection(second.extend());
    const waitedMs: unknown = expect.any(Number);
    expect(story.slice(0, 2)).toEqual([
      ["acquired", { weight: 2, tenant: "a", waitedMs }],
      ["waiting", { position: 0, used: 2, permits: 3 }],
    ]);
    // The push may be faster than the reply to the release.
    expect(story.slice(2, 4).toSorted(([a], [b]) => (String(a) < String(b) ? -1 : 1))).toEqual([
      ["acquired", { weight: 1, tenant: "a", waitedMs }],
      ["released", { weight: 2, tenant: "a" }],
    ]);
    expect(story.slice(4)).toEqual([["lost", { weight: 1, tenant: "a", reason: "expired" }]]);
  });
});
