import { connect } from "@kit/core";
import { eventually, FaultProxy, useRedis } from "@kit/testing";
import { inModes, onMovingSlots } from "@tooling/vitest/helpers";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { createOrderedWorker } from "../src/ordered/index.js";
import * as looks from "../src/manage/scripts.js";
import * as scripts from "../src/store/scripts/index.js";
import { fixtureOf, latch, permanentKeys, Runs } from "./harness.js";

/** Less than the time after which a worker that nobody wakes looks for work: 13 to 15 s. */
const unwokenMs = 8_000;

/** `worker.pause()` and `worker.resume()`, on one server or on a Cluster. */
inModes({}, (mode) => {
  describe(`a paused worker on a ${mode === "cluster" ? "Cluster" : "single server"}`, () => {
    const redis = useRedis(vitest, { mode, permanentKeys });
    onMovingSlots(redis, { ...looks, ...scripts });
    const fixture = fixtureOf(redis);
    const { make, work } = fixture;
    const waiting = async (): Promise<unknown[]> => {
      const ids = await fixture.db.lrange(fixture.keysOf().waiting, "0", "-1");
      const blobs = await Promise.all(ids.map((id) => fixture.db.hget(fixture.keysOf().jobs, id)));
      return blobs.map((blob) => Number(blob?.split("\n")[1]));
    };
    const jobsFrom = (first: number, count: number): { name: string; data: number }[] =>
      Array.from({ length: count }, (_, n) => ({ name: "job", data: first + n }));
    const dataFrom = (first: number, count: number): number[] => jobsFrom(first, count).map(({ data }) => data);

    it("starts none from that instant on, hands back the others, and lets its handlers end", async () => {
      const [queue, runs, held] = [make(), new Runs(), latch()];
      redis.defer(held.open);
      let paused: Promise<void> | undefined;
      const worker = work(queue, (job) => {
        runs.handler(job);
        if (runs.jobs.length !== 700) return undefined;
        paused = worker.pause();
        return held.promise;
      });
      await queue.addAll(jobsFrom(0, 2_000));
      await runs.until(700);
      await paused;
      expect(worker.isPaused).toBe(true);
      expect(await fixture.counts()).toMatchObject({ leases: 1, waiting: 1_300 });
      held.open();
      await eventually(async () => expect(await fixture.counts()).toMatchObject({ leases: 0, jobs: 1_300 }));
      expect([worker.running, runs.jobs.length]).toEqual([0, 700]);
      worker.resume();
      expect(worker.isPaused).toBe(false);
      await fixture.untilEmpty();
      expect(runs.data.toSorted((a, b) => Number(a) - Number(b))).toEqual(dataFrom(0, 2_000));
      expect(runs.jobs.every(({ attempt, crashes }) => attempt === 1 && crashes === 0)).toBe(true);
    });

    it("hands back its prefetched jobs and the jobs of a call under way, in their order", async () => {
      const [queue, runs] = [make(), new Runs()];
      let pauseAt = Infinity;
      let paused: Promise<void> | undefined;
      const worker = work(queue, (job) => {
        runs.handler(job);
        if (job.data === pauseAt) paused = worker.pause();
      });
      // From now on it knows that the jobs are quick.
      await queue.addAll(jobsFrom(-30, 30));
      await runs.until(30);
      for (pauseAt = 200; pauseAt < 5_000; pauseAt += 1_000) {
        await fixture.untilIdle(1);
        // It takes at most 250 in a call: some 50 are left of the one, and the next is under way.
        await queue.addAll(jobsFrom(pauseAt - 200, 500));
        await eventually(() => expect(worker.isPaused).toBe(true));
        await paused;
        expect(await waiting()).toEqual(dataFrom(pauseAt + 1, 299));
        worker.resume();
        await fixture.untilEmpty();
      }
    });

    it("pops no marker that another worker needs, and is woken again once it is resumed", async () => {
      const queue = make();
      const [first, second] = [new Runs(), new Runs()];
      const worker = work(queue, first.handler);
      await fixture.untilIdle(1);
      const other = work(queue, second.handler);
      await fixture.untilIdle(2);
      for (let n = 0; n < 20; n++) {
        // The job is added while the wait ends: the marker may have been popped by it.
        const [at] = [performance.now(), void worker.pause(), await queue.add("job", n)];
        await eventually(() => expect(first.jobs.length + second.jobs.length).toBe(n + 1));
        expect(performance.now() - at).toBeLessThan(unwokenMs);
        worker.resume();
        await fixture.untilIdle(2);
      }
      await worker.pause();
      await other.pause();
      await fixture.untilIdle(0);
      const before = first.jobs.length;
      await queue.add("job", "later");
      await eventually(async () => expect(await fixture.counts()).toMatchObject({ waiting: 1, leases: 0 }));
      worker.resume();
      await first.until(before + 1, unwokenMs);
      await fixture.untilEmpty();
      expect((await fixture.counts()).dead).toBe(0);
    });

    it("finds due jobs and the jobs of a dead process when it is resumed", async () => {
      const [queue, runs] = [make(), new Runs()];
      const worker = work(queue, runs.handler, { leaseMs: 500 });
      await fixture.untilIdle(1);
      await worker.pause();
      await worker.pause();
      const peer = await fixture.spawn({ leaseMs: 500 });
      await queue.add("job", { log: "held", act: "hang" });
      await eventually(async () => expect(await fixture.logged()).toHaveLength(1));
      await peer.kill();
      await queue.add("job", "due", { delayMs: 50 });
      await eventually(async () => {
        const [, end] = await fixture.db.zrange(fixture.keysOf().leases, "0", "0", "WITHSCORES");
        const [seconds] = await fixture.db.time();
        expect(Number(seconds) * 1_000).toBeGreaterThan(Number(end));
      });
      expect(await fixture.counts()).toMatchObject({ leases: 1, delayed: 1 });
      expect(runs.jobs).toEqual([]);
      worker.resume();
      await runs.until(2, unwokenMs);
      await fixture.untilEmpty();
    });

    it("takes nothing if it was paused before the queue was opened, or while the server is unreachable", async () => {
      const proxy = await FaultProxy.start({ port: (await fixture.nodeOf()).port });
      redis.defer(() => proxy.close());
      const client = await connect({ url: redis.url, deadlineMs: 10_000 });
      redis.defer(() => client.close());
      const runs = new Runs();
      const early = work(fixture.on(client), runs.handler);
      await early.pause();
      await make().add("job", 1);
      await fixture.untilIdle(0);
      expect(runs.jobs).toEqual([]);
      early.resume();
      await runs.until(1);
      await early.close();
      if (mode === "cluster") return;
      const through = await connect({ url: proxy.url, deadlineMs: 10_000 });
      redis.defer(() => through.close());
      const worker = work(fixture.on(through, { deadlineMs: 300 }), runs.handler);
      await fixture.untilIdle(1);
      proxy.refuse = true;
      proxy.resetAll();
      // The server is away, and this still resolves.
      await worker.pause();
      const { accepted } = proxy.stats;
      proxy.heal();
      await make().add("job", 2);
      await eventually(() => expect(proxy.stats.accepted).toBeGreaterThan(accepted));
      await fixture.untilIdle(0);
      expect(await fixture.counts()).toMatchObject({ waiting: 1 });
      worker.resume();
      await runs.until(2);
    });

    it("continues if it is resumed before the pause is complete, and closes like any other", async () => {
      const [queue, runs] = [make(), new Runs()];
      const worker = work(queue, runs.handler);
      await fixture.untilIdle(1);
      for (let n = 0; n < 20; n++) {
        const pausing = worker.pause();
        worker.resume();
        await queue.add("job", n);
        await pausing;
        await runs.until(n + 1, unwokenMs);
      }
      await worker.pause();
      await worker.close();
      await worker.pause();
      worker.resume();
      await queue.add("job", "after");
      expect(await fixture.counts()).toMatchObject({ waiting: 1, leases: 0 });
      expect(runs.data).toEqual(dataFrom(0, 20));
    });

    it("lets later queues of an ordered worker continue", async () => {
      const [queues, runs] = [[make({ name: "first" }), make({ name: "second" })], new Runs()];
      const ordered = createOrderedWorker({ maxPassedOver: 1_000 });
      redis.defer(() => ordered.close({ timeoutMs: 0 }));
      const [worker] = queues.map((queue) => ordered.serve(queue, { job: runs.handler }));
      await worker!.pause();
      for (const [n, queue] of queues.entries()) await queue.add("job", n);
      await runs.until(1);
      expect(await fixture.counts("first")).toMatchObject({ waiting: 1 });
      worker!.resume();
      await runs.until(2);
      expect(runs.data).toEqual([1, 0]);
    });
  });
});
