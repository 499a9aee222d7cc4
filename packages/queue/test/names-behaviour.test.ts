import { eventually, useRedis } from "@kit/testing";
import { inModes, onMovingSlots, rejection } from "@tooling/vitest/helpers";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import type { Job, Worker } from "../src/index.js";
import {
  cancelJob,
  drainQueue,
  editJob,
  inspectJob,
  inspectQueue,
  listJobs,
  pauseQueue,
  type QueueAddress,
  removeJob,
  repairQueue,
  rescheduleJob,
  resumeQueue,
  setLimits,
  setPriority,
} from "../src/manage/index.js";
import * as looks from "../src/manage/scripts.js";
import * as scripts from "../src/store/scripts/index.js";
import { fixtureOf, latch, name, permanentKeys, Runs } from "./harness.js";

/** A worker that nobody wakes looks for work when a lease could have ended, after 10 s, or when its wait ends, after 13 to 15 s. */
const unwokenMs = 8_000;

/** Limits and pauses by name, on one server or on a Cluster. */
inModes({}, (mode) => {
  describe(`limits of names of jobs on a ${mode === "cluster" ? "Cluster" : "single server"}`, () => {
    const redis = useRedis(vitest, { mode, permanentKeys });
    onMovingSlots(redis, { ...looks, ...scripts });
    const fixture = fixtureOf(redis);
    const { make } = fixture;
    const address = (): QueueAddress => ({ queue: name, prefix: redis.prefix });
    const overview = () => inspectQueue(redis.client, address());
    /** A worker for jobs of the names `slow` and `job`. */
    const work = (handler: (job: Job) => unknown, concurrency = 1): Worker =>
      make().work({ slow: handler, job: handler }, { abortGraceMs: 100, concurrency });
    const untilQuiet = async (workers: number): Promise<void> => {
      await eventually(async () => {
        await fixture.untilIdle(workers);
        expect(await fixture.db.zrange(fixture.keysOf().wake, "0", "-1")).not.toContain("job");
      });
    };
    const untilGone = async (): Promise<void> => {
      await fixture.untilEmpty();
      const { jobs, suspended, limits } = fixture.keysOf();
      expect(await fixture.db.exists(jobs, suspended, limits)).toBe(0);
    };

    it("lists a name that another program has stored as it is", async () => {
      await fixture.db.hset(fixture.keysOf().limits, "names", "\n% 1 0");
      expect((await overview()).names).toMatchObject([{ name: "%", concurrency: 1 }]);
    });

    describe("a paused name", () => {
      it("lets jobs of other names pass, and continues in its order, also by priority", async () => {
        await pauseQueue(redis.client, address(), { name: "slow" });
        const { names } = await overview();
        expect(names).toMatchObject([{ name: "slow", concurrency: null, pausedAt: expect.any(Number) as number }]);
        const [queue, runs] = [make(), new Runs()];
        for (let n = 0; n < 10; n++) {
          await queue.add("slow", `slow ${String(n)}`);
          await queue.add("job", `job ${String(n)}`);
        }
        await queue.add("slow", "urgent", { priority: -1 });
        await queue.add("slow", "idle", { priority: 1 });
        work(runs.handler);
        await runs.until(10);
        await untilQuiet(1);
        expect(runs.data).toEqual(Array.from({ length: 10 }, (_, n) => `job ${String(n)}`));
        expect(await overview()).toMatchObject({ suspended: 12, lost: 0, names: [{ suspended: 12 }] });
        await queue.add("slow", "late");
        await untilQuiet(1);
        // Pausing again changes nothing, and jobs of other names go on.
        await pauseQueue(redis.client, address(), { name: "slow" });
        expect((await overview()).names[0]?.pausedAt).toBe(names[0]?.pausedAt);
        await queue.add("job", "passes");
        await runs.until(11);
        const resumedAt = performance.now();
        await resumeQueue(redis.client, address(), { name: "slow" });
        await runs.until(24);
        expect(performance.now() - resumedAt).toBeLessThan(unwokenMs);
        const slow = Array.from({ length: 10 }, (_, n) => `slow ${String(n)}`);
        expect(runs.data.slice(11)).toEqual(["urgent", ...slow, "late", "idle"]);
        await untilGone();
      });

      it("keeps its concurrency, and a pause of the queue is another one", async () => {
        await setLimits(redis.client, address(), { names: { slow: { concurrency: 3 } } });
        await pauseQueue(redis.client, address(), { name: "slow" });
        await pauseQueue(redis.client, address());
        await setLimits(redis.client, address(), { names: { slow: null } });
        await setLimits(redis.client, address(), { names: { slow: {}, "a b/c": { concurrency: 2 } } });
        await resumeQueue(redis.client, address());
        expect(await overview()).toMatchObject({
          pausedAt: null,
          names: [
            { name: "slow", concurrency: null, pausedAt: expect.any(Number) as number, suspended: 0 },
            { name: "a b/c", concurrency: 2, pausedAt: null, suspended: 0 },
          ],
        });
        await resumeQueue(redis.client, address(), { name: "slow" });
        await resumeQueue(redis.client, address(), { name: "a b/c" });
        expect((await overview()).names).toMatchObject([{ name: "a b/c", concurrency: 2 }]);
        await setLimits(redis.client, address(), { names: { "a b/c": { concurrency: null } } });
        expect(await fixture.db.exists(fixture.keysOf().limits)).toBe(0);
      });

      it("moves each of 100,000 jobs ahead of another one once, and no step meets them again", async () => {
        const [queue, runs] = [make(), new Runs()];
        await pauseQueue(redis.client, address(), { name: "slow" });
        const count = mode === "cluster" ? 10_000 : 100_000;
        await queue.addAll(Array.from({ length: count }, (_, data) => ({ name: "slow", data })));
        await queue.add("job", "behind");
        const { meta, suspended } = fixture.keysOf();
        work(runs.handler);
        await runs.until(1, 60_000);
        expect(await fixture.db.zcard(suspended)).toBe(count);
        expect(await fixture.db.hget(meta, "suspended")).toBe(String(count));
        // The next job is not behind them.
        await untilQuiet(1);
        await queue.add("job", "next");
        await runs.until(2);
        expect(await fixture.db.hget(meta, "suspended")).toBe(String(count));
        expect((await fixture.counts()).waiting).toBe(0);
        expect(await drainQueue(redis.client, address())).toBe(count);
      });
    });

    describe("the concurrency of a name", () => {
      it("holds for all workers while others pass, and can be changed while they work", async () => {
        const [queue, runs] = [make(), new Runs()];
        await setLimits(redis.client, address(), { names: { slow: { concurrency: 2 } } });
        let [running, most] = [0, 0];
        let gate = latch();
        redis.defer(() => gate.open());
        const handler = async (job: Job): Promise<void> => {
          runs.handler(job);
          if (job.name === "job") return;
          most = Math.max(most, ++running);
          const { promise } = gate;
          await promise;
          running--;
        };
        for (let n = 0; n < 3; n++) work(handler, 5);
        await queue.addAll(Array.from({ length: 40 }, (_, data) => ({ name: data % 2 === 0 ? "slow" : "job", data })));
        await eventually(() => expect(runs.jobs).toHaveLength(22));
        await untilQuiet(3);
        expect([running, most]).toEqual([2, 2]);
        expect(await overview()).toMatchObject({ active: 2, suspended: 18, names: [{ suspended: 18 }] });
        const changedAt = performance.now();
        await setLimits(redis.client, address(), { names: { slow: { concurrency: 4 } } });
        await eventually(() => expect(running).toBe(4));
        await setLimits(redis.client, address(), { names: { slow: { concurrency: 1 } } });
        most = 0;
        const next = latch();
        gate.open();
        gate = next;
        await eventually(() => expect([running, runs.jobs.length]).toEqual([1, 25]));
        expect(performance.now() - changedAt).toBeLessThan(unwokenMs);
        await untilQuiet(3);
        expect(running).toBe(1);
        next.open();
        await fixture.untilEmpty();
        expect(most).toBe(1);
        const slow = runs.jobs.filter((job) => job.name === "slow").map(({ data }) => data);
        // The first four ran side by side: which of their workers gets its answer first is open.
        const inOrder = [...slow.slice(0, 4).sort((a, b) => Number(a) - Number(b)), ...slow.slice(4)];
        expect(inOrder).toEqual(Array.from({ length: 20 }, (_, n) => 2 * n));
      });

      it("gives the slot of a cancelled job to the next one", async () => {
        const [queue, runs, held] = [make(), new Runs(), latch()];
        redis.defer(held.open);
        await setLimits(redis.client, address(), { names: { slow: { concurrency: 1 } } });
        work((job) => (runs.handler(job), job.data === "held" ? held.promise : undefined), 3);
        const id = await queue.add("slow", "held");
        await runs.until(1);
        await queue.addAll(["one", "two"].map((data) => ({ name: "slow", data })));
        await untilQuiet(1);
        expect(await cancelJob(redis.client, address(), id)).toBe("cancelled");
        await runs.until(3);
        expect(runs.data).toEqual(["held", "one", "two"]);
        await fixture.untilEmpty();
      });

      it("holds when a process dies: its job is the first of its name once its lease has ended", async () => {
        const [queue, runs] = [make(), new Runs()];
        await setLimits(redis.client, address(), { names: { job: { concurrency: 1 } } });
        const peer = await fixture.spawn({ leaseMs: 1_000 });
        await queue.add("job", { log: "held", act: "hang" });
        await eventually(async () => expect(await fixture.logged()).not.toEqual([]));
        work(runs.handler, 3);
        await queue.add("job", "behind");
        await queue.add("slow", "passes");
        await runs.until(1);
        await untilQuiet(1);
        expect(runs.data).toEqual(["passes"]);
        await peer.kill();
        await runs.until(3);
        expect(runs.jobs[1]).toMatchObject({ crashes: 1 });
        expect(runs.data[2]).toBe("behind");
        await fixture.untilEmpty();
      });

      it("lets a job that a closing worker handed back be the first of its name", async () => {
        const [queue, runs] = [make(), new Runs()];
        await setLimits(redis.client, address(), { names: { slow: { concurrency: 1 } } });
        const worker = work(({ signal }) => new Promise((_, fail) => (signal.onabort = () => fail(signal.reason))), 2);
        await queue.addAll(["first", "second", "third"].map((data) => ({ name: "slow", data })));
        await eventually(async () => expect(await overview()).toMatchObject({ active: 1, suspended: 2 }));
        await worker.close({ timeoutMs: 0 });
        expect(await overview()).toMatchObject({ active: 0, suspended: 3, lost: 0 });
        work(runs.handler);
        await fixture.untilEmpty();
        expect(runs.data).toEqual(["first", "second", "third"]);
      });
    });

    describe("a job that is suspended", () => {
      const suspendSome = async (count: number, options: { readonly priority?: number } = {}): Promise<string[]> => {
        const queue = make();
        await pauseQueue(redis.client, address(), { name: "slow" });
        const jobs = Array.from({ length: count }, (_, data) => ({ name: "slow", data, ...options }));
        const ids = await queue.addAll(jobs);
        const worker = work(() => undefined);
        await eventually(async () => expect(await fixture.db.zcard(fixture.keysOf().suspended)).toBe(count));
        await untilQuiet(1);
        await worker.close();
        return ids;
      };

      it("is ready: it can be inspected, listed, moved, edited, cancelled and removed", async () => {
        const ids = await suspendSome(7);
        const [first = "", second = "", third = "", fourth = "", fifth = "", sixth = "", seventh = ""] = ids;
        expect(await inspectJob(redis.client, address(), first)).toMatchObject({
          state: "ready",
          name: "slow",
          at: null,
        });
        const listed = await listJobs(redis.client, address(), { state: "suspended", start: 1, count: 3 });
        expect(listed.jobs.map(({ id, at }) => [id, at])).toEqual([second, third, fourth].map((id) => [id, null]));
        expect(await repairQueue(redis.client, address(), { run: true })).toEqual([]);
        expect(await removeJob(redis.client, address(), first)).toBe("removed");
        expect(await cancelJob(redis.client, address(), second)).toBe("removed");
        expect(await removeJob(redis.client, address(), second)).toBe("none");
        expect(await editJob(redis.client, address(), third, { data: "edited" })).toBe("edited");
        expect(await editJob(redis.client, address(), fourth, { priority: -1 })).toBe("edited");
        expect(await setPriority(redis.client, address(), fifth, 1)).toBe(true);
        expect(await rescheduleJob(redis.client, address(), sixth, { delayMs: 600_000 })).toBe("delayed");
        expect(await rescheduleJob(redis.client, address(), seventh, { delayMs: 0 })).toBe("ready");
        expect(await overview()).toMatchObject({ suspended: 2, prioritised: 2, delayed: 1, lost: 0, jobs: 5 });
        expect(await drainQueue(redis.client, address(), { delayed: true })).toBe(5);
        await resumeQueue(redis.client, address(), { name: "slow" });
        await untilGone();
      });

      it("keeps its id and its `unique` key", async () => {
        const queue = make();
        await pauseQueue(redis.client, address(), { name: "slow" });
        const plain = await queue.add("slow", 1, { unique: { key: "plain" } });
        const ranked = await queue.add("slow", 1, { unique: { key: "ranked", mode: "keepLast" }, priority: 2 });
        await queue.add("slow", 1, { id: "own *?[x] id" });
        const runs = new Runs();
        const worker = work(runs.handler);
        await eventually(async () => expect(await overview()).toMatchObject({ suspended: 3 }));
        await untilQuiet(1);
        await worker.close();
        expect(await queue.addOnce("slow", 2, { unique: { key: "plain" } })).toMatchObject({
          id: plain,
          state: "ready",
        });
        expect(
          await queue.addOnce("slow", 2, { unique: { key: "ranked", mode: "keepLast" }, priority: 2 }),
        ).toMatchObject({ id: ranked, state: "ready", isReplaced: true });
        expect(await queue.addOnce("slow", 2, { id: "own *?[x] id" })).toMatchObject({
          isAdded: false,
          state: "ready",
        });
        expect(await removeJob(redis.client, address(), "own *?[x] id")).toBe("removed");
        work(runs.handler);
        await resumeQueue(redis.client, address(), { name: "slow" });
        await runs.until(2);
        expect(runs.data).toEqual([1, 2]);
        await untilGone();
      });

      it("runs if it is replaced by one of another name, which continues, and twice in one call", async () => {
        const queue = make();
        const last = (key: string) => ({ unique: { key, mode: "keepLast" } }) as const;
        await pauseQueue(redis.client, address(), { name: "slow" });
        const [plain, ranked, back] = [
          await queue.add("slow", 1, last("plain")),
          await queue.add("slow", 1, { ...last("ranked"), priority: 2 }),
          await queue.add("slow", 1, last("back")),
        ];
        const runs = new Runs();
        work(runs.handler);
        await eventually(async () => expect(await overview()).toMatchObject({ suspended: 3 }));
        await untilQuiet(1);
        expect(await queue.add("job", 2, last("plain"))).toBe(plain);
        await queue.addAll([
          { name: "job", data: 2, ...last("ranked"), priority: 2 },
          { name: "job", data: 3, ...last("ranked"), priority: 2 },
          { name: "job", data: 2, ...last("back") },
          { name: "slow", data: 4, ...last("back") },
        ]);
        await runs.until(2);
        expect(runs.jobs.map(({ id, data }) => [id, data])).toEqual([
          [plain, 2],
          [ranked, 3],
        ]);
        await eventually(async () => expect(await overview()).toMatchObject({ suspended: 1, jobs: 1 }));
        await resumeQueue(redis.client, address(), { name: "slow" });
        await runs.until(3);
        expect([runs.jobs[2]!.id, runs.jobs[2]!.data]).toEqual([back, 4]);
        await untilGone();
      });

      it("comes back if the key `limits` was deleted manually, to workers that wait and to new ones", async () => {
        const { limits } = fixture.keysOf();
        const [runs, ids] = [new Runs(), await suspendSome(300)];
        await fixture.db.del(limits);
        work(runs.handler, 5);
        await runs.until(ids.length);
        await untilGone();
        expect(runs.jobs.map(({ id }) => id).toSorted()).toEqual(ids.toSorted());
      });
    });

    it("are refused if they are invalid, or too many", async () => {
      for (const names of [
        { slow: { concurrency: 0 } },
        { slow: { concurrency: 1_001 } },
        { slow: { concurency: 1 } },
        { slow: 5 },
        { "": { concurrency: 1 } },
        ["slow"],
        null,
        Object.fromEntries(Array.from({ length: 101 }, (_, n) => [`name ${String(n)}`, null])),
      ] as never[])
        expect(String(await rejection(setLimits(redis.client, address(), { names })))).toMatch(
          /^(Type|Range)Error: (Expected|Unknown option) /,
        );
      for (const options of [{ name: "" }, { name: 5 }, { nam: "slow" }] as never[])
        expect(String(await rejection(pauseQueue(redis.client, address(), options)))).toMatch(
          /^(Type|Range)Error: (Expected|Unknown option) /,
        );
      const all = Array.from({ length: 100 }, (_, n) => [`name ${String(n)}`, { concurrency: 1 }] as const);
      await setLimits(redis.client, address(), { names: Object.fromEntries(all) });
      expect(await rejection(pauseQueue(redis.client, address(), { name: "other" }))).toBeInstanceOf(RangeError);
      await pauseQueue(redis.client, address(), { name: "name 7" });
      expect((await overview()).names).toHaveLength(100);
      await setLimits(redis.client, address(), { names: { "name 3": null } });
      await pauseQueue(redis.client, address(), { name: "other" });
      expect((await overview()).names.map((one) => one.name)).not.toContain("name 3");
      await fixture.db.del(fixture.keysOf().limits);
    });
  });
});
