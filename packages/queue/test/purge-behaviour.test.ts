import { eventually, useRedis } from "@kit/testing";
import { inModes, onMovingSlots, rejection } from "@tooling/vitest/helpers";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { keepHistory } from "../src/history/index.js";
import { type Job, JobLeaseLostError, JobOutcomeLostError, UnrecoverableError } from "../src/index.js";
import {
  type CleanedState,
  cleanQueue,
  inspectQueue,
  listJobs,
  pauseQueue,
  purgeQueue,
  setLimits,
} from "../src/manage/index.js";
import * as cleaning from "../src/manage/cleaning.js";
import { saveCheckpoint, writeLog } from "../src/progress/index.js";
import { createSchedules } from "../src/schedules/index.js";
import { fixtureOf, latch, name, permanentKeys, Runs } from "./harness.js";

inModes({}, (mode) => {
  describe(`a queue on a ${mode === "cluster" ? "Cluster" : "single server"}`, () => {
    const redis = useRedis(vitest, { mode, permanentKeys });
    onMovingSlots(redis, cleaning);
    const fixture = fixtureOf(redis);
    const { make, work } = fixture;

    /** All keys of this test, on all nodes. */
    const keys = async (own = name): Promise<string[]> => {
      const found = new Set<string>();
      for (const node of redis.server.nodes)
        for (let cursor = "0"; ;) {
          const [next, page] = (await node.call("SCAN", cursor, "COUNT", "1000")) as [string, string[]];
          for (const key of page) if (key.startsWith(`${redis.prefix}:queue:{${own}}:`)) found.add(key);
          cursor = next;
          if (cursor === "0") break;
        }
      return [...found].toSorted();
    };

    /** A handler that fails for `broken`, holds `held` until the latch opens, and makes notes. */
    const handlerOf = (until: Promise<void>) => async (job: Job) => {
      await saveCheckpoint(job, 1);
      await writeLog(job, "a line");
      if (job.data === "broken") throw new UnrecoverableError("broken");
      if (job.data === "held") await until;
      return job.data;
    };

    /** One job in each state at least, and keys of all kinds. Returns the queue, and its worker with a job that is held. */
    const fill = async (own = name) => {
      const queue = make({ name: own, history: keepHistory() });
      const held = latch();
      redis.defer(held.open);
      const worker = work(queue, handlerOf(held.promise), { leaseMs: 3_000 });
      const ended: unknown[] = [];
      for (const event of ["completed", "dead"] as const) worker.on(event, ({ job }) => ended.push(job.data));
      await queue.addAll(["broken", "done"].map((data) => ({ name: "job", data })));
      expect(await queue.call("job", "called")).toBe("called");
      await eventually(() => expect(ended).toHaveLength(3));
      await queue.add("job", "held");
      await eventually(() => expect(worker.running).toBe(1));
      await queue.add("job", "waiting", { unique: { key: "a key", ttlMs: 600_000 } });
      await queue.add("job", "urgent", { priority: -1 });
      await queue.add("job", "later", { delayMs: 600_000, id: "own" });
      const address = { queue: own, prefix: redis.prefix };
      await setLimits(redis.client, address, { concurrency: 5, names: { other: { concurrency: 1 } } });
      const schedules = createSchedules(redis.client, own, { prefix: redis.prefix });
      await schedules.upsert("nightly", { cron: "0 3 * * *", name: "job" });
      await schedules.close();
      return { queue, worker, open: held.open };
    };

    describe("that is purged", () => {
      const purge = (options = {}): ReturnType<typeof purgeQueue> => purgeQueue(redis.client, fixture.address, options);

      it("has no key left, and was shown first", async () => {
        const { worker, open } = await fill();
        // Names with characters of patterns, and names that begin like this one.
        for (const other of ["ma*l", "mail2", "mai?"]) await make({ name: other }).add("job", 1);
        const asked = await purge();
        expect(asked).toMatchObject({ jobs: 5, active: 1, schedules: 1, keys: (await keys()).length });
        expect(await fixture.counts()).toMatchObject({ jobs: 5, leases: 1, dead: 1 });
        expect((await keys()).filter((key) => /:(taken|answered|notes):/.test(key)).length).toBeGreaterThan(2);
        open();
        await worker.close();
        await purge({ run: true });
        expect(await keys()).toEqual([]);
        expect(await purge()).toEqual({ jobs: 0, active: 0, schedules: 0, keys: 0 });
        for (const other of ["ma*l", "mail2", "mai?"]) expect(await fixture.counts(other)).toMatchObject({ jobs: 1 });
        await purgeQueue(redis.client, { queue: "ma*l", prefix: redis.prefix }, { run: true });
        expect(await keys("ma*l")).toEqual([]);
        expect(await fixture.counts("mail2")).toMatchObject({ jobs: 1 });
        expect(String(await rejection(purge({ run: 1 })))).toMatch(/^TypeError: Expected `run`/);
      });

      it("becomes a new queue for producers and workers that still run, and the old jobs are lost", async () => {
        const { queue, worker, open } = await fill();
        const events: unknown[] = [];
        worker.on("lost", ({ job }) => events.push(["lost", job.data, job.signal.reason instanceof JobLeaseLostError]));
        worker.on("failed", ({ job }) => events.push(["failed", job.data]));
        await pauseQueue(redis.client, fixture.address);
        const called = rejection(queue.call("job", "called"));
        await eventually(async () => expect(await fixture.counts()).toMatchObject({ waiting: 2 }));
        expect(await purge({ run: true })).toMatchObject({ jobs: 6, active: 1, schedules: 1 });
        expect(await fixture.counts()).toEqual({
          ...{ jobs: 0, waiting: 0, prioritised: 0, delayed: 0, leases: 0, failures: 0, dead: 0 },
        });
        const runs: unknown[] = [];
        worker.on("completed", ({ job }) => runs.push(job.data));
        await eventually(() => expect(events).toEqual([["lost", "held", true]]), { timeoutMs: 10_000 });
        open();
        // Neither the pause nor the key is left. The id is free.
        await queue.add("job", "after", { unique: { key: "a key" } });
        expect(await queue.addOnce("job", "own", { id: "own" })).toEqual({ id: "own", isAdded: true });
        await eventually(() => expect(runs).toEqual(expect.arrayContaining(["after", "own"])));
        expect(await called).toBeInstanceOf(JobOutcomeLostError);
        await worker.close();
        expect(await fixture.counts()).toMatchObject({ jobs: 0, leases: 0, failures: 0, dead: 0 });
        const { pausedAt, concurrency, lost } = await inspectQueue(redis.client, fixture.address);
        expect({ pausedAt, concurrency, lost }).toEqual({ pausedAt: null, concurrency: null, lost: 0 });
        // The new queue has a layout, as each queue.
        expect(await fixture.db.hget(fixture.keysOf().meta, "layout")).toBe("1");
      });

      it("gets nothing from the end of a handler that fails later, under an id that is used again", async () => {
        const [queue, held] = [make({ maxAttempts: 5 }), latch()];
        redis.defer(held.open);
        const worker = work(queue, async ({ data }) => {
          if (data !== "held") return;
          await held.promise;
          throw new Error("late");
        });
        const failed = new Promise((resolve) => worker.once("failed", resolve));
        await queue.add("job", "held", { id: "own" });
        await eventually(() => expect(worker.running).toBe(1));
        await purge({ run: true });
        await queue.add("job", "again", { id: "own", delayMs: 600_000 });
        held.open();
        await failed;
        expect(await fixture.counts()).toMatchObject({ jobs: 1, delayed: 1, failures: 0, leases: 0 });
      });
    });

    describe("that is cleaned", () => {
      const clean = (state: CleanedState, options = {}): Promise<number> =>
        cleanQueue(redis.client, fixture.address, { state, ...options });
      const idsOf = async (state: CleanedState): Promise<string[]> =>
        (await listJobs(redis.client, fixture.address, { state })).jobs.map(({ id }) => id);

      it("loses the jobs of one state, after they were counted, and no active one", async () => {
        const { queue, worker, open } = await fill();
        await queue.add("odd", "waiting");
        for (const [state, count] of [
          ["dead", 1],
          ["completed", 2],
          ["delayed", 1],
          ["waiting", 2],
          ["prioritised", 1],
          ["suspended", 0],
        ] as const) {
          const before = await fixture.counts();
          expect([state, await clean(state)]).toEqual([state, count]);
          expect([state, await clean(state, { name: "no such" })]).toEqual([state, 0]);
          expect([state, await clean(state, { olderThanMs: 3_600_000, run: true })]).toEqual([state, 0]);
          expect(await fixture.counts()).toEqual(before);
          expect([state, await clean(state, { run: true, name: "job" })]).toEqual([
            state,
            state === "waiting" ? 1 : count,
          ]);
          expect(await idsOf(state)).toHaveLength(state === "waiting" ? 1 : 0);
        }
        expect(await fixture.counts()).toMatchObject({ jobs: 2, leases: 1, waiting: 1, failures: 0, dead: 0 });
        expect(await inspectQueue(redis.client, fixture.address)).toMatchObject({ deadBytes: 0, kept: 0, lost: 0 });
        const { records, unique } = fixture.keysOf();
        expect(await fixture.db.hgetall(records)).toEqual({ "!bytes": "0" });
        // Its time has not ended.
        expect(await fixture.db.hlen(unique)).toBe(1);
        expect(await queue.addOnce("job", 1, { unique: { key: "a key" } })).toMatchObject({ isAdded: false });
        const completed = new Promise((resolve) => worker.once("completed", resolve));
        open();
        await completed;
        for (const options of [{}, { state: "active" }, { state: "dead", olderThanMs: -1 }, { state: "dead", age: 1 }])
          expect(String(await rejection(clean(options.state as CleanedState, options)))).toMatch(
            /^(Type|Range)Error: (Expected|Unknown option)/,
          );
      });

      it("keeps jobs that are younger, by their add or their death", async () => {
        const queue = make();
        const worker = work(queue, () => {
          throw new Error("broken");
        });
        const died: string[] = [];
        worker.on("dead", ({ job: { id } }) => died.push(id));
        await queue.addAll([1, 2].map((data) => ({ name: "job", data })));
        await eventually(() => expect(died).toHaveLength(2));
        await worker.close();
        const { dead } = fixture.keysOf();
        await fixture.db.zincrby(dead, -60_000, died[0]!);
        const ids = [await queue.add("job", "old"), await queue.add("job", "young")];
        const later = [
          await queue.add("job", "old", { delayMs: 1 }),
          await queue.add("job", "young", { delayMs: 600_000 }),
        ];
        for (const [old] of [ids, later]) await fixture.age(old!);
        expect(await clean("dead", { olderThanMs: 30_000, run: true })).toBe(1);
        expect(await idsOf("dead")).toEqual([died[1]]);
        expect(await clean("waiting", { olderThanMs: 30_000, run: true })).toBe(1);
        expect(await idsOf("waiting")).toEqual([ids[1]]);
        expect(await clean("delayed", { olderThanMs: 30_000, run: true })).toBe(1);
        expect(await idsOf("delayed")).toEqual([later[1]]);
        expect(await inspectQueue(redis.client, fixture.address)).toMatchObject({ jobs: 3, lost: 0 });
      });

      it("lets each job either run or be deleted while workers take them, in order", async () => {
        const [queue, runs] = [make(), new Runs()];
        const named = (data: number) => ({ name: data % 2 === 0 ? "even" : "job", data });
        // They have more than the 4 MiB of one call.
        await queue.addAll(Array.from({ length: 30 }, () => ({ name: "even", data: "x".repeat(200_000) })));
        await queue.addAll(Array.from({ length: 3_000 }, (_, data) => named(data)));
        const cleaning = clean("waiting", { name: "even", run: true });
        const even = new Runs();
        queue.work({ job: runs.handler, even: even.handler }, { abortGraceMs: 100 });
        const deleted = await cleaning;
        await fixture.untilEmpty();
        expect(deleted).toBeGreaterThan(0);
        expect(even.jobs.length + deleted).toBe(1_530);
        expect(runs.data).toEqual(Array.from({ length: 1_500 }, (_, index) => 2 * index + 1));
      });

      it("continues after a clean that stopped halfway, and so do workers", async () => {
        const [queue, runs] = [make(), new Runs()];
        await queue.addAll(Array.from({ length: 1_200 }, (_, data) => ({ name: data < 900 ? "odd" : "job", data })));
        const keysOfClean = { ...fixture.keysOf(), listed: fixture.keysOf().waiting };
        const page = { verb: "clean", state: "waiting", olderThanMs: 0, begun: "", name: "odd" };
        expect(await cleaning.clean.run(redis.client, keysOfClean, { ...page, cursor: "400" })).toMatchObject({
          deleted: 500,
          cursor: "900",
        });
        expect(await fixture.counts()).toMatchObject({ jobs: 700, waiting: 1_200 });
        expect(await inspectQueue(redis.client, fixture.address)).toMatchObject({ lost: 0 });
        await setLimits(redis.client, fixture.address, { names: { odd: { concurrency: 2 } } });
        queue.work({ job: runs.handler, odd: runs.handler }, { abortGraceMs: 100 });
        await runs.until(700);
        expect(await clean("waiting", { name: "odd", run: true })).toBeLessThan(400);
        await fixture.untilEmpty();
        expect(new Set(runs.data).size).toBe(runs.jobs.length);
        expect(runs.jobs.filter(({ name: own }) => own === "job")).toHaveLength(300);
      });

      it("frees keys of unique jobs, and answers callers", async () => {
        const queue = make();
        const { unique } = fixture.keysOf();
        for (const key of ["a", "b c%"]) await queue.add("job", key, { unique: { key } });
        await queue.add("job", "held for a time", { unique: { key: "timed", ttlMs: 600_000 } });
        const called = rejection(queue.call("job", "called"));
        await eventually(async () => expect(await fixture.counts()).toMatchObject({ waiting: 4 }));
        expect(await clean("waiting", { run: true })).toBe(4);
        expect(await fixture.db.hkeys(unique)).toEqual(["timed"]);
        expect(await queue.addOnce("job", 1, { unique: { key: "b c%" }, delayMs: 600_000 })).toMatchObject({
          isAdded: true,
        });
        expect(await called).toBeInstanceOf(JobOutcomeLostError);
        expect(await clean("delayed", { run: true })).toBe(1);
        expect(await fixture.db.hkeys(unique)).toEqual(["timed"]);
        expect(await fixture.counts()).toMatchObject({ jobs: 0, waiting: 0, delayed: 0 });
      });
    });
  });
});
