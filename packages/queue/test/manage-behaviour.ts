import { eventually, type RedisMode, useRedis } from "@kit/testing";
import { onMovingSlots, rejection } from "@tooling/vitest/helpers";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { JobOutcomeLostError } from "../src/index.js";
import { type QueueAddress, promoteJob, removeJob, rescheduleJob } from "../src/manage/index.js";
import * as looks from "../src/manage/scripts.js";
import * as scripts from "../src/scripts/index.js";
import { fixtureOf, latch, name, permanentKeys, Runs } from "./harness.js";

/** Changes to jobs by their ids, on one server or on a Cluster. */
export const manageBehaviour = (mode: RedisMode): void => {
  describe(`a job that is managed on a ${mode === "cluster" ? "Cluster" : "single server"}`, () => {
    const redis = useRedis(vitest, { mode, permanentKeys });
    onMovingSlots(redis, { ...looks, ...scripts });
    const fixture = fixtureOf(redis);
    const { make, work } = fixture;
    const address = (): QueueAddress => ({ queue: name, prefix: redis.prefix });
    const remove = (id: string): ReturnType<typeof removeJob> => removeJob(redis.client, address(), id);

    describe("another due time", () => {
      it("moves jobs between ready and delayed, with their priority, and wakes workers at the instant", async () => {
        const [queue, runs] = [make(), new Runs()];
        const reschedule = (id: string, due: object): ReturnType<typeof rescheduleJob> =>
          rescheduleJob(redis.client, address(), id, due);
        const add = async (data: string, options = {}): Promise<string> => await queue.add("job", data, options);
        const waiting = await add("waiting");
        const urgent = await add("urgent", { priority: -1 });
        const later = await add("later", { delayMs: 600_000, priority: 4, id: "own" });
        const own = await add("kept", { delayMs: 600_000 });
        for (const id of [waiting, urgent]) expect(await reschedule(id, { dueAt: new Date() })).toBe("ready");
        expect(await fixture.counts()).toMatchObject({ waiting: 1, prioritised: 1, delayed: 2 });
        for (const id of [waiting, urgent]) expect(await reschedule(id, { delayMs: 600_000 })).toBe("delayed");
        expect(await fixture.counts()).toMatchObject({ jobs: 4, waiting: 0, prioritised: 0, delayed: 4 });
        work(queue, runs.handler);
        await fixture.untilIdle(1);
        for (const id of [later, own, waiting]) expect(await promoteJob(redis.client, address(), id)).toBe("ready");
        await runs.until(3);
        expect(runs.jobs.find(({ id }) => id === later)).toMatchObject({ priority: 4, data: "later" });
        await fixture.untilIdle(1);
        const [seconds] = (await (await fixture.nodeOf()).call("TIME")) as [string, string];
        const dueAt = (Number(seconds) + 2) * 1_000;
        expect(await reschedule(urgent, { dueAt })).toBe("delayed");
        await runs.until(4);
        expect(runs.jobs[3]).toMatchObject({ priority: -1, data: "urgent" });
        // A worker that nobody wakes looks after 15 s.
        expect(runs.jobs[3]!.takenAt - dueAt).toBeGreaterThanOrEqual(0);
        expect(runs.jobs[3]!.takenAt - dueAt).toBeLessThan(8_000);
        await fixture.untilEmpty();
      });

      it("is refused to active jobs, dead letters and unknown ones, and as a value that is none", async () => {
        const [queue, held] = [make(), latch()];
        redis.defer(held.open);
        const worker = work(queue, async ({ data }) => {
          if (data === "broken") throw new Error("broken");
          await held.promise;
        });
        const died = new Promise((resolve) => worker.once("dead", resolve));
        const dead = await queue.add("job", "broken");
        await died;
        const active = await queue.add("job", "held");
        await eventually(() => expect(worker.running).toBe(1));
        for (const [id, state] of [
          [dead, "dead"],
          [active, "active"],
          ["nobody", "none"],
        ] as const)
          for (const due of [{ delayMs: 0 }, { delayMs: 600_000 }, { dueAt: 1 }])
            expect(await rescheduleJob(redis.client, address(), id, due)).toBe(state);
        expect(await fixture.counts()).toMatchObject({ jobs: 2, leases: 1, dead: 1, waiting: 0, delayed: 0 });
        for (const due of [{}, { delayMs: 1, dueAt: 1 }, { delayMs: -1 }, { dueAt: new Date(NaN) }, { delay: 1 }])
          expect(String(await rejection(rescheduleJob(redis.client, address(), dead, due)))).toMatch(
            /^(Type|Range)Error: Expected /,
          );
      });

      it("ends the wait of a failed job for its next attempt", async () => {
        const queue = make({ maxAttempts: 2, backoff: { firstMs: 600_000, jitter: 0 } });
        const runs = new Runs();
        const worker = work(queue, (job) => {
          runs.handler(job);
          if (job.attempt === 1) throw new Error("broken");
        });
        const failed = new Promise((resolve) => worker.once("failed", resolve));
        const id = await queue.add("job", 1);
        await failed;
        expect(await promoteJob(redis.client, address(), id)).toBe("ready");
        await runs.until(2);
        expect(runs.jobs[1]).toMatchObject({ attempt: 2 });
      });
    });

    describe("removal", () => {
      it("deletes ready and delayed jobs, which never run, and leaves those around them as they are", async () => {
        const [queue, runs] = [make(), new Runs()];
        const add = async (data: string, options = {}): Promise<string> => await queue.add("job", data, options);
        await add("first");
        const removed = [await add("plain"), await add("own", { id: "own" })];
        await add("last");
        removed.push(await add("urgent", { priority: -1 }), await add("later", { delayMs: 600_000, priority: 7 }));
        await add("kept urgent", { priority: -1 });
        await add("due", { delayMs: 1 });
        for (const id of removed) expect(await remove(id)).toBe("removed");
        for (const id of removed) expect(await remove(id)).toBe("none");
        expect(await fixture.counts()).toMatchObject({ jobs: 4, waiting: 2, prioritised: 1, delayed: 1 });
        // Its id is free again, and the new job runs once.
        expect(await queue.addOnce("job", "again", { id: "own" })).toEqual({ id: "own", isAdded: true });
        work(queue, runs.handler);
        await fixture.untilEmpty();
        expect(runs.data).toHaveLength(5);
        expect(runs.data.filter((data) => data !== "due")).toEqual(["kept urgent", "first", "last", "again"]);
      });

      it("forgets the failures of a job that waits for its next attempt", async () => {
        const queue = make({ maxAttempts: 3, backoff: { firstMs: 600_000, jitter: 0 } });
        const worker = work(queue, () => {
          throw new Error("broken");
        });
        const failed = new Promise((resolve) => worker.once("failed", resolve));
        const id = await queue.add("job", 1);
        await failed;
        expect(await fixture.counts()).toMatchObject({ jobs: 1, delayed: 1, failures: 1 });
        expect(await remove(id)).toBe("removed");
        expect(await fixture.counts()).toMatchObject({ jobs: 0, delayed: 0, failures: 0 });
      });

      it("refuses active jobs and dead letters, and says which they are, also of a job in no list", async () => {
        const [queue, held] = [make(), latch()];
        redis.defer(held.open);
        const worker = work(queue, async ({ data }) => {
          if (data === "broken") throw new Error("broken");
          await held.promise;
        });
        const died = new Promise((resolve) => worker.once("dead", resolve));
        const dead = await queue.add("job", "broken");
        await died;
        const active = await queue.add("job", "held", { priority: 3 });
        await eventually(() => expect(worker.running).toBe(1));
        const lost = await queue.add("job", "lost");
        await fixture.db.lrem(fixture.keysOf().waiting, 1, lost);
        for (const [id, outcome] of [
          [dead, "dead"],
          [active, "active"],
          [lost, "lost"],
          ["nobody", "none"],
        ] as const)
          expect(await remove(id)).toBe(outcome);
        expect(await fixture.counts()).toMatchObject({ jobs: 3, leases: 1, dead: 1 });
        for (const id of ["", "x".repeat(161), 5 as unknown as string])
          expect(String(await rejection(remove(id)))).toMatch(/^(Type|Range)Error: Expected `id`/);
        const done = new Promise((resolve) => worker.once("completed", resolve));
        held.open();
        await done;
        expect(await remove(active)).toBe("none");
      });

      it("lets each job either run or be removed, never both, while workers take them", async () => {
        const [queue, runs] = [make(), new Runs()];
        const ids = await queue.addAll(Array.from({ length: 300 }, (_, data) => ({ name: "job", data })));
        work(queue, runs.handler, { concurrency: 5 });
        const outcomes = await Promise.all(ids.toReversed().map((id) => remove(id)));
        await fixture.untilEmpty();
        const removed = ids.toReversed().filter((_, index) => outcomes[index] === "removed");
        expect(new Set(outcomes).has("removed")).toBe(true);
        const ran = new Set(runs.jobs.map(({ id }) => id));
        expect(ran.size).toBe(runs.jobs.length);
        expect([...ran, ...removed].toSorted()).toEqual(ids.toSorted());
      });

      it("tells the caller of a called job that there is no outcome", async () => {
        const queue = make();
        const outcome = rejection(queue.call("job", 1, { delayMs: 600_000 }));
        const [id] = await eventually(async () => {
          const ids = await fixture.db.hkeys(fixture.keysOf().jobs);
          expect(ids).toHaveLength(1);
          return ids;
        });
        expect(await remove(id!)).toBe("removed");
        expect(await outcome).toBeInstanceOf(JobOutcomeLostError);
      });
    });
  });
};
