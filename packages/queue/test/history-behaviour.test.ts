import { eventually, useRedis } from "@kit/testing";
import { inModes, onMovingSlots, rejection } from "@tooling/vitest/helpers";
import fc from "fast-check";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { keepHistory } from "../src/history/index.js";
import * as scripts from "../src/history/scripts/index.js";
import * as readers from "../src/history/scripts/readers.js";
import type { History, Worker } from "../src/index.js";
import { cancelJob, inspectJob, inspectQueue, type JobReport, listJobs } from "../src/manage/index.js";
import type { Recorder } from "../src/work/history.js";
import { fixtureOf, latch, permanentKeys, Runs } from "./harness.js";

const next = (worker: Worker, event: "completed" | "expired" | "lost" | "cancelled" | "dead"): Promise<unknown> =>
  new Promise((resolve) => worker.once(event, resolve));

/** Records of ended jobs, on one server or on a Cluster. */
inModes({}, (mode) => {
  describe(`the history of a queue on a ${mode === "cluster" ? "Cluster" : "single server"}`, () => {
    const redis = useRedis(vitest, { mode, permanentKeys });
    const slots = onMovingSlots(redis, { ...scripts, ...readers });
    const fixture = fixtureOf(redis);
    const { make, work, address } = fixture;
    const report = (id: string): Promise<JobReport> => inspectJob(redis.client, address, id, { withData: true });
    const completed = async (options = {}): Promise<string[]> =>
      (await listJobs(redis.client, address, { state: "completed", ...options })).jobs.map(({ id }) => id);
    /** Makes it so that `keep` finds these leases held by the take `worker000001`. */
    const lease = async (...ids: string[]): Promise<void> => {
      for (const id of ids) await fixture.db.zadd(fixture.keysOf().leases, Date.now() + 600_000, `worker000001${id}`);
    };
    const bounds = { maxCount: 1_000, maxAgeMs: 60_000, maxBytes: 1_000_000 };
    const recordOf = (result: string, job = "job"): string =>
      `worker000001 completed j 5\nk1 ${job}\n0\t0\t\t0\n${result}`;
    const keep = (
      ids: readonly string[],
      some: Partial<typeof bounds> = {},
      result = "1",
      job = "job",
    ): Promise<number> =>
      scripts.keep.run(redis.client, fixture.keysOf(), {
        ...bounds,
        ...some,
        ended: ids.map((id) => ({ member: `worker000001${id}`, record: recordOf(result, job) })),
      });

    it("keeps results, times and attempts of jobs that are done, and only that of dead letters", async () => {
      const queue = make({ history: keepHistory(), maxAttempts: 2, backoff: { firstMs: 1, jitter: 0 } });
      const worker = work(queue, ({ data, attempt }) => {
        if (data === "dead" || attempt === 1) throw new Error("broken");
        return data;
      });
      const results = [{ deep: [1, "é\n"] }, undefined, Buffer.from([0, 10, 255]), "x".repeat(20_000)];
      const ids: string[] = [];
      for (const result of results) {
        const done = next(worker, "completed");
        ids.push(await queue.add("job", result, { priority: 3 }));
        await done;
      }
      const dead = next(worker, "dead");
      const id = await queue.add("job", "dead");
      await dead;
      expect(await report(id)).toMatchObject({ state: "dead", outcome: null, takenAt: null });
      const reports = await Promise.all(ids.map(report));
      for (const one of reports)
        expect(one).toMatchObject({ state: "completed", outcome: "completed", name: "job", attempts: 1, priority: 3 });
      const [{ takenAt, at, addedAt }] = reports as [JobReport];
      expect(Date.parse(at!)).toBeGreaterThanOrEqual(Date.parse(takenAt!));
      expect(Math.abs(Date.parse(addedAt!) - Date.parse(at!))).toBeLessThan(60_000);
      expect(reports.map((one) => ("result" in one ? [one.result] : "none"))).toEqual([
        [{ deep: [1, "é\n"] }],
        [undefined],
        ["AAr/"],
        "none",
      ]);
      expect(await inspectJob(redis.client, address, ids[0]!)).not.toHaveProperty("result");
      expect(await completed()).toEqual(ids);
      expect(await completed({ from: "end", count: 2 })).toEqual([ids[3], ids[2]]);
      expect((await inspectQueue(redis.client, address)).kept).toBe(4);
      expect((await fixture.counts()).jobs).toBe(1);
    });

    it("keeps results of calls, and jobs that have expired", async () => {
      const queue = make({ history: keepHistory({ maxResultBytes: 0 }) });
      const id = await queue.add("job", 1, { expiresMs: 1 });
      await eventually(async () => {
        const { now } = await inspectQueue(redis.client, address);
        expect(now).toBeGreaterThan(Date.parse((await report(id)).expiresAt!) + 1);
      });
      const worker = work(queue, ({ data }) => data);
      expect(await queue.call("job", "called")).toBe("called");
      await eventually(async () => expect(await completed()).toHaveLength(2));
      expect(await report(id)).toMatchObject({ state: "completed", outcome: "expired", expiresAt: null });
      const [called] = (await completed()).filter((one) => one !== id);
      expect(await report(called!)).not.toHaveProperty("result");
      await worker.close();
    });

    it("keeps nothing, and sends no further command, unless it is wanted", async () => {
      const [queue, runs] = [make(), new Runs()];
      work(queue, runs.handler);
      const id = await queue.add("job", 1);
      await runs.until(1);
      await fixture.untilEmpty();
      expect(await report(id)).toMatchObject({ state: "none", outcome: null });
      expect(await completed()).toEqual([]);
      const { kept, records } = fixture.keysOf();
      expect(await Promise.all([fixture.db.exists(kept), fixture.db.exists(records)])).toEqual([0, 0]);
    });

    it("shows a job that runs again after a crash between record and end as it is, and then its new record", async () => {
      const queue = make({ history: keepHistory() });
      const peer = await fixture.spawn({ leaseMs: 2_000, diesRecording: true });
      const id = await queue.add("job", { log: "first" }, { id: "own" });
      await eventually(() => expect(peer.isAlive).toBe(false));
      expect(await fixture.logged()).toEqual(["first 1 0"]);
      expect(await fixture.db.hkeys(fixture.keysOf().records)).toEqual(expect.arrayContaining(["!bytes", id]));
      expect(await report(id)).toMatchObject({ state: "active", outcome: null, data: { log: "first" } });
      expect(await report(id)).not.toHaveProperty("result");
      expect(await completed()).toEqual([]);
      const [held, begun] = [latch(), latch()];
      redis.defer(held.open);
      const worker = work(queue, async () => {
        begun.open();
        await held.promise;
        return "second";
      });
      await begun.promise;
      expect(await report(id)).toMatchObject({ state: "active", outcome: null });
      const done = next(worker, "completed");
      held.open();
      await done;
      expect(await report(id)).toMatchObject({ state: "completed", result: "second", crashes: 1 });
      expect(await completed()).toEqual([id]);
    });

    it("has no record of a job that was lost or cancelled when its handler ended", async () => {
      const queue = make({ history: keepHistory() });
      const ends: (() => void)[] = [];
      redis.defer(() => ends.forEach((end) => end()));
      const worker = work(queue, () => new Promise<void>((resolve) => ends.push(resolve)), {
        concurrency: 2,
        leaseMs: 60_000,
      });
      const cancelled = await queue.add("job", 1);
      const lost = await queue.add("job", 2);
      await eventually(() => expect(ends).toHaveLength(2));
      // Deleted by hand: its lease is gone, and was not revoked. The end is accepted, but there is no record.
      await fixture.db.zrem(
        fixture.keysOf().leases,
        (await fixture.db.zrange(fixture.keysOf().leases, "0", "-1")).find((member) => member.endsWith(lost))!,
      );
      expect(await cancelJob(redis.client, address, cancelled)).toBe("cancelled");
      const told = next(worker, "cancelled");
      for (const end of ends) end();
      await told;
      await fixture.untilEmpty();
      expect(await report(cancelled)).toMatchObject({ state: "none", outcome: null });
      expect(await completed()).toEqual([]);
    });

    it("deletes the record of a refused end, but not the record of another take", async () => {
      await lease("a", "b");
      await keep(["a", "b"]);
      const { kept, records } = fixture.keysOf();
      const forget = (members: string): Promise<number> =>
        scripts.forget.run(redis.client, { kept, records }, { members });
      expect(await forget("worker000002a\nworker000001c")).toBe(0);
      expect(await forget("worker000001a\nworker000002b")).toBe(1);
      expect(await completed()).toEqual(["b"]);
      expect(await fixture.db.hget(records, "!bytes")).toBe(String(recordOf("1").length));
      expect(await forget("worker000001a")).toBe(0);
    });

    it("deletes the record if the job is cancelled between record and end", async () => {
      const real = keepHistory() as History & Recorder;
      const seen: unknown[] = [];
      const history = {
        bounds: real.bounds,
        record: async (...args: Parameters<Recorder["record"]>) => {
          await real.record(...args);
          seen.push(
            await fixture.db.zrange(fixture.keysOf().kept, "0", "-1"),
            await cancelJob(redis.client, address, id),
          );
        },
        forget: (...args: Parameters<Recorder["forget"]>) => real.forget(...args),
      };
      const queue = make({ history });
      const id = await queue.add("job", 1);
      const worker = work(queue, () => 1, { leaseMs: 60_000 });
      await next(worker, "cancelled");
      expect(seen).toEqual([[id], "cancelled"]);
      await eventually(async () => expect(await report(id)).toMatchObject({ state: "none", outcome: null }));
      expect(await completed()).toEqual([]);
    });

    it("keeps within its number, bytes and age, the youngest first, as a model does", async () => {
      const keys = fixture.keysOf();
      await fc.assert(
        fc.asyncProperty(
          fc.record({ maxCount: fc.integer({ min: 1, max: 6 }), maxBytes: fc.integer({ min: 0, max: 400 }) }),
          fc.array(
            fc.record({
              ids: fc.uniqueArray(fc.constantFrom("a", "b", "c", "d", "e", "f", "g", "h"), {
                minLength: 1,
                maxLength: 4,
              }),
              size: fc.integer({ min: 0, max: 60 }),
            }),
            { minLength: 1, maxLength: 12 },
          ),
          async (some, writes) => {
            await fixture.db.del(keys.kept, keys.records, keys.leases);
            await lease("a", "b", "c", "d", "e", "f", "g", "h");
            let model: { id: string; bytes: number; round: number }[] = [];
            for (const [round, { ids, size }] of writes.entries()) {
              // Records of one call have one instant; the next call is younger in any case.
              const times = await fixture.db.zrange(keys.kept, "0", "-1", "WITHSCORES");
              for (let at = 0; at < times.length; at += 2)
                await fixture.db.zadd(keys.kept, "XX", Number(times[at + 1]) - 1, times[at]!);
              await keep(ids, some, "x".repeat(size));
              model = model.filter(({ id }) => !(ids as string[]).includes(id));
              for (const id of ids.toSorted()) model.push({ id, bytes: recordOf("x".repeat(size)).length, round });
              const isOver = (): boolean =>
                model.length > some.maxCount || model.reduce((sum, { bytes }) => sum + bytes, 0) > some.maxBytes;
              while (isOver() && model[0]!.round !== round) model.shift();
              const stored = await fixture.db.hgetall(keys.records);
              const { "!bytes": bytes, ...left } = stored;
              expect((await fixture.db.zrange(keys.kept, "0", "-1")).toSorted()).toEqual(
                model.map(({ id }) => id).toSorted(),
              );
              expect(Object.keys(left).toSorted()).toEqual(model.map(({ id }) => id).toSorted());
              expect(Number(bytes)).toBe(model.reduce((sum, one) => sum + one.bytes, 0));
            }
          },
        ),
        { numRuns: 15 },
      );
    });

    it("drops old records, a part at a time, and expires with the youngest", async () => {
      const ids = Array.from({ length: 200 }, (_, index) => `id${String(index).padStart(3, "0")}`);
      const { kept, records } = fixture.keysOf();
      await lease(...ids, "last", "later");
      await keep(ids);
      expect(await fixture.db.pttl(kept)).toBeGreaterThan(50_000);
      for (const id of ids.slice(0, 120)) await fixture.db.zadd(kept, "XX", 1_000, id);
      await keep(["last"]);
      expect(await fixture.db.zcard(kept)).toBe(149);
      await keep(["last"]);
      expect(await fixture.db.zcard(kept)).toBe(97);
      await keep(["last"], { maxCount: 1 });
      expect(await fixture.db.zcard(kept)).toBe(45);
      await keep(["last"]);
      // The server has evicted the ids, and not the records.
      await fixture.db.del(kept);
      for (let call = 0; call < 100 && (await fixture.db.hlen(records)) > 3; call++) await keep(["last", "later"]);
      expect(Object.keys(await fixture.db.hgetall(records)).toSorted()).toEqual(["!bytes", "last", "later"]);
      expect(await fixture.db.hget(records, "!bytes")).toBe(String(2 * recordOf("1").length));
      await fixture.db.del(records);
      expect(await completed()).toEqual([]);
    });

    it("keeps ending jobs if it may not write records, and emits an error", async () => {
      const queue = make({ history: keepHistory() });
      const { records } = fixture.keysOf();
      await fixture.db.set(records, "no hash", "PX", 60_000);
      const worker = work(queue, () => 1);
      const errors: unknown[] = [];
      worker.on("error", (error) => errors.push(error));
      const done = next(worker, "completed");
      const id = await queue.add("job", 1);
      await done;
      expect(errors).toEqual([expect.objectContaining({ code: "KIT_KEY_TYPE" })]);
      await fixture.db.del(records);
      expect(await report(id)).toMatchObject({ state: "none" });
      const again = next(worker, "completed");
      const second = await queue.add("job", 1);
      await again;
      expect(await report(second)).toMatchObject({ state: "completed", result: 1 });
      expect(errors).toHaveLength(2);
      expect(errors[1]).toMatchObject({ code: "KIT_RECOVERED" });
    });

    it("lists jobs of one name by pages from both ends, with bounded work for each call", async () => {
      const queue = make();
      await queue.addAll(
        Array.from({ length: 2_500 }, (_, index) => ({ name: index % 1_249 === 1 ? "rare" : "job", data: index })),
      );
      const pages = async (options: object): Promise<{ names: string[]; sizes: number[] }> => {
        const all: { names: string[]; sizes: number[] } = { names: [], sizes: [] };
        for (let start: number | undefined = 0; start !== undefined;) {
          const page: Awaited<ReturnType<typeof listJobs>> = await listJobs(redis.client, address, {
            ...options,
            start,
          });
          all.names.push(...page.jobs.map((job) => job.id));
          all.sizes.push(page.jobs.length);
          start = page.next;
        }
        return all;
      };
      const ids = await fixture.db.lrange(fixture.keysOf().waiting, 0, -1);
      const rare = [ids[1]!, ids[1_250]!, ids[2_499]!];
      expect(await pages({ state: "waiting", name: "rare" })).toEqual({ names: rare, sizes: [1, 1, 1] });
      expect(await pages({ state: "waiting", name: "rare", from: "end" })).toEqual({
        names: rare.toReversed(),
        sizes: [1, 1, 1],
      });
      expect(await pages({ state: "waiting", name: "rare", count: 1 })).toMatchObject({ names: rare });
      expect((await pages({ state: "waiting", count: 100 })).names).toEqual(ids);
      expect((await pages({ state: "waiting", count: 70, from: "end" })).names).toEqual(ids.toReversed());
      for (const state of ["prioritised", "delayed"] as const) {
        const options = state === "delayed" ? { delayMs: 600_000 } : { priority: 1 };
        const added = await queue.addAll([1, 2, 3].map((data) => ({ name: "rare", data, ...options })));
        expect((await pages({ state, from: "end", count: 2 })).names.toSorted()).toEqual(added.toSorted());
        expect((await pages({ state, count: 2, name: "other" })).names).toEqual([]);
      }
      await lease("a", "b", "c");
      await keep(["a"], {}, "1", "rare");
      await keep(["b"]);
      await fixture.db.zadd(fixture.keysOf().kept, "XX", 1, "a");
      expect((await pages({ state: "completed", count: 1 })).names).toEqual(["a", "b"]);
      expect((await pages({ state: "completed", count: 1, from: "end" })).names).toEqual(["b", "a"]);
      expect((await pages({ state: "completed", name: "rare" })).names).toEqual(["a"]);
      expect(String(await rejection(listJobs(redis.client, address, { from: "middle" as "end" })))).toMatch(/Expected/);
    });

    it("refuses bounds that are none, and a history that is none", () => {
      for (const wrong of [
        { maxCount: 0 },
        { maxAgeMs: 0 },
        { maxBytes: -1 },
        { maxResultBytes: 2 ** 21 },
        { max: 1 } as object,
      ])
        expect(() => keepHistory(wrong)).toThrow(/Expected|Unknown option/);
      for (const wrong of [{} as History, { bounds: {} }, 5 as unknown as History])
        expect(() => make({ history: wrong })).toThrow(/`history`/);
    });

    if (mode === "cluster") slots.itRanAll(() => fixture.keysOf());
  });
});
