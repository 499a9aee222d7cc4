import { eventually, useRedis } from "@kit/testing";
import { tracingChannel } from "node:diagnostics_channel";
import { inspect } from "node:util";
import { guardUsers, inModes, onMovingSlots, rejection } from "@tooling/vitest/helpers";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { CallTimeoutError, type CallOptions, JobFailedError, JobOutcomeLostError } from "../src/index.js";
import * as looks from "../src/manage/scripts.js";
import * as scripts from "../src/store/scripts/index.js";
import { keyHead, repliesKey } from "../src/job/keys.js";
import { user } from "./acl.js";
import { fixtureOf, latch, name, permanentKeys, type QueueFixture } from "./harness.js";

/** Jobs whose callers wait for their outcome, on one server or on a Cluster. */
inModes({ single: user.login }, (mode, login) => {
  const where = mode === "cluster" ? "Cluster" : "single server";
  describe(`a job that is called on a ${where}${login ? ", by an ACL user" : ""}`, () => {
    const redis = useRedis(vitest, { mode, permanentKeys, args: login ? user.serverArgs(mode) : [] });
    if (login) guardUsers(redis);
    onMovingSlots(redis, { ...looks, ...scripts });
    let lazy: QueueFixture | undefined;
    const fixture = (): QueueFixture => (lazy ??= fixtureOf(redis, login));
    const make: QueueFixture["make"] = (options) => fixture().make(options);
    const work: QueueFixture["work"] = (...args) => fixture().work(...args);
    const replies = async (): Promise<string[]> => (await redis.keys()).filter((key) => key.includes(":replies:"));
    const untilForgotten = (): Promise<void> => eventually(async () => expect(await replies()).toEqual([]));
    const onEachNode = (...command: readonly string[]): Promise<unknown> =>
      Promise.all(redis.server.nodes.map((node) => node.call(...(command as [string, ...string[]]))));

    it("resolves with its handler's result, of every kind, and leaves no key", async () => {
      const queue = make();
      const bytes = Buffer.from([0, 255, 10, 13, 128]);
      const results = [undefined, null, 0, false, "", [], { "\u{1f600}": "\n\t\0é" }, "x".repeat(200_000), bytes];
      work(queue, async ({ data }) => Promise.resolve(results[data as number]));
      // So many calls that the test would time out if outcomes were only looked up, not pushed.
      for (let round = 0; round < 4; round++)
        for (const [index, result] of results.entries()) expect(await queue.call("job", index)).toEqual(result);
      await untilForgotten();
      expect(await fixture().counts()).toMatchObject({ jobs: 0, leases: 0, failures: 0, dead: 0 });
    });

    it("gives each of many callers its own result, through several queue objects and workers", async () => {
      const queues = [make(), make(), fixture().on(fixture().connect())];
      for (const queue of queues) work(queue, ({ data }) => `result of ${String(data)}`, { concurrency: 10 });
      const options: readonly CallOptions[] = [{}, { priority: 3 }, { delayMs: 20 }, { lifo: true }];
      const numbers = Array.from({ length: 300 }, (_, index) => index);
      const results = await Promise.all(
        numbers.map((index) => queues[index % 3]!.call("job", index, options[index % 4])),
      );
      expect(results).toEqual(numbers.map((index) => `result of ${String(index)}`));
      await untilForgotten();
    });

    it("is retried like any other, and rejects with its facts once it is a dead letter", async () => {
      const queue = make({ maxAttempts: 3, backoff: { firstMs: 5, jitter: 0 } });
      work(queue, ({ data, attempt }) => {
        if (data === "broken" || attempt < 3) throw new RangeError(`attempt ${String(attempt)}`);
        return "third time";
      });
      expect(await queue.call("job", "flaky")).toBe("third time");
      const failed = (await rejection(queue.call("job", "broken"))) as JobFailedError;
      expect(failed).toBeInstanceOf(JobFailedError);
      const [letter] = await queue.deadLetters();
      expect(failed).toMatchObject({ code: "KIT_JOB_FAILED", job: "job", id: letter!.id, attempts: 3, crashes: 0 });
      expect(failed.error).toMatchObject({ name: "RangeError", message: "attempt 3" });
      expect(failed.message).toBe(`The "job" job "${failed.id}" became a dead letter: attempt 3`);
      const unknown = queue.call("late", 1);
      // The worker of its name comes later.
      await eventually(async () => expect((await fixture().counts()).delayed).toBe(1));
      queue.work({ late: () => "late" });
      expect(await unknown).toBe("late");
      await untilForgotten();
    });

    it("rejects when dead letters are not kept, and when its result cannot be sent, though it is done", async () => {
      const queue = make({ deadLetters: { maxCount: 0 }, maxPayloadBytes: 1_000 });
      const completed: string[] = [];
      const worker = work(queue, ({ data }) => {
        if (data === "fails") throw new Error("no");
        return data === "bigint" ? 10n : "x".repeat(2_000);
      });
      worker.on("completed", ({ job }) => completed.push(job.data as string));
      expect(await rejection(queue.call("job", "fails"))).toMatchObject({ code: "KIT_JOB_FAILED", attempts: 1 });
      for (const data of ["bigint", "large"])
        expect(await rejection(queue.call("job", data))).toMatchObject({
          code: "KIT_JOB_RESULT",
          message: expect.stringMatching(/ completed, but its result cannot be sent: The result of a "job" job /),
          error: { code: "KIT_QUEUE_PAYLOAD" },
        });
      await eventually(() => expect(completed).toEqual(["bigint", "large"]));
      expect(await fixture().counts()).toMatchObject({ jobs: 0, dead: 0 });
      await untilForgotten();
    });

    it("stays in the queue when its caller gives up, and its outcome is then not kept", async () => {
      const queue = make();
      const { signal, abort } = ((controller) => ({
        signal: controller.signal,
        abort: (reason: Error) => controller.abort(reason),
      }))(new AbortController());
      const late = (await rejection(queue.call("job", 1, { waitMs: 20 }))) as CallTimeoutError;
      expect(late).toBeInstanceOf(CallTimeoutError);
      expect(late).toMatchObject({ code: "KIT_QUEUE_CALL_TIMEOUT", waitMs: 20 });
      const given = rejection(queue.call("job", 2, { signal }));
      await eventually(async () => expect((await fixture().counts()).jobs).toBe(2));
      const reason = new Error("no longer needed");
      abort(reason);
      expect(await given).toBe(reason);
      expect(await rejection(queue.call("job", 3, { signal }))).toBe(reason);
      expect((await fixture().counts()).waiting).toBe(2);
      const ran: unknown[] = [];
      work(queue, ({ id, data }) => (ran.push(id, data), "too late"));
      expect(await queue.call("job", 4)).toBe("too late");
      expect(ran).toMatchObject([late.id, 1, expect.any(String), 2, expect.any(String), 4]);
      await untilForgotten();
    });

    it("leaves no outcome when its caller gave up, and the push was lost", async () => {
      const queue = make();
      const { jobs, waiting } = fixture().keysOf();
      const { id } = (await rejection(queue.call("job", 1, { waitMs: 50 }))) as CallTimeoutError;
      // Ends the job as a worker does that may not publish.
      const [, caller = ""] = / r[^ .]+\.(\w+)/.exec(String(await fixture().db.hget(jobs, id))) ?? [];
      const key = repliesKey(keyHead(redis.prefix, name), caller);
      await fixture().db.hset(key, id, "j1");
      await fixture().db.pexpire(key, 600_000);
      await fixture().db.hdel(jobs, id);
      await fixture().db.del(waiting);
      await eventually(async () => expect(await replies()).toEqual([]), { timeoutMs: 20_000 });
    });

    it("leaves an outcome that expires if its caller died", async () => {
      const client = fixture().connect();
      const queue = fixture().on(client);
      const lost = rejection(queue.call("job", 1));
      await eventually(async () => expect((await fixture().counts()).jobs).toBe(1));
      client.disconnect();
      const { promise, open } = latch();
      const worker = work(make(), () => promise);
      await eventually(() => expect(worker.running).toBe(1));
      open();
      await fixture().untilEmpty();
      const [key = ""] = await replies();
      expect(await fixture().db.hlen(key)).toBe(1);
      const leftMs = await fixture().db.pttl(key);
      expect(leftMs).toBeGreaterThan(0);
      expect(leftMs).toBeLessThanOrEqual(600_000);
      await queue.close({ timeoutMs: 0 });
      expect(await lost).toMatchObject({ code: expect.stringMatching(/^KIT_/) as string });
    });

    it("delivers its outcome after pushes were lost", async () => {
      const [queue, { promise, open }] = [make(), latch()];
      const first = work(queue, () => "warm");
      expect(await queue.call("job", 0)).toBe("warm");
      await first.close();
      const worker = work(queue, () => promise.then(() => "found"));
      const call = queue.call("job", 1);
      await eventually(() => expect(worker.running).toBe(1));
      // The connection is gone when the outcome is published; its successor looks the outcome up.
      await onEachNode("CLIENT", "KILL", "TYPE", "pubsub");
      open();
      expect(await call).toBe("found");
      await untilForgotten();
    });

    it("rejects when it is gone without an outcome, and when its queue is closed", async () => {
      const queue = make();
      const { jobs, delayed } = fixture().keysOf();
      const gone = rejection(queue.call("job", 1, { delayMs: 600_000 }));
      await eventually(async () => expect((await fixture().counts()).delayed).toBe(1));
      await fixture().db.del(jobs);
      await fixture().db.del(delayed);
      await onEachNode("CLIENT", "KILL", "TYPE", "pubsub");
      expect(await gone).toBeInstanceOf(JobOutcomeLostError);
      const closed = rejection(queue.call("job", 1, { delayMs: 600_000 }));
      await eventually(async () => expect((await fixture().counts()).delayed).toBe(1));
      await queue.close();
      expect(await closed).toMatchObject({ code: "KIT_CLOSED" });
      expect(await rejection(queue.call("job", 1))).toMatchObject({ code: "KIT_CLOSED" });
    });

    it("shows neither its data nor its result nor dead letters in traces", async () => {
      const queue = make();
      const told: unknown[] = [];
      for (const name of ["kit:queue.call", "kit:queue.deadLetters"]) {
        const { asyncEnd } = tracingChannel(name);
        const keep = (context: unknown): unknown => told.push([name, { ...(context as object) }]);
        asyncEnd.subscribe(keep);
        redis.defer(() => asyncEnd.unsubscribe(keep));
      }
      work(queue, ({ data }) => {
        if (data !== "secret") throw new Error("no");
        return { token: "secret" };
      });
      expect(await queue.call("job", "secret")).toEqual({ token: "secret" });
      await rejection(queue.call("job", "secret too"));
      expect(await queue.deadLetters()).toMatchObject([{ data: "secret too" }]);
      expect(told).toHaveLength(3);
      expect(inspect(told, { depth: 9 })).not.toContain("secret");
    });
  });
});
