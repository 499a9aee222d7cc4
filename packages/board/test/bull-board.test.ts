import { once } from "node:events";
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { hostname } from "node:os";
import { createBullBoard } from "@bull-board/api";
import type { BaseAdapter } from "@bull-board/api/baseAdapter";
import { BullMQAdapter } from "@bull-board/api/bullMQAdapter";
import { ExpressAdapter } from "@bull-board/express";
import {
  type AddOptions,
  createQueue,
  type Job,
  type Queue,
  type QueueOptions,
  RateLimitError,
  type Worker,
  type WorkOptions,
} from "@kit/queue";
import { addFlow } from "@kit/queue/flows";
import { keepHistory } from "@kit/queue/history";
import { inspectJob, inspectQueue, pauseQueue, type QueueAddress, resumeQueue } from "@kit/queue/manage";
import { reportProgress, writeLog } from "@kit/queue/progress";
import { createSchedules } from "@kit/queue/schedules";
import { eventually, useRedis } from "@kit/testing";
import { inModes, scriptCalls } from "@tooling/vitest/helpers";
import { Queue as BullQueue } from "bullmq";
import type { Redis } from "ioredis";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { type BullBoardAdapter, type BullBoardOptions, createBullBoardAdapter } from "../src/bull-board/index.js";

const name = "mail";
const later = { delayMs: 600_000 };

interface ShownJob {
  readonly id: string;
  readonly [field: string]: unknown;
}

interface Reply {
  readonly status: number;
  readonly body: {
    readonly job: ShownJob;
    readonly message: string;
    readonly queues: readonly { readonly name: string; readonly jobs: readonly ShownJob[]; readonly counts: object }[];
    readonly [field: string]: unknown;
  };
}

/** Makes a request of the board's API. */
type Ask = (method: "GET" | "POST" | "PUT" | "PATCH", path: string, body?: object) => Promise<Reply>;

const latch = (): { readonly promise: Promise<void>; readonly resolve: () => void } => {
  let resolve: () => void = () => undefined;
  const promise = new Promise<void>((done) => {
    resolve = done;
  });
  return { promise, resolve };
};

const next = (worker: Worker, event: "completed" | "dead"): Promise<unknown> =>
  new Promise((resolve) => worker.once(event, resolve));

inModes({}, (mode) => {
  describe(`a kit queue on a bull-board on a ${mode === "cluster" ? "Cluster" : "single server"}`, () => {
    const redis = useRedis(vitest, { mode, permanentKeys: [/:queue:\{mail\}:/, "bull:*", "{bull}:*"] });
    const address = (): QueueAddress => ({ queue: name, prefix: redis.prefix });
    const db = (): Redis => redis.client as Redis;

    const make = (options: QueueOptions = {}): Queue => {
      const queue = createQueue(redis.client, name, { prefix: redis.prefix, deadlineMs: 10_000, ...options });
      redis.defer(() => queue.close({ timeoutMs: 0 }));
      return queue;
    };
    const work = (queue: Queue, handler: (job: Job) => unknown, options: WorkOptions = {}): Worker =>
      queue.work({ job: handler }, { concurrency: 1, abortGraceMs: 100, ...options });
    const adapter = (options: BullBoardOptions = {}): BullBoardAdapter => {
      const made = createBullBoardAdapter(redis.client, address(), options);
      redis.defer(() => made.close());
      return made;
    };

    /** The real board with the real Express server. It checks its replies by its own schemas. */
    const open = async (...queues: readonly BaseAdapter[]): Promise<Ask> => {
      const serverAdapter = new ExpressAdapter();
      createBullBoard({ queues, serverAdapter, options: { validateResponses: true } });
      const server = createServer(serverAdapter.getRouter() as RequestListener).listen(0, "127.0.0.1");
      redis.defer(() => server.close());
      await once(server, "listening");
      const url = `http://127.0.0.1:${String((server.address() as AddressInfo).port)}/api`;
      const headers = { connection: "close", "content-type": "application/json" };
      return async (method, path, body) => {
        const response = await fetch(url + path, { method, headers, ...(body && { body: JSON.stringify(body) }) });
        const text = await response.text();
        return { status: response.status, body: (text === "" ? {} : JSON.parse(text)) as Reply["body"] };
      };
    };
    const shown = async (ask: Ask, status: string, page = 1): Promise<Reply["body"]["queues"][number]> => {
      const path = `/queues?activeQueue=${name}&status=${status}&page=${String(page)}&jobsPerPage=10`;
      const { queues } = (await ask("GET", path)).body;
      return queues.find((queue) => queue.name === name)!;
    };
    const idsOf = async (ask: Ask, status: string, page = 1): Promise<string[]> =>
      (await shown(ask, status, page)).jobs.map(({ id }) => id);
    const counts = async (): Promise<Awaited<ReturnType<typeof inspectQueue>>> =>
      await inspectQueue(redis.client, address());

    /** Adds a job that becomes a dead letter. */
    const died = async (queue: Queue, error: Error = new Error("the partner is down")): Promise<string> => {
      const worker = work(queue, () => {
        throw error;
      });
      const dead = next(worker, "dead");
      const id = await queue.add("job", { to: "ann" });
      await dead;
      await worker.close();
      return id;
    };
    /** Adds a job that a worker has until the end of the test. */
    const held = async (
      queue: Queue,
      handler: (job: Job) => unknown = () => undefined,
      options: AddOptions = {},
    ): Promise<string> => {
      const { promise, resolve } = latch();
      redis.defer(resolve);
      const worker = work(queue, async (job) => {
        await handler(job);
        await promise;
      });
      const id = await queue.add("job", "held", options);
      await eventually(() => expect(worker.running).toBe(1));
      await pauseQueue(redis.client, address());
      return id;
    };

    it("stands next to a queue of BullMQ, with its counts, states and pages", async () => {
      const bull = new BullQueue("old", {
        connection: redis.connect({ maxRetriesPerRequest: null }) as never,
        prefix: `${redis.prefix}:{bull}`,
      });
      redis.defer(() => bull.close());
      redis.permanent(/:\{bull\}:/);
      await bull.add("job", 1);

      const queue = make({ history: keepHistory() });
      const dead = await died(queue);
      const worker = work(queue, () => "sent");
      const completed = next(worker, "completed");
      const done = await queue.add("job", 1);
      await completed;
      await worker.close();
      const active = await held(queue);
      const waiting = await queue.addAll(Array.from({ length: 25 }, (_, data) => ({ name: "job", data })));
      const urgent = await queue.add("job", 1, { priority: -2 });
      const soon = await queue.add("job", 1, { delayMs: 500_000 });
      const { id: parent, ids } = await addFlow(queue, {
        ...{ name: "job", data: "parent" },
        children: [{ name: "job", data: "child", ...later }],
      });
      const child = [...ids.values()].find((id) => id !== parent);

      const ask = await open(adapter({ displayName: "Mail of kit" }), new BullMQAdapter(bull as never));
      const { queues } = (await ask("GET", "/queues")).body;
      expect(queues).toMatchObject([
        {
          ...{
            name,
            displayName: "Mail of kit",
            type: "bull",
            isPaused: true,
            hasWorkers: true,
            globalConcurrency: null,
          },
          ...{ allowCompletedRetries: false, supportsGlobalRateLimit: true, jobSchedulerCount: 0, jobs: [] },
          counts: {
            ...{ active: 1, waiting: 25, prioritized: 1, delayed: 2, "waiting-children": 1 },
            ...{ failed: 1, completed: 1, paused: 0 },
          },
        },
        { name: "old", type: "bullmq", counts: { waiting: 1 } },
      ]);

      const newest = waiting.toReversed();
      expect(await shown(ask, "waiting", 2)).toMatchObject({
        pagination: { pageCount: 3, range: { start: 10, end: 19 } },
      });
      expect(await idsOf(ask, "waiting", 2)).toEqual(newest.slice(10, 20));
      expect(await idsOf(ask, "waiting", 3)).toEqual(newest.slice(20));
      expect(await idsOf(ask, "active")).toEqual([active]);
      expect(await idsOf(ask, "prioritized")).toEqual([urgent]);
      expect(await idsOf(ask, "delayed")).toEqual([soon, child]);
      expect(await idsOf(ask, "waiting-children")).toEqual([parent]);
      expect(await idsOf(ask, "failed")).toEqual([dead]);
      expect(await idsOf(ask, "completed")).toEqual([done]);
      expect(await idsOf(ask, "paused")).toEqual([]);
      expect(new Set(await idsOf(ask, "latest"))).toEqual(
        new Set([active, urgent, soon, child, parent, dead, done, ...newest.slice(0, 10)]),
      );
      const { jobs: large } = (await ask("GET", `/queues?activeQueue=${name}&status=waiting&jobsPerPage=300`)).body
        .queues[0]!;
      expect(large).toHaveLength(25);
    });

    it("counts and lists the jobs of groups among those that wait, after the others", async () => {
      const queue = make();
      const plain = await queue.addAll(Array.from({ length: 12 }, (_, data) => ({ name: "job", data })));
      const [first, second] = [await queue.add("job", 1, { group: "a" }), await queue.add("job", 2, { group: "a" })];
      const ask = await open(adapter());
      expect(await shown(ask, "waiting")).toMatchObject({ counts: { waiting: 14 } });
      expect(await idsOf(ask, "waiting", 2)).toEqual([...plain.toReversed().slice(10), first, second]);
    });

    it("reads more than a hundred jobs in several calls, and never more than a thousand", async () => {
      const queue = make();
      const board = adapter();
      const ids = await queue.addAll(Array.from({ length: 1_100 }, (_, data) => ({ name: "job", data })));
      const idsAt = async (start: number, end: number): Promise<unknown[]> =>
        (await board.getJobs(["waiting"], start, end)).map((job) => job.toJSON().id);
      expect(await idsAt(50, 299)).toEqual(ids.toReversed().slice(50, 300));
      expect(await idsAt(0, 1e9)).toEqual(ids.toReversed().slice(0, 1_000));
      expect(await idsAt(1_099, 1_108)).toEqual(ids.slice(0, 1));
    });

    it("shows the jobs of a paused name as paused", async () => {
      const queue = make();
      const ask = await open(adapter());
      await pauseQueue(redis.client, address(), { name: "job" });
      const id = await queue.add("job", 1);
      work(queue, () => undefined);
      await eventually(async () => expect(await idsOf(ask, "paused")).toEqual([id]));
      expect(await shown(ask, "paused")).toMatchObject({ isPaused: false, counts: { paused: 1, waiting: 0 } });
    });

    it("shows a job with its data, log, progress and worker on its page, and without data in a list", async () => {
      const queue = make({ timeoutMs: 3_600_000 });
      const id = await held(queue, async (job) => {
        void reportProgress(job, { done: 3, of: 10 });
        void writeLog(job, "connected");
        await writeLog(job, "sent 3");
      });
      const ask = await open(adapter());
      const page = {
        status: "active",
        job: {
          ...{ id, name: "job", data: "held", progress: { done: 3, of: 10 }, attempts: 0, isFailed: false },
          ...{ processedBy: `${hostname()}:${String(process.pid)}`, opts: { attempts: 1, timeoutMs: 3_600_000 } },
          finishedOn: null,
        },
      };
      await eventually(async () =>
        expect(await ask("GET", `/queues/${name}/${id}`)).toMatchObject({ status: 200, body: page }),
      );
      const { jobs } = await shown(ask, "active");
      expect(jobs).toMatchObject([{ id, data: "kit: open the job to see its data", progress: 0 }]);
      await eventually(async () =>
        expect((await ask("GET", `/queues/${name}/${id}/logs`)).body).toEqual([
          expect.stringMatching(/^\d{4}-.*Z connected$/),
          expect.stringMatching(/Z sent 3$/),
        ]),
      );
      expect(await ask("GET", `/queues/${name}/nobody`)).toMatchObject({ status: 404 });
      expect(await ask("GET", `/queues/${name}/${"x".repeat(161)}`)).toMatchObject({ status: 400 });
    });

    it("shows where a job is, its due time and its key", async () => {
      const queue = make();
      const ask = await open(adapter());
      const failed = await died(queue);
      const added = {
        waiting: await queue.add("job", 1),
        prioritized: await queue.add("job", 1, { priority: 5 }),
        delayed: await queue.add("job", 1, { ...later, unique: { key: "once" } }),
        failed,
      };
      for (const [status, id] of Object.entries(added))
        expect((await ask("GET", `/queues/${name}/${id}`)).body).toMatchObject({ status, job: { id } });
      const { job } = (await ask("GET", `/queues/${name}/${added.delayed}`)).body;
      expect(job).toMatchObject({ deduplicationId: "once", opts: { delay: job["delay"] } });
      expect(Math.abs(Number(job["delay"]) - 600_000)).toBeLessThan(5_000);
      expect((await ask("GET", `/queues/${name}/${added.prioritized}`)).body.job).toMatchObject({ priority: 5 });
      // Its entry is gone, as after a manual deletion.
      await db().del(`${redis.prefix}:queue:{${name}}:waiting`);
      expect((await ask("GET", `/queues/${name}/${added.waiting}`)).body).toMatchObject({ status: "stuck" });
      expect(await ask("PUT", `/queues/${name}/${added.waiting}/clean`)).toMatchObject({
        status: 400,
        body: { message: expect.stringContaining("repairQueue()") as string },
      });
    });

    it("shows why a job is dead: its error with its causes, or the crashes of its worker", async () => {
      const queue = make({ maxAttempts: 1 });
      const cause = new Error("the socket was closed");
      const id = await died(queue, new Error("the mail was not sent", { cause }));
      const ask = await open(adapter());
      const { job } = (await ask("GET", `/queues/${name}/${id}`)).body;
      expect(job).toMatchObject({
        isFailed: true,
        attempts: 1,
        failedReason: "the mail was not sent",
        data: { to: "ann" },
      });
      const [stack = ""] = job["stacktrace"] as string[];
      expect(stack).toMatch(/^Error: the mail was not sent\n +at [^]*\ncaused by Error: the socket was closed\n +at /);
      expect(job["finishedOn"]).toBeGreaterThanOrEqual(Number(job["timestamp"]));
      expect(job["processedOn"]).toBe(job["finishedOn"]);
      // As if three workers had died with it, and none had reported an error.
      await db().hset(`${redis.prefix}:queue:{${name}}:failures`, id, "0\t3\t");
      expect((await ask("GET", `/queues/${name}/${id}`)).body.job).toMatchObject({
        ...{ isFailed: true, failedReason: "Its worker crashed, 3 times in all", stacktrace: [], stalledCounter: 3 },
      });
    });

    it("shows the result of a completed job, and that a job expired", async () => {
      const queue = make({ history: keepHistory() });
      const ask = await open(adapter());
      const worker = work(queue, () => ({ sent: 2 }));
      const completed = next(worker, "completed");
      const id = await queue.add("job", 1);
      await completed;
      await worker.close();
      const page = async (of: string): Promise<Reply["body"]> => (await ask("GET", `/queues/${name}/${of}`)).body;
      const { job, status } = await page(id);
      expect(status).toBe("completed");
      expect(job).toMatchObject({
        ...{ returnValue: { sent: 2 }, isFailed: false, data: "kit: the data of completed jobs is not kept" },
      });
      expect(job["finishedOn"]).toBeGreaterThanOrEqual(Number(job["processedOn"]));
      const { takenAt } = await inspectJob(redis.client, address(), id);
      expect(job["processedOn"]).toBe(Date.parse(takenAt!));
      expect(await ask("PUT", `/queues/${name}/${id}/retry`)).toMatchObject({
        ...{ status: 400, body: { message: "kit keeps no data of completed jobs. Add a new job instead." } },
      });
      expect(await ask("PUT", `/queues/${name}/${id}/clean`)).toMatchObject({
        ...{ status: 400, body: { message: "kit deletes completed jobs by age. Clean all of them instead." } },
      });

      const late = await queue.add("job", 1, { expiresMs: 1 });
      await eventually(async () => {
        const { expiresAt } = await inspectJob(redis.client, address(), late);
        expect(Date.now()).toBeGreaterThan(Date.parse(expiresAt!) + 50);
      });
      const second = work(queue, () => undefined);
      await eventually(async () => expect((await counts()).kept).toBe(2));
      await second.close();
      expect((await page(late)).job).toMatchObject({ failedReason: "No worker took it before it expired" });
    });

    it("retries a dead letter with all its attempts, and no other job", async () => {
      const queue = make();
      const [id, waiting] = [await died(queue), await queue.add("job", "other", later)];
      const ask = await open(adapter());
      expect(await ask("PUT", `/queues/${name}/${waiting}/retry`)).toMatchObject({
        ...{ status: 400, body: { error: { key: "ERRORS.JOB_NOT_RETRIABLE", options: { state: "delayed" } } } },
      });
      expect(await ask("PUT", `/queues/${name}/${id}/retry`)).toMatchObject({ status: 204 });
      expect(await counts()).toMatchObject({ waiting: 1, dead: 0, delayed: 1 });
      const runs: Job[] = [];
      work(queue, (job) => runs.push(job));
      await eventually(() => expect(runs).toMatchObject([{ id, attempt: 1, data: { to: "ann" } }]));
    });

    it("does not retry or remove a letter that somebody else has moved", async () => {
      const queue = make();
      const id = await died(queue);
      const job = (await adapter().getJob(id))!;
      expect(await queue.redrive([id])).toBe(1);
      const error = { statusCode: 400, message: `Job ${id} was not changed: it has ended, or was deleted.` };
      await expect(job.retry()).rejects.toMatchObject(error);
      await expect(job.remove()).rejects.toMatchObject(error);
      expect(await counts()).toMatchObject({ waiting: 1 });
    });

    it("retries all dead letters", async () => {
      const queue = make();
      const worker = work(
        queue,
        () => {
          throw new Error("down");
        },
        { concurrency: 50 },
      );
      await queue.addAll(Array.from({ length: 120 }, (_, data) => ({ name: "job", data })));
      await eventually(async () => expect(await counts()).toMatchObject({ dead: 120, jobs: 120 }));
      await worker.close();
      const ask = await open(adapter());
      expect(await ask("PUT", `/queues/${name}/retry/failed`)).toEqual({
        status: 200,
        body: { retried: 120, skipped: 0 },
      });
      expect(await counts()).toMatchObject({ waiting: 120, dead: 0 });
    });

    it("removes waiting, delayed and dead jobs, and no active one", async () => {
      const queue = make();
      const dead = await died(queue);
      const active = await held(queue);
      const ask = await open(adapter());
      const added = [
        await queue.add("job", 1),
        await queue.add("job", 1, later),
        await queue.add("job", 1, { priority: 1 }),
      ];
      for (const id of [dead, ...added])
        expect(await ask("PUT", `/queues/${name}/${id}/clean`)).toMatchObject({ status: 204 });
      expect(await ask("PUT", `/queues/${name}/${dead}/clean`)).toMatchObject({ status: 404 });
      expect(await ask("PUT", `/queues/${name}/${active}/clean`)).toMatchObject({
        ...{ status: 409, body: { error: { key: "ERRORS.JOB_IS_ACTIVE" } } },
      });
      expect(await counts()).toMatchObject({ jobs: 1, active: 1 });
      // A worker took it between two requests.
      const id = await queue.add("job", 1);
      const job = (await adapter().getJob(id))!;
      await resumeQueue(redis.client, address());
      const { promise, resolve } = latch();
      redis.defer(resolve);
      const worker = work(queue, () => promise);
      await eventually(() => expect(worker.running).toBe(1));
      await expect(job.remove()).rejects.toMatchObject({ message: `Job ${id} was not changed: a worker has it.` });
      expect(await job.getState()).toBe("active");
    });

    it("promotes one delayed job, or all that do not wait for another job", async () => {
      const queue = make();
      const unique = { key: "sync", mode: "keepLast" as const };
      const active = await held(queue, undefined, { unique });
      const ask = await open(adapter());
      const id = await queue.add("job", 1, later);
      expect(await ask("PUT", `/queues/${name}/${id}/promote`)).toMatchObject({ status: 204 });
      expect(await counts()).toMatchObject({ waiting: 1, delayed: 0 });
      await queue.addAll(Array.from({ length: 230 }, (_, data) => ({ name: "job", data, ...later })));
      const successor = await queue.add("job", 2, { unique });
      expect(successor).not.toBe(active);
      expect(await ask("PUT", `/queues/${name}/${successor}/promote`)).toMatchObject({
        status: 400,
        body: { message: `Job ${successor} was not changed: it waits for the active job of its unique key.` },
      });
      expect(await ask("PUT", `/queues/${name}/promote`)).toMatchObject({ status: 200 });
      expect(await counts()).toMatchObject({ waiting: 231, delayed: 1 });
      expect(await idsOf(ask, "delayed")).toEqual([successor]);
    });

    it("changes the due time, the priority and the data of a job", async () => {
      const queue = make();
      const ask = await open(adapter());
      const id = await queue.add("job", { to: "ann" }, later);
      const runAt = Date.now() + 900_000;
      expect(await ask("PATCH", `/queues/${name}/${id}/delay`, { runAt })).toMatchObject({ status: 200 });
      expect(await ask("PATCH", `/queues/${name}/${id}/priority`, { priority: 7 })).toMatchObject({ status: 200 });
      expect(await ask("PATCH", `/queues/${name}/${id}/update-data`, { jobData: { to: "bob" } })).toMatchObject({
        status: 200,
      });
      const report = await inspectJob(redis.client, address(), id, { withData: true });
      expect(report).toMatchObject({ state: "delayed", priority: 7, data: { to: "bob" } });
      expect(Math.abs(Date.parse(report.at!) - runAt)).toBeLessThan(5_000);
      // bull-board has a higher maximum than kit.
      expect(await ask("PATCH", `/queues/${name}/${id}/priority`, { priority: 2_000_000 })).toMatchObject({
        ...{ status: 400, body: { message: expect.stringContaining("priority") as string } },
      });
      const dead = await died(queue);
      expect(await ask("PATCH", `/queues/${name}/${dead}/priority`, { priority: 7 })).toMatchObject({
        status: 400,
        body: { message: `Job ${dead} was not changed: it is neither ready nor delayed.` },
      });
    });

    it("never makes data of a text that the board shows in place of data", async () => {
      const queue = make();
      const ask = await open(adapter());
      const [id, bytes] = [await queue.add("job", { to: "ann" }), await queue.add("job", new Uint8Array([1, 2, 3]))];
      const { jobs } = await shown(ask, "waiting");
      const unread = jobs.find((job) => job.id === id)!["data"];
      const inBase64 = (await ask("GET", `/queues/${name}/${bytes}`)).body.job["data"];
      expect(inBase64).toBe("kit: 3 bytes in base64: AQID");
      for (const jobData of [unread, inBase64]) {
        const refusal = {
          status: 400,
          body: { message: expect.stringContaining("is not the data of the job") as string },
        };
        expect(await ask("PATCH", `/queues/${name}/${id}/update-data`, { jobData } as object)).toMatchObject(refusal);
        expect(await ask("POST", `/queues/${name}/add`, { name: "job", data: jobData } as object)).toMatchObject(
          refusal,
        );
      }
      expect(await inspectJob(redis.client, address(), id, { withData: true })).toMatchObject({ data: { to: "ann" } });
      const none = await queue.add("job");
      expect((await ask("GET", `/queues/${name}/${none}`)).body.job).not.toHaveProperty("data");
      // A text that looks like base64, and a text of the same start.
      for (const text of ["AQID", "kit", "ä€"]) {
        const added = await queue.add("job", text);
        expect((await ask("GET", `/queues/${name}/${added}`)).body.job["data"]).toBe(text);
      }
    });

    it("adds a job with the options and the schemas of the queue", async () => {
      const schema = {
        "~standard": {
          ...{ version: 1 as const, vendor: "test" },
          validate: (value: unknown) =>
            typeof value === "object" ? { value } : { issues: [{ message: "it is no object" }] },
        },
      };
      const ask = await open(adapter({ jobs: { maxAttempts: 4, schemas: { job: schema as never } } }));
      expect((await ask("GET", `/queues/${name}/default-job-options`)).body).toEqual({ attempts: 4 });
      const add = (data: unknown, options: object = {}): Promise<Reply> =>
        ask("POST", `/queues/${name}/add`, { name: "job", data, options });
      expect(await add({ to: "ann" })).toMatchObject({
        ...{ status: 200, body: { status: "waiting", job: { data: { to: "ann" }, opts: { attempts: 4 } } } },
      });
      expect(await add({}, { attempts: 2, delay: 600_000, priority: 3, timeoutMs: 5_000 })).toMatchObject({
        body: { status: "delayed", job: { priority: 3, opts: { attempts: 2, timeoutMs: 5_000 } } },
      });
      const refusals: [unknown, object, RegExp][] = [
        ["text", {}, /does not match its schema/],
        [{}, { removeOnComplete: true }, /removeOnComplete/],
        [{}, { attempts: 0 }, /maxAttempts/],
      ];
      for (const [data, options, message] of refusals)
        expect(await add(data, options)).toMatchObject({
          ...{ status: 400, body: { message: expect.stringMatching(message) as string } },
        });
      expect(await counts()).toMatchObject({ jobs: 2 });
      const { id } = (await add({})).body.job;
      expect(await ask("PATCH", `/queues/${name}/${id}/update-data`, { jobData: "text" })).toMatchObject({
        status: 400,
      });
    });

    it("pauses and resumes the queue for all workers", async () => {
      const queue = make();
      const ask = await open(adapter());
      const runs: Job[] = [];
      work(queue, (job) => runs.push(job));
      const isPaused = async (): Promise<unknown> => (await ask("GET", "/queues")).body.queues[0];
      for (const one of ["", `/${name}`]) {
        const before = runs.length;
        expect(await ask("PUT", `/queues${one}/pause`)).toMatchObject({ status: 200 });
        expect(await isPaused()).toMatchObject({ isPaused: true });
        await queue.add("job", 1);
        expect(await counts()).toMatchObject({ waiting: 1, active: 0 });
        expect(await ask("PUT", `/queues${one}/resume`)).toMatchObject({ status: 200 });
        expect(await isPaused()).toMatchObject({ isPaused: false });
        await eventually(() => expect(runs).toHaveLength(before + 1));
      }
    });

    it("cleans the jobs of a state that are older than bull-board's five seconds", async () => {
      const queue = make();
      const ask = await open(adapter());
      const [old, young] = [await died(queue), await died(queue)];
      const diedAt = Date.now() - 6_000;
      await db().zadd(`${redis.prefix}:queue:{${name}}:dead`, "XX", diedAt, old);
      expect(await idsOf(ask, "failed")).toEqual([young, old]);
      expect(await ask("PUT", `/queues/${name}/clean/failed`)).toMatchObject({ status: 200 });
      expect(await idsOf(ask, "failed")).toEqual([young]);
      await held(queue);
      expect(await ask("PUT", `/queues/${name}/clean/active`)).toMatchObject({
        ...{ status: 400, body: { message: "kit does not clean jobs with the status active." } },
      });
      await queue.add("job", 1, { ...later });
      await queue.add("job", 1, { priority: 1 });
      const board = adapter();
      for (const status of ["delayed", "wait", "prioritized", "completed", "failed"] as const)
        await board.clean(status as "failed", 0);
      expect(await counts()).toMatchObject({ jobs: 1, active: 1 });
    });

    it("empties the queue, and obliterates it once it is paused", async () => {
      const queue = make();
      const ask = await open(adapter());
      await queue.addAll([
        { name: "job", data: 1 },
        { name: "job", data: 1, priority: 1 },
        { name: "job", data: 1, ...later },
      ]);
      expect(await ask("PUT", `/queues/${name}/empty`)).toMatchObject({ status: 200 });
      expect(await counts()).toMatchObject({ waiting: 0, prioritised: 0, delayed: 1 });
      const obliterate = (body: object): Promise<Reply> => ask("PUT", `/queues/${name}/obliterate`, body);
      expect(await obliterate({})).toMatchObject({ status: 400, body: { error: { key: "ERRORS.QUEUE_NOT_PAUSED" } } });
      await held(queue);
      expect(await obliterate({})).toMatchObject({
        ...{ status: 409, body: { error: { key: "ERRORS.QUEUE_HAS_ACTIVE_JOBS" } } },
      });
      expect(await counts()).toMatchObject({ jobs: 2 });
      expect(await obliterate({ force: true })).toMatchObject({ status: 200 });
      expect(await counts()).toMatchObject({ jobs: 0, pausedAt: null });
    });

    it("shows and changes the limits of the queue", async () => {
      make();
      const ask = await open(adapter());
      const put = (path: string, body: object = {}): Promise<Reply> => ask("PUT", `/queues/${name}/${path}`, body);
      const limit = async (): Promise<unknown> => (await ask("GET", `/queues/${name}/rate-limit`)).body;
      expect(await limit()).toEqual({ supported: true, rateLimit: null });
      expect(await put("concurrency", { concurrency: 3 })).toMatchObject({ status: 200 });
      expect(await put("rate-limit", { max: 100, duration: 60_000 })).toMatchObject({ status: 200 });
      expect(await counts()).toMatchObject({ concurrency: 3, rate: { count: 100, perMs: 60_000 } });
      expect(await limit()).toEqual({ supported: true, rateLimit: { max: 100, duration: 60_000 } });
      expect((await ask("GET", "/queues")).body.queues).toMatchObject([
        { globalConcurrency: 3, activeRateLimitTtl: 0 },
      ]);
      expect(await put("rate-limit/release")).toMatchObject({
        ...{ status: 400, body: { message: "The wait ends together with the rate limit. Remove the rate limit." } },
      });
      expect(await put("rate-limit", { max: 100, duration: 1e9 })).toMatchObject({ status: 400 });
      expect(await put("rate-limit", { max: null })).toMatchObject({ status: 200 });
      expect(await put("concurrency", { concurrency: 0 })).toMatchObject({ status: 200 });
      expect(await counts()).toMatchObject({ concurrency: null, rate: null });
    });

    it("shows and ends a wait that a handler asked for", async () => {
      const queue = make();
      const ask = await open(adapter());
      const worker = work(queue, () => {
        throw new RateLimitError(600_000);
      });
      await queue.add("job", 1);
      await eventually(async () => expect((await counts()).heldUntil).not.toBeNull());
      await worker.close();
      const [shownQueue] = (await ask("GET", "/queues")).body.queues as unknown as { activeRateLimitTtl: number }[];
      expect(shownQueue!.activeRateLimitTtl).toBeGreaterThan(500_000);
      expect(await ask("PUT", `/queues/${name}/rate-limit/release`)).toMatchObject({ status: 200 });
      expect((await counts()).heldUntil).toBeNull();
    });

    it("lists its workers and schedules, and removes a schedule", async () => {
      const queue = make();
      const { promise, resolve } = latch();
      redis.defer(resolve);
      const worker = work(queue, () => promise, { name: "mailer" });
      const id = await queue.add("job", 1);
      const schedules = createSchedules(redis.client, name, { prefix: redis.prefix });
      redis.defer(() => schedules.close());
      await schedules.upsert("hourly", { everyMs: 3_600_000, count: 5, name: "job", data: 1 });
      await schedules.upsert("nightly", { cron: "0 3 * * *", timezone: "Europe/Berlin", name: "job", data: 1 });
      const ask = await open(adapter());
      await eventually(async () =>
        expect((await ask("GET", `/queues/${name}/workers`)).body["workers"]).toEqual([
          {
            ...{ id: expect.stringMatching(/^\w+$/) as string, name: "mailer", age: expect.any(Number) as number },
            addr: `${hostname()}:${String(process.pid)}`,
          },
        ]),
      );
      await eventually(async () =>
        expect((await ask("GET", `/queues/${name}/${id}`)).body.job).toMatchObject({ processedBy: "mailer" }),
      );
      resolve();
      await worker.close();
      expect((await ask("GET", `/queues/${name}/workers`)).body["workers"]).toEqual([]);
      const listed = (await ask("GET", "/job-schedulers")).body["schedulers"] as object[];
      expect(listed).toHaveLength(2);
      expect(listed).toEqual(
        expect.arrayContaining([
          expect.objectContaining({ id: "hourly", name: "job", every: 3_600_000, limit: 5, iterationCount: 0 }),
          expect.objectContaining({ id: "nightly", pattern: "0 3 * * *", tz: "Europe/Berlin", queueName: name }),
        ]),
      );
      expect((await ask("GET", "/queues")).body.queues).toMatchObject([{ jobSchedulerCount: 2 }]);
      const hourly = `/queues/${name}/job-schedulers/hourly`;
      expect(await ask("PATCH", hourly, { every: 1_000 })).toMatchObject({
        ...{ status: 405, body: { error: { key: "ERRORS.JOB_SCHEDULER_EDIT_NOT_SUPPORTED" } } },
      });
      expect(await ask("PUT", `${hourly}/run`)).toMatchObject({
        ...{ status: 405, body: { error: { key: "ERRORS.JOB_SCHEDULER_RUN_NOT_SUPPORTED" } } },
      });
      expect(await ask("PUT", `${hourly}/remove`)).toMatchObject({ status: 204 });
      expect(await ask("PUT", `${hourly}/remove`)).toMatchObject({ status: 404 });
      expect(await schedules.get("hourly")).toBeUndefined();
    });

    it("hides or refuses what kit does not have", async () => {
      const queue = make();
      const id = await queue.add("job", 1);
      const ask = await open(adapter());
      expect((await ask("GET", `/queues/${name}/metrics`)).body).toEqual({ completed: null, failed: null });
      expect((await ask("GET", `/queues/${name}/${id}/flow`)).body).toMatchObject({
        isFlowNode: false,
        flowRoot: null,
      });
      expect(await ask("PUT", `/queues/${name}/${id}/remove-unprocessed-children`)).toMatchObject({
        ...{ status: 400, body: { error: { key: "ERRORS.JOB_UNPROCESSED_CHILDREN_NOT_SUPPORTED" } } },
      });
      expect((await ask("GET", "/redis/stats")).body).toMatchObject({
        backend: "redis",
        port: expect.any(Number) as number,
      });
    });

    it("changes nothing in read-only mode, and takes no unknown option of a queue", async () => {
      const queue = make();
      const id = await queue.add("job", 1);
      const ask = await open(adapter({ readOnlyMode: true, prefix: "kit " }));
      const path = `/queues/${encodeURIComponent(`kit ${name}`)}`;
      expect((await ask("GET", `${path}/${id}`)).body.job).toMatchObject({ id, data: 1 });
      for (const action of ["pause", "empty", `${id}/clean`])
        expect(await ask("PUT", `${path}/${action}`)).toMatchObject({ status: 405 });
      expect(await counts()).toMatchObject({ waiting: 1, pausedAt: null });
      const wrong = { jobs: { maxAttempts: 0 } };
      expect(() => createBullBoardAdapter(redis.client, address(), wrong)).toThrow(RangeError);
      expect(() => createBullBoardAdapter(redis.client, { queue: "" })).toThrow(/queue|name/);
    });

    it("reads a queue in a few calls at each refresh, however many jobs it has", async () => {
      const queue = make();
      await queue.addAll(Array.from({ length: 2_000 }, (_, data) => ({ name: "job", data })));
      const ask = await open(adapter());
      await shown(ask, "latest");
      const before = await scriptCalls(redis.server.nodes);
      await shown(ask, "latest");
      const latest = (await scriptCalls(redis.server.nodes)) - before;
      await shown(ask, "waiting", 2);
      const one = (await scriptCalls(redis.server.nodes)) - before - latest;
      // The numbers, the workers in two calls, and the schedules. Then a page of each of the eight states, or of one. A page of waiting
      // jobs reads the numbers again.
      expect({ latest, one }).toEqual({ latest: 13, one: 6 });
    });

    it("replies with an error within seconds while Redis does not answer, and works after that", async () => {
      make();
      const ask = await open(adapter());
      await shown(ask, "latest");
      for (const node of redis.server.nodes) node.pause();
      const { status, body } = await ask("GET", "/queues");
      for (const node of redis.server.nodes) node.resume();
      expect({ status, body }).toMatchObject({
        status: 500,
        body: { message: expect.stringMatching(/answer/) as string },
      });
      await eventually(async () => expect((await ask("GET", "/queues")).status).toBe(200));
    });
  });
});
