import { useRedis } from "@kit/testing";
import { rejection } from "@tooling/vitest/helpers";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { waitAfter } from "../src/backoff.js";
import { type AddOptions, createQueue, type QueueOptions, type WorkOptions } from "../src/index.js";
import { fixtureOf, permanentKeys } from "./harness.js";

const redis = useRedis(vitest, { permanentKeys });
const fixture = fixtureOf(redis);

describe("options", () => {
  const wrongOfQueue: readonly object[] = [
    { deadlineMs: 0 },
    { maxPayloadBytes: 1.5 },
    { maxPending: "many" },
    { allowEviction: 1 },
    { deadLetters: { maxCount: -1 } },
    { deadLetters: { count: 1 } },
    { durable: true },
    { durable: { replicas: 0 } },
    { durable: { fsync: "always" } },
    { durable: { waitMs: 5 } },
    { maxAttempts: 0 },
    { backoff: { firstMs: -1 } },
    { backoff: { firstMs: 1, jitter: 2 } },
    { backoff: { firstMs: 1, factor: NaN } },
    { timeoutMs: 0 },
    { prefix: "a b" },
    { concurrency: 1 },
  ];
  it.each(wrongOfQueue)("of a queue are checked where it is made: %j", (options) => {
    expect(() => createQueue(redis.client, "mail", options as QueueOptions)).toThrow(/^Expected /);
  });

  const wrongOfAdd: readonly object[] = [
    { priority: NaN },
    { priority: 2 ** 20 },
    { priority: -(2 ** 20) },
    { priority: 0.5 },
    { delayMs: -1 },
    { delayMs: Infinity },
    { dueAt: -1 },
    { delayMs: 1, dueAt: 1 },
    { lifo: true, priority: 1 },
    { lifo: true, delayMs: 1 },
    { id: "" },
    { id: "!5!x" },
    { id: "a\nb" },
    { id: "\ud800" },
    { id: "x7Kp2mQ9a.001f" },
    { id: "x".repeat(129) },
    { op: "nonsense" },
    { signal: {} },
    { maxAttempts: 1.5 },
    { delay: 5 },
  ];
  it.each(wrongOfAdd)("of an add are checked before anything is sent: %j", async (options) => {
    const queue = fixture.make();
    expect(String(await rejection(queue.add("job", 1, options as AddOptions)))).toMatch(
      /^(Type|Range)Error: Expected /,
    );
    expect(await redis.keys()).toEqual([]);
  });

  it("name jobs by text of 1 to 128 characters", async () => {
    const queue = fixture.make();
    for (const name of ["", "x".repeat(129), "\ud800", 7 as unknown as string])
      expect(String(await rejection(queue.add(name, 1)))).toMatch(/RangeError: Expected the name/);
  });

  const wrongOfWorker: readonly object[] = [
    { concurrency: 0 },
    { concurrency: 1.5 },
    { leaseMs: 199 },
    { maxCrashes: 0 },
    { strict: "yes" },
    { ack: "never" },
    { backoff: { firstMs: NaN } },
    { prefetch: 5 },
  ];
  it.each(wrongOfWorker)("of a worker are checked where it is made: %j", (options) => {
    const queue = fixture.make();
    expect(() => fixture.work(queue, () => undefined, options as WorkOptions)).toThrow(/^Expected /);
  });

  it("are refused where handlers are none", () => {
    const queue = fixture.make();
    for (const handlers of [null, undefined, 7, { job: 7 }])
      expect(() => queue.work(handlers as unknown as Record<string, () => void>)).toThrow(/^Expected /);
  });

  it("end an add that was aborted before it was sent", async () => {
    const queue = fixture.make();
    const reason = new Error("enough");
    expect(await rejection(queue.add("job", 1, { signal: AbortSignal.abort(reason) }))).toBe(reason);
    expect(await redis.keys()).toEqual([]);
  });
});

describe("waits between attempts", () => {
  it("grow by their factor up to their maximum, shortened at random by their jitter", () => {
    const exact = { firstMs: 100, factor: 3, maxMs: 1_000, jitter: 0 };
    expect([1, 2, 3, 4, 1_000].map((attempt) => waitAfter(attempt, exact))).toEqual([100, 300, 900, 1_000, 1_000]);
    const spread = Array.from({ length: 500 }, () => waitAfter(2, { firstMs: 1_000, jitter: 0.25 }));
    expect(Math.min(...spread)).toBeGreaterThanOrEqual(1_500);
    expect(Math.max(...spread)).toBeLessThanOrEqual(2_000);
    expect(new Set(spread).size).toBeGreaterThan(50);
  });
});
