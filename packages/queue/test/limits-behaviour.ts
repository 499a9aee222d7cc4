import { eventually, type RedisMode, useRedis } from "@kit/testing";
import { onMovingSlots } from "@tooling/vitest/helpers";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { inspectQueue, pauseQueue, type QueueAddress, resumeQueue } from "../src/manage/index.js";
import * as looks from "../src/manage/scripts.js";
import * as scripts from "../src/scripts/index.js";
import { fixtureOf, latch, name, permanentKeys, Runs } from "./harness.js";

/** A worker that nobody wakes looks for work after 13 to 15 s. */
const unwokenMs = 12_000;

/** What keeps the jobs of a queue from beginning, on one server or on a Cluster. */
export const limitsBehaviour = (mode: RedisMode): void => {
  describe(`limits of a queue on a ${mode === "cluster" ? "Cluster" : "single server"}`, () => {
    const redis = useRedis(vitest, { mode, permanentKeys });
    onMovingSlots(redis, { ...looks, ...scripts });
    const fixture = fixtureOf(redis);
    const { make, work } = fixture;
    const address = (): QueueAddress => ({ queue: name, prefix: redis.prefix });
    /** All workers wait, and have consumed each marker: nothing more happens by itself. */
    const untilQuiet = async (workers: number): Promise<void> => {
      await eventually(async () => {
        await fixture.untilIdle(workers);
        expect(await fixture.db.zrange(fixture.keysOf().wake, "0", "-1")).not.toContain("job");
      });
    };

    describe("a pause", () => {
      it("lets running jobs finish and none begin, for all workers, until the queue is resumed", async () => {
        const [queue, runs, held] = [make(), new Runs(), latch()];
        redis.defer(held.open);
        const handler = async (job: Parameters<Runs["handler"]>[0]): Promise<void> => {
          runs.handler(job);
          if (job.data === "running") await held.promise;
        };
        const worker = work(queue, handler, { concurrency: 2 });
        await queue.add("job", "running");
        await runs.until(1);
        await pauseQueue(redis.client, address());
        const { pausedAt } = await inspectQueue(redis.client, address());
        await pauseQueue(redis.client, address());
        expect(await inspectQueue(redis.client, address())).toMatchObject({ pausedAt, active: 1 });
        await queue.add("job", "added");
        await queue.add("job", "urgent", { priority: -1 });
        await queue.add("job", "delayed", { delayMs: 20 });
        const completed = new Promise((resolve) => worker.once("completed", resolve));
        held.open();
        await completed;
        await worker.close();
        // The next deploy.
        for (let n = 0; n < 2; n++) work(make(), handler);
        await eventually(async () => expect(await fixture.counts()).toMatchObject({ delayed: 0, waiting: 2 }));
        await untilQuiet(2);
        expect(runs.data).toEqual(["running"]);
        await resumeQueue(redis.client, address());
        await resumeQueue(redis.client, address());
        await fixture.untilEmpty();
        expect(runs.jobs).toHaveLength(4);
        expect(new Set(runs.data)).toEqual(new Set(["running", "added", "urgent", "delayed"]));
        expect(await fixture.db.exists(fixture.keysOf().limits)).toBe(0);
      });

      it("can come before the first add, and its end wakes all workers", async () => {
        await pauseQueue(redis.client, address());
        const [queue, held] = [make(), latch()];
        redis.defer(held.open);
        const workers = [1, 2, 3].map(() => work(queue, () => held.promise, { concurrency: 1 }));
        for (let n = 0; n < 3; n++) await queue.add("job", n);
        await untilQuiet(3);
        expect(workers.map(({ running }) => running)).toEqual([0, 0, 0]);
        const resumedAt = performance.now();
        await resumeQueue(redis.client, address());
        await eventually(() => expect(workers.map(({ running }) => running)).toEqual([1, 1, 1]));
        expect(performance.now() - resumedAt).toBeLessThan(unwokenMs);
      });

      it("sends jobs back that were taken ahead, if no handler becomes free", async () => {
        const [queue, runs, held] = [make(), new Runs(), latch()];
        redis.defer(held.open);
        const handler = async (job: Parameters<Runs["handler"]>[0]): Promise<void> => {
          runs.handler(job);
          if (job.data === "last") await held.promise;
        };
        work(queue, handler, { concurrency: 1 });
        // Quick jobs let the worker take ahead.
        await queue.addAll(Array.from({ length: 200 }, (_, data) => ({ name: "job", data })));
        await runs.until(200);
        await queue.addAll([...Array(20).keys(), "last", ...Array(20).keys()].map((data) => ({ name: "job", data })));
        await runs.until(221);
        await pauseQueue(redis.client, address());
        await eventually(async () => expect(await fixture.counts()).toMatchObject({ leases: 1, waiting: 20 }));
        held.open();
        await untilQuiet(1);
        expect(runs.data.at(-1)).toBe("last");
        await resumeQueue(redis.client, address());
        await fixture.untilEmpty();
      });
    });
  });
};
