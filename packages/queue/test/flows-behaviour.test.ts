import { eventually, useRedis } from "@kit/testing";
import { guardUsers, inModes, onMovingSlots, rejection } from "@tooling/vitest/helpers";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import {
  type AnyJobs,
  type DeadLetter,
  type Job,
  type Queue,
  UnrecoverableError,
  type WorkOptions,
} from "../src/index.js";
import { user } from "./acl.js";
import { createQueueEvents } from "../src/events/index.js";
import {
  addFlow,
  type FlowChild,
  type FlowJob,
  FlowTakenError,
  inspectFlow,
  readChildren,
} from "../src/flows/index.js";
import * as adding from "../src/flows/scripts/index.js";
import { keepHistory } from "../src/history/index.js";
import * as slices from "../src/slices/scripts.js";
import {
  cancelJob,
  cleanQueue,
  drainQueue,
  editJob,
  inspectJob,
  inspectQueue,
  listJobs,
  pauseQueue,
  promoteJob,
  removeJob,
  repairQueue,
  rescheduleJob,
  resumeQueue,
  setLimits,
  setPriority,
} from "../src/manage/index.js";
import * as looks from "../src/manage/scripts.js";
import { queueMetrics } from "../src/metrics/index.js";
import * as scripts from "../src/store/scripts/index.js";
import { fixtureOf, latch, name, permanentKeys } from "./harness.js";

type Flow = FlowJob<AnyJobs>;

/** Flows, on one server or on a Cluster. */
inModes({ single: user.login }, (mode, login) => {
  const where = mode === "cluster" ? "Cluster" : "single server";
  describe(`a flow on a ${where}${login ? ", by an ACL user" : ""}`, () => {
    const redis = useRedis(vitest, { mode, permanentKeys, args: login ? user.serverArgs(mode) : [] });
    if (login) guardUsers(redis);
    onMovingSlots(redis, { ...looks, ...scripts, ...adding, ...slices });
    const fixture = fixtureOf(redis, login);
    const { address, make } = fixture;
    const job = (data: unknown, options: object = {}): Flow => ({ name: "job", data, ...options }) as Flow;
    const parent = (data: unknown, children: Flow["children"], options: object = {}): Flow =>
      job(data, { children, ...options });
    const manager = () => fixture.db;
    const stateOf = async (id: string): Promise<string> => (await inspectJob(manager(), address, id)).state;
    const families = (): Promise<number> => fixture.db.hlen(fixture.keysOf().families);
    const gone = { jobs: 0, waiting: 0, delayed: 0, leases: 0, failures: 0, dead: 0 };
    const isEmpty = (): Promise<void> =>
      eventually(async () => {
        expect(await fixture.counts()).toMatchObject(gone);
        expect(await families()).toBe(0);
      });
    const letter = async (queue: Queue, id: string): Promise<DeadLetter> =>
      await eventually(async () => {
        const found = (await queue.deadLetters()).find((one) => one.id === id);
        if (!found) throw new Error("it is not dead");
        return found;
      });

    /** A worker whose jobs do what their data says, and the data of the jobs that ran, in order. */
    const working = (queue: Queue, options: WorkOptions = {}) => {
      const ran: unknown[] = [];
      const read: FlowChild[][] = [];
      const held = latch();
      redis.defer(() => held.open());
      const worker = fixture.work(
        queue,
        async (taken: Job) => {
          const data = taken.data as string;
          ran.push(data);
          if (data.startsWith("top")) read.push([...(await readChildren(taken)).children]);
          if (data.startsWith("fail")) throw new UnrecoverableError(`${data} broke`);
          if (data.startsWith("large")) return "x".repeat(300_000);
          if (data.startsWith("hold")) await held.promise;
          return { of: data };
        },
        { concurrency: 10, ...options },
      );
      return { ran, read, worker, free: held.open };
    };

    it("runs each job once its children have ended, which hand it their results in order", async () => {
      const queue = make();
      const shared = job("shared");
      const { id, ids } = await addFlow(
        queue,
        parent("top", [parent("left", [shared, job("leaf")]), parent("right", [shared])]),
      );
      expect(ids.get(shared)).toMatch(/^\w{9}\.\w{4}$/);
      expect(await stateOf(id)).toBe("waiting-for-children");
      const { ran, read } = working(queue);
      await isEmpty();
      expect(new Set(ran)).toEqual(new Set(["leaf", "left", "right", "shared", "top"]));
      expect(ran.at(-1)).toBe("top");
      expect(ran.indexOf("left")).toBeGreaterThan(Math.max(ran.indexOf("leaf"), ran.indexOf("shared")));
      expect(ran.indexOf("right")).toBeGreaterThan(ran.indexOf("shared"));
      expect(read).toEqual([
        ["left", "right"].map((of) => ({
          ...{ id: expect.any(String), name: "job", outcome: "completed", result: { of }, error: undefined },
        })),
      ]);
    });

    it("reads many children page by page, and bytes as bytes", async () => {
      const queue = make();
      await addFlow(
        queue,
        parent(
          "top",
          Array.from({ length: 250 }, (_, at) => job(at)),
        ),
      );
      const pages: FlowChild[][] = [];
      fixture.work(
        queue,
        async (taken) => {
          if (taken.data !== "top") return Buffer.from([taken.data as number]);
          for (let start: number | undefined = 0; start !== undefined;) {
            const { children, next }: Awaited<ReturnType<typeof readChildren>> = await readChildren(taken, { start });
            pages.push([...children]);
            start = next;
          }
          return undefined;
        },
        { concurrency: 50 },
      );
      await isEmpty();
      expect(pages.map(({ length }) => length)).toEqual([100, 100, 50]);
      expect(pages.flat().map(({ result }) => (result as Buffer)[0])).toEqual(
        Array.from({ length: 250 }, (_, at) => at),
      );
    });

    it("reads a page of at most about 1 MiB of results", async () => {
      const queue = make();
      const results = Array.from({ length: 8 }, () => job("result"));
      await addFlow(queue, parent("top", results));
      const pages: (readonly [length: number, next: number | undefined])[] = [];
      fixture.work(queue, async (taken) => {
        if (taken.data !== "top") return "x".repeat(200_000);
        const { children, next } = await readChildren(taken);
        pages.push([children.length, next]);
        pages.push([(await readChildren(taken, { start: next })).children.length, undefined]);
        return undefined;
      });
      await isEmpty();
      expect(pages).toEqual([
        [6, 6],
        [2, undefined],
      ]);
    });

    describe.each(["fail", "ignore"] as const)("whose policy is %s, settles when a child", (onFailure) => {
      type End = (queue: Queue, id: string) => Promise<unknown>;
      const ways: readonly (readonly [
        way: string,
        seen: Partial<FlowChild>,
        end: End,
        about: { data?: string; expiresMs?: number; priority?: number },
      ])[] = [
        ["fails for good", { outcome: "failed" }, () => Promise.resolve(), { data: "fail" }],
        ["has a result that is too large", { outcome: "failed" }, () => Promise.resolve(), { data: "large" }],
        ["expires", { outcome: "expired" }, (_queue, id) => fixture.age(id), { data: "late", expiresMs: 1 }],
        ["is removed", { outcome: "removed" }, (_queue, id) => removeJob(manager(), address, id), {}],
        [
          "is cancelled before it starts",
          { outcome: "removed" },
          (_queue, id) => cancelJob(manager(), address, id),
          {},
        ],
        [
          "is cleaned",
          { outcome: "removed" },
          () => cleanQueue(manager(), address, { state: "waiting", run: true }),
          {},
        ],
        ["is drained", { outcome: "removed" }, () => drainQueue(manager(), address), {}],
        [
          "is drained and has a priority",
          { outcome: "removed" },
          () => drainQueue(manager(), address),
          { priority: 5 },
        ],
      ];
      it.each(ways)("%s", async (_way, seen, end, { data = "child", ...options }) => {
        const queue = make();
        const child = job(data, options);
        const { id, ids } = await addFlow(
          queue,
          parent("top", [job("other", { delayMs: 1 }), { job: child, onFailure }]),
        );
        await end(queue, ids.get(child)!);
        const { ran, read } = working(queue);
        await eventually(() => expect(ran).toContain("other"));
        const byPolicy = {
          fail: async () => {
            const { error, attempts } = await letter(queue, id);
            expect([error?.name, error?.code, attempts]).toEqual(["ChildFailedError", "KIT_JOB_CHILD_FAILED", 0]);
            expect(error?.message).toContain(ids.get(child)!);
            expect(read).toEqual([]);
            // Dropping it deletes what is stored of its children.
            await queue.dropDeadLetters((await queue.deadLetters()).map((one) => one.id));
          },
          ignore: async () => {
            await eventually(() =>
              expect(read).toEqual([
                [expect.objectContaining({ outcome: "completed" }), expect.objectContaining(seen)],
              ]),
            );
            await queue.dropDeadLetters([ids.get(child)!]);
          },
        };
        await byPolicy[onFailure]();
        await isEmpty();
      });

      it("is cancelled while it runs", async () => {
        const queue = make();
        const child = job("hold");
        const { id, ids } = await addFlow(queue, parent("top", [{ job: child, onFailure }]));
        const { ran, read, free } = working(queue);
        await eventually(() => expect(ran).toEqual(["hold"]));
        expect(await cancelJob(manager(), address, ids.get(child)!)).toBe("cancelled");
        await {
          fail: async () => expect((await letter(queue, id)).error?.message).toContain("cancelled"),
          ignore: () => eventually(() => expect(read).toEqual([[expect.objectContaining({ outcome: "cancelled" })]])),
        }[onFailure]();
        free();
      });

      it("crashes too often", async () => {
        const queue = make();
        const child = job("hold");
        const { id, ids } = await addFlow(queue, parent("top", [{ job: child, onFailure }]));
        const { ran, read } = working(queue);
        await eventually(() => expect(ran).toEqual(["hold"]));
        // Repeated, since a heartbeat may come between.
        await eventually(async () => {
          await fixture.crash(1);
          expect((await queue.deadLetters()).map((one) => one.id)).toContain(ids.get(child));
        });
        await {
          fail: async () => expect((await letter(queue, id)).error?.message).toContain(ids.get(child)!),
          ignore: () => eventually(() => expect(read).toEqual([[expect.objectContaining({ outcome: "failed" })]])),
        }[onFailure]();
      });
    });

    it("fails up to its root, with the first error as the cause of each", async () => {
      const queue = make();
      const middle = parent("middle", [job("fail now", { id: 'a "quoted" \\ id' })]);
      const { id, ids } = await addFlow(queue, parent("top", [middle]));
      working(queue);
      const [root, between] = [await letter(queue, id), await letter(queue, ids.get(middle)!)];
      expect(between.error).toMatchObject({
        message: 'Child a "quoted" \\ id did not complete: dead',
        cause: { message: "fail now broke" },
      });
      expect(root.error).toMatchObject({
        message: `Child ${between.id} did not complete: dead`,
        cause: { message: "fail now broke" },
      });
      expect((await inspectFlow(manager(), address, id)).children).toMatchObject([
        { id: between.id, outcome: "failed" },
      ]);
    });

    it("counts a child once, and a redriven parent waits for the children that are open", async () => {
      const queue = make();
      const [failing, open] = [job("fail"), job("open", { delayMs: 600_000 })];
      const { id, ids } = await addFlow(queue, parent("top", [failing, open]));
      const { ran, read, worker } = working(queue);
      await letter(queue, id);
      // The dead child runs again: its parent does not notice.
      await queue.redrive([ids.get(failing)!]);
      await eventually(() => expect(ran).toEqual(["fail", "fail"]));
      await letter(queue, ids.get(failing)!);
      await queue.redrive([id]);
      expect(await stateOf(id)).toBe("waiting-for-children");
      expect(await inspectFlow(manager(), address, id)).toMatchObject({
        open: 1,
        children: [{ outcome: "failed" }, { outcome: "open" }],
      });
      await promoteJob(manager(), address, ids.get(open)!);
      await eventually(() => expect(read).toMatchObject([[{ outcome: "failed" }, { outcome: "completed" }]]));
      await worker.close();
      // With no open child it is ready immediately.
      await queue.dropDeadLetters([ids.get(failing)!]);
      await isEmpty();
    });

    it("is refused as a whole while one of its ids is taken", async () => {
      const queue = make();
      const flow = (): Flow => parent("top", [job("child", { id: "child" })], { id: "root" });
      await queue.add("job", "other", { id: "child" });
      expect(await rejection(addFlow(queue, flow()))).toMatchObject({
        name: "FlowTakenError",
        code: "KIT_QUEUE_FLOW",
        id: "child",
      });
      expect(await fixture.counts()).toMatchObject({ jobs: 1, waiting: 1, delayed: 0 });
      expect(await families()).toBe(0);
      await removeJob(manager(), address, "child");
      const [one, other] = await Promise.allSettled([addFlow(queue, flow()), addFlow(queue, flow())]);
      expect(one).toMatchObject({ status: "fulfilled", value: { id: "root" } });
      expect((other as PromiseRejectedResult).reason).toBeInstanceOf(FlowTakenError);
      expect(await fixture.counts()).toMatchObject({ jobs: 2, waiting: 1, delayed: 1 });
    });

    it("is its own state in counts, lists, reports, metrics and events", async () => {
      const queue = make();
      const events = createQueueEvents(manager(), name, { prefix: redis.prefix });
      redis.defer(() => events.close());
      await events.ready();
      const { id } = await addFlow(queue, parent("top", [job("a"), job("b", { delayMs: 600_000 })]));
      const seen: unknown[] = [];
      for await (const event of events) if (seen.push(event) === 3) break;
      expect(seen).toMatchObject([
        { type: "added", id, state: "waiting-for-children" },
        { type: "added", state: "ready" },
        { type: "added", state: "delayed" },
      ]);
      const { delayed, waitingForChildren, oldestParent, lost, now } = await inspectQueue(manager(), address);
      expect([delayed, waitingForChildren, lost]).toEqual([1, 1, 0]);
      expect(Math.abs(now - oldestParent!)).toBeLessThan(60_000);
      const listed = async (state: "delayed" | "waiting-for-children", from: "start" | "end"): Promise<unknown[]> =>
        (await listJobs(manager(), address, { state, from })).jobs.map((one) => one.id === id);
      for (const from of ["start", "end"] as const) {
        expect(await listed("waiting-for-children", from)).toEqual([true]);
        expect(await listed("delayed", from)).toEqual([false]);
      }
      expect(await inspectJob(manager(), address, id)).toMatchObject({ state: "waiting-for-children", at: null });
      expect(await repairQueue(manager(), address, { run: true })).toEqual([]);
      const metrics = await queueMetrics(manager(), address).metrics();
      expect(metrics.find(({ labels }) => labels?.["state"] === "waiting-for-children")?.value).toBe(1);
      expect(metrics.find(({ name }) => name === "kit_queue_parents_age_seconds")?.value).toBeLessThan(60);
    });

    it("waits while its parent is changed, and the parent keeps the changes", async () => {
      const queue = make();
      const child = job("child");
      const { id, ids } = await addFlow(queue, parent("top", [child]));
      expect(await promoteJob(manager(), address, id)).toBe("delayed");
      expect(await rescheduleJob(manager(), address, id, { delayMs: 1 })).toBe("delayed");
      expect(await setPriority(manager(), address, id, 5)).toBe(true);
      expect(await editJob(manager(), address, id, { data: "top 2", maxAttempts: 3 })).toBe("edited");
      expect(await editJob(manager(), address, ids.get(child)!, { data: "child 2" })).toBe("edited");
      expect(await stateOf(id)).toBe("waiting-for-children");
      const { ran } = working(queue);
      await isEmpty();
      expect(ran).toEqual(["child 2", "top 2"]);
    });

    it.each([
      ["cancelled", () => cancelJob],
      ["removed", () => removeJob],
    ] as const)("has no effect on its children when its parent is %s", async (_how, end) => {
      const queue = make();
      const { id } = await addFlow(queue, parent("top", [job("a"), job("b")]));
      expect(await end()(manager(), address, id)).toBe("removed");
      expect(await families()).toBe(0);
      const { ran } = working(queue);
      await isEmpty();
      expect(new Set(ran)).toEqual(new Set(["a", "b"]));
    });

    it.each([
      ["cancelled", () => cancelJob],
      ["removed", () => removeJob],
    ] as const)("ends below a parent that is %s with its children", async (_how, end) => {
      const queue = make();
      const shared = job("shared", { delayMs: 600_000 });
      const middle = parent("middle", [shared, job("deep")]);
      const { id, ids } = await addFlow(queue, parent("root", [parent("top", [middle, shared]), job("beside")]));
      const [top] = [...ids].flatMap(([{ data }, own]) => (data === "top" ? [own] : []));
      expect(await end()(manager(), address, top!, { children: true })).toBe("removed");
      // What is above it fails; what is beside it runs.
      await letter(queue, id);
      expect(await fixture.counts()).toMatchObject({ jobs: 2, waiting: 1, delayed: 0, dead: 1 });
      const { ran } = working(queue);
      await eventually(() => expect(ran).toEqual(["beside"]));
    });

    it("is cancelled with children that run", async () => {
      const queue = make();
      const { id } = await addFlow(queue, parent("top", [job("hold"), job("a", { delayMs: 600_000 })]));
      const { ran, worker } = working(queue);
      const cancelled: unknown[] = [];
      worker.on("cancelled", ({ job: { data } }) => cancelled.push(data));
      await eventually(() => expect(ran).toEqual(["hold"]));
      expect(await cancelJob(manager(), address, id, { children: true })).toBe("removed");
      await isEmpty();
      await eventually(() => expect(cancelled).toEqual(["hold"]));
    });

    it("is deleted with its parents by a drain of the delayed jobs", async () => {
      const queue = make();
      await addFlow(queue, parent("top", [parent("middle", [job("a", { delayMs: 600_000 })])]));
      await drainQueue(manager(), address, { delayed: true });
      const { jobs, dead, delayed } = await fixture.counts();
      expect([jobs - dead, delayed]).toEqual([0, 0]);
      await queue.dropDeadLetters((await queue.deadLetters()).map(({ id }) => id));
      await isEmpty();
    });

    it("keeps to pauses, limits, priorities and delays", async () => {
      const queue = make();
      await pauseQueue(manager(), address, { name: "job" });
      const { ran } = working(queue, { concurrency: 1 });
      await addFlow(
        queue,
        parent("top", [job("a", { priority: 5 }), job("b"), job("c", { delayMs: 50 })], { delayMs: 1, priority: -1 }),
      );
      await eventually(async () => expect(await fixture.db.zcard(fixture.keysOf().suspended)).toBe(3));
      await setLimits(manager(), address, { names: { job: { concurrency: 1 } } });
      expect(ran).toEqual([]);
      await resumeQueue(manager(), address, { name: "job" });
      await isEmpty();
      expect(ran.at(-1)).toBe("top");
      expect(ran).toHaveLength(4);
      expect(ran.indexOf("a")).toBeGreaterThan(ran.indexOf("b"));
    });

    it("starts a job with lifo ahead of the jobs that wait", async () => {
      const queue = make();
      await queue.add("job", "other");
      await addFlow(queue, parent("top", [job("a"), job("first", { lifo: true })]));
      const { ran } = working(queue, { concurrency: 1 });
      await isEmpty();
      expect(ran).toEqual(["first", "other", "a", "top"]);
    });

    it.each([
      ["delayMs", () => ({ delayMs: 600_000 })],
      ["dueAt", () => ({ dueAt: Date.now() + 600_000 })],
    ])("starts its parent not before its time (%s)", async (_, options) => {
      const queue = make();
      const { id } = await addFlow(queue, parent("top", [job("a")], options()));
      const { ran } = working(queue);
      await eventually(async () => expect(await stateOf(id)).toBe("delayed"));
      expect(ran).toEqual(["a"]);
      await promoteJob(manager(), address, id);
      await isEmpty();
      expect(ran).toEqual(["a", "top"]);
    });

    it("lets an expired child go only by a worker, not for a new job of its id", async () => {
      const queue = make();
      const { id } = await addFlow(queue, parent("top", [job("late", { id: "late", expiresMs: 1 })]));
      await fixture.age("late");
      expect(await queue.addOnce("job", "new", { id: "late" })).toMatchObject({ isAdded: false });
      working(queue);
      expect((await letter(queue, id)).error?.message).toBe("Child late did not complete: expired");
    });

    it("gives a parent that expires its whole time once its children have ended", async () => {
      const queue = make();
      const { id } = await addFlow(queue, parent("top", [job("a")], { expiresMs: 600_000 }));
      await fixture.age(id);
      const { ran } = working(queue);
      await isEmpty();
      expect(ran).toEqual(["a", "top"]);
    });

    it("is forgotten once the dead letter of its parent is too much", async () => {
      const queue = make({ deadLetters: { maxCount: 1 } });
      const { id } = await addFlow(queue, parent("top", [job("a"), job("fail")]));
      expect(await families()).toBe(3);
      working(queue, { concurrency: 1 });
      await eventually(async () => expect(await fixture.counts()).toMatchObject({ jobs: 1, dead: 1, delayed: 0 }));
      await letter(queue, await queue.add("job", "fail"));
      expect(await stateOf(id)).toBe("none");
      expect(await families()).toBe(0);
    });

    it("is in the history of the queue", async () => {
      const queue = make({ history: keepHistory() });
      const { id, ids } = await addFlow(queue, parent("top", [job("a")]));
      working(queue);
      await isEmpty();
      for (const own of [id, ...ids.values()])
        await eventually(async () => expect(await stateOf(own)).toBe("completed"));
    });

    const shared = job("shared");
    it.each<[string, Flow, RegExp]>([
      ["a key", job("a", { unique: { key: "k" } }), /no `unique`/],
      ["an op", parent("top", [job("a", { op: "o" })]), /no `op`/],
      ["a signal", parent("top", [job("a", { signal: new AbortController().signal })]), /no `signal`/],
      ["lifo of a parent", parent("top", [job("a")], { lifo: true }), /no `lifo`/],
      ["a policy that is none", parent("top", [{ job: shared, onFailure: "skip" as never }]), /`onFailure`/],
      ["an id that two jobs have", parent("top", [job("a", { id: "i" }), job("b", { id: "i" })]), /different ids/],
      ["no children", parent("top", "none" as never), /`children` to be an array/],
      [
        "1,001 parents of a job",
        parent(
          "top",
          Array.from({ length: 1_001 }, (_, at) => parent(at, [shared])),
        ),
        /at most 1000 parents/,
      ],
    ])("is refused with %s", async (_, flow, message) => {
      expect(await rejection(addFlow(make(), flow))).toMatchObject({ message: expect.stringMatching(message) });
      expect(await fixture.counts()).toMatchObject(gone);
    });

    it("runs with more jobs than one step adds", async () => {
      const queue = make();
      const { ran } = working(queue, { concurrency: 50 });
      const children = Array.from({ length: 1_100 }, (_, at) => job(`child ${String(at)}`));
      await addFlow(queue, job("last", { id: "root", children }));
      await isEmpty();
      expect([ran.length, ran.at(-1)]).toEqual([1_101, "last"]);
      await queue.add("job", "taken", { id: "root", delayMs: 60_000 });
      expect(await rejection(addFlow(queue, job("last", { id: "root", children })))).toBeInstanceOf(FlowTakenError);
      expect(await fixture.counts()).toMatchObject({ jobs: 1 });
    });

    it("is added before its queue is closed", async () => {
      const queue = make();
      const added = addFlow(queue, parent("top", [job("a")]));
      await queue.close();
      await added;
      expect(await fixture.counts()).toMatchObject({ jobs: 2 });
      expect(await rejection(addFlow(queue, job("b")))).toMatchObject({ code: "KIT_CLOSED" });
    });
  });
});
