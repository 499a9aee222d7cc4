import { eventually, useRedis } from "@kit/testing";
import { inModes, onMovingSlots, rejection } from "@tooling/vitest/helpers";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { type Job, JobCancelledError, JobLeaseLostError, UnrecoverableError } from "../src/index.js";
import { keyHead, notesKey } from "../src/job/keys.js";
import { cancelJob, inspectJob, type JobReport, readLog } from "../src/manage/index.js";
import { readCheckpoint, reportProgress, saveCheckpoint, writeLog } from "../src/progress/index.js";
import * as scripts from "../src/notes/scripts/index.js";
import * as readers from "../src/notes/scripts/readers.js";
import { fixtureOf, latch, name, permanentKeys, Runs } from "./harness.js";

const dayMs = 86_400_000;

/** Notes of handlers about their jobs, on one server or on a Cluster. */
inModes({}, (mode) => {
  describe(`notes of a job on a ${mode === "cluster" ? "Cluster" : "single server"}`, () => {
    const redis = useRedis(vitest, { mode, permanentKeys });
    const slots = onMovingSlots(redis, { ...scripts, ...readers });
    const fixture = fixtureOf(redis);
    const { make, work, address } = fixture;
    const report = (id: string): Promise<JobReport> => inspectJob(redis.client, address, id, { withData: true });
    const log = async (id: string, options = {}): Promise<string[]> =>
      (await readLog(redis.client, address, id, options)).lines.map(({ text }) => text);
    const keyOf = (id: string): string => notesKey(keyHead(redis.prefix, name), id);
    const fieldsOf = async (id: string): Promise<Record<string, string>> => await fixture.db.hgetall(keyOf(id));

    it("shows progress and lines while the job runs and after it is done, without its checkpoint, for a day", async () => {
      const [queue, held] = [make(), latch()];
      redis.defer(held.open);
      const seen: unknown[] = [];
      const worker = work(queue, async (job) => {
        seen.push(await readCheckpoint(job));
        await Promise.all([
          reportProgress(job, { done: 1 }),
          writeLog(job, "one"),
          reportProgress(job, { done: 2 }),
          writeLog(job, "two\nlines\0é"),
          saveCheckpoint(job, { page: 7 }),
        ]);
        seen.push(await readCheckpoint(job));
        await held.promise;
        void writeLog(job, "a call that is under way");
        await Promise.resolve();
        await Promise.resolve();
        // Nobody waits for these; the end of the job does.
        for (let done = 3; done <= 50; done++) void reportProgress(job, { done });
        void writeLog(job, "end");
      });
      const id = await queue.add("job", 1);
      await eventually(() => expect(seen).toHaveLength(2));
      expect(seen).toEqual([undefined, { page: 7 }]);
      const running = await report(id);
      expect(running).toMatchObject({ state: "active", progress: { done: 2 }, logLines: 2, checkpoint: { page: 7 } });
      expect(Math.abs(Date.parse(running.progressAt!) - Date.now())).toBeLessThan(60_000);
      expect(await fixture.db.pttl(keyOf(id))).toBeGreaterThan(13 * dayMs);
      const completed = new Promise((resolve) => worker.once("completed", resolve));
      held.open();
      await completed;
      // All of them were written before the job ended.
      expect(await report(id)).toMatchObject({ state: "none", progress: { done: 50 }, logLines: 4 });
      expect(await log(id)).toEqual(["one", "two\nlines\0é", "a call that is under way", "end"]);
      await eventually(async () => expect(await fieldsOf(id)).not.toHaveProperty("checkpoint"));
      expect(await fixture.db.pttl(keyOf(id))).toBeLessThanOrEqual(dayMs);
      // One call at the beginning, one that was under way, and one for all that was noted meanwhile.
      expect((await fieldsOf(id))["writer"]).toMatch(/ 3$/);
    });

    it("costs nothing if a handler makes none", async () => {
      const [queue, runs] = [make(), new Runs()];
      work(queue, runs.handler);
      await queue.add("job", 1);
      await runs.until(1);
      await fixture.untilEmpty();
      expect((await redis.keys()).filter((key) => key.includes(":notes:"))).toEqual([]);
      expect(JSON.parse(JSON.stringify(runs.jobs[0]))).toMatchObject({ data: 1 });
    });

    it("keeps the notes of all attempts, and of a dead letter, whose next run continues from its checkpoint", async () => {
      const queue = make({ maxAttempts: 2, backoff: { firstMs: 1, jitter: 0 } });
      const seen: unknown[] = [];
      let isBroken = true;
      const worker = work(queue, async (job) => {
        seen.push(await readCheckpoint(job));
        await writeLog(job, `attempt ${String(job.attempt)}`);
        await saveCheckpoint(job, seen.length);
        if (isBroken) throw new Error("broken");
      });
      const dead = new Promise((resolve) => worker.once("dead", resolve));
      const id = await queue.add("job", 1);
      await dead;
      expect(await report(id)).toMatchObject({ state: "dead", logLines: 2, checkpoint: 2 });
      expect(await fixture.db.pttl(keyOf(id))).toBeGreaterThan(13 * dayMs);
      isBroken = false;
      const completed = new Promise((resolve) => worker.once("completed", resolve));
      expect(await queue.redrive([id])).toBe(1);
      await completed;
      expect(seen).toEqual([undefined, 1, 2]);
      expect(await log(id)).toEqual(["attempt 1", "attempt 2", "attempt 1"]);
    });

    it("gives the checkpoint of a worker that was killed to the next one", async () => {
      const queue = make();
      const peer = await fixture.spawn({ leaseMs: 400 });
      const id = await queue.add("job", { log: "first", act: "hang", checkpoint: { page: 3 } });
      await eventually(async () => expect(await fixture.logged()).toEqual(["first 1 0"]));
      await peer.kill();
      const seen: unknown[] = [];
      work(queue, async (job) => void seen.push(job.id, job.crashes, await readCheckpoint(job)));
      await eventually(() => expect(seen).toEqual([id, 1, { page: 3 }]), { timeoutMs: 15_000 });
    });

    it("refuses notes of a worker whose lease is lost, and keeps the next worker's notes", async () => {
      const [queue, held, other] = [make(), latch(), latch()];
      redis.defer(held.open);
      redis.defer(other.open);
      const errors: unknown[] = [];
      const begun = latch();
      const stale = work(
        queue,
        async (job) => {
          await reportProgress(job, "stale");
          await saveCheckpoint(job, "stale");
          begun.open();
          await held.promise;
          errors.push(await rejection(reportProgress(job, "late")));
          errors.push(await rejection(Promise.all([saveCheckpoint(job, "late"), writeLog(job, "late")])));
        },
        { leaseMs: 60_000 },
      );
      const id = await queue.add("job", 1, { id: "own" });
      await begun.promise;
      const took = latch();
      const next = fixture.on(fixture.connect());
      work(
        next,
        async (job) => {
          await reportProgress(job, "next");
          took.open();
          await other.promise;
        },
        { leaseMs: 60_000 },
      );
      await fixture.expireLeases();
      await next.add("job", 2, { priority: 5, delayMs: 600_000 });
      // Something to do makes a worker look for leases that have ended.
      await next.add("job", 3, { priority: 6 });
      await took.promise;
      held.open();
      await eventually(() => expect(errors).toHaveLength(2));
      for (const error of errors) expect(error).toBeInstanceOf(JobLeaseLostError);
      expect(await report(id)).toMatchObject({ state: "active", progress: "next", checkpoint: "stale", logLines: 0 });
      other.open();
      await stale.close();
    });

    it("notifies the handler of a cancelled job, and the handler of a job that has ended", async () => {
      const [queue, held] = [make(), latch()];
      redis.defer(held.open);
      const begun = latch();
      const kept: Job[] = [];
      const error: unknown[] = [];
      work(
        queue,
        async (job) => {
          kept.push(job);
          if (job.data === 2) return;
          begun.open();
          await held.promise;
          error.push(await rejection(saveCheckpoint(job, 1)));
        },
        { leaseMs: 60_000 },
      );
      const id = await queue.add("job", 1);
      await begun.promise;
      expect(await cancelJob(redis.client, address, id)).toBe("cancelled");
      held.open();
      await eventually(() => expect(error).toHaveLength(1));
      expect(error[0]).toBeInstanceOf(JobCancelledError);
      await queue.add("job", 2);
      await eventually(() => expect(kept).toHaveLength(2));
      await fixture.untilEmpty();
      void writeLog(kept[1]!, "nobody waits");
      expect(await log(kept[1]!.id)).toEqual([]);
      expect(await rejection(writeLog(kept[1]!, "late"))).toBeInstanceOf(JobLeaseLostError);
      expect((await redis.keys()).filter((key) => key.includes(":notes:"))).toEqual([]);
    });

    it("distinguishes the notes of two jobs with the same id", async () => {
      const queue = make();
      const seen: unknown[] = [];
      const worker = work(queue, async (job) => {
        seen.push(await readCheckpoint(job));
        if (job.data === "first") {
          for (const line of ["a", "b", "c"]) await writeLog(job, line);
          await reportProgress(job, 1);
          await saveCheckpoint(job, "first");
          throw new UnrecoverableError("broken");
        }
        if (job.data === "second") await writeLog(job, "d");
      });
      const dead = new Promise((resolve) => worker.once("dead", resolve));
      await queue.add("job", "first", { id: "own" });
      await dead;
      await queue.dropDeadLetters(["own"]);
      expect(await report("own")).toMatchObject({ state: "none", progress: 1, logLines: 3 });
      await queue.add("job", "delayed", { id: "own", delayMs: 600_000 });
      expect(await report("own")).toMatchObject({ state: "delayed", progress: null, logLines: 0 });
      await cancelJob(redis.client, address, "own");
      await queue.add("job", "second", { id: "own" });
      await eventually(() => expect(seen).toEqual([undefined, undefined]));
      await fixture.untilEmpty();
      expect(await report("own")).toMatchObject({ progress: null, logLines: 1 });
      expect(await log("own")).toEqual(["d"]);
      expect(Object.keys(await fieldsOf("own")).toSorted()).toEqual(["1", "bytes", "first", "next", "of", "writer"]);
    });

    it("keeps the last lines within a number and a size, and gives them by pages", async () => {
      const queue = make();
      const ids: string[] = [];
      work(queue, async (job) => {
        if (job.data === "many") for (let line = 1; line <= 1_600; line++) void writeLog(job, String(line));
        else
          for (let line = 1; line <= 100; line++) {
            void writeLog(job, `${String(line)} ${"x".repeat(5_000)}`);
            if (line % 30 === 0) await reportProgress(job, line);
          }
        await reportProgress(job, "end", { keepMs: 60_000 });
        ids.push(job.id);
      });
      const many = await queue.add("job", "many");
      const large = await queue.add("job", "large");
      await eventually(() => expect(ids).toEqual([many, large]));
      await fixture.untilEmpty();
      expect(await readLog(redis.client, address, many, { count: 2 })).toEqual({
        kept: 1_000,
        dropped: 0,
        lines: [
          { number: 999, at: expect.any(String), text: "1599" },
          { number: 1_000, at: expect.any(String), text: "1600" },
        ],
      });
      expect(await log(many, { after: 0, count: 2 })).toEqual(["601", "602"]);
      expect(await log(many, { after: 998 })).toEqual(["1599", "1600"]);
      expect(await log(many, { after: 1_000 })).toEqual([]);
      expect(await log(many, { count: 1_000 })).toHaveLength(1_000);
      const page = await readLog(redis.client, address, large, { count: 1_000 });
      expect(page).toMatchObject({ kept: 63, dropped: 37 });
      expect(page.lines.map(({ number }) => number)).toEqual(Array.from({ length: 63 }, (_, index) => index + 38));
      expect(page.lines.at(-1)!.text).toBe(`100 ${"x".repeat(1_019)}…`);
      const { bytes, first, next, ...fields } = await fieldsOf(large);
      const lines = Object.entries(fields).filter(([field]) => /^\d+$/.test(field));
      expect(lines).toHaveLength(Number(next) - Number(first));
      expect(lines.reduce((sum, [, line]) => sum + Buffer.byteLength(line), 0)).toBe(Number(bytes));
      expect(Number(bytes)).toBeLessThanOrEqual(65_536);
      await eventually(async () => expect(await fixture.db.pttl(keyOf(large))).toBeLessThanOrEqual(60_000));
    });

    it.each([
      ...["1e300", "1e9", "50000", "nan", "0", "text"].map((value) => ["next", value] as const),
      ...["text", "0", "9"].map((value) => ["first", value] as const),
    ])("refuses stored lines whose number %s is %s", async (field, value) => {
      const [queue, held] = [make(), latch()];
      redis.defer(held.open);
      let failure: unknown;
      const worker = work(queue, async (job) => {
        await writeLog(job, "one");
        await held.promise;
        failure = await rejection(writeLog(job, "two"));
      });
      const completed = new Promise((resolve) => worker.once("completed", resolve));
      const id = await queue.add("job", 1);
      await eventually(async () => expect(await log(id)).toEqual(["one"]));
      await fixture.db.hset(keyOf(id), field, value);
      expect(await rejection(log(id))).toMatchObject({ code: "KIT_LAYOUT" });
      expect(await report(id)).toMatchObject({ state: "active", logLines: 0 });
      held.open();
      await completed;
      expect(failure).toMatchObject({ code: "KIT_LAYOUT" });
    });

    it("shows no damaged notes, and gives a handler no damaged checkpoint", async () => {
      const [queue, held] = [make(), latch()];
      redis.defer(held.open);
      let failure: unknown;
      const worker = work(queue, async (job) => {
        await Promise.all([reportProgress(job, 5), saveCheckpoint(job, 5)]);
        await held.promise;
        failure = await rejection(readCheckpoint(job));
      });
      const completed = new Promise((resolve) => worker.once("completed", resolve));
      const id = await queue.add("job", 1);
      await eventually(async () => expect(await report(id)).toMatchObject({ progress: 5, checkpoint: 5 }));
      await fixture.db.hset(keyOf(id), { progress: "{1", checkpoint: "{2" });
      expect(await report(id)).toMatchObject({ progress: null, checkpoint: undefined });
      held.open();
      await completed;
      expect(failure).toMatchObject({ code: "KIT_LAYOUT" });
    });

    it("writes a call that arrives twice, or late, once", async () => {
      const queue = make();
      const { leases, revoked } = fixture.keysOf();
      const keys = { leases, revoked, notes: keyOf("own") };
      const run = (number: number, progress: string, lines: string[], of = "k1"): Promise<string> =>
        scripts.note.run(redis.client, keys, {
          ...{ member: "worker000001own", of, number, keepMs: 60_000, maxLines: 10, maxBytes: 100 },
          ...{ progress, checkpoint: "", lines },
        });
      expect(await run(1, "1", ["a"])).toBe("lost");
      await fixture.db.zadd(leases, Date.now() + 600_000, "worker000001own");
      for (const number of [1, 2, 1, 2])
        expect(await run(number, String(number), [`line ${String(number)}`])).toBe("written");
      expect(await log("own")).toEqual(["line 1", "line 2"]);
      expect(await fieldsOf("own")).toMatchObject({ progress: "2" });
      // Of another job, with more and with fewer lines than the one before.
      expect(await run(1, "", ["b", "c", "d"], "k2")).toBe("written");
      expect(await log("own")).toEqual(["b", "c", "d"]);
      expect(await run(1, "", ["e"], "k3")).toBe("written");
      expect(await log("own")).toEqual(["e"]);
      expect(await fieldsOf("own")).not.toHaveProperty("progress");
      expect(await scripts.closeNotes.run(redis.client, keys, { of: "k2", keepMs: 0 })).toBe(0);
      expect(await scripts.closeNotes.run(redis.client, keys, { of: "k3", keepMs: 0 })).toBe(1);
      expect(await fieldsOf("own")).toEqual({});
      await queue.close();
    });

    it("refuses a job that no worker gave, data that is not JSON, and data that is too large", async () => {
      const queue = make();
      const refused: unknown[] = [];
      work(queue, (job) => {
        const tries: (() => unknown)[] = [
          () => reportProgress({ ...job }, 1),
          () => reportProgress(job, undefined),
          () => reportProgress(job, "x".repeat(1_023)),
          () => saveCheckpoint(job, "x".repeat(65_536)),
          () => saveCheckpoint(job, 1n),
          () => writeLog(job, 5 as unknown as string),
          () => writeLog(job, "line", { keepMs: -1 }),
          () => writeLog(job, "line", { keep: 1 } as object),
        ];
        for (const attempt of tries)
          try {
            attempt();
          } catch (error) {
            refused.push((error as Error).name);
          }
      });
      await queue.add("job", 1);
      await fixture.untilEmpty();
      expect(refused).toEqual([
        ...["TypeError", "TypeError", "RangeError", "RangeError"],
        ...["TypeError", "TypeError", "RangeError", "TypeError"],
      ]);
      expect((await rejection(readCheckpoint({} as Job))) instanceof TypeError).toBe(true);
      for (const wrong of [{ count: 0 }, { count: 1_001 }, { after: -1 }])
        expect(await rejection(readLog(redis.client, address, "own", wrong))).toBeInstanceOf(RangeError);
    });

    if (mode === "cluster") slots.itRanAll();
  });
});
