import { createHash } from "node:crypto";
// oxlint-disable-next-line kit/no-sleep -- A handler that works until its signal aborts.
import { setTimeout as pause } from "node:timers/promises";
import { inspect } from "node:util";
import { fromNodeRedis } from "@kit/core/node-redis";
import { eventually, useRedis } from "@kit/testing";
import { aborted, guardUsers, inModes, onMovingSlots, rejection } from "@tooling/vitest/helpers";
import { onNodeRedis } from "@tooling/vitest/node-redis";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import {
  type AddedOnce,
  type AddOptions,
  type Job,
  JobPayloadError,
  JobTimeoutError,
  QueueFullError,
  RateLimitError,
  SnoozeError,
  UnrecoverableError,
  type Worker,
  type WorkerEvents,
} from "../src/index.js";
import { type QueueAddress, setPriority } from "../src/manage/index.js";
import { answeredKey, keyHead, onceKeys, repliesKey, takenKey } from "../src/job/keys.js";
import * as deadScripts from "../src/dead/scripts.js";
import * as looks from "../src/manage/scripts.js";
import * as scripts from "../src/store/scripts/index.js";
import { grouped } from "../src/store/grouped/index.js";
import { user } from "./acl.js";
import { fixtureOf, latch, name, permanentKeys, type QueueFixture, Runs } from "./harness.js";

/** By other names than the scripts for queues without groups. */
const ofGroups = Object.fromEntries(Object.entries(grouped).map(([script, own]) => [`${script} of groups`, own]));

/** The next event of a kind. */
const next = <Name extends "completed" | "failed" | "snoozed" | "dead" | "crashed" | "lost">(
  worker: Worker,
  event: Name,
): Promise<unknown> => new Promise((resolve) => worker.once(event, (...[fact]: WorkerEvents[Name]) => resolve(fact)));

/**
 * The behaviour of a queue, on one server or on a Cluster. With a `login` the queue works as that user; besides the user of the
 * tests the server has no other.
 */
inModes({ single: user.loginForText, nodeRedis: onNodeRedis(user.login, fromNodeRedis) }, (mode, login) => {
  const where = mode === "cluster" ? "Cluster" : "single server";
  describe(`a queue on a ${where}${login ? ", as its ACL user" : ""}`, () => {
    const redis = useRedis(vitest, { mode, permanentKeys, args: login ? user.serverArgs(mode) : [] });
    if (login) guardUsers(redis);
    const slots = onMovingSlots(redis, { ...looks, ...scripts, ...deadScripts, ...ofGroups });
    let lazy: QueueFixture | undefined;
    const fixture = (): QueueFixture => (lazy ??= fixtureOf(redis, login));
    const make: QueueFixture["make"] = (options) => fixture().make(options);
    const work: QueueFixture["work"] = (...args) => fixture().work(...args);
    const serverMs = async (): Promise<number> => {
      const [seconds, micros] = (await (await fixture().nodeOf()).call("TIME")) as [string, string];
      return Number(seconds) * 1_000 + Number(micros) / 1_000;
    };

    const address = (): QueueAddress => ({ queue: "mail", prefix: redis.prefix });

    describe("adding and working", () => {
      it("runs jobs in the order in which they were added, even before the worker started, and leaves nothing", async () => {
        const [queue, runs] = [make(), new Runs()];
        for (let index = 0; index < 5; index++) await queue.add("job", index);
        const worker = work(queue, runs.handler);
        await runs.until(5);
        await Promise.all(Array.from({ length: 100 }, (_, index) => queue.add("job", index + 5)));
        await runs.until(105);
        expect(runs.data).toEqual(Array.from({ length: 105 }, (_, index) => index));
        await worker.close();
        expect(await fixture().counts()).toEqual({
          jobs: 0,
          waiting: 0,
          prioritised: 0,
          delayed: 0,
          leases: 0,
          failures: 0,
          dead: 0,
        });
      });

      it("adds ten thousand jobs in one call, in order", async () => {
        const [queue, runs] = [make(), new Runs()];
        const data = Array.from({ length: 10_000 }, (_, index) => index);
        const ids = await queue.addAll(data.map((one) => ({ name: "job", data: one })));
        expect(new Set(ids).size).toBe(10_000);
        work(queue, runs.handler);
        await runs.until(10_000);
        expect(runs.data).toEqual(data);
        expect(await queue.addAll([])).toEqual([]);
      });

      it("adds none of several jobs when one is invalid or has no room", async () => {
        const queue = make({ maxPayloadBytes: 100, maxPending: 5 });
        const jobs = [
          { name: "job", data: 1 },
          { name: "job", data: "x".repeat(200) },
        ];
        expect(await rejection(queue.addAll(jobs))).toBeInstanceOf(JobPayloadError);
        const five = Array.from({ length: 5 }, () => ({ name: "job", data: 2 }));
        const sent = queue.add("job", 3);
        await Promise.resolve();
        const [, , refused] = await Promise.all([sent, queue.add("job", 4), rejection(queue.addAll(five))]);
        expect(refused).toBeInstanceOf(QueueFullError);
        expect((await fixture().counts()).jobs).toBe(2);
        expect(await queue.addAll([...five, ...five])).toHaveLength(10);
      });

      it("adds several jobs in one step, though others are added with them", async () => {
        const queue = make();
        const { jobs } = fixture().keysOf();
        const sizes: unknown[] = [];
        const first = queue.add("job");
        await Promise.resolve();
        const singles = Array.from({ length: 400 }, () => queue.add("job"));
        const many = queue.addAll(Array.from({ length: 900 }, () => ({ name: "job", data: 1 })));
        const isOver = { now: false };
        void many.finally(() => (isOver.now = true));
        for (; !isOver.now; await first)
          sizes.push(
            ...(await fixture()
              .db.pipeline(Array.from({ length: 50 }, () => ["hlen", jobs]))
              .exec())!.map(([, size]) => size),
          );
        await Promise.all(singles);
        expect((await fixture().counts()).jobs).toBe(1_301);
        expect(sizes.filter((size) => ![0, 1, 401, 1_301].includes(size as number))).toEqual([]);
      });

      it("loses and duplicates no job among three producers and three workers", async () => {
        const ran: unknown[] = [];
        const queues = [make(), fixture().on(fixture().connect()), fixture().on(fixture().connect())];
        for (const queue of queues) work(queue, ({ data }) => void ran.push(data), { concurrency: 7 });
        const adds = queues.flatMap((queue, producer) =>
          Array.from({ length: 100 }, (_, index) => queue.add("job", `${String(producer)}-${String(index)}`)),
        );
        const ids = await Promise.all(adds);
        await fixture().untilEmpty();
        expect(ran).toHaveLength(300);
        expect(new Set(ran).size).toBe(300);
        expect(new Set(ids).size).toBe(300);
      });

      it("gives each name to its handler, whatever characters it has, and passes jobs of unknown names on", async () => {
        const queue = make();
        const names = ["a:b", "{a}", "a b", "é\u{1f600}", "__proto__", "constructor"];
        const seen: unknown[] = [];
        const handlers = Object.fromEntries(
          names.map((one) => [one, (job: Job) => void seen.push([one, job.name, job.data])]),
        );
        Object.defineProperty(handlers, "__proto__", {
          value: (job: Job) => void seen.push(["__proto__", job.name, job.data]),
          enumerable: true,
        });
        const worker = queue.work(handlers);
        for (const [index, one] of names.entries()) await queue.add(one, index);
        const refused = new Promise((resolve) => worker.once("error", resolve));
        await queue.add("toString", { kept: true });
        expect(await refused).toMatchObject({ code: "KIT_JOB_REFUSED", job: "toString" });
        await eventually(async () => expect(await fixture().counts()).toMatchObject({ delayed: 1, dead: 0 }));
        expect(seen).toEqual(names.map((one, index) => [one, one, index]));
      });

      it("gives the handler * the jobs of all names that have no handler", async () => {
        const queue = make();
        const seen: unknown[] = [];
        const note = (handler: string) => (job: Job) => void seen.push([handler, job.name, job.data]);
        queue.work({ "*": note("any"), email: note("email") });
        const names = ["email", "resize", "tenant 7", "*", "toString", "email"];
        for (const [index, one] of names.entries()) await queue.add(one, index);
        await fixture().untilEmpty();
        expect(seen).toEqual(names.map((one, index) => [one === "email" ? one : "any", one, index]));
      });

      it("keeps data of every kind as JSON does, and bytes as they are", async () => {
        const [queue, runs] = [make(), new Runs()];
        const bytes = Uint8Array.from({ length: 256 }, (_, index) => index);
        const date = new Date(0);
        const all = [
          undefined,
          null,
          0,
          false,
          "",
          [],
          {},
          { "\u{1f600}": [1e21, -0.5, "\n\t\0é"] },
          2 ** 53 - 1,
          date,
          bytes,
        ];
        for (const data of all) await queue.add("job", data);
        work(queue, runs.handler);
        await runs.until(all.length);
        expect(runs.data.slice(0, 9)).toEqual(all.slice(0, 9));
        expect(runs.data[9]).toBe(date.toJSON());
        expect(runs.data[10]).toEqual(Buffer.from(bytes));
        const cycle: { self?: unknown } = {};
        cycle.self = cycle;
        for (const wrong of [10n, { deep: 1n }, cycle])
          expect(await rejection(queue.add("job", wrong))).toMatchObject({ code: "KIT_QUEUE_PAYLOAD", job: "job" });
      });

      it("accepts payloads up to their limit, and rejects larger ones by their bytes", async () => {
        const [queue, runs] = [make({ maxPayloadBytes: 500_000 }), new Runs()];
        const large = "é".repeat(249_999);
        await queue.add("job", large);
        const refused = await rejection(queue.add("job", `${large}e`));
        expect(refused).toMatchObject({ code: "KIT_QUEUE_PAYLOAD" });
        expect(String(refused)).not.toContain("éé");
        work(queue, runs.handler);
        await runs.until(1);
        expect(runs.data[0]).toBe(large);
      });

      it("passes to handlers when a job was added and taken, and which attempt it is", async () => {
        const [queue, runs] = [make(), new Runs()];
        await queue.add("job", 0);
        const before = await serverMs();
        const id = await queue.add("job", 1, { priority: 3, maxAttempts: 4 });
        const after = await serverMs();
        work(queue, runs.handler);
        await runs.until(2);
        const job = runs.jobs[1]!;
        expect(job).toMatchObject({ id, name: "job", attempt: 1, maxAttempts: 4, crashes: 0, priority: 3 });
        expect(job.addedAt).toBeGreaterThan(before - 2_000);
        expect(job.addedAt).toBeLessThan(after + 2_000);
        expect(job.takenAt).toBeGreaterThanOrEqual(Math.floor(after));
        expect(job.signal.aborted).toBe(false);
      });

      it("shows a job's own fields in a log, and nothing of its worker", async () => {
        const [queue, runs] = [make(), new Runs()];
        await queue.add("job", { gold: 1 });
        work(queue, runs.handler);
        await runs.until(1);
        const job = runs.jobs[0]!;
        const {
          id,
          name,
          data,
          attempt,
          maxAttempts,
          crashes,
          snoozes,
          priority,
          group,
          traceparent,
          addedAt,
          takenAt,
        } = job;
        const shown = {
          id,
          name,
          data,
          attempt,
          maxAttempts,
          crashes,
          snoozes,
          priority,
          group,
          traceparent,
          addedAt,
          takenAt,
        };
        expect(JSON.stringify(job)).toBe(JSON.stringify(shown));
        expect(inspect(job)).toBe(inspect(shown));
      });

      it("keeps one job with the caller's id, and accepts a new one when it is done", async () => {
        const [queue, runs] = [make(), new Runs()];
        const results = await Promise.all(Array.from({ length: 20 }, (_, n) => queue.add("job", n, { id: "order-7" })));
        expect(new Set(results)).toEqual(new Set(["order-7"]));
        expect(await fixture().counts()).toMatchObject({ jobs: 1, waiting: 1 });
        const worker = work(queue, runs.handler);
        await runs.until(1);
        await fixture().untilEmpty();
        await queue.add("job", "again", { id: "order-7" });
        await runs.until(2);
        expect(runs.data).toEqual([0, "again"]);
        await worker.close();
      });

      it("reports whether a job was added, and the state of the job with its id", async () => {
        const [queue, runs] = [make(), new Runs()];
        const once = (id: string, options: AddOptions = {}): Promise<AddedOnce> =>
          queue.addOnce("job", id, { ...options, id });
        const { promise, open } = latch();
        redis.defer(open);
        work(
          queue,
          (job) => {
            runs.handler(job);
            if (job.id === "fails") throw new UnrecoverableError("no");
            return promise;
          },
          { concurrency: 2, strict: true },
        );
        const places: [id: string, options: AddOptions, state: string][] = [
          ["fails", {}, "dead"],
          ["runs", {}, "active"],
          ["runs, urgent", { priority: -7 }, "active"],
          ["waits", {}, "ready"],
          ["waits, not urgent", { priority: 7 }, "ready"],
          ["comes", { delayMs: 600_000, priority: 2 }, "delayed"],
        ];
        for (const [id, options] of places.slice(0, 3)) expect(await once(id, options)).toEqual({ id, isAdded: true });
        await runs.until(3);
        await eventually(async () => expect(await fixture().counts()).toMatchObject({ leases: 2, dead: 1 }));
        for (const [id, options] of places.slice(3)) {
          // In one call, beside adds that do not ask.
          const asked = [once(id, options), queue.add("job", id), once(id, options), queue.add("job", id, { id })];
          const [first, , second, fourth] = await Promise.all(asked);
          expect([first, fourth]).toEqual([{ id, isAdded: true }, id]);
          expect(second).toMatchObject({ id, isAdded: false, state: id === "comes" ? "delayed" : "ready" });
        }
        const answers = places.map(([id, , state]) => ({ id, isAdded: false, state }));
        for (const [index, [id]] of places.entries()) expect(await once(id)).toEqual(answers[index]);
        expect(await Promise.all(places.map(([id]) => once(id)))).toEqual(answers);
        // Its entry was deleted by hand. Only a job of priority 0 would have to be searched for.
        await once("lost", { priority: 7 });
        await fixture().db.zrem(fixture().keysOf().prioritised, "lost");
        expect(await once("lost")).toEqual({ id: "lost", isAdded: false, state: "lost" });
        // A search among so many leases would hold up the server.
        const many = Array.from({ length: 1_000 }, (_, n) => [1, `a take of 12${String(n)}`]).flat();
        await fixture().db.zadd(fixture().keysOf().leases, ...many);
        expect(await Promise.all(places.map(([id]) => once(id)))).toEqual(
          answers.map(({ state, id }) => ({
            id,
            isAdded: false,
            state: ["runs", "waits"].includes(id) ? "unsure" : state,
          })),
        );
        expect(await fixture().counts()).toMatchObject({ jobs: 10, dead: 1 });
      });

      it("gives an add that is called again with its op the answer of the first", async () => {
        const [queue, runs] = [make(), new Runs()];
        const once = (op?: string): Promise<AddedOnce> => queue.addOnce("job", "data", { id: "order-7", op });
        const added = { id: "order-7", isAdded: true };
        const known = new Set<string | undefined>();
        const opOfLast = async (): Promise<string> => {
          const stored = await fixture().db.zrange(fixture().keysOf().producers, "0", "-1", "WITHSCORES");
          // Their numbers are by the clocks of their queue objects, so the last call need not have the highest.
          const at = stored.findIndex((member, index) => index % 2 === 0 && !known.has(member));
          const [producer, score] = stored.slice(at);
          known.add(producer);
          return `${String(producer)}:${String(score)}:order-7`;
        };
        expect(await once()).toEqual(added);
        const first = await opOfLast();
        // Another call of this producer would take the place of its answer.
        const other = make();
        const refused = { id: "order-7", isAdded: false, state: "ready" };
        expect(await other.addOnce("job", "data", { id: "order-7" })).toEqual(refused);
        const second = await opOfLast();
        const third = make();
        const again = (op: string): Promise<AddedOnce> => third.addOnce("job", "data", { id: "order-7", op });
        const repeated = async (): Promise<unknown> => [
          await again(first),
          await Promise.all([again(second), again(first)]),
        ];
        expect(await repeated()).toEqual([added, [refused, added]]);
        const worker = work(queue, runs.handler);
        await runs.until(1);
        await fixture().untilEmpty();
        expect(await repeated()).toEqual([added, [refused, added]]);
        // The call did not arrive: the job is added now, once.
        const lost = `AAAAAAAAA:${String(Date.now())}:order-7`;
        expect([await again(lost), await again(lost)]).toEqual([added, added]);
        await runs.until(2);
        await fixture().untilEmpty();
        expect(await again(lost)).toEqual(added);
        // After ten minutes its answer is gone.
        await fixture().db.del(answeredKey(keyHead(redis.prefix, name), first.slice(0, 9)));
        expect(await rejection(again(first))).toMatchObject({ code: "KIT_UNKNOWN_OUTCOME", op: undefined });
        await worker.close();
        expect(runs.data).toEqual(["data", "data"]);
      });

      it("settles an add whose outcome was not known, without adding twice", async () => {
        const queue = make();
        const first = await queue.add("job", 1);
        const [score] = await fixture()
          .db.zrange(fixture().keysOf().producers, "0", "-1", "WITHSCORES")
          .then((all) => [all[1]]);
        const producer = first.slice(0, 9);
        // The call arrived: nothing is added, though its job may be done by now.
        expect(await queue.add("job", 1, { op: `${producer}:${String(score)}:${first}` })).toBe(first);
        expect((await fixture().counts()).jobs).toBe(1);
        // The call did not arrive: the job is added now, and the call is refused if it arrives later.
        const lost = `AAAAAAAAA:${String(score)}:AAAAAAAAA.0000`;
        expect(await queue.add("job", 2, { op: lost })).toBe("AAAAAAAAA.0000");
        expect(await queue.add("job", 2, { op: lost })).toBe("AAAAAAAAA.0000");
        expect(await fixture().counts()).toMatchObject({ jobs: 2, waiting: 2 });
        const runs = new Runs();
        work(queue, runs.handler);
        await runs.until(2);
        await fixture().untilEmpty();
        // Whatever happened to the earlier repeat and its job.
        expect(await queue.add("job", 2, { op: lost })).toBe("AAAAAAAAA.0000");
        expect(await fixture().counts()).toMatchObject({ jobs: 0 });
        expect(runs.data).toEqual([1, 2]);
      });
    });

    it("writes the number of its layout again when all data was deleted under its workers", async () => {
      const [queue, runs] = [make(), new Runs()];
      work(queue, runs.handler);
      await queue.add("job", 1);
      await runs.until(1);
      await fixture().untilEmpty();
      const { meta } = fixture().keysOf();
      await fixture().db.del(meta);
      await queue.add("job", 2);
      await eventually(async () => expect(await fixture().db.hget(meta, "layout")).toBe("1"));
    });

    describe("order", () => {
      it("takes a job that was added with lifo first", async () => {
        const [queue, runs] = [make(), new Runs()];
        await queue.add("job", "fifo");
        for (const data of [1, 2, 3]) await queue.add("job", data, { lifo: true });
        work(queue, runs.handler);
        await runs.until(4);
        expect(runs.data).toEqual([3, 2, 1, "fifo"]);
      });

      it("takes lower priorities first, none as 0, and equal ones in order", async () => {
        const [queue, runs] = [make(), new Runs()];
        const priorities = [5, 0, -3, 5, 1_048_575, -1_048_575, 0, -3, -1];
        await queue.addAll(priorities.map((priority, index) => ({ name: "job", data: [priority, index], priority })));
        await queue.add("job", [5, 9], { priority: 5 });
        work(queue, runs.handler, { strict: true });
        await runs.until(10);
        const sorted = [...priorities.map((priority, index) => [priority, index]), [5, 9]].toSorted(
          ([a = 0, i = 0], [b = 0, j = 0]) => a - b || i - j,
        );
        expect(runs.data).toEqual(sorted);
      });

      it("gives ready and delayed jobs another priority, after their equals, and changes no other job", async () => {
        const [queue, runs] = [make(), new Runs()];
        const { promise, open } = latch();
        const active = await queue.add("job", "active");
        const worker = work(queue, (job) => (runs.handler(job), promise), { strict: true, maxCrashes: 9 });
        await runs.until(1);
        const bytes = Uint8Array.from([32, 112, 53, 10, 0, 255]);
        const plain = await queue.add("job", bytes, { maxAttempts: 7, timeoutMs: 60_000 });
        const ranked = await queue.add("job", "ranked", { priority: -2 });
        const delayed = await queue.add("job", "delayed", { delayMs: 600_000, priority: 4, id: "own" });
        await queue.addAll(["a", "b"].map((data) => ({ name: "job", data })));
        await queue.add("job", "high", { priority: -5 });
        expect(await setPriority(redis.client, address(), plain, -5)).toBe(true);
        expect(await setPriority(redis.client, address(), plain, -5)).toBe(true);
        expect(await setPriority(redis.client, address(), ranked, 0)).toBe(true);
        expect(await setPriority(redis.client, address(), delayed, -9)).toBe(true);
        for (const id of [active, "nobody"]) expect(await setPriority(redis.client, address(), id, 3)).toBe(false);
        expect(String(await rejection(setPriority(redis.client, address(), plain, 0.5)))).toMatch(
          /^(Type|Range)Error: (Expected|Unknown option) /,
        );
        expect(await fixture().counts()).toMatchObject({ jobs: 7, waiting: 3, prioritised: 2, delayed: 1, leases: 1 });
        const { delayed: key } = fixture().keysOf();
        expect(await fixture().db.zrange(key, "0", "-1")).toEqual(["!-9!own"]);
        await fixture().db.zadd(key, 1, "!-9!own");
        open();
        await runs.until(7);
        expect(runs.data.slice(1)).toEqual(["delayed", "high", Buffer.from(bytes), "a", "b", "ranked"]);
        expect(runs.jobs[3]).toMatchObject({ priority: -5, maxAttempts: 7 });
        expect(runs.jobs[6]).toMatchObject({ priority: 0 });
        await worker.close();
      });

      it("starts an urgent job immediately while all workers wait", async () => {
        const [queue, runs] = [make(), new Runs()];
        work(queue, runs.handler);
        await fixture().untilEmpty();
        await queue.add("job", "urgent", { priority: -5 });
        await runs.until(1);
        expect(runs.jobs[0]!.priority).toBe(-5);
      });
    });

    describe("delays", () => {
      it("runs a job no sooner than it is due, and wakes for one that was added later and is due earlier", async () => {
        const queue = make();
        const ran: { data: unknown; at: number }[] = [];
        work(queue, async ({ data, takenAt }) => void ran.push({ data, at: takenAt }));
        const startedAt = await serverMs();
        await queue.add("job", "late", { delayMs: 1_200 });
        await queue.add("job", "early", { dueAt: Math.ceil(startedAt) + 300 });
        await queue.add("job", "dated", { dueAt: Math.ceil(startedAt) + 600 });
        await queue.add("job", "past", { dueAt: 1 });
        await eventually(() => expect(ran).toHaveLength(4), { timeoutMs: 20_000 });
        expect(ran.map(({ data }) => data)).toEqual(["past", "early", "dated", "late"]);
        const [, early, dated, late] = ran.map(({ at }) => at - startedAt);
        expect(early).toBeGreaterThanOrEqual(299);
        expect(dated).toBeGreaterThanOrEqual(599);
        expect(late).toBeGreaterThanOrEqual(1_199);
      });

      it("orders jobs that are due at the same instant by priority, then by the order of adding", async () => {
        const [queue, runs] = [make(), new Runs()];
        const dueAt = Math.ceil(await serverMs()) + 600_000;
        const jobs = Array.from({ length: 1_000 }, (_, index) => ({ name: "job", data: index, dueAt }));
        await queue.addAll(jobs);
        await queue.add("job", "urgent", { dueAt, priority: -1 });
        expect(await fixture().counts()).toMatchObject({ delayed: 1_001, waiting: 0 });
        // Now it has come.
        const { delayed } = fixture().keysOf();
        const entries = await fixture().db.zrange(delayed, "0", "-1");
        await fixture().db.zadd(delayed, ...entries.flatMap((entry) => [1, entry]));
        work(queue, runs.handler, { strict: true });
        await runs.until(1_001, 20_000);
        expect(runs.data).toContain("urgent");
        expect(runs.data.filter((data) => data !== "urgent")).toEqual(jobs.map(({ data }) => data));
      });

      it("takes jobs that came due meanwhile by priority, and a failed job after jobs that were due before it", async () => {
        const queue = make({ maxAttempts: 2, backoff: { firstMs: 600, factor: 1, jitter: 0 } });
        const [runs, { promise, open }] = [new Runs(), latch()];
        const cycle: { self?: unknown } = {};
        cycle.self = cycle;
        const worker = work(
          queue,
          async (job) => {
            runs.handler(job);
            if (job.data === "first") await promise;
            if (job.data === "fails" && job.attempt === 1) throw new Error("once");
            return cycle;
          },
          { strict: true },
        );
        await queue.add("job", "first");
        await runs.until(1);
        await queue.add("job", "delayed", { delayMs: 300 });
        await queue.add("job", "urgent", { delayMs: 300, priority: -1 });
        await queue.add("job", "at once", { delayMs: 0 });
        const dueAt = (await serverMs()) + 300;
        await eventually(async () => expect(await serverMs()).toBeGreaterThan(dueAt));
        await queue.add("job", "before the retry", { delayMs: 500 });
        await queue.add("job", "fails", { priority: 1 });
        open();
        await fixture().untilEmpty();
        expect(runs.data).toEqual([...["first", "urgent", "at once", "delayed", "fails", "before the retry", "fails"]]);
        expect(worker.running).toBe(0);
      });

      it("uses only the server's clock if the producer's is five minutes ahead", async () => {
        const { timeOrigin } = performance;
        const wrong = vitest.vi.spyOn(performance, "timeOrigin", "get").mockReturnValue(timeOrigin + 300_000);
        const now = vitest.vi.spyOn(Date, "now").mockImplementation(() => timeOrigin + performance.now() + 300_000);
        try {
          const [queue, runs] = [make(), new Runs()];
          const startedAt = await serverMs();
          await queue.add("job", "later", { delayMs: 300 });
          await queue.add("job", "at once");
          work(queue, runs.handler);
          await runs.until(2);
          expect(runs.data).toEqual(["at once", "later"]);
          expect(runs.jobs[1]!.takenAt).toBeGreaterThanOrEqual(Math.floor(startedAt) + 300);
          // Its first reply tells a producer the server's time.
          expect(runs.jobs[0]!.addedAt).toBeLessThan(startedAt + 200_000);
        } finally {
          wrong.mockRestore();
          now.mockRestore();
        }
      });

      it("accepts delays of years, longer than a timer can hold", async () => {
        const [queue, runs] = [make(), new Runs()];
        work(queue, runs.handler);
        await queue.add("job", "far", { delayMs: 2 ** 31 + 1_000 });
        await queue.add("job", "farther", { delayMs: 400 * 365 * 86_400_000 });
        await queue.add("job", "near", { delayMs: 50 });
        await runs.until(1);
        expect(runs.data).toEqual(["near"]);
        expect(await fixture().counts()).toMatchObject({ delayed: 2 });
      });

      it("runs what is due even if the markers are deleted manually", async () => {
        const [queue, runs] = [make(), new Runs()];
        work(queue, runs.handler);
        await queue.add("job", 1, { delayMs: 700 });
        await eventually(async () => expect(await fixture().db.exists(fixture().keysOf().wake)).toBe(0));
        await fixture().db.del(fixture().keysOf().wake);
        await runs.until(1);
        expect(runs.data).toEqual([1]);
      });
    });

    describe("retries", () => {
      it("runs a failing job maxAttempts times, then keeps it with its payload and its error", async () => {
        const queue = make({ maxAttempts: 3, backoff: { firstMs: 20, factor: 1, jitter: 0 } });
        const attempts: number[] = [];
        const failures: (number | undefined)[] = [];
        const worker = work(queue, ({ attempt }) => {
          attempts.push(attempt);
          throw Object.assign(new Error("no such host", { cause: "dns" }), { code: "ENOTFOUND" });
        });
        let deaths = 0;
        worker.on("failed", ({ retryInMs }) => failures.push(retryInMs));
        worker.on("dead", () => deaths++);
        const id = await queue.add("job", { to: "ann" });
        await eventually(() => expect(deaths).toBe(1));
        expect(attempts).toEqual([1, 2, 3]);
        expect(failures).toEqual([20, 20, undefined]);
        const letters = await queue.deadLetters();
        expect(letters).toMatchObject([
          {
            id,
            name: "job",
            data: { to: "ann" },
            attempts: 3,
            crashes: 0,
            error: { message: "no such host", code: "ENOTFOUND", cause: { name: "string", message: "dns" } },
          },
        ]);
        expect(letters[0]!.diedAt).toBeGreaterThanOrEqual(letters[0]!.addedAt);
        expect(await fixture().counts()).toMatchObject({ jobs: 1, dead: 1, failures: 1, leases: 0, delayed: 0 });
        expect(await fixture().db.hget(fixture().keysOf().meta, "deadBytes")).not.toBe("0");
      });

      it("runs a snoozed job again no sooner than its handler wants, without an attempt", async () => {
        const queue = make();
        const seen: { attempt: number; snoozes: number; at: number }[] = [];
        const events: unknown[] = [];
        const worker = work(queue, ({ attempt, snoozes, takenAt }) => {
          seen.push({ attempt, snoozes, at: takenAt });
          if (snoozes < 2) throw new SnoozeError(snoozes === 0 ? 299.5 : 0, { cause: new Error("429") });
          return "sent";
        });
        worker.on("failed", (event) => events.push(event));
        worker.on("snoozed", ({ job, error, retryInMs }) => events.push([job.id, retryInMs, error]));
        expect(await queue.call("job", 1)).toBe("sent");
        expect(seen).toMatchObject([0, 1, 2].map((snoozes) => ({ attempt: 1, snoozes })));
        expect(seen[1]!.at - seen[0]!.at).toBeGreaterThanOrEqual(300);
        const of = expect.any(String);
        expect(events).toEqual([300, 0].map((ms) => [of, ms, expect.objectContaining({ code: "KIT_JOB_SNOOZED" })]));
        await fixture().untilEmpty();
        expect(await fixture().counts()).toMatchObject({ jobs: 0, failures: 0, dead: 0 });
      });

      it("treats a returned SnoozeError, RateLimitError or UnrecoverableError like a thrown one, and all else as a result", async () => {
        const queue = make({ maxAttempts: 2 });
        const returned: Record<string, unknown> = {
          snoozed: new SnoozeError(1),
          limited: new RateLimitError(1),
          hopeless: new UnrecoverableError("hopeless"),
          error: new JobTimeoutError("job", 5),
          nothing: null,
        };
        const worker = work(queue, async ({ data, snoozes }) => Promise.resolve(snoozes || returned[String(data)]));
        const [failed, snoozed] = [[] as unknown[], [] as unknown[]];
        worker.on("failed", ({ job, retryInMs }) => failed.push([job.data, retryInMs]));
        worker.on("snoozed", ({ job }) => snoozed.push(job.data));
        for (const data of ["snoozed", "limited"]) expect(await queue.call("job", data)).toBe(1);
        expect(await rejection(queue.call("job", "hopeless"))).toMatchObject({ attempts: 1 });
        expect(await queue.call("job", "error")).toMatchObject({ code: "KIT_JOB_TIMEOUT" });
        expect(await queue.call("job", "nothing")).toBeNull();
        expect([failed, snoozed]).toEqual([[["hopeless", undefined]], ["snoozed", "limited"]]);
      });

      it("counts snoozes beyond maxSnoozes as failed attempts, so that no job is snoozed forever", async () => {
        const queue = make({ maxAttempts: 2, backoff: { firstMs: 600_000 } });
        const events: unknown[] = [];
        const handler = (): never => {
          throw new SnoozeError(5, { cause: new Error("429") });
        };
        const worker = work(queue, handler, { maxSnoozes: 3 });
        worker.on("snoozed", ({ job, retryInMs }) => events.push(["snoozed", job.attempt, retryInMs]));
        worker.on("failed", ({ job, retryInMs }) => events.push(["failed", job.attempt, retryInMs]));
        await queue.add("job", 1);
        await next(worker, "dead");
        const snoozed = ["snoozed", 1, 5];
        expect(events).toEqual([snoozed, snoozed, snoozed, ["failed", 1, 5], ["failed", 2, undefined]]);
        expect(await queue.deadLetters()).toMatchObject([
          { attempts: 2, snoozes: 3, error: { name: "SnoozeError", cause: { message: "429" } } },
        ]);
        expect(await queue.redrive()).toBe(1);
        await next(worker, "dead");
        expect(events).toHaveLength(10);
      });

      it("counts a snooze for no time that can be as a failed attempt", async () => {
        const queue = make();
        const wrong = [NaN, -1, Infinity, "5", undefined, 1e15];
        work(queue, ({ data }) => {
          throw Object.assign(new SnoozeError(5), { retryAfterMs: wrong[Number(data)] });
        });
        for (const index of wrong.keys()) await queue.add("job", index);
        await eventually(async () =>
          expect(await fixture().counts()).toMatchObject({ dead: wrong.length, delayed: 0 }),
        );
      });

      it("keeps the snoozes of a job whose lease ends, or whose last crash is near", async () => {
        const [queue, held] = [make(), latch()];
        redis.defer(held.open);
        const worker = work(
          queue,
          async ({ snoozes }) => {
            if (snoozes === 0) throw new SnoozeError(1);
            await held.promise;
          },
          { leaseMs: 60_000, abortGraceMs: 0 },
        );
        await queue.add("job", 1);
        await next(worker, "snoozed");
        const runs = new Runs();
        for (const crashes of [1, 2]) {
          await eventually(async () => expect(await fixture().counts()).toMatchObject({ leases: 1 }));
          await fixture().expireLeases();
          const handler = crashes === 1 ? () => held.promise : runs.handler;
          const other = work(queue, handler, { leaseMs: 60_000, abortGraceMs: 0 });
          await next(other, "crashed");
        }
        await runs.until(1);
        expect(runs.jobs[0]).toMatchObject({ attempt: 1, snoozes: 1, crashes: 2 });
      });

      it("redrives dead letters with all their attempts, and their priority; others are left alone", async () => {
        const queue = make({ maxAttempts: 2, backoff: { firstMs: 0 } });
        const seen: [unknown, number][] = [];
        let isBroken = true;
        work(queue, ({ data, attempt }) => {
          seen.push([data, attempt]);
          if (isBroken) throw new Error("broken");
        });
        const ids = await queue.addAll([
          { name: "job", data: "a" },
          { name: "job", data: "b", priority: -2 },
          { name: "job", data: "c" },
        ]);
        await eventually(async () => expect((await fixture().counts()).dead).toBe(3));
        isBroken = false;
        seen.length = 0;
        expect(await queue.redrive([ids[1]!, "no-such-job"])).toBe(1);
        await eventually(() => expect(seen).toEqual([["b", 1]]));
        expect(await queue.redrive([ids[1]!])).toBe(0);
        expect(await queue.dropDeadLetters([ids[0]!])).toBe(1);
        expect(await queue.redrive()).toBe(1);
        await eventually(() =>
          expect(seen).toEqual([
            ["b", 1],
            ["c", 1],
          ]),
        );
        await fixture().untilEmpty();
        expect(await fixture().counts()).toMatchObject({ jobs: 0, dead: 0, failures: 0 });
        expect(await fixture().db.hget(fixture().keysOf().meta, "deadBytes")).toBe("0");
      });

      it("reads dead letters page by page, the youngest first, by name, whatever is moved meanwhile", async () => {
        const queue = make();
        const fail = (): never => {
          throw new Error("broken");
        };
        queue.work({ even: fail, "odd / ä": fail });
        const datas = Array.from({ length: 7 }, (_, n) => n);
        for (const data of datas) {
          await queue.add(data % 2 === 0 ? "even" : "odd / ä", data);
          await eventually(async () => expect((await fixture().counts()).dead).toBe(data + 1));
        }
        const first = await queue.deadLetters({ count: 3 });
        expect(first.map(({ data }) => data)).toEqual([6, 5, 4]);
        await queue.redrive(first.map(({ id }) => id));
        await eventually(async () => expect((await fixture().counts()).dead).toBe(7));
        const page = await queue.deadLetters({ before: first[2], count: 3 });
        expect(page.map(({ data }) => data)).toEqual([3, 2, 1]);
        expect((await queue.deadLetters({ before: page[2] })).map(({ data }) => data)).toEqual([0]);
        const odd = await queue.deadLetters({ job: "odd / ä", count: 2 });
        expect(new Set(odd.map(({ data }) => data))).toEqual(new Set([3, 5]));
        expect(await queue.deadLetters({ job: "odd / ä", before: odd[1] })).toMatchObject([{ data: 1 }]);
        expect(await queue.deadLetters({ job: "nobody" })).toEqual([]);
      });

      it("reads dead letters that died at one instant, each once", async () => {
        const queue = make();
        const { dead, jobs } = fixture().keysOf();
        const ids = Array.from({ length: 250 }, (_, n) => `id-${n % 2 === 0 ? "A" : "b"}${String(n)}`);
        for (const id of ids) await fixture().db.zadd(dead, 7, id);
        for (const id of ids) await fixture().db.hset(jobs, id, "k1 job\n1");
        const seen: string[] = [];
        for (let page = await queue.deadLetters({ count: 60 }); page.length > 0;) {
          seen.push(...page.map(({ id }) => id));
          page = await queue.deadLetters({ before: page.at(-1), count: 60 });
        }
        expect(seen).toEqual(ids.toSorted().toReversed());
      });

      it("reads no more of large dead letters than were requested, and all of them page by page", async () => {
        const queue = make();
        const { dead, jobs } = fixture().keysOf();
        const ids = Array.from({ length: 12 }, (_, n) => `id-${String(n).padStart(2, "0")}`);
        for (const [n, id] of ids.entries()) {
          await fixture().db.zadd(dead, Math.floor(n / 3), id);
          await fixture().db.hset(jobs, id, `k1 job\n"${"x".repeat(400_000)}"`);
        }
        const sentBytes = async (): Promise<number> => {
          const stats = await (await fixture().nodeOf()).call("INFO", "stats");
          return Number(/total_net_output_bytes:(\d+)/.exec(String(stats))![1]);
        };
        const before = await sentBytes();
        expect(await queue.deadLetters({ count: 1 })).toMatchObject([{ id: "id-11" }]);
        expect((await sentBytes()) - before).toBeLessThan(500_000);
        const all = await queue.deadLetters({ count: 100 });
        expect(all.map(({ id }) => id)).toEqual(ids.toReversed());
        const request = { latest: "+inf", start: 0, name: "", count: 50 };
        expect(await deadScripts.letters.run(redis.client, fixture().keysOf(), request)).toHaveLength(3);
      });

      it("spreads redriven jobs over the given time", async () => {
        const queue = make();
        work(queue, () => {
          throw new Error("broken");
        });
        await queue.addAll(Array.from({ length: 20 }, (_, data) => ({ name: "job", data, priority: data % 2 })));
        await eventually(async () => expect((await fixture().counts()).dead).toBe(20));
        expect(await queue.redrive(undefined, { spreadMs: 3_600_000 })).toBe(20);
        expect(await fixture().counts()).toMatchObject({ dead: 0, waiting: 0, failures: 0 });
        const found = await fixture().db.zrange(fixture().keysOf().delayed, "0", "-1", "WITHSCORES");
        const due = found.filter((_, index) => index % 2 === 1).map(Number);
        expect(new Set(due).size).toBeGreaterThan(15);
        expect(Math.max(...due) - Math.min(...due)).toBeLessThanOrEqual(3_600_000);
        expect(found.filter((one) => one.startsWith("!1!"))).toHaveLength(10);
      });

      it("redrives each dead letter once, though they die again meanwhile", async () => {
        const queue = make();
        const fail = (): never => {
          throw new Error("again");
        };
        work(queue, fail, { concurrency: 100 });
        await queue.addAll(Array.from({ length: 250 }, (_, data) => ({ name: "job", data })));
        await eventually(async () => expect((await fixture().counts()).dead).toBe(250));
        expect(await queue.redrive()).toBe(250);
        await eventually(async () => expect((await fixture().counts()).dead).toBe(250));
      });

      it("keeps no more dead letters than it may, the youngest ones", async () => {
        const queue = make({ deadLetters: { maxCount: 3 } });
        work(queue, () => {
          throw new Error("broken");
        });
        for (let index = 0; index < 6; index++) await queue.add("job", index);
        await eventually(async () => {
          expect((await queue.deadLetters()).map(({ data }) => data)).toEqual([5, 4, 3]);
        });
        expect(await fixture().db.hget(fixture().keysOf().meta, "deadDropped")).toBe("3");
        expect((await fixture().counts()).jobs).toBe(3);
      });

      it("gives up immediately on an UnrecoverableError", async () => {
        const queue = make({ maxAttempts: 10 });
        let runs = 0;
        const worker = work(queue, async () => {
          runs++;
          throw new UnrecoverableError("no such user", { cause: "deleted" });
        });
        const dead = next(worker, "dead");
        await queue.add("job", 1);
        await dead;
        expect(runs).toBe(1);
      });

      it("waits as long as a backoff function decides, which may give up", async () => {
        const queue = make({ maxAttempts: 10 });
        const asked: number[] = [];
        const worker = work(
          queue,
          () => {
            throw new Error("broken");
          },
          {
            backoff: async ({ attempt, job }) => {
              asked.push(attempt);
              if (job.data === "odd") throw new Error("no idea");
              return attempt < 3 ? 5 : -1;
            },
          },
        );
        const dead = next(worker, "dead");
        await queue.add("job", 1);
        await dead;
        expect(asked).toEqual([1, 2, 3]);
        const failed = next(worker, "failed");
        await queue.add("job", "odd");
        expect(await failed).toMatchObject({ retryInMs: expect.closeTo(750, -3) as number });
      });

      it.each([
        [120.3, 121, 0],
        [1e300, 3e14, 0],
        [Infinity, 3e14, 0],
        [Number.NaN, expect.closeTo(750, -3), 1],
        [-2, expect.closeTo(750, -3), 1],
        ["100", expect.closeTo(750, -3), 1],
        [undefined, expect.closeTo(750, -3), 1],
      ])("takes %s of a backoff function for a wait of %s, and emits %i errors", async (given, retryInMs, count) => {
        const queue = make({ maxAttempts: 2 });
        const fail = (): never => {
          throw new Error("broken");
        };
        const worker = work(queue, fail, { backoff: () => given as number });
        const errors: unknown[] = [];
        worker.on("error", (error) => errors.push(error));
        const failed = next(worker, "failed");
        await queue.add("job", 1);
        expect(await failed).toMatchObject({ retryInMs });
        expect(errors).toEqual(
          Array.from(
            { length: count },
            () => expect.objectContaining({ code: "KIT_JOB_BACKOFF", job: "job" }) as unknown,
          ),
        );
      });

      it("survives any value that handlers throw, and keeps errors short", async () => {
        const queue = make();
        const cycle: { self?: unknown } = {};
        cycle.self = cycle;
        const huge = new Error("x".repeat(100_000));
        const strange = Object.assign(new Error(), { message: cycle, name: 7n, code: "x".repeat(100_000) });
        const unreadable = (field: string): Error =>
          Object.defineProperty(new SnoozeError(0), field, {
            get: () => {
              throw new Error("unreadable");
            },
          });
        const revoked = Proxy.revocable({}, {});
        revoked.revoke();
        const broken = [...["message", "cause", "code", "retryAfterMs"].map(unreadable), revoked.proxy];
        const thrown = [undefined, null, "text", 7, cycle, huge, Object.create(null), strange, ...broken];
        const fail = (index: unknown): never => {
          throw thrown[index as number];
        };
        // Some throw at once, the others reject.
        const handler = ({ data }: Job): unknown => (Number(data) % 2 ? fail(data) : Promise.resolve(data).then(fail));
        work(queue, handler, { maxSnoozes: 0 });
        for (const index of thrown.keys()) await queue.add("job", index);
        await eventually(async () => expect((await fixture().counts()).dead).toBe(thrown.length));
        const letters = await queue.deadLetters({ count: 100 });
        expect(letters.toReversed().map(({ error }) => error?.name)).toEqual([
          "undefined",
          "object",
          "string",
          "number",
          "object",
          "Error",
          "object",
          "[object BigInt]",
          ...["object", "object", "object", "SnoozeError", "object"],
        ]);
        for (const { error } of letters) expect(JSON.stringify(error).length).toBeLessThan(12_000);
      });

      it("runs on whatever kind of promise a handler returns", async () => {
        const queue = make();
        type Then = (done: (value: unknown) => void, failed: (error: unknown) => void) => void;
        const promiseOf = (then: Then, method = "then"): object => ({ [method]: then });
        const revoked = Proxy.revocable({}, {});
        revoked.revoke();
        const promises = [
          promiseOf(() => {
            throw new Error("no promise");
          }),
          promiseOf((done, failed) => (done(1), done(2), failed(3))),
          revoked.proxy,
        ];
        const runs = new Runs();
        const worker = work(queue, (job) => (runs.handler(job), promises[job.data as number]));
        for (const data of [0, 1, 3, 2]) await queue.add("job", data);
        await runs.until(4);
        await fixture().untilEmpty();
        expect(worker.running).toBe(0);
        expect(await queue.deadLetters()).toMatchObject([
          { data: 2, error: { name: "TypeError" } },
          { data: 0, error: { message: "no promise" } },
        ]);
      });

      it("fails an attempt that takes too long, and keeps its slot until the handler ends", async () => {
        const queue = make();
        const { promise, open } = latch();
        const reasons: unknown[] = [];
        const worker = work(queue, async ({ data, signal }) => {
          if (data !== "slow") return;
          reasons.push(await aborted(signal));
          await promise;
        });
        const dead = next(worker, "dead");
        await queue.add("job", "slow", { timeoutMs: 50 });
        await queue.add("job", "next");
        await dead;
        expect(reasons).toEqual([expect.any(JobTimeoutError)]);
        expect(worker.running).toBe(1);
        open();
        await fixture().untilEmpty();
        expect(await queue.deadLetters()).toMatchObject([{ data: "slow", error: { code: "KIT_JOB_TIMEOUT" } }]);
      });
    });

    describe("concurrency", () => {
      it("never runs more handlers than concurrency allows, even when that is changed", async () => {
        const queue = make();
        let [now, most] = [0, 0];
        const gates: (() => void)[] = [];
        const worker = work(
          queue,
          async () => {
            most = Math.max(most, ++now);
            const { promise, open } = latch();
            gates.push(open);
            await promise;
            now--;
          },
          { concurrency: 3 },
        );
        await queue.addAll(Array.from({ length: 30 }, (_, data) => ({ name: "job", data })));
        const openOne = async (): Promise<void> => {
          await eventually(() => expect(gates.length).toBeGreaterThan(0));
          gates.shift()?.();
        };
        await eventually(() => expect(now).toBe(3));
        for (let index = 0; index < 5; index++) await openOne();
        expect(most).toBe(3);
        worker.concurrency = 5;
        await eventually(() => expect(now).toBe(5));
        worker.concurrency = 1;
        for (let index = 0; index < 8; index++) await openOne();
        await eventually(() => expect(now).toBe(1));
        most = 0;
        for (let index = 0; index < 5; index++) await openOne();
        expect(most).toBeLessThanOrEqual(1);
        worker.concurrency = 20;
        for (let index = 0; index < 12; index++) await openOne();
        await fixture().untilEmpty();
      });

      it("wakes as many idle workers as there is work for", async () => {
        const queue = make();
        const { promise, open } = latch();
        const workers = Array.from({ length: 6 }, () => work(queue, () => promise));
        await fixture().untilIdle(6);
        await queue.addAll(Array.from({ length: 5 }, (_, data) => ({ name: "job", data })));
        await eventually(() => expect(workers.filter(({ running }) => running === 1)).toHaveLength(5));
        open();
        await fixture().untilEmpty();
      });

      it("continues with other jobs while one is slow", async () => {
        const [queue, { promise, open }, runs] = [make(), latch(), new Runs()];
        work(queue, async (job) => (job.data === "slow" ? promise : runs.handler(job)), { concurrency: 2 });
        await queue.add("job", "slow");
        await queue.addAll(Array.from({ length: 50 }, (_, data) => ({ name: "job", data })));
        await runs.until(50);
        open();
        await fixture().untilEmpty();
        expect(runs.data).toEqual(Array.from({ length: 50 }, (_, index) => index));
      });

      it("hands back jobs that it took ahead when a job turns out long, so that other workers run them", async () => {
        const queue = make();
        const [first, second] = [new Runs(), new Runs()];
        const { promise, open } = latch();
        const greedy = work(queue, (job) => {
          first.handler(job);
          return job.data === "long" ? promise : undefined;
        });
        await queue.addAll(Array.from({ length: 300 }, (_, data) => ({ name: "job", data })));
        await queue.add("job", "long");
        await queue.addAll(Array.from({ length: 300 }, (_, data) => ({ name: "job", data: 300 + data })));
        await eventually(() => expect(first.data).toContain("long"));
        work(queue, second.handler);
        await second.until(1);
        await eventually(() => expect(first.jobs.length + second.jobs.length).toBe(601));
        expect(greedy.running).toBe(1);
        open();
        await fixture().untilEmpty();
        expect(new Set([...first.data, ...second.data]).size).toBe(601);
        expect([...first.jobs, ...second.jobs].every(({ crashes }) => crashes === 0)).toBe(true);
      });

      it("takes no job with an unknown name ahead, however quick other jobs were", async () => {
        const queue = make();
        const { promise, open } = latch();
        const placed: unknown[] = [];
        let quick = 0;
        queue.work({
          quick: () => void quick++,
          long: async () => {
            placed.push(await fixture().counts());
            await promise;
          },
        });
        for (let n = 1; n <= 20; n++) {
          await queue.add("quick");
          await eventually(() => expect(quick).toBe(n));
        }
        await fixture().untilIdle(1);
        await queue.addAll(Array.from({ length: 5 }, () => ({ name: "long", data: 0 })));
        await eventually(() => expect(placed).toHaveLength(1));
        expect(placed).toMatchObject([{ waiting: 4, leases: 1 }]);
        open();
        await fixture().untilEmpty();
      });

      // In this suite each step is refused once by a slot that moves, and sent again: a worker is neither idle nor busy meanwhile.
      if (mode !== "cluster")
        it("has no more than one job each on idle workers, however quick jobs of their name were", async () => {
          const queue = make();
          const { promise, open } = latch();
          let quick = 0;
          const most: number[] = [];
          /** The most jobs that one worker has taken. */
          const note = async (): Promise<void> => {
            const leases = await fixture().db.zrange(fixture().keysOf().leases, "0", "-1");
            const takers = leases.map((member) => member.slice(0, 7));
            most.push(Math.max(...takers.map((taker) => takers.filter((other) => other === taker).length)));
            await promise;
          };
          const workers = Array.from({ length: 6 }, () =>
            queue.work({ job: async ({ data }) => (data === "quick" ? void quick++ : await note()) }),
          );
          await fixture().untilIdle(workers.length);
          await queue.addAll(Array.from({ length: 60 }, () => ({ name: "job", data: "quick" })));
          await eventually(() => expect(quick).toBe(60));
          await fixture().untilIdle(workers.length);
          await queue.addAll(workers.map(() => ({ name: "job", data: "long" })));
          await eventually(() => expect(most).toEqual(workers.map(() => 1)));
          open();
          await fixture().untilEmpty();
        });

      it("takes nothing ahead when it is strict", async () => {
        const queue = make();
        const { promise, open } = latch();
        let started = 0;
        const worker = work(
          queue,
          () => {
            started++;
            return started > 40 ? promise : undefined;
          },
          { concurrency: 2, strict: true, ack: "each" },
        );
        await queue.addAll(Array.from({ length: 60 }, (_, data) => ({ name: "job", data })));
        await eventually(() => expect(started).toBe(42));
        await eventually(async () => expect(await fixture().counts()).toMatchObject({ leases: 2, waiting: 18 }));
        expect(worker.running).toBe(2);
        open();
        await fixture().untilEmpty();
        expect(started).toBe(60);
      });
    });

    describe("closing", () => {
      it("lets running jobs end while it renews their leases, and hands the others to another worker immediately", async () => {
        const queue = make();
        const [first, second] = [new Runs(), new Runs()];
        const { promise, open } = latch();
        const worker = work(
          queue,
          (job) => {
            first.handler(job);
            return first.jobs.length > 100 ? promise : undefined;
          },
          { concurrency: 10, leaseMs: 500 },
        );
        await queue.addAll(Array.from({ length: 200 }, (_, data) => ({ name: "job", data })));
        await eventually(() => expect(worker.running).toBe(10));
        const closing = worker.close({ timeoutMs: 20_000 });
        const rest = 200 - first.jobs.length;
        work(fixture().on(fixture().connect()), second.handler, { concurrency: 5 });
        await second.until(rest);
        // Longer than the lease: it is renewed while the worker closes.
        const until = (await serverMs()) + 1_200;
        await eventually(async () => expect(await serverMs()).toBeGreaterThan(until));
        expect((await fixture().counts()).leases).toBe(10);
        open();
        await closing;
        await fixture().untilEmpty();
        expect([first.jobs.length, second.jobs.length]).toEqual([200 - rest, rest]);
        expect(new Set([...first.data, ...second.data]).size).toBe(200);
      });

      it("notifies its handlers immediately that it closes, and counts no attempt of a handler that stops for that reason", async () => {
        const [queue, runs] = [make({ maxAttempts: 1 }), new Runs()];
        const { promise, open } = latch();
        const told: unknown[] = [];
        const failed: unknown[] = [];
        const worker = work(
          queue,
          async ({ data, closing }) => {
            // As Node's own functions reject: with the reason as cause.
            if (data === "waits") await pause(600_000, undefined, { signal: closing });
            told.push(await aborted(closing));
            if (data === "fails") throw new Error("broken");
            if (data === "stops") closing.throwIfAborted();
            await promise;
          },
          { concurrency: 4 },
        );
        worker.on("failed", ({ job }) => failed.push(job.data));
        await queue.addAll(["stops", "ends", "waits", "fails"].map((data) => ({ name: "job", data })));
        await eventually(() => expect(worker.running).toBe(4));
        const closed = worker.close({ timeoutMs: 600_000 });
        await eventually(async () =>
          expect(await fixture().counts()).toMatchObject({ waiting: 2, dead: 1, leases: 1 }),
        );
        expect(told).toMatchObject([{ code: "KIT_CLOSED" }, { code: "KIT_CLOSED" }, { code: "KIT_CLOSED" }]);
        open();
        await closed;
        expect(failed).toEqual(["fails"]);
        work(queue, runs.handler);
        await runs.until(2);
        expect(runs.jobs.map(({ data, attempt, crashes }) => [data, attempt, crashes])).toEqual([
          ["stops", 1, 0],
          ["waits", 1, 0],
        ]);
      });

      it("keeps the job of a handler that closes its worker, and runs it once", async () => {
        const [queue, runs] = [make(), new Runs()];
        let closed: Promise<void> | undefined;
        const worker = work(queue, (job) => {
          runs.handler(job);
          closed = worker.close();
        });
        await queue.addAll([1, 2].map((data) => ({ name: "job", data })));
        await runs.until(1);
        await closed;
        expect(await fixture().counts()).toMatchObject({ jobs: 1, waiting: 1, leases: 0 });
        expect(runs.data).toEqual([1]);
      });

      it("keeps the job of an aborted handler leased while it saves its state, and starts it nowhere else", async () => {
        const queue = make({ maxAttempts: 1 });
        const { promise, open } = latch();
        const order: string[] = [];
        const old = work(
          queue,
          async ({ signal }) => {
            const reason = await aborted(signal);
            order.push("aborted");
            await promise;
            order.push("saved");
            throw reason;
          },
          { leaseMs: 400, abortGraceMs: 60_000 },
        );
        await queue.add("job");
        await eventually(() => expect(old.running).toBe(1));
        const other = work(queue, ({ attempt, crashes }) => void order.push(`begun ${attempt} ${crashes}`));
        const closed = old.close({ timeoutMs: 0 });
        await eventually(() => expect(order).toEqual(["aborted"]));
        // Longer than the lease: it is renewed meanwhile.
        const until = (await serverMs()) + 1_000;
        await eventually(async () => expect(await serverMs()).toBeGreaterThan(until));
        expect(order).toEqual(["aborted"]);
        open();
        await closed;
        await eventually(() => expect(order).toEqual(["aborted", "saved", "begun 1 0"]));
        await other.close();
      });

      it("notifies every handler immediately in five deploys; each worker continues with the last one's jobs in order", async () => {
        const queue = make({ maxAttempts: 1 });
        await queue.addAll(Array.from({ length: 12 }, (_, data) => ({ name: "job", data })));
        for (let round = 0; round < 5; round++) {
          const begun: Job[] = [];
          const told: unknown[] = [];
          const worker = work(
            queue,
            async (job) => {
              begun.push(job);
              told.push(await aborted(job.closing));
              job.closing.throwIfAborted();
            },
            { concurrency: 4 },
          );
          await eventually(() => expect(begun).toHaveLength(4));
          await worker.close({ timeoutMs: 600_000 });
          expect(told).toHaveLength(4);
          expect(begun.map(({ data, attempt, crashes }) => [data, attempt, crashes])).toEqual(
            [0, 1, 2, 3].map((data) => [data, 1, 0]),
          );
        }
        expect(await fixture().counts()).toMatchObject({ waiting: 12, leases: 0, failures: 0 });
      });

      it.each([0, -7])(
        "hands jobs of priority %i back in their old order, however their handlers end",
        async (priority) => {
          const queue = make();
          const latches = Array.from({ length: 5 }, () => latch());
          const worker = work(
            queue,
            async ({ data, closing }) => {
              await latches[data as number]!.promise;
              closing.throwIfAborted();
            },
            { concurrency: 5 },
          );
          const jobs = Array.from({ length: 7 }, (_, data) => ({ name: "job", data, id: `own ${9 - data}`, priority }));
          await queue.addAll(jobs);
          await eventually(() => expect(worker.running).toBe(5));
          // Those of the priorities beside it keep their places.
          await queue.addAll([-1, 1].map((step) => ({ name: "job", id: `next ${step}`, priority: priority + step })));
          const closed = worker.close({ timeoutMs: 600_000 });
          for (const [index, data] of [2, 0, 3, 1, 4].entries()) {
            latches[data]!.open();
            await eventually(async () => expect((await fixture().counts()).leases).toBe(4 - index));
          }
          await closed;
          const { waiting, prioritised } = fixture().keysOf();
          const ids = jobs.map(({ id }) => id);
          const ranked = await fixture().db.zrange(prioritised, "0", "-1");
          expect(await fixture().db.lrange(waiting, 0, -1)).toEqual(priority === 0 ? ids : []);
          expect(ranked).toEqual(priority === 0 ? ["next -1", "next 1"] : ["next -1", ...ids, "next 1"]);
        },
      );

      it("aborts a job that does not end in time, and hands it back to the front without counting an attempt", async () => {
        const [queue, runs] = [make({ maxAttempts: 1 }), new Runs()];
        const reasons: unknown[] = [];
        const worker = work(
          queue,
          async ({ data, signal }) => {
            if (data === "silent") await new Promise(() => undefined);
            reasons.push(await aborted(signal));
            signal.throwIfAborted();
          },
          { concurrency: 2 },
        );
        await queue.add("job", "silent");
        await queue.add("job", "polite");
        await queue.add("job", "next");
        await eventually(() => expect(worker.running).toBe(2));
        await worker.close({ timeoutMs: 50 });
        expect(reasons).toMatchObject([{ code: "KIT_CLOSED" }]);
        expect(await fixture().counts()).toMatchObject({ waiting: 3, leases: 0, failures: 0 });
        work(queue, runs.handler);
        await runs.until(3);
        expect(runs.data).toEqual(["silent", "polite", "next"]);
        expect(runs.jobs.every(({ attempt, crashes }) => attempt === 1 && crashes === 0)).toBe(true);
      });

      it.each([{}, { strict: true, ack: "each" }] as const)(
        "has handed back the jobs whose handlers stopped at its close: %j",
        async (mode) => {
          const queue = make();
          const worker = work(
            queue,
            async ({ signal }) => {
              throw await aborted(signal);
            },
            mode,
          );
          await queue.add("job");
          await eventually(() => expect(worker.running).toBe(1));
          await worker.close({ timeoutMs: 0 });
          expect(await fixture().counts()).toMatchObject({ waiting: 1, leases: 0, failures: 0 });
        },
      );

      it("records a failure for which the backoff function is still deciding, unless that takes too long", async () => {
        const queue = make({ maxAttempts: 2 });
        const fail = (): never => {
          throw new Error("broken");
        };
        for (const [waitMs, timeoutMs, expected] of [
          [600_000, 20_000, { delayed: 1, waiting: 0, failures: 1 }],
          [undefined, 0, { delayed: 1, waiting: 1, failures: 1 }],
        ] as const) {
          const [asked, { promise, open }] = [latch(), latch()];
          const decide = (): Promise<number> => (asked.open(), promise.then(() => waitMs ?? 0));
          const worker = work(queue, fail, { backoff: decide });
          await queue.add("job");
          await asked.promise;
          const closing = worker.close({ timeoutMs });
          if (waitMs !== undefined) open();
          await closing;
          open();
          expect(await fixture().counts()).toMatchObject({ ...expected, leases: 0 });
        }
      });

      it("closes idle and busy workers and queues many times over, and refuses work from then on", async () => {
        const clients = async (): Promise<number> => {
          const lists = await Promise.all(redis.server.nodes.map((node) => node.call("CLIENT", "LIST")));
          return lists.join("").split("\n").length;
        };
        await make().add("job", "warm");
        const before = await clients();
        for (let round = 0; round < 50; round++) {
          const queue = fixture().make();
          const worker = work(queue, () => undefined, { concurrency: 5 });
          if (round % 2 === 0) await queue.add("job", round);
          await Promise.all([queue.close(), worker.close(), queue.close()]);
          expect(await rejection(queue.add("job", 1))).toMatchObject({ code: "KIT_CLOSED" });
          expect(() => queue.work({})).toThrow(/closed/);
        }
        await eventually(async () => expect(await clients()).toBeLessThanOrEqual(before));
        const [queue, runs] = [make(), new Runs()];
        work(queue, runs.handler);
        await fixture().untilEmpty();
        expect((await fixture().counts()).jobs).toBe(0);
      });
    });

    if (mode === "cluster") {
      const [id, takeId] = ["AAAAAAAAA.0001", "worker000001"];
      const member = takeId + id;
      const keys = () => ({
        ...fixture().keysOf(name),
        listed: fixture().keysOf(name).dead,
        ranked: fixture().keysOf(name).prioritised,
        replies: repliesKey(keyHead(redis.prefix, name), "c"),
        taken: takenKey(keyHead(redis.prefix, name), takeId),
        others: onceKeys(fixture().keysOf(), [answeredKey(keyHead(redis.prefix, name), "AAAAAAAAA")], true),
      });
      const seed = async (): Promise<void> => {
        const { jobs, leases, dead, failures, replies, taken, unique } = keys();
        await fixture().db.hset(unique, "key", `${id} 0 `);
        await fixture().db.zadd(keys().suspended, 0, `other ${"0".repeat(23)} AAAAAAAAA.0007`);
        await fixture().db.hset(jobs, id, `k1 job\n"${id}"`);
        await fixture().db.zadd(leases, Date.now() + 600_000, member);
        await fixture().db.zadd(dead, 1, id);
        await fixture().db.hset(failures, id, "1\t0\t{}");
        await fixture().db.hset(replies, id, "j1");
        await fixture().db.pexpire(replies, 60_000);
        await fixture().db.set(taken, "worker000000\n", "PX", 60_000);
      };
      const withTake = async (): Promise<void> => {
        await seed();
        await fixture().db.set(keys().taken, `${takeId}\n${id}`, "PX", 60_000);
      };
      const onlyRanked = async (): Promise<void> => {
        await seed();
        await fixture().db.del(keys().prioritised);
        await fixture().db.zadd(keys().prioritised, 1, id);
      };
      const strayId = "AAAAAAAAA.0009";
      const withStray = async (): Promise<void> => {
        await seed();
        await fixture().db.hset(keys().jobs, strayId, "k1 job p1\n1");
      };
      const onlyStray = async (): Promise<void> => {
        await withStray();
        await fixture().db.del(keys().prioritised, keys().revoked);
        await fixture().db.zadd(keys().prioritised, 1, strayId);
      };
      const [suspendedId, waitingId] = ["AAAAAAAAA.0007", "AAAAAAAAA.0008"];
      const suspendedMember = `other ${"0".repeat(23)} ${suspendedId}`;
      /** Of two names with limits one is stopped: the step moves a job each way, and removes members of `named`. */
      const withNames = async (): Promise<void> => {
        await withTake();
        const { jobs, waiting, limits, suspended, named } = keys();
        await fixture().db.del(suspended, named, waiting, limits);
        await fixture().db.hset(jobs, suspendedId, "k1 other\n1", waitingId, "k1 job\n1");
        await fixture().db.hset(limits, "names", "\njob 0 1\nother 2 0");
        await fixture().db.rpush(waiting, waitingId);
        await fixture().db.zadd(suspended, 0, suspendedMember);
        await fixture().db.zadd(named, 0, "other worker000009gone", 0, `job ${member}`);
      };
      const [groupedId, heldId] = ["AAAAAAAAA.0010", "AAAAAAAAA.0011"];
      const heldMember = `${takeId}!0@g!${heldId}`;
      /** A group with an active job and a ready one. */
      const withGroups = async (): Promise<void> => {
        await seed();
        const { jobs, leases, grouped: line, turns, held, groups } = keys();
        await fixture().db.del(line, turns, held, groups);
        await fixture().db.hset(jobs, groupedId, "k1 job gg\n1", heldId, "k1 job gg\n1");
        await fixture().db.zadd(line, 0, `g 10485761000000000000001 !0@g!${groupedId}`);
        await fixture().db.zadd(held, 0, `g ${heldId}`);
        await fixture().db.zadd(turns, 4e15 + 10_000, "g");
        await fixture().db.hset(groups, "", "0 wait 0 0");
        await fixture().db.zadd(leases, Date.now() + 600_000, heldMember);
      };
      const { groupPlaces, listGroups } = looks;
      const { cancel, drain, edit, find, limit, list, overview, prioritise, remove, repair, reschedule, scan } = looks;
      const { begin, heartbeat, outcomes } = scripts;
      // The others refuse a queue in which the keys of groups exist.
      const { add, handBack, recover, step } = grouped;
      const { letters, redrive } = deadScripts;
      slots.itRanAll(keys, () => [
        {
          script: add,
          args: [
            "AAAAAAAAA",
            5,
            0,
            `${id}2\tpriority=1\tifNew\tanswer\n${id}3\tkey=other\tanswer`,
            'k1 job\n"2"',
            'k1 job\n"3"',
          ],
          seed,
        },
        { script: prioritise, args: [id, 2], seed: onlyRanked },
        { script: remove, args: [id], seed: onlyRanked },
        { script: drain, args: ["ranked", 5, ""], seed: onlyRanked },
        { script: edit, args: [id, "", "k1 job\n2"], seed: onlyRanked },
        { script: cancel, args: [strayId, "k1 job p1", "0", "", "", "x"], seed: onlyStray },
        { script: reschedule, args: [id, "d600000"], seed: onlyRanked },
        { script: find, args: [id], seed },
        { script: limit, args: ["0", "", "", `other 2 0`, "", String(Date.now() * 1_000)], seed },
        { script: letters, args: ["+inf", 0, "", 5], seed },
        { script: list, args: ["ids", "start", 0, 10, "", ""], seed },
        { script: overview, args: [], seed },
        { script: scan, args: ["jobs", "0"], seed: withStray },
        { script: repair, args: ["repair", strayId], seed: withStray },
        { script: begin, args: [member], seed },
        { script: heartbeat, args: [60_000, member, ""], seed },
        { script: handBack, args: [`${member}\n${takeId}other`, id, "1", ""], seed },
        { script: handBack, args: [member, "", "0", ""], seed: withNames },
        { script: recover, args: [takeId], seed: withTake },
        { script: recover, args: [takeId], seed: withNames },
        { script: cancel, args: [id, "", "0", "", "", "x"], seed: withNames },
        { script: limit, args: ["", "", "", "job 0 0\nother 0 0", "", String(Date.now() * 1_000)], seed: withNames },
        { script: remove, args: [suspendedId], seed: withNames },
        {
          script: edit,
          args: [suspendedId, createHash("sha1").update("k1 other\n1").digest("hex"), "k1 other p1\n1"],
          seed: withNames,
        },
        { script: drain, args: ["suspended", 5, ""], seed: withNames },
        { script: handBack, args: [heldMember, "", "0", ""], seed: withGroups },
        { script: remove, args: [groupedId], seed: withGroups },
        { script: cancel, args: [heldId, "", "0", "", "", "x"], seed: withGroups },
        { script: prioritise, args: [groupedId, 2], seed: withGroups },
        { script: reschedule, args: [groupedId, "due=9999999999999"], seed: withGroups },
        { script: limit, args: ["", "", "", "", "\ng 2 0 1", String(Date.now() * 1_000)], seed: withGroups },
        {
          script: step,
          args: ["worker000003", 5, 5, "", 60_000, "look", "2 10000 1209600000 67108864", "", heldMember],
          seed: withGroups,
        },
        { script: listGroups, args: ["", 10], seed: withGroups },
        { script: groupPlaces, args: ["g"], seed: withGroups },
        { script: outcomes, args: [id, "other"], seed },
        { script: redrive, args: ["drop", `${id}\nother`, "", 0], seed },
        { script: step, args: [takeId, 1, 1, "", 60_000, "look", "2 10000 1209600000 67108864", "1", member], seed },
        {
          script: step,
          args: ["worker000003", 5, 5, "", 60_000, "look", "2 10000 1209600000 67108864", "", ""],
          seed: withNames,
        },
      ]);
    }
  });
});
