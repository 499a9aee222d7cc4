import { eventually, useRedis } from "@kit/testing";
import { inModes, onMovingSlots, rejection } from "@tooling/vitest/helpers";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { RateLimitError } from "../src/index.js";
import {
  cancelJob,
  inspectQueue,
  pauseQueue,
  type QueueAddress,
  type QueueRate,
  resumeQueue,
  setLimits,
} from "../src/manage/index.js";
import * as looks from "../src/manage/scripts.js";
import * as scripts from "../src/store/scripts/index.js";
import { fixtureOf, latch, name, permanentKeys, Runs } from "./harness.js";

/** A worker that nobody wakes looks for work when a lease could have ended, after 10 s, or when its wait ends, after 13 to 15 s. */
const unwokenMs = 8_000;

/** The limits of a queue, on one server or on a Cluster. */
inModes({}, (mode) => {
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

    describe("the concurrency of a queue", () => {
      it("holds for all workers, whether jobs complete or fail, and keeps their order", async () => {
        await setLimits(redis.client, address(), { concurrency: 2 });
        const [queue, runs, both] = [make(), new Runs(), latch()];
        let [running, most] = [0, 0];
        const handler = async (job: Parameters<Runs["handler"]>[0]): Promise<void> => {
          runs.handler(job);
          most = Math.max(most, ++running);
          if (running === 2) both.open();
          await both.promise;
          await new Promise((resolve) => setImmediate(resolve));
          running--;
          if (Number(job.data) % 3 === 0) throw new Error("broken");
        };
        for (let n = 0; n < 2; n++) work(make(), handler, { concurrency: 5 });
        const jobs = Array.from({ length: 30 }, (_, data) => ({ name: "job", data }));
        await queue.addAll(jobs.slice(10));
        await queue.addAll(jobs.slice(0, 10).map((job) => ({ ...job, priority: job.data < 5 ? -1 : 1 })));
        await fixture.untilEmpty();
        expect(most).toBe(2);
        expect(runs.jobs).toHaveLength(30);
        expect((await fixture.counts()).dead).toBe(10);
      });

      it("can be changed and removed while the queue is worked on", async () => {
        const [queue, held] = [make(), latch()];
        redis.defer(held.open);
        const worker = work(queue, () => held.promise, { concurrency: 5 });
        const began = async (count: number): Promise<void> => {
          const at = performance.now();
          await eventually(() => expect(worker.running).toBe(count));
          expect(performance.now() - at).toBeLessThan(unwokenMs);
          await untilQuiet(count < 5 ? 1 : 0);
          expect(worker.running).toBe(count);
        };
        await setLimits(redis.client, address(), { concurrency: 1 });
        await queue.addAll(Array.from({ length: 5 }, (_, data) => ({ name: "job", data })));
        await began(1);
        await setLimits(redis.client, address(), { concurrency: 3 });
        expect(await inspectQueue(redis.client, address())).toMatchObject({ concurrency: 3, pausedAt: null });
        await began(3);
        await setLimits(redis.client, address(), {});
        await began(3);
        await setLimits(redis.client, address(), { concurrency: null });
        await began(5);
        expect(await inspectQueue(redis.client, address())).toMatchObject({ concurrency: null });
        for (const wrong of [{ concurrency: 0 }, { concurrency: 1.5 }, { concurency: 1 } as object])
          expect(String(await rejection(setLimits(redis.client, address(), wrong)))).toMatch(
            /^(Type|Range)Error: (Expected|Unknown option) /,
          );
      });

      it("gives the slot of a cancelled job to another one", async () => {
        const [queue, runs, held] = [make(), new Runs(), latch()];
        redis.defer(held.open);
        await setLimits(redis.client, address(), { concurrency: 1 });
        work(queue, (job) => (runs.handler(job), job.data === "held" ? held.promise : undefined), { concurrency: 2 });
        const id = await queue.add("job", "held");
        await runs.until(1);
        await queue.add("job", "behind");
        await untilQuiet(1);
        expect(runs.jobs).toHaveLength(1);
        const at = performance.now();
        expect(await cancelJob(redis.client, address(), id)).toBe("cancelled");
        await runs.until(2);
        expect(performance.now() - at).toBeLessThan(unwokenMs);
      });

      it("gives the slot of a process that died to another one once the lease has ended", async () => {
        const [queue, runs] = [make(), new Runs()];
        await setLimits(redis.client, address(), { concurrency: 1 });
        const peer = await fixture.spawn({ leaseMs: 1_000 });
        await queue.add("job", { log: "held", act: "hang" });
        await eventually(async () => expect(await fixture.logged()).not.toEqual([]));
        work(queue, runs.handler);
        await queue.add("job", "behind");
        await untilQuiet(1);
        expect(runs.data).toEqual([]);
        await peer.kill();
        await fixture.untilEmpty();
        expect(runs.jobs).toHaveLength(2);
        expect(runs.jobs[0]).toMatchObject({ crashes: 1 });
      });
    });

    describe("the rate of a queue", () => {
      it("holds for all workers", async () => {
        const [queue, runs] = [make(), new Runs()];
        const [count, burst, spaceMs] = [20, 3, 20];
        await setLimits(redis.client, address(), { rate: { count: 50, perMs: 1_000, burst } });
        for (let n = 0; n < 3; n++) work(make(), runs.handler, { concurrency: 5 });
        await untilQuiet(3);
        await queue.addAll(Array.from({ length: count }, (_, data) => ({ name: "job", data })));
        await runs.until(count, 120_000);
        const took = runs.jobs.map(({ takenAt }) => takenAt).toSorted((one, other) => one - other);
        for (let to = burst; to < count; to++)
          for (let from = 0; from <= to - burst; from++)
            expect(took[to]! - took[from]!).toBeGreaterThanOrEqual((to - from - burst + 1) * spaceMs - 1);
        await fixture.untilEmpty();
      });

      it("wakes a worker when the next job may start", async () => {
        const [queue, runs] = [make(), new Runs()];
        // Longer than the second after which a worker counts its completed jobs, and looks.
        const perMs = 1_500;
        await setLimits(redis.client, address(), { rate: { count: 1, perMs } });
        for (let n = 0; n < 2; n++) work(make(), runs.handler);
        await untilQuiet(2);
        await queue.addAll([1, 2].map((data) => ({ name: "job", data })));
        await runs.until(2);
        const [first, second] = runs.jobs;
        expect(second!.takenAt - first!.takenAt).toBeGreaterThanOrEqual(perMs - 1);
        expect(second!.takenAt - first!.takenAt).toBeLessThan(unwokenMs);
      });

      it("does not count jobs that went back before their handlers started", async () => {
        const [queue, runs] = [make(), new Runs()];
        await setLimits(redis.client, address(), { rate: { count: 2, perMs: 3_600_000, burst: 2 } });
        const ids = await queue.addAll([1, 2].map((data) => ({ name: "job", data })));
        // With one crash left each begins alone: the other one of the take goes back.
        for (const id of ids) await fixture.db.hset(fixture.keysOf().failures, id, "0\t2\t");
        work(queue, runs.handler, { concurrency: 2 });
        await runs.until(2);
        expect(runs.jobs.map(({ crashes }) => crashes)).toEqual([2, 2]);
        await fixture.untilEmpty();
      });

      it("does not count jobs that expired, or that cannot be read", async () => {
        const [queue, runs] = [make({ expiresMs: 600_000 }), new Runs()];
        await setLimits(redis.client, address(), { rate: { count: 2, perMs: 3_600_000, burst: 2 } });
        const ids = await queue.addAll(Array.from({ length: 7 }, (_, data) => ({ name: "job", data })));
        for (const id of ids.slice(0, 4)) await fixture.age(id);
        await fixture.db.hset(fixture.keysOf().jobs, ids[4]!, "damaged");
        work(queue, runs.handler, { concurrency: 2 });
        await runs.until(2);
        expect(runs.data).toEqual([5, 6]);
      });

      it("lets delayed jobs become ready, keeps the order, can be removed, and holds up no close", async () => {
        const [queue, runs] = [make(), new Runs()];
        await setLimits(redis.client, address(), { rate: { count: 1, perMs: 3_600_000 } });
        expect(await inspectQueue(redis.client, address())).toMatchObject({
          rate: { count: 1, perMs: 3_600_000, burst: 1 },
        });
        const worker = work(queue, runs.handler, { concurrency: 1 });
        await queue.add("job", "first");
        await runs.until(1);
        await queue.add("job", "last");
        await queue.add("job", "delayed", { delayMs: 20, priority: -1 });
        await eventually(async () => expect(await fixture.counts()).toMatchObject({ delayed: 0, prioritised: 1 }));
        await untilQuiet(1);
        expect(runs.data).toEqual(["first"]);
        await worker.close();
        work(make(), runs.handler, { concurrency: 1 });
        await untilQuiet(1);
        const removedAt = performance.now();
        await setLimits(redis.client, address(), { rate: null });
        await runs.until(3);
        expect(performance.now() - removedAt).toBeLessThan(unwokenMs);
        expect(runs.data).toEqual(["first", "delayed", "last"]);
        for (const wrong of [{ count: 1 }, { count: 0, perMs: 1 }, { count: 1, perMs: 1, per: 1 }, 5])
          expect(String(await rejection(setLimits(redis.client, address(), { rate: wrong as QueueRate })))).toMatch(
            /^(Type|Range)Error: (Expected|Unknown option) /,
          );
      });

      it("can be set by a handler for a while, whose job is then the next, without an attempt", async () => {
        const [queue, runs] = [make(), new Runs()];
        const worker = work(
          queue,
          (job) => {
            runs.handler(job);
            if (job.snoozes === 0 && job.data === "refused") throw new RateLimitError(300);
          },
          { concurrency: 1 },
        );
        const snoozed = new Promise<{ readonly retryInMs: number }>((resolve) => worker.once("snoozed", resolve));
        await queue.addAll(["refused", "behind"].map((data) => ({ name: "job", data })));
        expect((await snoozed).retryInMs).toBe(300);
        await runs.until(3);
        expect(runs.data).toEqual(["refused", "refused", "behind"]);
        const [first, second] = runs.jobs;
        expect(second).toMatchObject({ attempt: 1, snoozes: 1 });
        expect(second!.takenAt - first!.takenAt).toBeGreaterThanOrEqual(300);
        expect(second!.takenAt - first!.takenAt).toBeLessThan(unwokenMs);
        await fixture.untilEmpty();
        await queue.add("job", "later");
        await runs.until(4);
        await eventually(async () => expect(await fixture.db.exists(fixture.keysOf().limits)).toBe(0));
      });
    });

    describe("a handler that wants that no job starts", () => {
      it("applies immediately: jobs that its worker has taken ahead go back, and do not start", async () => {
        const [queue, runs] = [make(), new Runs()];
        const worker = work(
          queue,
          (job) => {
            runs.handler(job);
            if (job.data === "refused") throw new RateLimitError(3_600_000);
          },
          { concurrency: 1 },
        );
        // Quick jobs let the worker take ahead.
        await queue.addAll(Array.from({ length: 200 }, (_, data) => ({ name: "job", data })));
        await runs.until(200);
        const snoozed = new Promise((resolve) => worker.once("snoozed", resolve));
        const data = ["refused", ...Array(50).keys()];
        const ids = await queue.addAll(data.map((one) => ({ name: "job", data: one })));
        await snoozed;
        await eventually(async () => expect(await fixture.counts()).toMatchObject({ leases: 0, waiting: 51 }));
        const waiting = await fixture.db.lrange(fixture.keysOf().waiting, 0, -1);
        expect(waiting.toSorted()).toEqual(ids.toSorted());
        expect(runs.jobs).toHaveLength(201);
        await setLimits(redis.client, address(), { rate: null });
      });
    });

    describe("a handler of another worker that wants that no job starts", () => {
      it("applies with the next reply: jobs that were taken ahead go back", async () => {
        const queue = make();
        const { limits, leases } = fixture.keysOf();
        let [began, beganBefore, ended] = [0, 0, latch()];
        ended.open();
        const worker = work(
          queue,
          async () => {
            began++;
            // Until the reply to the end of the job before.
            await ended.promise;
            ended = latch();
            // Quick jobs let the worker take ahead.
            if (beganBefore > 0 || (await fixture.db.zcard(leases)) < 5) return;
            // As the step of another worker does.
            await fixture.db.hset(limits, "heldUntil", String(Date.now() + 3_600_000));
            beganBefore = began;
          },
          { concurrency: 1 },
        );
        worker.on("completed", () => ended.open());
        await queue.addAll(Array.from({ length: 500 }, (_, data) => ({ name: "job", data })));
        await eventually(async () => expect([beganBefore > 0, await fixture.db.zcard(leases)]).toEqual([true, 0]));
        expect(began - beganBefore).toBeLessThanOrEqual(1);
        await setLimits(redis.client, address(), { rate: null });
        await fixture.untilEmpty();
      });
    });

    describe("a pause", () => {
      it("lets running jobs finish and none start, for all workers, until the queue is resumed", async () => {
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

      it("ends on a queue without limits, and leaves nothing there", async () => {
        await resumeQueue(redis.client, address());
        await setLimits(redis.client, address(), { concurrency: null, rate: null, names: { job: null } });
        const { limits, wake } = fixture.keysOf();
        expect(await fixture.db.exists(limits, wake)).toBe(0);
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
});
