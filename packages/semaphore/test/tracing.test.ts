import { useRedis } from "@kit/testing";
import { rejection } from "@tooling/vitest/helpers";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { fixtureOf, name } from "./harness.js";

const redis = useRedis(vitest);
const fixture = fixtureOf(redis);
describe("events", () => {
  it("show the life of a group in order", async () => {
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
