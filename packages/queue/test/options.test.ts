import type { RedisLike } from "@kit/core";
import { useRedis } from "@kit/testing";
import { rejection } from "@tooling/vitest/helpers";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { waitAfter } from "../src/job/backoff.js";
import { adoptBullQueue } from "../src/adopt/index.js";
import type { AddOptions } from "../src/index.js";
import type { QueueAddress } from "../src/job/keys.js";
import * as manage from "../src/manage/index.js";
import { queueMetrics } from "../src/metrics/index.js";
import { addedJobs } from "../src/testing/index.js";
import { fixtureOf, permanentKeys } from "./harness.js";

const redis = useRedis(vitest, { permanentKeys });
const fixture = fixtureOf(redis);

describe("options", () => {
  const wrongOfAdd: readonly object[] = [
    { delayMs: 1, dueAt: 1 },
    { lifo: true, priority: 1 },
    { lifo: true, delayMs: 1 },
    { op: "nonsense" },
    { op: "AAAAAAAAA:5:theirs", id: "mine" },
  ];
  it.each(wrongOfAdd)("that contradict each other are refused before anything is sent: %j", async (options) => {
    const queue = fixture.make();
    expect(String(await rejection(queue.add("job", 1, options as AddOptions)))).toMatch(
      /^(Type|Range)Error: (Expected|Unknown option) /,
    );
    expect(await redis.keys()).toEqual([]);
  });

  it("take fractions of a millisecond, which are rounded up, and a Date", async () => {
    const queue = fixture.make({ backoff: { firstMs: 10.5 } });
    const due = new Date(Date.now() + 3_600_000);
    await queue.add("job", 1, { dueAt: due, timeoutMs: 1_000.2 });
    await queue.add("job", 2, { dueAt: due.getTime() + 0.25 });
    await queue.add("job", 3, { delayMs: 7_200_000.5 });
    const { delayed, jobs } = fixture.keysOf();
    const [, first, , second, , third] = await fixture.db.zrange(delayed, "0", "-1", "WITHSCORES");
    expect([Number(first), Number(second)]).toEqual([due.getTime(), due.getTime() + 1]);
    expect(Number.isInteger(Number(third))).toBe(true);
    expect((await fixture.db.hvals(jobs)).join("\n")).toMatch(/ b11,[\d.,]+ t1001\n/);
  });

  it("name jobs by text of 1 to 128 characters", async () => {
    const queue = fixture.make();
    for (const name of ["", "x".repeat(129), "\ud800", 7 as unknown as string])
      expect(String(await rejection(queue.add(name, 1)))).toMatch(/RangeError: Expected the name/);
  });

  it("that are no list of ids move and delete no dead letter", async () => {
    const queue = fixture.make();
    const { dead, jobs } = fixture.keysOf();
    await fixture.db.zadd(dead, 1, "a");
    await fixture.db.hset(jobs, "a", "k1 job\n1");
    const refused = /^(Type|Range)Error: (Expected|Unknown option) /;
    expect(String(await rejection(queue.dropDeadLetters(undefined as never)))).toMatch(refused);
    for (const ids of [null, "a", {}, [undefined]] as never[])
      for (const call of [queue.dropDeadLetters(ids), queue.redrive(ids)])
        expect(String(await rejection(call))).toMatch(refused);
    expect(await fixture.counts()).toMatchObject({ jobs: 1, dead: 1 });
  });

  it("are refused if there are no handlers", () => {
    const queue = fixture.make();
    for (const handlers of [null, undefined, 7, { job: 7 }])
      expect(() => queue.work(handlers as unknown as Record<string, () => void>)).toThrow(/^Expected /);
    const one = (() => undefined) as unknown as Record<string, () => void>;
    expect(() => queue.work(one)).toThrow(/ to be a plain object with at least one function, such as /);
  });
});

describe("a call from outside", () => {
  const right = { queue: "mail" };
  const ofQueue: Readonly<Record<string, (address: QueueAddress) => unknown>> = {
    inspectQueue: (address) => manage.inspectQueue(redis.client, address),
    repairQueue: (address) => manage.repairQueue(redis.client, address),
    drainQueue: (address) => manage.drainQueue(redis.client, address),
    cleanQueue: (address) => manage.cleanQueue(redis.client, address, { state: "dead" }),
    purgeQueue: (address) => manage.purgeQueue(redis.client, address),
    listJobs: (address) => manage.listJobs(redis.client, address),
    pauseQueue: (address) => manage.pauseQueue(redis.client, address),
    resumeQueue: (address) => manage.resumeQueue(redis.client, address),
    setLimits: (address) => manage.setLimits(redis.client, address, { concurrency: 1 }),
    queueMetrics: (address) => queueMetrics(redis.client, address),
    adoptBullQueue: (address) => adoptBullQueue(redis.client, { from: "mail" }, address),
    addedJobs: (address) => addedJobs(redis.client, address),
  };
  const ofJob: Readonly<Record<string, (address: QueueAddress, id: string) => unknown>> = {
    inspectJob: (address, id) => manage.inspectJob(redis.client, address, id),
    readLog: (address, id) => manage.readLog(redis.client, address, id),
    removeJob: (address, id) => manage.removeJob(redis.client, address, id),
    cancelJob: (address, id) => manage.cancelJob(redis.client, address, id),
    promoteJob: (address, id) => manage.promoteJob(redis.client, address, id),
    editJob: (address, id) => manage.editJob(redis.client, address, id, { data: 1 }),
    setPriority: (address, id) => manage.setPriority(redis.client, address, id, 1),
  };
  const refusal = (call: () => unknown): Promise<unknown> => rejection((async () => await call())());

  it.each([...Object.entries(ofQueue), ...Object.entries(ofJob)])("of %s names a wrong address", async (_, call) => {
    for (const wrong of [undefined, null, "mail", 5, []] as unknown as QueueAddress[])
      expect(String(await refusal(() => call(wrong, "id")))).toMatch(/^TypeError: Expected `address` to be an object/);
    for (const queue of [undefined, null, 5, {}] as unknown as string[])
      expect(String(await refusal(() => call({ queue }, "id")))).toMatch(/^TypeError: Expected `address\.queue`/);
    const { prefix } = { prefix: 5 as unknown as string };
    expect(String(await refusal(() => call({ ...right, prefix }, "id")))).toMatch(/^TypeError: Expected `address\.pre/);
    // With a misspelt prefix it would be another queue.
    expect(await refusal(() => call({ ...right, prefx: "a" } as QueueAddress, "id"))).toBeInstanceOf(TypeError);
    expect(await refusal(() => call({ queue: "" }, "id"))).toBeInstanceOf(RangeError);
    expect(await refusal(() => call({ queue: "\ud800" }, "id"))).toMatchObject({ code: "KIT_NAME" });
  });

  it("names a wrong client of metrics, before the first scrape", () => {
    for (const wrong of [undefined, null, 7, {}] as unknown as RedisLike[])
      expect(() => queueMetrics(wrong, right)).toThrow(/^Expected `redis`/);
  });

  it.each(Object.entries(ofJob))("of %s names a wrong id", async (_, call) => {
    for (const wrong of [undefined, null, {}, 5n, 7] as unknown as string[])
      expect(String(await refusal(() => call(right, wrong)))).toMatch(/^TypeError: Expected `id` to be a string/);
    for (const wrong of ["", "x".repeat(100_000)])
      expect(String(await refusal(() => call(right, wrong)))).toMatch(/^RangeError: Expected `id` to have 1 to 160/);
  });

  it("of adoptBullQueue names a wrong source", async () => {
    for (const wrong of [undefined, { from: 5 }, { from: "" }, { from: "mail", bullPrefix: 5 }] as never[])
      expect(String(await rejection(adoptBullQueue(redis.client, wrong, right)))).toMatch(
        /^(Type|Range)Error: Expected `source/,
      );
  });
});

describe("waits between attempts", () => {
  it("grow by their factor up to their maximum, shortened at random by their jitter", () => {
    const exact = { firstMs: 100, factor: 3, maxMs: 1_000, jitter: 0 };
    expect([1, 2, 3, 4, 1_000].map((attempt) => waitAfter(attempt, exact))).toEqual([100, 300, 900, 1_000, 1_000]);
    const spread = Array.from({ length: 500 }, () =>
      waitAfter(2, { firstMs: 1_000, factor: 2, maxMs: 10_000, jitter: 0.25 }),
    );
    expect(Math.min(...spread)).toBeGreaterThanOrEqual(1_500);
    expect(Math.max(...spread)).toBeLessThanOrEqual(2_000);
    expect(new Set(spread).size).toBeGreaterThan(50);
  });
});
