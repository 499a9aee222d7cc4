import { eventually, useRedis } from "@kit/testing";
import { aborted, inModes } from "@tooling/vitest/helpers";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { batched, type BatchOptions } from "../src/batch/index.js";
import {
  type Job,
  RateLimitError,
  SnoozeError,
  UnrecoverableError,
  type Worker,
  type WorkOptions,
} from "../src/index.js";
import { cancelJob } from "../src/manage/index.js";
import { fixtureOf, latch, name, permanentKeys } from "./harness.js";

/** Longer than a test: a batch that starts has not waited for this. */
const never = 3_600_000;

/** Handlers of `batched()`, on one server or on a Cluster. */
inModes({}, (mode) => {
  describe(`a batch handler on a ${mode === "cluster" ? "Cluster" : "single server"}`, () => {
    const redis = useRedis(vitest, { mode, permanentKeys });
    const fixture = fixtureOf(redis);
    const { make } = fixture;

    /** A worker whose batches are recorded. */
    const workOn = (
      options: BatchOptions,
      run: (jobs: readonly Job[], signal: AbortSignal) => unknown,
      { queue = make(), ...more }: WorkOptions & { queue?: ReturnType<typeof make> } = {},
    ): { worker: Worker; batches: unknown[][]; failed: unknown[]; add: (count: number) => Promise<string[]> } => {
      const batches: unknown[][] = [];
      const failed: unknown[] = [];
      const job = batched(options, async (jobs: readonly Job[], signal) => {
        batches.push(jobs.map(({ data }) => data));
        return (await run(jobs, signal)) as unknown[];
      });
      const worker = fixture.work(queue, job, { concurrency: 100, ...more });
      worker.on("failed", ({ error }) => failed.push(error));
      const add = (count: number): Promise<string[]> =>
        queue.addAll(Array.from({ length: count }, (_, data) => ({ name: "job", data })));
      return { worker, batches, failed, add };
    };
    const dataOf = (count: number): number[] => Array.from({ length: count }, (_, n) => n);

    it("gets full batches in order, and the rest once waitMs is over", async () => {
      const { batches, add } = workOn({ size: 10, waitMs: 50 }, () => undefined);
      await add(95);
      await fixture.untilEmpty();
      expect(batches.flat().toSorted((a, b) => Number(a) - Number(b))).toEqual(dataOf(95));
      expect(Math.max(...batches.map(({ length }) => length))).toBe(10);
      for (const batch of batches) expect(batch).toEqual(batch.toSorted((a, b) => Number(a) - Number(b)));
    });

    it("starts a full batch immediately, however long waitMs is, and several at a time", async () => {
      const held = latch();
      redis.defer(held.open);
      const { worker, batches, add } = workOn({ size: 20, waitMs: never }, () => held.promise);
      await add(100);
      await eventually(() => expect(batches).toHaveLength(5));
      expect(worker.running).toBe(100);
      held.open();
      await fixture.untilEmpty();
      expect(batches).toHaveLength(5);
    });

    it("has at most as many jobs in a batch as the worker has handlers", async () => {
      const { batches, add } = workOn({ size: 50, waitMs: 20 }, () => undefined, { concurrency: 4 });
      await add(20);
      await fixture.untilEmpty();
      expect(batches.flat()).toHaveLength(20);
      expect(Math.max(...batches.map(({ length }) => length))).toBeLessThanOrEqual(4);
    });

    it("gives each job the outcome that it has in the array", async () => {
      const queue = make({ maxAttempts: 5, backoff: { firstMs: 5, jitter: 0 } });
      const facts: [string, unknown, number][] = [];
      const revoked = Proxy.revocable({}, {});
      revoked.revoke();
      const { worker } = workOn(
        { size: 7, waitMs: 200 },
        (jobs) =>
          jobs.map(({ data, attempt, snoozes }) => {
            if (attempt > 1 || snoozes > 0) return "later";
            if (data === "fails") return new Error("broken");
            if (data === "dies") return new UnrecoverableError("hopeless");
            if (data === "snoozes") return new SnoozeError(5);
            if (data === "limits") return new RateLimitError(5);
            if (data === "revoked") return revoked.proxy;
            return data === "promised" ? Promise.resolve("kept") : { status: "rejected" };
          }),
        { queue },
      );
      for (const event of ["completed", "failed", "snoozed", "dead"] as const)
        worker.on(event, ({ job }) => facts.push([event, job.data, job.attempt]));
      const [value, promised] = [queue.call("job", "value"), queue.call("job", "promised")];
      for (const data of ["revoked", "fails", "dies", "snoozes", "limits"]) await queue.add("job", data);
      expect(await value).toEqual({ status: "rejected" });
      expect(await promised).toBe("kept");
      await fixture.untilEmpty();
      // An event may come after the server is empty.
      await eventually(() => expect(facts.filter(([event]) => event === "completed")).toHaveLength(6));
      const factsOf = (wanted: string): unknown[] =>
        facts.flatMap(([event, data, attempt]) => (data === wanted ? [[event, attempt]] : []));
      for (const wanted of ["fails", "revoked"])
        expect(factsOf(wanted)).toEqual([
          ["failed", 1],
          ["completed", 2],
        ]);
      expect(factsOf("dies")).toEqual([
        ["failed", 1],
        ["dead", 1],
      ]);
      for (const wanted of ["snoozes", "limits"])
        expect(factsOf(wanted)).toEqual([
          ["snoozed", 1],
          ["completed", 1],
        ]);
    });

    it("fails all jobs of a batch that throws, or returns another number of outcomes", async () => {
      const thrown = new Error("no database");
      for (const run of [
        () => {
          throw thrown;
        },
        () => [1, 2],
        () => "done",
      ]) {
        const { worker, failed, add } = workOn({ size: 3, waitMs: never }, run);
        await add(3);
        await eventually(() => expect(failed).toHaveLength(3));
        expect(
          failed.every(
            (error) => error === thrown || String(error).startsWith("TypeError: Expected a batch of 3 jobs"),
          ),
        ).toBe(true);
        await worker.close();
      }
      expect((await fixture.counts()).dead).toBe(9);
    });

    it("loses a job that is cancelled or times out while its batch gathers, and no other", async () => {
      const queue = make();
      const { worker, batches, failed } = workOn({ size: 4, waitMs: never }, () => undefined, { queue, leaseMs: 300 });
      await queue.add("job", "late", { timeoutMs: 100 });
      await eventually(() => expect(failed.map(String)).toEqual([expect.stringMatching(/^JobTimeoutError/)]));
      const id = await queue.add("job", "cancelled");
      await eventually(() => expect(worker.running).toBe(1));
      expect(await cancelJob(redis.client, { queue: name, prefix: redis.prefix }, id)).toBe("cancelled");
      await eventually(() => expect(worker.running).toBe(0));
      await queue.addAll(dataOf(4).map((data) => ({ name: "job", data })));
      await fixture.untilEmpty();
      expect(batches).toEqual([dataOf(4)]);
    });

    it("aborts the signal of a batch when the signals of all its jobs have aborted", async () => {
      const queue = make();
      const signals: AbortSignal[] = [];
      const held = latch();
      redis.defer(held.open);
      const { failed } = workOn(
        { size: 2, waitMs: never },
        async (jobs, signal) => {
          signals.push(...jobs.map((job) => job.signal), signal);
          await held.promise;
        },
        { queue },
      );
      await queue.add("job", 0, { timeoutMs: 300 });
      await queue.add("job", 1, { timeoutMs: 1_500 });
      await eventually(() => expect(signals).toHaveLength(3));
      await aborted(signals[0]!);
      expect(signals.map((signal) => signal.aborted)).toEqual([true, false, false]);
      const reason = await aborted(signals[2]!);
      expect(reason).toBe(signals[1]!.reason);
      held.open();
      await eventually(() => expect(failed).toHaveLength(2));
    });

    it("hands gathering jobs back immediately when the worker closes, and lets a running batch end", async () => {
      const held = latch();
      redis.defer(held.open);
      const { worker, batches, add } = workOn({ size: 10, waitMs: never }, () => held.promise);
      await add(14);
      await eventually(() => expect([worker.running, batches.length]).toEqual([14, 1]));
      const closing = worker.close({ timeoutMs: never });
      await eventually(async () => expect(await fixture.counts()).toMatchObject({ waiting: 4, leases: 10 }));
      held.open();
      await closing;
      expect(await fixture.counts()).toMatchObject({ jobs: 4, waiting: 4, failures: 0 });
    });

    it("accepts no job whose signal has aborted, and hands a job back whose worker is closing", async () => {
      const queue = make();
      const ran: unknown[] = [];
      const batch = batched({ size: 1 }, (jobs: readonly Job[]) => void ran.push(...jobs.map(({ data }) => data)));
      const handler = async (job: Job): Promise<void> => {
        await aborted(job.data === "closing" ? job.closing : job.signal);
        await batch(job);
      };
      const worker = fixture.work(queue, handler, { concurrency: 2, leaseMs: 300 });
      const [id = ""] = await queue.addAll(["cancelled", "closing"].map((data) => ({ name: "job", data })));
      await eventually(() => expect(worker.running).toBe(2));
      expect(await cancelJob(redis.client, { queue: name, prefix: redis.prefix }, id)).toBe("cancelled");
      await eventually(() => expect(worker.running).toBe(1));
      await worker.close({ timeoutMs: never });
      expect(await fixture.counts()).toMatchObject({ jobs: 1, waiting: 1, failures: 0 });
      expect(ran).toEqual([]);
    });

    it("refuses wrong options at the call", () => {
      for (const wrong of [{ size: 0 }, { size: 1.5 }, { size: 10_001 }, { waitMs: 5 }, { size: 1, waitMs: -1 }, null])
        expect(() => batched(wrong as BatchOptions, () => undefined)).toThrow(/^Expected `/);
      expect(() => batched({ size: 1 }, 5 as never)).toThrow("Expected `run` to be a function, got number");
    });
  });
});
