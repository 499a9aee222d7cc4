import { createHash } from "node:crypto";
import { connect } from "@kit/core";
import { eventually, useRedis } from "@kit/testing";
import { inboxes, inModes, onMovingSlots, rejection } from "@tooling/vitest/helpers";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { JobCancelledError, JobOutcomeLostError, JobPayloadError } from "../src/index.js";
import {
  type QueueAddress,
  cancelJob,
  drainQueue,
  editJob,
  type JobEdit,
  promoteJob,
  removeJob,
  rescheduleJob,
} from "../src/manage/index.js";
import { cancelledChannel, keyHead } from "../src/job/keys.js";
import * as looks from "../src/manage/scripts.js";
import * as scripts from "../src/store/scripts/index.js";
import { fixtureOf, latch, name, permanentKeys, Runs } from "./harness.js";

/** Changes to jobs by their ids, on one server or on a Cluster. */
inModes({}, (mode) => {
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
        // A Date can be later than a job can wait; beyond that, it would seem to wait for the end of another job.
        const latest = 1e15 - 1;
        for (const dueAt of [latest + 1, new Date(8.64e15)]) {
          expect(await rejection(rescheduleJob(redis.client, address(), later, { dueAt }))).toBeInstanceOf(RangeError);
          expect(await rejection(add("last", { dueAt }))).toBeInstanceOf(RangeError);
        }
        await rescheduleJob(redis.client, address(), later, { dueAt: latest });
        const last = await add("last", { dueAt: new Date(latest) });
        expect(await promoteJob(redis.client, address(), last)).toBe("ready");
        expect(await remove(last)).toBe("removed");
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
            /^(Type|Range)Error: (Expected|Unknown option) /,
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

    describe("cancellation", () => {
      const cancel = (id: string): ReturnType<typeof cancelJob> => cancelJob(redis.client, address(), id);

      it("deletes jobs that wait, also for their next attempt, and leaves dead, lost and unknown ones", async () => {
        const [queue, runs] = [make({ maxAttempts: 2, backoff: { firstMs: 600_000, jitter: 0 } }), new Runs()];
        const ended: unknown[] = [];
        const first = work(queue, ({ data }) => {
          if (data === "broken") throw new Error("broken");
        });
        for (const event of ["failed", "dead"] as const) first.on(event, ({ job: { id } }) => ended.push(id));
        const failed = await queue.add("job", "broken");
        const dead = await queue.add("job", "broken", { maxAttempts: 1 });
        await eventually(() => expect(ended).toHaveLength(3));
        await first.close();
        const waiting = [failed, await queue.add("job", 1), await queue.add("job", 2, { id: "own", priority: 3 })];
        waiting.push(await queue.add("job", 3, { delayMs: 600_000, priority: -2 }));
        const kept = await queue.add("job", "kept");
        for (const id of waiting) expect(await cancel(id)).toBe("removed");
        for (const id of [...waiting, "nobody"]) expect(await cancel(id)).toBe("none");
        expect(await cancel(dead)).toBe("dead");
        await fixture.db.lrem(fixture.keysOf().waiting, 1, kept);
        expect(await cancel(kept)).toBe("lost");
        expect(await fixture.counts()).toMatchObject({ jobs: 2, failures: 1, dead: 1, delayed: 0, prioritised: 0 });
        expect(await queue.addOnce("job", "again", { id: "own" })).toEqual({ id: "own", isAdded: true });
        work(queue, runs.handler);
        await runs.until(1);
        expect(runs.data).toEqual(["again"]);
        for (const id of ["", "x".repeat(161), 5 as unknown as string])
          expect(String(await rejection(cancel(id)))).toMatch(/^(Type|Range)Error: Expected `id`/);
      });

      it("aborts the handlers of running jobs at the next heartbeat, and ignores their results and errors", async () => {
        const [queue, events, reasons] = [make(), [] as unknown[], [] as unknown[]];
        const worker = work(
          queue,
          async ({ data, signal }) => {
            if (data === "again") return;
            await new Promise((resolve) => signal.addEventListener("abort", resolve));
            reasons.push(signal.reason);
            if (data === "throws") throw signal.reason;
          },
          { concurrency: 3, leaseMs: 6_000 },
        );
        for (const event of ["completed", "failed", "lost", "cancelled"] as const)
          worker.on(event, ({ job }) => events.push([event, job.data]));
        const ids = [await queue.add("job", "returns"), await queue.add("job", "throws", { id: "own", priority: 2 })];
        const call = rejection(queue.call("job", "called"));
        await eventually(() => expect(worker.running).toBe(3));
        ids.push(...(await fixture.db.hkeys(fixture.keysOf().jobs)).filter((id) => !ids.includes(id)));
        for (const id of ids) expect(await cancel(id)).toBe("cancelled");
        expect(await fixture.counts()).toMatchObject({ jobs: 0, leases: 0, failures: 0 });
        // The call rejects though the handler still runs.
        expect(await call).toBeInstanceOf(JobCancelledError);
        // A later job of the same id is not touched by the end of the former one.
        await queue.add("job", "again", { id: "own" });
        await eventually(() => expect(events).toHaveLength(4));
        expect(reasons.map((reason) => reason instanceof JobCancelledError)).toEqual([true, true, true]);
        expect(reasons[0]).toMatchObject({ code: "KIT_JOB_CANCELLED", job: "job", id: ids[0] });
        const expected = ["cancelled,called", "cancelled,returns", "cancelled,throws", "completed,again"];
        expect(events.map(String).toSorted()).toEqual(expected);
        await worker.close();
        expect(await fixture.counts()).toMatchObject({ jobs: 0, leases: 0, failures: 0, dead: 0 });
      });

      describe("by push", () => {
        const channel = (): string => cancelledChannel(keyHead(redis.prefix, name));
        const subscribers = async (): Promise<number> => {
          const replies = await Promise.all(redis.server.nodes.map((node) => node.call("PUBSUB", "NUMSUB", channel())));
          return replies.reduce<number>((sum, reply) => sum + Number((reply as unknown[])[1]), 0);
        };
        // By a client of its own, whose listener is counted.
        const fixtureOfPush = async (leaseMs: number, workers = 1) => {
          const events: string[] = [];
          const client = await connect({ url: redis.url, deadlineMs: 10_000 });
          redis.defer(() => client.close());
          const queue = fixture.on(client);
          const made = Array.from({ length: workers }, () =>
            work(
              queue,
              async ({ data, signal }) => {
                if (data === "held") await new Promise((resolve) => signal.addEventListener("abort", resolve));
              },
              { concurrency: 2, leaseMs, cancelBy: "push" },
            ),
          );
          for (const worker of made) {
            for (const event of ["completed", "lost", "cancelled"] as const)
              worker.on(event, ({ job: { id } }) => events.push(`${event} ${id}`));
            worker.on("error", ({ message }) => events.push(message));
          }
          return { queue, workers: made, events };
        };

        it("aborts a handler whose next heartbeat is far away, over one connection of all workers", async () => {
          const before = await inboxes(redis.server.nodes);
          const { queue, workers, events } = await fixtureOfPush(3_600_000, 3);
          await eventually(async () => expect(await subscribers()).toBe(1));
          expect(await inboxes(redis.server.nodes)).toBe(before + 1);
          const ids = [await queue.add("job", "held"), await queue.add("job", "held", { id: "own", priority: 2 })];
          await eventually(() => expect(workers.reduce((sum, { running }) => sum + running, 0)).toBe(2));
          for (const id of ids) expect(await cancel(id)).toBe("cancelled");
          await eventually(() => expect(events).toHaveLength(2));
          expect(events.toSorted()).toEqual(ids.map((id) => `cancelled ${id}`).toSorted());
          await Promise.all(workers.map((worker) => worker.close()));
          await eventually(async () => expect(await subscribers()).toBe(0));
          await queue.close();
          await eventually(async () => expect(await inboxes(redis.server.nodes)).toBe(before));
        });

        it("believes the server and not the message", async () => {
          const { queue, workers, events } = await fixtureOfPush(3_600_000);
          await eventually(async () => expect(await subscribers()).toBe(1));
          const [held, other] = [await queue.add("job", "held"), await queue.add("job", "held")];
          await eventually(() => expect(workers[0]!.running).toBe(2));
          const node = await fixture.nodeOf();
          for (const member of [
            ...(await fixture.db.zrange(fixture.keysOf().leases, "0", "-1")),
            "workerY00001own",
            "",
          ])
            await node.call("PUBLISH", channel(), member);
          // It comes behind those on the same connection.
          expect(await cancel(other)).toBe("cancelled");
          await eventually(() => expect(events).toEqual([`cancelled ${other}`]));
          expect(workers[0]!.running).toBe(1);
          expect(await cancel(held)).toBe("cancelled");
          await eventually(() => expect(events).toHaveLength(2));
        });

        it("learns with the next heartbeat of a job whose push was lost", async () => {
          const { queue, workers, events } = await fixtureOfPush(1_000);
          await eventually(async () => expect(await subscribers()).toBe(1));
          const id = await queue.add("job", "held");
          await eventually(() => expect(workers[0]!.running).toBe(1));
          const args = { id, header: "", cursor: "0", channel: "", caller: "", pushes: "elsewhere" };
          const reply = await looks.cancel.run(redis.client, { ...fixture.keysOf(), replies: [] }, args);
          expect(reply.outcome).toBe("cancelled");
          await eventually(() => expect(events).toEqual([`cancelled ${id}`]));
        });

        it("costs a worker without it no connection", async () => {
          const before = await inboxes(redis.server.nodes);
          const [client, held, runs] = [await connect({ url: redis.url }), latch(), new Runs()];
          redis.defer(() => client.close());
          work(fixture.on(client), async (job) => {
            runs.handler(job);
            await held.promise;
          });
          const id = await make().add("job", 1);
          await runs.until(1);
          expect(await cancel(id)).toBe("cancelled");
          expect([await inboxes(redis.server.nodes), await subscribers()]).toEqual([before, 0]);
          held.open();
        });
      });

      it("refuses the end of a job that is reported before the next heartbeat", async () => {
        const [queue, held, events] = [make({ maxAttempts: 2 }), latch(), [] as unknown[]];
        redis.defer(held.open);
        const worker = work(
          queue,
          async ({ data }) => {
            await held.promise;
            if (data === "broken") throw new Error("broken");
          },
          { concurrency: 3, leaseMs: 60_000 },
        );
        for (const event of ["completed", "failed", "lost", "cancelled"] as const)
          worker.on(event, ({ job }) => events.push([event, job.data]));
        const ids = [await queue.add("job", "plain"), await queue.add("job", "own", { id: "own" })];
        ids.push(await queue.add("job", "broken"));
        await eventually(() => expect(worker.running).toBe(3));
        for (const id of ids) expect(await cancel(id)).toBe("cancelled");
        expect(await queue.addOnce("job", "later", { id: "own", delayMs: 600_000 })).toMatchObject({ isAdded: true });
        held.open();
        await eventually(() => expect(events).toHaveLength(3));
        expect(events.map(String).toSorted()).toEqual(["broken", "own", "plain"].map((data) => `cancelled,${data}`));
        expect(await fixture.counts()).toMatchObject({ jobs: 1, delayed: 1, leases: 0, failures: 0 });
      });

      it("reaches jobs that a worker has taken ahead: they go back, and do not run", async () => {
        const [queue, held, runs] = [make(), latch(), new Runs()];
        redis.defer(held.open);
        const worker = work(queue, async (job) => {
          runs.handler(job);
          if (job.data === "held") await held.promise;
        });
        await queue.addAll(Array.from({ length: 50 }, () => ({ name: "job", data: "quick" })));
        await fixture.untilEmpty();
        const data = ["held", "kept", ...Array.from({ length: 20 }, (_, index) => index)];
        const [, , ...behind] = await queue.addAll(data.map((one) => ({ name: "job", data: one })));
        await runs.until(51);
        for (const id of behind) expect(["cancelled", "removed"]).toContain(await cancel(id));
        // Those that it had taken ahead go back after 0.1 s, all together.
        await eventually(async () => expect(await fixture.counts()).toMatchObject({ leases: 1, waiting: 1 }));
        held.open();
        await runs.until(52);
        expect(runs.data.slice(50)).toEqual(["held", "kept"]);
        await worker.close();
      });

      it("notifies the caller of a called job that waits", async () => {
        const queue = make();
        const outcome = rejection(queue.call("job", 1, { delayMs: 600_000 }));
        const [id] = await eventually(async () => {
          const ids = await fixture.db.hkeys(fixture.keysOf().jobs);
          expect(ids).toHaveLength(1);
          return ids;
        });
        expect(await cancel(id!)).toBe("removed");
        expect(await outcome).toMatchObject({ code: "KIT_JOB_CANCELLED", job: "job", id });
      });

      it("lets each job either complete or be cancelled, never both, while workers take them", async () => {
        const [queue, completed] = [make(), [] as string[]];
        const ids = await queue.addAll(Array.from({ length: 300 }, (_, data) => ({ name: "job", data })));
        const worker = work(queue, () => undefined, { concurrency: 5 });
        worker.on("completed", ({ job: { id } }) => completed.push(id));
        // On a machine that stalls a reply may be late, and its outcome unknown.
        const late = (): "late" => "late";
        const outcomes = await Promise.all(ids.map((id) => cancel(id).catch(late)));
        await fixture.untilEmpty();
        await worker.close();
        const cancelled = ids.filter((_, index) => ["removed", "cancelled"].includes(outcomes[index]!));
        const known = ids.filter((_, index) => outcomes[index] !== "late");
        const ended = new Set([...completed, ...cancelled]);
        expect(ended.size).toBe(completed.length + cancelled.length);
        expect(known.filter((id) => !ended.has(id))).toEqual([]);
      });

      it("searches many leases page by page, and leaves a later job of the same id alone", async () => {
        const [queue, keys] = [make(), fixture.keysOf()];
        await queue.add("job", 1, { id: "own" });
        await fixture.db.del(keys.waiting);
        const members = Array.from({ length: 5_000 }, (_, index) => [9e12, `workerX${String(10_000 + index)}other`]);
        await fixture.db.zadd(keys.leases, ...(members.flat() as [number, string]));
        await fixture.db.zadd(keys.leases, 9e12, "workerY00001own");
        expect(await cancel("own")).toBe("cancelled");
        expect(await fixture.db.zscore(keys.revoked, "workerY00001own")).toMatch(/^\d+\.5$/);
        expect(await fixture.db.zcard(keys.leases)).toBe(5_000);
        await fixture.db.del(keys.leases);
        await queue.add("job", 2, { id: "own" });
        const late = { id: "own", header: "k1 job", cursor: "0", channel: "", caller: "", pushes: "" };
        const reply = await looks.cancel.run(redis.client, { ...keys, replies: [] }, late);
        expect(reply).toEqual({ outcome: "elsewhere", cursor: "0" });
        expect(await fixture.counts()).toMatchObject({ jobs: 1, waiting: 1 });
      });
    });

    describe("an edit", () => {
      const edit = (id: string, changes: JobEdit, checks = {}): ReturnType<typeof editJob> =>
        editJob(redis.client, address(), id, changes, checks);

      it("changes data and options of ready and delayed jobs, which keep their place and all else", async () => {
        const [queue, runs] = [make(), new Runs()];
        const add = async (data: unknown, options = {}): Promise<string> => await queue.add("job", data, options);
        const first = await add("first", { maxAttempts: 3, timeoutMs: 60_000 });
        await add("second");
        const moved = await add("moved");
        const urgent = await add("urgent", { priority: -2 });
        await add("late", { priority: 5 });
        const delayed = await add("delayed", { delayMs: 600_000, priority: 1 });
        expect(await edit(first, { data: Buffer.from([1, 2]) })).toBe("edited");
        expect(await edit(moved, { priority: 5, maxAttempts: 7 })).toBe("edited");
        expect(await edit(urgent, { data: { now: "an object" }, priority: -2, maxAttempts: undefined })).toBe("edited");
        expect(await edit(delayed, { data: "x", priority: 0, backoff: { firstMs: 5 } })).toBe("edited");
        expect(await fixture.counts()).toMatchObject({ jobs: 6, waiting: 2, prioritised: 3, delayed: 1 });
        expect(await promoteJob(redis.client, address(), delayed)).toBe("ready");
        work(queue, runs.handler);
        await fixture.untilEmpty();
        expect(runs.data).toEqual([{ now: "an object" }, Buffer.from([1, 2]), "second", "x", "late", "moved"]);
        expect(runs.jobs[1]).toMatchObject({ id: first, maxAttempts: 3, priority: 0 });
        expect(runs.jobs[3]).toMatchObject({ id: delayed, maxAttempts: 1, priority: 0 });
        expect(runs.jobs[5]).toMatchObject({ id: moved, maxAttempts: 7, priority: 5 });
      });

      it("of a dead letter holds when it is redriven, and a called job keeps its caller", async () => {
        const [queue, runs] = [make(), new Runs()];
        const worker = work(queue, (job) => {
          runs.handler(job);
          if (job.data === "broken") throw new Error("broken");
          return job.data;
        });
        const died = new Promise((resolve) => worker.once("dead", resolve));
        const dead = await queue.add("job", "broken");
        await died;
        const keys = fixture.keysOf();
        const sizes = async (): Promise<number> =>
          (await fixture.db.hstrlen(keys.jobs, dead)) + (await fixture.db.hstrlen(keys.failures, dead));
        expect(await edit(dead, { data: "x".repeat(1_000), priority: 3 })).toBe("edited");
        expect(Number(await fixture.db.hget(keys.meta, "deadBytes"))).toBe(await sizes());
        expect(await fixture.counts()).toMatchObject({ jobs: 1, dead: 1 });
        expect(await queue.redrive()).toBe(1);
        await runs.until(2);
        expect(runs.jobs[1]).toMatchObject({ data: "x".repeat(1_000), priority: 3 });
        await fixture.untilEmpty();
        const call = queue.call("job", "asked", { delayMs: 600_000 });
        const [id] = await eventually(async () => {
          const ids = await fixture.db.hkeys(keys.jobs);
          expect(ids).toHaveLength(1);
          return ids;
        });
        expect(await edit(id!, { data: "answered" })).toBe("edited");
        await promoteJob(redis.client, address(), id!);
        expect(await call).toBe("answered");
      });

      it("is refused to jobs that are active, lost or unknown, and as data that an add would refuse", async () => {
        const [queue, held] = [make(), latch()];
        redis.defer(held.open);
        const worker = work(queue, () => held.promise);
        const active = await queue.add("job", "held");
        await eventually(() => expect(worker.running).toBe(1));
        const lost = await queue.add("job", "lost");
        await fixture.db.lrem(fixture.keysOf().waiting, 1, lost);
        for (const [id, outcome] of [
          [active, "active"],
          [lost, "lost"],
          ["nobody", "none"],
        ] as const)
          expect(await edit(id, { data: 1 })).toBe(outcome);
        const before = await fixture.db.hgetall(fixture.keysOf().jobs);
        const refused: [JobEdit, object?][] = [[{}], [{ data: undefined }], [{ priority: 1.5 }], [{ maxAttempts: 0 }]];
        refused.push([{ dta: 1 } as JobEdit], [{ data: 1 }, { maxPayloadBytes: 0 }], [{ timeoutMs: -1 }]);
        for (const [changes, checks] of refused)
          expect(String(await rejection(edit(lost, changes, checks)))).toMatch(
            /^(Type|Range)Error: (Expected|Unknown option)/,
          );
        const schema = {
          "~standard": { version: 1, vendor: "test", validate: () => ({ issues: [{ message: "never" }] }) },
        };
        for (const [data, checks] of [
          ["x".repeat(300_000), {}],
          ["x".repeat(20), { maxPayloadBytes: 20 }],
          [5n, {}],
          ["x", { schemas: { job: schema } }],
        ] as const)
          expect(await rejection(edit(lost, { data }, checks))).toBeInstanceOf(JobPayloadError);
        expect(await fixture.db.hgetall(fixture.keysOf().jobs)).toEqual(before);
      });

      it("loses none of several edits at a time, and a copy of one that comes late changes nothing", async () => {
        const [queue, keys] = [make(), fixture.keysOf()];
        const id = await queue.add("job", "first", { delayMs: 600_000 });
        const digest = createHash("sha1")
          .update((await fixture.db.hget(keys.jobs, id))!)
          .digest("hex");
        const changes: JobEdit[] = [{ data: "new" }, { maxAttempts: 9 }, { priority: 4 }, { timeoutMs: 700 }];
        expect(await Promise.all(changes.map((one) => edit(id, one)))).toEqual(changes.map(() => "edited"));
        const after = (await fixture.db.hget(keys.jobs, id))!;
        expect(after).toMatch(/^\w+ job a9 t700 p4\n"new"$/);
        const late = { id, digest, blob: 'k1 job\n"late"' };
        expect(await looks.edit.run(redis.client, keys, late)).toBe("changed");
        // A repeat after a lost reply finds what it wrote.
        expect(await looks.edit.run(redis.client, keys, { ...late, blob: after })).toBe("edited");
        expect(await fixture.db.hget(keys.jobs, id)).toBe(after);
        expect(await fixture.db.zrange(keys.delayed, "0", "-1")).toEqual([`!4!${id}`]);
      });
    });

    describe("a drain", () => {
      const drain = (options = {}): ReturnType<typeof drainQueue> => drainQueue(redis.client, address(), options);

      it("deletes ready jobs with their failures, delayed ones on request, and no active or dead ones", async () => {
        const queue = make({ maxAttempts: 2, backoff: { firstMs: 600_000, jitter: 0 } });
        const held = latch();
        redis.defer(held.open);
        const worker = work(queue, async ({ data }) => {
          if (data === "broken") throw new Error("broken");
          await held.promise;
        });
        const ended: string[] = [];
        for (const event of ["failed", "dead"] as const) worker.on(event, ({ job: { id } }) => ended.push(id));
        await queue.add("job", "broken", { maxAttempts: 1 });
        await queue.add("job", "broken");
        const again = await queue.add("job", "broken");
        await eventually(() => expect(ended).toHaveLength(4));
        await queue.add("job", "held");
        await eventually(() => expect(worker.running).toBe(1));
        await queue.addAll(Array.from({ length: 1_200 }, (_, data) => ({ name: "job", data })));
        for (const priority of [-4, 3]) await queue.add("job", "ranked", { priority });
        await queue.add("job", "later", { delayMs: 600_000, priority: 2, id: "own" });
        await promoteJob(redis.client, address(), again);
        expect(await fixture.counts()).toMatchObject({ jobs: 1_207, delayed: 2, failures: 3 });
        expect(await drain()).toBe(1_203);
        expect(await fixture.counts()).toMatchObject({ jobs: 4, waiting: 0, prioritised: 0, delayed: 2, failures: 2 });
        expect(await drain()).toBe(0);
        expect(await drain({ delayed: true })).toBe(2);
        expect(await fixture.counts()).toMatchObject({ jobs: 2, delayed: 0, leases: 1, failures: 1, dead: 1 });
        const completed = new Promise((resolve) => worker.once("completed", resolve));
        held.open();
        await completed;
        expect(String(await rejection(drain({ delayed: 1 })))).toMatch(/^TypeError: Expected `delayed`/);
      });

      it("lets each job either run or be deleted while workers take them, and keeps those added later", async () => {
        const [queue, runs] = [make(), new Runs()];
        // They have more than the 4 MiB of one call.
        await queue.addAll(Array.from({ length: 30 }, () => ({ name: "job", data: "x".repeat(200_000) })));
        await queue.addAll(Array.from({ length: 1_500 }, (_, data) => ({ name: "job", data })));
        const draining = drain();
        work(queue, runs.handler, { concurrency: 5 });
        const deleted = await draining;
        const later = await queue.add("job", "later");
        await fixture.untilEmpty();
        expect(deleted).toBeGreaterThan(0);
        expect(runs.jobs.map(({ id }) => id)).toContain(later);
        expect(new Set(runs.jobs.map(({ id }) => id)).size + deleted).toBe(1_531);
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

      it("refuses active jobs and dead letters, and reports their state, even of a job in no list", async () => {
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

      it("notifies the caller of a called job that there is no outcome", async () => {
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
});
