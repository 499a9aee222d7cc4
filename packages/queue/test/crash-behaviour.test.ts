import { eventually, useRedis } from "@kit/testing";
import { aborted, inModes, onMovingSlots, rejection } from "@tooling/vitest/helpers";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { type Job, JobLeaseLostError } from "../src/index.js";
import * as looks from "../src/manage/scripts.js";
import * as scripts from "../src/store/scripts/index.js";
import { fixtureOf, latch, permanentKeys, Runs } from "./harness.js";

/** Jobs whose processes are killed or paused, on one server or on a Cluster. */
inModes({}, (mode) => {
  describe(`jobs of processes that die, on a ${mode === "cluster" ? "Cluster" : "single server"}`, () => {
    const redis = useRedis(vitest, { mode, permanentKeys });
    onMovingSlots(redis, { ...looks, ...scripts });
    const fixture = fixtureOf(redis);
    const { make, work, spawn } = fixture;
    const logs = (count: number): Promise<void> =>
      eventually(async () => expect(await fixture.logged()).toHaveLength(count), { timeoutMs: 20_000 });

    it("run again once the lease of a killed worker has ended, ahead of their priority, with one crash", async () => {
      const queue = make();
      const peer = await spawn({ leaseMs: 1_000, concurrency: 2 });
      await queue.add("job", { log: "a", act: "hang" });
      await queue.add("job", { log: "ranked", act: "hang" }, { priority: 2 });
      await logs(2);
      await peer.kill();
      const startedAt = performance.now();
      const datas = ["first", "later", "last"].map((log) => ({ name: "job", data: { log } }));
      const ranked = [-1, 2].map((priority) => ({ name: "job", data: { log: `of ${String(priority)}` }, priority }));
      await queue.addAll([...datas, ...ranked]);
      // Full while the lease ends: only its timer can notice.
      const runs = new Runs();
      const { promise, open } = latch();
      const worker = work(
        queue,
        (job) => {
          runs.handler(job);
          return runs.jobs.length === 1 ? promise : undefined;
        },
        { leaseMs: 1_000, strict: true },
      );
      const crashed: unknown[] = [];
      worker.on("crashed", (fact) => crashed.push(fact));
      await runs.until(1);
      const fact = { crashes: 1, isDead: false };
      await eventually(() => expect(crashed).toMatchObject([fact, fact]), { timeoutMs: 7_000 });
      expect(performance.now() - startedAt).toBeLessThan(7_500);
      open();
      await fixture.untilEmpty();
      const order = runs.data.map((data) => (data as { log: string }).log);
      expect(order).toEqual(["of -1", "a", "first", "later", "last", "ranked", "of 2"]);
      expect(runs.jobs.map(({ crashes }) => crashes)).toEqual([0, 1, 0, 0, 0, 1, 0]);
      expect(runs.jobs.every(({ attempt }) => attempt === 1)).toBe(true);
    });

    it("each run exactly once more, in order, by an idle worker, when a hundred are under way", async () => {
      const queue = make();
      const runs = new Runs();
      const { promise, open } = latch();
      const peer = await spawn({ concurrency: 100, leaseMs: 1_000 });
      await fixture.untilIdle(1);
      // The longest waiter is woken first: the peer takes all jobs, and the worker here is woken only by a marker.
      work(queue, (job) => (runs.handler(job), promise), { concurrency: 200, leaseMs: 1_000 });
      await fixture.untilIdle(2);
      await queue.addAll(Array.from({ length: 100 }, (_, n) => ({ name: "job", data: { log: n, act: "hang" } })));
      await logs(100);
      await peer.kill();
      await runs.until(100, 8_000);
      open();
      await fixture.untilEmpty();
      expect(runs.data).toEqual(Array.from({ length: 100 }, (_, n) => ({ log: n, act: "hang" })));
      expect(runs.jobs.every(({ crashes, attempt }) => crashes === 1 && attempt === 1)).toBe(true);
    });

    it("run again when the process dies between the handler's end and its recording: at least once", async () => {
      const queue = make();
      const runs = new Runs();
      const peer = await spawn({ leaseMs: 500, ack: "each", strict: true });
      await queue.add("job", { log: "done", act: "die" });
      await logs(1);
      await peer.kill();
      work(queue, runs.handler, { leaseMs: 500 });
      await runs.until(1);
      await fixture.untilEmpty();
      expect(runs.jobs[0]!.crashes).toBe(1);
    });

    it("answer their caller whichever worker ends them, even when crashes make them dead letters", async () => {
      const queue = make();
      const peer = await spawn({ leaseMs: 500 });
      const call = queue.call("job", { log: "a", act: "hang" });
      await logs(1);
      await peer.kill();
      const worker = work(queue, () => "by another", { leaseMs: 500 });
      expect(await call).toBe("by another");
      await worker.close();
      await spawn({ leaseMs: 500 });
      const fatal = rejection(queue.call("job", { log: "b", act: "die" }));
      await logs(2);
      work(queue, () => "never", { leaseMs: 500, maxCrashes: 1 });
      expect(await fatal).toMatchObject({ code: "KIT_JOB_FAILED", attempts: 0, crashes: 1, error: undefined });
    });

    it("become dead letters when they kill their process too often, and no other job does", async () => {
      const queue = make({ maxAttempts: 5 });
      const poison = await queue.add("job", { log: "poison", act: "die" });
      await queue.addAll(
        Array.from({ length: 20 }, (_, n) => ({ name: "job", data: { log: n, act: "wait", ms: 20 } })),
      );
      for (let round = 0; round < 30; round++) {
        if ((await fixture.counts()).jobs === 1 && (await queue.deadLetters()).length === 1) break;
        const peer = await spawn({ leaseMs: 1_500, concurrency: 10, maxCrashes: 3 });
        await eventually(
          async () => {
            const { jobs, dead } = await fixture.counts();
            expect(!peer.isAlive || (jobs === 1 && dead === 1)).toBe(true);
          },
          { timeoutMs: 15_000 },
        );
        await peer.kill();
      }
      const letters = await queue.deadLetters();
      expect(letters).toMatchObject([{ id: poison, attempts: 0, crashes: 3, error: undefined }]);
      expect(await fixture.counts()).toMatchObject({ jobs: 1, waiting: 0, leases: 0 });
      const log = await fixture.logged();
      for (let n = 0; n < 20; n++) expect(log.some((line) => line.startsWith(`${String(n)} `))).toBe(true);
    });

    it("run one at a time with one crash left, and hold up no job that has more", async () => {
      const queue = make();
      const runs = new Runs();
      const { promise, open } = latch();
      redis.defer(open);
      const risky = ["risky 1", "risky 2"];
      for (const id of risky) await fixture.db.hset(fixture.keysOf().failures, id, "0\t2\t");
      const worker = work(queue, (job) => (runs.handler(job), job.id === "risky 1" ? promise : undefined), {
        concurrency: 10,
      });
      await queue.add("job", 0, { id: "risky 1" });
      await runs.until(1);
      for (const data of [1, 2, 3]) await queue.add("job", data);
      await runs.until(4);
      await fixture.untilIdle(1);
      await queue.add("job", 4, { id: "risky 2" });
      // It was taken, and handed back.
      await fixture.untilIdle(0);
      await eventually(async () => expect(await fixture.counts()).toMatchObject({ waiting: 1, leases: 1 }));
      expect([worker.running, runs.jobs.length]).toEqual([1, 4]);
      open();
      await fixture.untilEmpty();
      expect(runs.data).toEqual([0, 1, 2, 3, 4]);
    });

    it("are not charged the last crash when they only waited in the memory of a worker that fell silent", async () => {
      const queue = make();
      const ids = await queue.addAll([1, 2, 3].map((data) => ({ name: "job", data })));
      const { jobs, failures, waiting, leases } = fixture.keysOf();
      for (const id of ids) await fixture.db.hset(failures, id, "0\t2\t");
      // All three are taken; its hand-back of the other two did not arrive, and only one of them was begun.
      await fixture.db.del(waiting);
      const takeIds = ["workerA00001", "workerA00001", "workerA00002"];
      for (const [index, id] of ids.entries()) await fixture.db.zadd(leases, 1, `${takeIds[index]!}${id}`);
      await fixture.db.hset(failures, ids[0]!, "0\t2 workerA00001\t", ids[2]!, "0\t2 workerA00001\t");
      const runs = new Runs();
      work(queue, runs.handler);
      await runs.until(2);
      await fixture.untilEmpty();
      expect(runs.jobs.map(({ data, crashes }) => [data, crashes])).toEqual([
        [2, 2],
        [3, 2],
      ]);
      expect(await queue.deadLetters()).toMatchObject([{ id: ids[0], crashes: 3 }]);
      expect(await fixture.db.hlen(jobs)).toBe(1);
    });

    it("stay with their worker for four times the lease while it lives, and no other worker runs them", async () => {
      const queue = make();
      // Long enough that a busy machine does not keep it silent for a lease.
      const leaseMs = 6_000;
      const [peer, runs] = [await spawn({ leaseMs }), new Runs()];
      await queue.add("job", { log: "long", act: "wait", ms: 4 * leaseMs });
      await logs(1);
      work(queue, runs.handler, { leaseMs });
      await eventually(async () => expect(await peer.ask("running")).toBe(0), { timeoutMs: 50_000 });
      await fixture.untilEmpty();
      expect(runs.jobs).toEqual([]);
      await peer.ask("close");
      expect(await peer.ask("events")).toEqual([]);
    });

    it("go to others while their process is stopped; its late results then change nothing", async () => {
      const queue = make();
      const [peer, runs] = [await spawn({ leaseMs: 500 }), new Runs()];
      const id = await queue.add("job", { log: "first", act: "wait", ms: 300 }, { id: "reused" });
      await logs(1);
      peer.pause();
      const worker = work(queue, runs.handler, { leaseMs: 500 });
      await runs.until(1);
      await eventually(async () => expect((await fixture.counts()).jobs).toBe(0));
      await worker.close();
      // Another worker has the job by now: the late completion must not touch it.
      await queue.add("job", { log: "second" }, { id: "reused", delayMs: 600_000 });
      peer.resume();
      await eventually(async () => expect(await peer.ask("events")).toEqual([["lost", id]]), { timeoutMs: 15_000 });
      await eventually(async () => expect(await peer.ask("running")).toBe(0));
      expect(await peer.ask("close")).toBeUndefined();
      expect(await fixture.counts()).toMatchObject({ jobs: 1, delayed: 1, leases: 0 });
    });

    it("are not started by a process that was stopped until their leases had ended", async () => {
      const queue = make();
      const peer = await spawn({ leaseMs: 500, concurrency: 2 });
      await fixture.untilIdle(1);
      const datas = [{ log: "stands still", act: "stand", ms: 3_000 }, { log: "waits" }];
      await queue.addAll(datas.map((data) => ({ name: "job", data })));
      await eventually(async () => expect(await fixture.counts()).toMatchObject({ waiting: 0 }));
      const runs = new Runs();
      work(queue, runs.handler, { leaseMs: 500, concurrency: 2 });
      await eventually(() => expect(runs.data).toContainEqual(datas[1]), { timeoutMs: 20_000 });
      await fixture.untilEmpty();
      await eventually(async () => expect(await peer.ask("running")).toBe(0), { timeoutMs: 20_000 });
      expect(await fixture.logged()).toEqual(["stands still 1 0"]);
    });

    it("have their signal aborted when their lease is gone, and their late end is refused", async () => {
      const queue = make({ maxAttempts: 3 });
      const runs: Job[] = [];
      const { promise, open } = latch();
      const worker = work(
        queue,
        async (job) => {
          runs.push(job);
          if (runs.length > 1) return;
          expect(await aborted(job.signal)).toBeInstanceOf(JobLeaseLostError);
          await promise;
          throw new Error("too late to count");
        },
        { concurrency: 3, leaseMs: 60_000 },
      );
      const lost: string[] = [];
      worker.on("lost", ({ job }) => lost.push(job.id));
      const id = await queue.add("job", 1);
      await eventually(() => expect(runs).toHaveLength(1));
      await fixture.expireLeases();
      // The step that takes this one looks for ended leases, too: the job is taken back and runs again, beside the first run.
      await queue.add("job", 2);
      await eventually(() => expect(runs).toHaveLength(3));
      await eventually(() => expect(lost).toEqual([id]));
      open();
      await fixture.untilEmpty();
      expect(lost).toEqual([id]);
      expect(await fixture.counts()).toMatchObject({ jobs: 0, dead: 0, delayed: 0, failures: 0 });
    });

    it("run when due though the only process that kept time for them was killed", async () => {
      const queue = make();
      const peer = await spawn();
      await fixture.untilIdle(1);
      const runs = new Runs();
      work(queue, runs.handler);
      await fixture.untilIdle(2);
      // The longest waiter pops the first marker: the peer keeps the time, and the worker here stands by.
      await queue.add("job", { log: "due" }, { delayMs: 1_500 });
      await eventually(async () => expect(await fixture.db.exists(fixture.keysOf().wake)).toBe(0));
      await peer.kill();
      await runs.until(1, 9_000);
      expect(runs.jobs[0]!.crashes).toBe(0);
    });
  });
});
