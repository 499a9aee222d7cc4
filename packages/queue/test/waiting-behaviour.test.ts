import { eventually, useRedis } from "@kit/testing";
import { guardUsers, inModes, onMovingSlots, rejection } from "@tooling/vitest/helpers";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { batched } from "../src/batch/index.js";
import { createQueueEvents } from "../src/events/index.js";
import { addFlow, type FlowChild, readChildren, WaitForChildren } from "../src/flows/index.js";
import * as adding from "../src/flows/scripts/index.js";
import { type DeadLetter, type Job, type Queue, type QueueOptions, UnrecoverableError } from "../src/index.js";
import { cancelJob, inspectJob, promoteJob, setLimits } from "../src/manage/index.js";
import { readCheckpoint, saveCheckpoint } from "../src/progress/index.js";
import { user } from "./acl.js";
import { fixtureOf, latch, name, permanentKeys } from "./harness.js";

type Child = ConstructorParameters<typeof WaitForChildren>[0][number];

const noObjects: NonNullable<NonNullable<QueueOptions["schemas"]>[string]> = {
  "~standard": {
    version: 1,
    vendor: "test",
    validate: (value) => (typeof value === "object" ? { issues: [{ message: "an object" }] } : { value }),
  },
};

/** Jobs that add their own children, on one server or on a Cluster. */
inModes({ single: user.login }, (mode, login) => {
  const where = mode === "cluster" ? "Cluster" : "single server";
  describe(`a job that waits for children on a ${where}${login ? ", by an ACL user" : ""}`, () => {
    const redis = useRedis(vitest, { mode, permanentKeys, args: login ? user.serverArgs(mode) : [] });
    if (login) guardUsers(redis);
    onMovingSlots(redis, adding);
    const fixture = fixtureOf(redis, login);
    const { address, make } = fixture;
    const manager = () => fixture.db;
    const job = (data: unknown, options: object = {}): Child => ({ name: "job", data, ...options }) as unknown as Child;
    const families = (): Promise<number> => fixture.db.hlen(fixture.keysOf().families);
    const isEmpty = async (): Promise<void> => {
      await fixture.untilEmpty();
      expect(await fixture.counts()).toMatchObject({ dead: 0 });
      expect(await families()).toBe(0);
    };
    const letter = async (queue: Queue, id: string): Promise<DeadLetter> =>
      await eventually(async () => {
        const found = (await queue.deadLetters()).find((one) => one.id === id);
        if (!found) throw new Error("it is not dead");
        return found;
      });
    const childrenOf = async (taken: Job): Promise<readonly FlowChild[]> => (await readChildren(taken)).children;

    /** What a job has that adds children until it has as many as its data says, then ends with their results. */
    const ends =
      (children: (round: number) => readonly Child[], rounds = 1, wants: "throw" | "return" = "throw") =>
      async (taken: Job): Promise<unknown> => {
        const { round = 0 } = (await readCheckpoint<{ round: number }>(taken)) ?? {};
        if (round === rounds) return (await childrenOf(taken)).map(({ outcome, result }) => result ?? outcome);
        await saveCheckpoint(taken, { round: round + 1 });
        const wish = new WaitForChildren(children(round));
        if (wants === "throw") throw wish;
        return wish;
      };
    /** Jobs named `top` wait; those named `job` return their data, or fail. */
    const working = (queue: Queue, top: (taken: Job) => unknown, options: object = {}) => {
      const runs: Job[] = [];
      const run = (taken: Job): unknown => {
        runs.push(taken);
        return taken.name === "top" ? top(taken) : child(taken);
      };
      const child = ({ data }: Job): unknown => {
        if (data === "fail") throw new UnrecoverableError("it broke");
        return data;
      };
      const worker = queue.work({ top: run, job: run }, { abortGraceMs: 100, ...options });
      return { worker, runs, namesOf: () => runs.map(({ name: own, data }) => (own === "top" ? own : data)) };
    };

    it.each(["throw", "return"] as const)(
      "runs again with the results of all rounds, without an attempt or a snooze (%s)",
      async (wants) => {
        const queue = make();
        const page = (round: number): Child[] => [job(round), job(10 + round)];
        const { runs, worker } = working(queue, ends(page, 12, wants), { maxSnoozes: 0 });
        const snoozed: unknown[] = [];
        worker.on("snoozed", ({ job: { name: own }, error, retryInMs }) => snoozed.push([own, error, retryInMs]));
        const result = await queue.call("top", undefined, { waitMs: 20_000 });
        expect(result).toEqual(Array.from({ length: 12 }, (_, round) => [round, 10 + round]).flat());
        const tops = runs.filter(({ name: own }) => own === "top");
        expect(tops.map(({ attempt, snoozes, crashes }) => [attempt, snoozes, crashes])).toEqual(
          Array.from({ length: 13 }, () => [1, 0, 0]),
        );
        expect(runs).toHaveLength(13 + 24);
        expect(snoozed).toEqual(Array.from({ length: 12 }, () => ["top", expect.any(WaitForChildren), Infinity]));
        await isEmpty();
      },
    );

    it("waits in its own state, and leaves its worker free for its children", async () => {
      const queue = make();
      const events = createQueueEvents(manager(), name, { prefix: redis.prefix });
      redis.defer(() => events.close());
      await events.ready();
      const later = job("later", { delayMs: 600_000, id: "later" });
      const { namesOf } = working(
        queue,
        ends(() => [later, job("now")]),
        { concurrency: 1, strict: true, ack: "each" },
      );
      const id = await queue.add("top", undefined);
      await eventually(() => expect(namesOf()).toEqual(["top", "now"]));
      expect(await inspectJob(manager(), address, id)).toMatchObject({ state: "waiting-for-children" });
      const seen: unknown[] = [];
      for await (const event of events) if (seen.push(event) === 5) break;
      expect(seen).toMatchObject([
        { type: "added", id, state: "ready" },
        { type: "active", id },
        { type: "added", id: "later", state: "delayed" },
        { type: "added", state: "ready" },
        { type: "delayed", id },
      ]);
      expect(await cancelJob(manager(), address, "later")).toBe("removed");
      expect((await letter(queue, id)).error).toMatchObject({ code: "KIT_JOB_CHILD_FAILED" });
    });

    it("is handed the failures that it ignores, and fails with the others", async () => {
      const queue = make();
      const failing = (onFailure: "fail" | "ignore") => [{ job: job("fail") as never, onFailure }, job("good")];
      const { worker } = working(
        queue,
        ends(() => failing("ignore")),
      );
      expect(await queue.call("top", undefined, { waitMs: 10_000 })).toEqual(["failed", "good"]);
      await worker.close();
      working(
        queue,
        ends(() => failing("fail")),
      );
      const error = await rejection(queue.call("top", undefined, { waitMs: 10_000 }));
      expect(error).toMatchObject({
        code: "KIT_JOB_FAILED",
        error: { code: "KIT_JOB_CHILD_FAILED", cause: { message: "it broke" } },
      });
    });

    it("adds children after its first children, even below shared ones", async () => {
      const queue = make();
      const shared = { name: "top", data: "shared", id: "shared" };
      const { runs } = working(queue, async (taken) => {
        const before = (await childrenOf(taken)).map(({ result }) => result);
        if (taken.data !== "shared" || before.length > 2) return before;
        const deep = job("deep");
        throw new WaitForChildren([deep, { ...job(`below ${String(before.length)}`), children: [deep] } as Child]);
      });
      const flow = { name: "top", data: "root", children: [{ ...shared, children: [job("first")] }] };
      await addFlow(queue, flow as never);
      await isEmpty();
      const last = runs.at(-1)!;
      expect([last.name, last.data]).toEqual(["top", "root"]);
      expect(runs.map(({ data }) => data)).toEqual(["first", "shared", "deep", "below 1", "shared", "root"]);
    });

    it("fails an attempt whose children cannot be added, and adds none of them", async () => {
      const queue = make({
        maxPayloadBytes: 1_000,
        schemas: { job: noObjects },
      });
      await queue.add("job", "taken", { id: "taken", delayMs: 600_000 });
      const circle: { name: string; data: string; children: unknown[] } = { name: "job", data: "a", children: [] };
      circle.children.push(circle);
      const wrong: Readonly<Record<string, () => unknown>> = {
        KIT_QUEUE_FLOW: () => [job("fine"), job("x", { id: "taken" })],
        "at most 1000": () => Array.from({ length: 1_001 }, () => job(1)),
        "got job -> job": () => [circle],
        "more than the maximum": () => [job("x".repeat(2_000))],
        "match its schema": () => [job({ no: "text" })],
        "at least one": () => [],
        "Expected `children` to be an array": () => "children",
      };
      working(queue, ({ data }) => {
        throw new WaitForChildren(wrong[data as string]!() as never);
      });
      for (const reason of Object.keys(wrong)) {
        const { error } = await letter(queue, await queue.add("top", reason));
        expect(JSON.stringify(error)).toContain(reason);
      }
      expect(await fixture.counts()).toMatchObject({ jobs: 1 + 7, delayed: 1, waiting: 0, leases: 0 });
      expect(await families()).toBe(0);
    });

    it("adds no child once its job is cancelled, or its lease has ended", async () => {
      const queue = make();
      const held = latch();
      redis.defer(() => held.open());
      const handler = async ({ crashes }: Job): Promise<void> => {
        if (crashes > 0) return;
        await held.promise;
        throw new WaitForChildren([job("child")]);
      };
      const { worker, runs } = working(queue, handler, { concurrency: 2, strict: true });
      const events: unknown[] = [];
      for (const type of ["lost", "cancelled", "snoozed"] as const)
        worker.on(type, ({ job: { id } }) => events.push([type, id]));
      const [cancelled, lost] = await queue.addAll([{ name: "top" }, { name: "top" }]);
      await eventually(() => expect(runs).toHaveLength(2));
      expect(await cancelJob(manager(), address, cancelled!)).toBe("cancelled");
      await eventually(async () => {
        await fixture.crash(5);
        expect((await inspectJob(manager(), address, lost!)).crashes).toBeGreaterThan(0);
      });
      held.open();
      await eventually(() => expect(events).toHaveLength(2));
      expect(new Set(events)).toEqual(
        new Set([
          ["cancelled", cancelled],
          ["lost", lost],
        ]),
      );
      await isEmpty();
      expect(runs).toHaveLength(3);
    });

    it("keeps its key while it waits: a later job of the key starts after it", async () => {
      const queue = make();
      const done = latch();
      redis.defer(() => done.open());
      const ran: unknown[] = [];
      queue.work(
        {
          top: async (taken) => {
            ran.push(taken.data);
            if (taken.data !== "first" || (await childrenOf(taken)).length > 0) return;
            throw new WaitForChildren([{ name: "job", data: "child" }]);
          },
          job: async ({ data }) => {
            await done.promise;
            ran.push(data);
          },
        },
        { concurrency: 5 },
      );
      const unique = { key: "page", mode: "keepLast" } as const;
      const { id } = await queue.addOnce("top", "first", { unique });
      await eventually(async () =>
        expect(await inspectJob(manager(), address, id)).toMatchObject({ state: "waiting-for-children" }),
      );
      expect(await queue.addOnce("top", "second", { unique })).toMatchObject({ isAdded: true });
      expect(await queue.addOnce("top", "third", { unique })).toMatchObject({ isReplaced: true });
      done.open();
      await isEmpty();
      expect(ran).toEqual(["first", "child", "first", "third"]);
    });

    it("lets the later job of its key start when it fails with a child", async () => {
      const queue = make();
      const child = job("child", { id: "child", delayMs: 600_000 });
      const { namesOf } = working(queue, ({ data }) => {
        if (data === "first") throw new WaitForChildren([child]);
      });
      const unique = { key: "page", mode: "keepLast" } as const;
      const { id } = await queue.addOnce("top", "first", { unique });
      await eventually(async () =>
        expect(await inspectJob(manager(), address, id)).toMatchObject({ state: "waiting-for-children" }),
      );
      await queue.addOnce("top", "second", { unique });
      await cancelJob(manager(), address, "child");
      await eventually(() => expect(namesOf()).toEqual(["top", "top"]));
      await letter(queue, id);
    });

    it("has started, so it does not expire while it waits", async () => {
      const queue = make();
      const { namesOf } = working(queue, async (taken) => {
        if ((await childrenOf(taken)).length > 0) return;
        throw new WaitForChildren([job("child", { id: "child", delayMs: 600_000 })]);
      });
      const id = await queue.add("top", undefined, { expiresMs: 600_000 });
      await eventually(async () => expect(await fixture.counts()).toMatchObject({ delayed: 2, leases: 0 }));
      await fixture.age(id);
      const { jobs, failures } = fixture.keysOf();
      // A job without a record counts as never taken.
      expect(await fixture.db.hget(failures, id)).toBe("0\t0\t");
      // All of its time is over, from whichever instant it counts.
      await fixture.db.hset(jobs, id, (await fixture.db.hget(jobs, id))!.replace(/ e\d+/, " e1"));
      await promoteJob(manager(), address, "child");
      await isEmpty();
      expect(namesOf()).toEqual(["top", "child", "top"]);
    });

    it("frees its place under limits of the queue and of its name", async () => {
      const queue = make();
      await setLimits(manager(), address, { concurrency: 1, names: { top: { concurrency: 1 } } });
      const { named, leases } = fixture.keysOf();
      const { namesOf, worker } = working(
        queue,
        ends(() => [job("child")], 3),
        { concurrency: 5 },
      );
      const counts: Promise<unknown>[] = [];
      worker.on("snoozed", () => counts.push(fixture.db.multi().zcard(named).zcard(leases).exec()));
      await queue.addAll([{ name: "top" }, { name: "top", priority: 5 }]);
      await isEmpty();
      expect(namesOf().filter((one) => one === "child")).toHaveLength(6);
      const found = (await Promise.all(counts)) as (readonly [
        readonly [unknown, number],
        readonly [unknown, number],
      ])[];
      expect(found.filter(([[, ofNames], [, active]]) => ofNames > active)).toEqual([]);
      expect(found).toHaveLength(6);
      expect(await fixture.db.zcard(named)).toBe(0);
    });

    it("is recorded before its worker closes", async () => {
      const queue = make();
      const { runs, worker } = working(
        queue,
        ends(() => [job("child", { delayMs: 600_000 })]),
      );
      const id = await queue.add("top", undefined);
      await eventually(() => expect(runs).toHaveLength(1));
      await worker.close();
      expect(await inspectJob(manager(), address, id)).toMatchObject({ state: "waiting-for-children" });
      expect(await fixture.counts()).toMatchObject({ leases: 0, failures: 0 });
    });

    it("has its own children, although it shares the error with the other jobs of its batch", async () => {
      const queue = make();
      const batches: number[] = [];
      const ran: unknown[] = [];
      const top = batched<string, unknown, unknown>({ size: 2, waitMs: 5_000 }, async (taken) => {
        batches.push(taken.length);
        const [first] = taken;
        if ((await childrenOf(first!)).length === 0) throw new WaitForChildren([job("a"), job("b")]);
        return await Promise.all(taken.map(async (one) => (await childrenOf(one)).map(({ result }) => result)));
      });
      queue.work({ top: top as never, job: ({ data }) => ran.push(data) && data }, { concurrency: 10 });
      const results = await Promise.all([
        queue.call("top", 1, { waitMs: 20_000 }),
        queue.call("top", 2, { waitMs: 20_000 }),
      ]);
      expect(results).toEqual([
        ["a", "b"],
        ["a", "b"],
      ]);
      expect([batches, ran.length]).toEqual([[2, 2], 4]);
    });
  });
});
