import { eventually, useRedis } from "@kit/testing";
import { inModes, onMovingSlots, rejection, runProgram } from "@tooling/vitest/helpers";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import {
  createSchedules,
  runOf,
  type Schedules,
  ScheduleError,
  type SchedulesOptions,
} from "../src/schedules/index.js";
import * as scripts from "../src/schedules/scripts/index.js";
import { fixtureOf, name, permanentKeys, Runs } from "./harness.js";

const [hourMs, dayMs] = [3_600_000, 86_400_000];
const hourly = { everyMs: hourMs, name: "job" } as const;

/** The schedules of a queue, on one server or on a Cluster. */
inModes({}, (mode) => {
  describe(`schedules on a ${mode === "cluster" ? "Cluster" : "single server"}`, () => {
    const redis = useRedis(vitest, { mode, permanentKeys });
    const slots = onMovingSlots(redis, scripts);
    const fixture = fixtureOf(redis);
    const make = (options: SchedulesOptions = {}): Schedules => {
      const schedules = createSchedules(redis.client, name, { prefix: redis.prefix, deadlineMs: 10_000, ...options });
      redis.defer(() => schedules.close({ timeoutMs: 0 }));
      return schedules;
    };
    const serverMs = async (): Promise<number> => {
      const [seconds, micros] = (await (await fixture.nodeOf()).call("TIME")) as [string, string];
      return Number(seconds) * 1_000 + Math.floor(Number(micros) / 1_000);
    };
    /** Sets the next run of a schedule, as if time had passed since. */
    const age = (id: string, at: number): Promise<unknown> => fixture.db.zadd(fixture.keysOf().upcoming, "XX", at, id);
    const jobIds = (): Promise<string[]> => fixture.db.lrange(fixture.keysOf().waiting, 0, -1);
    const runsAt = async (): Promise<number[]> => (await jobIds()).map((id) => runOf(id)!.runAt);
    const aligned = (ms: number, everyMs: number): number => Math.floor(ms / everyMs) * everyMs;

    it("add the runs that are due at a look, and leave what becomes due meanwhile to the next one", async () => {
      const schedules = make();
      for (const missed of ["all", "last"] as const)
        await schedules.upsert(missed, { everyMs: 1, name: "job", missed });
      for (let look = 0; look < 3; look++) {
        await eventually(async () => expect(await serverMs()).toBeGreaterThan((await schedules.next("all"))[0]!));
        expect(await schedules.runDue()).toBeGreaterThan(0);
      }
    });

    it("add no job while the job of the last run waits or runs, if they skip overlaps, and lose none of their count", async () => {
      const schedules = make();
      const missed: unknown[] = [];
      schedules.on("missed", (event) => missed.push(event));
      for (const policy of ["last", "all", "skip"] as const) {
        const one = { everyMs: hourMs, name: "job", missed: policy, overlap: "skip", count: 3 } as const;
        await schedules.upsert(policy, one);
        const base = aligned(await serverMs(), hourMs);
        /** The next run, as if it were this many hours ago. */
        const ago = (hours: number): Promise<unknown> => age(policy, base - hours * hourMs);
        const left = async (): Promise<unknown> => (await schedules.get(policy))?.left;
        if (policy === "skip") await age(policy, (await serverMs()) - 5);
        else await ago(policy === "all" ? 1 : 0);
        // Of the two late runs of "all" the second one is skipped.
        expect([await schedules.runDue(), await left()]).toEqual([1, 2]);
        const [first] = await jobIds();
        await ago(3);
        const before = missed.length;
        expect([await schedules.runDue(), await left()]).toEqual([0, 2]);
        expect(missed.slice(before)).toEqual([{ schedule: policy, from: base - 3 * hourMs, to: expect.any(Number) }]);
        expect((await schedules.get(policy))!.nextAt).toBe(base + hourMs);
        expect(await schedules.runNow(policy)).toBeUndefined();
        // An equal or changed definition still has its last run.
        await schedules.upsert(policy, { ...one, data: 1 });
        await ago(0);
        expect(await schedules.runDue()).toBe(0);
        // As a dead letter it is in nobody's way.
        await fixture.db.zadd(fixture.keysOf().dead, 1, first!);
        await age(policy, (await serverMs()) - 5);
        expect([await schedules.runDue(), await left()]).toEqual([1, 1]);
        await fixture.db.del(
          ...Object.values(fixture.keysOf()).filter((key) => !/meta|schedules|templates|upcoming/.test(key)),
        );
        const onDemand = await schedules.runNow(policy);
        expect(await jobIds()).toEqual([onDemand]);
        expect(runOf(onDemand!)!.schedule).toBe(policy);
        await age(policy, (await serverMs()) - 5);
        expect([await schedules.runDue(), await left()]).toEqual([0, 1]);
        await schedules.remove(policy);
        await fixture.db.del(...Object.values(fixture.keysOf()).filter((key) => !key.endsWith("meta")));
      }
    });

    it("stay paused over upserts until they are resumed, run on demand, and continue with the next run from then on", async () => {
      const schedules = make();
      expect(await schedules.pause("hourly")).toBe(false);
      expect(await schedules.runNow("hourly")).toBeUndefined();
      await schedules.upsert("hourly", { ...hourly, count: 2 });
      expect([await schedules.pause("hourly"), await schedules.pause("hourly")]).toEqual([true, true]);
      expect(await schedules.upsert("hourly", { ...hourly, count: 2 })).toEqual({ outcome: "kept", nextAt: undefined });
      const later = { ...hourly, everyMs: 2 * hourMs, count: 2 };
      expect(await schedules.upsert("hourly", later)).toEqual({ outcome: "changed", nextAt: undefined });
      expect(await schedules.get("hourly")).toMatchObject({ isPaused: true, nextAt: undefined });
      expect(await schedules.next("hourly")).toEqual([]);
      const ids = [await schedules.runNow("hourly"), await schedules.runNow("hourly")];
      expect(new Set(ids).size).toBe(2);
      expect(await jobIds()).toEqual(ids);
      expect([await schedules.resume("hourly"), await schedules.resume("hourly")]).toEqual([true, true]);
      const base = aligned(await serverMs(), 2 * hourMs);
      expect(await schedules.get("hourly")).toMatchObject({ isPaused: false, nextAt: base + 2 * hourMs, left: 2 });
      // One that has ended does not begin again.
      for (let run = 0; run < 2; run++) {
        await age("hourly", base - run);
        expect(await schedules.runDue()).toBe(1);
      }
      await schedules.pause("hourly");
      await schedules.resume("hourly");
      expect(await schedules.get("hourly")).toMatchObject({ isPaused: false, nextAt: undefined, left: 0 });
    });

    it("run on demand once for a call that arrives again, even after its job has ended", async () => {
      const schedules = make();
      await schedules.upsert("hourly", hourly);
      const { field, at } = await scripts.readSchedule.run(fixture.db, fixture.keysOf(), { id: "hourly" });
      const plan = ["hourly", field.split("\t")[1], at, at, "", "5", "demand", "0"].join("\t");
      const call = (): Promise<unknown> => scripts.fire.run(fixture.db, fixture.keysOf(), { stamp: "k1", plan });
      expect(await call()).toEqual([true]);
      expect(await jobIds()).toEqual(["hourly@5"]);
      // Another process decided to add the next job before it saw this one.
      const skipping = plan.replace(/5\tdemand\t0$/, "9\tskip\t0");
      expect(await scripts.fire.run(fixture.db, fixture.keysOf(), { stamp: "k1", plan: skipping })).toEqual([false]);
      await fixture.db.del(fixture.keysOf().waiting, fixture.keysOf().jobs);
      expect(await call()).toEqual([true]);
      expect(await jobIds()).toEqual([]);
    });

    it("delay their jobs by a random part of `jitterMs`, which expire so much later", async () => {
      const schedules = make();
      const jitterMs = hourMs;
      for (const id of ["a", "b", "c"])
        await schedules.upsert(id, { ...hourly, jitterMs, options: { expiresMs: 1_000, priority: 2 } });
      const at = (await serverMs()) - 5;
      for (const id of ["a", "b", "c"]) await age(id, at);
      expect(await schedules.runDue()).toBe(3);
      const delayed = await fixture.db.zrange(fixture.keysOf().delayed, "0", "-1", "WITHSCORES");
      const dues = delayed.filter((_, index) => index % 2 === 1).map(Number);
      expect(new Set(dues).size).toBe(3);
      for (const due of dues) {
        expect(due).toBeGreaterThanOrEqual(at);
        expect(due).toBeLessThanOrEqual(at + jitterMs);
      }
      for (let index = 0; index < delayed.length; index += 2) {
        expect(delayed[index]).toMatch(new RegExp(`^!2![abc]@${String(at)}$`));
        const blob = await fixture.db.hget(fixture.keysOf().jobs, delayed[index]!.slice(3));
        expect(blob).toContain(` e1000@${delayed[index + 1]!} `);
      }
    });

    describe("that run", () => {
      it("add their jobs at the instants of the server's clock, with options and data, and a failed one stops nothing", async () => {
        const schedules = make({ maxAttempts: 2, backoff: { firstMs: 1 } });
        const runs = new Runs();
        fixture.work(fixture.make(), (job) => {
          runs.handler(job);
          throw new Error("broken");
        });
        const begun = await serverMs();
        await schedules.upsert("often", { everyMs: 100, name: "job", data: { of: "often" }, options: { priority: 3 } });
        await schedules.upsert("bytes", { cron: "* * * * * *", name: "job", data: Uint8Array.from([0, 255]) });
        schedules.run();
        schedules.run();
        await eventually(() => {
          const ran = runs.jobs.map(({ id, attempt }) => `${runOf(id)!.schedule} ${String(attempt)}`);
          expect(new Set(ran)).toEqual(new Set(["often 1", "often 2", "bytes 1", "bytes 2"]));
          expect(ran.filter((one) => one === "often 1").length).toBeGreaterThan(4);
        });
        await schedules.close();
        for (const { id, data, priority, takenAt } of runs.jobs) {
          const { schedule, runAt } = runOf(id)!;
          expect(runAt % (schedule === "often" ? 100 : 1_000)).toBe(0);
          expect(runAt).toBeGreaterThan(begun);
          expect(takenAt).toBeGreaterThanOrEqual(runAt);
          expect([data, priority]).toEqual(schedule === "often" ? [{ of: "often" }, 3] : [Buffer.from([0, 255]), 0]);
        }
      });

      it("add each job once in several processes, also for a schedule that another one adds or changes meanwhile", async () => {
        const all = [make({ lookEveryMs: 100 }), make({ lookEveryMs: 100 }), make({ lookEveryMs: 100 })];
        for (const one of all) one.run();
        const added: string[] = [];
        for (const one of all) one.on("added", ({ jobs }) => added.push(...jobs));
        await make().upsert("often", { everyMs: 20, name: "job", missed: "all" });
        await eventually(async () => expect((await jobIds()).length).toBeGreaterThan(20));
        expect(await make().upsert("often", { everyMs: 30, name: "job", missed: "all" })).toMatchObject({
          outcome: "changed",
        });
        const before = (await jobIds()).length;
        await eventually(async () => expect((await jobIds()).length).toBeGreaterThan(before + 20));
        await make().remove("often");
        await Promise.all(all.map((one) => one.close()));
        const ids = await jobIds();
        expect(new Set(ids).size).toBe(ids.length);
        expect(added.toSorted()).toEqual(ids.toSorted());
        const gaps = (await runsAt()).map((at, index, ats) => at - (ats[index - 1] ?? at)).slice(1);
        // Every run of the first timing until the change, and every one of the second from then on.
        const change = gaps.findIndex((gap) => gap !== 20);
        expect(gaps.slice(change + 1).filter((gap) => gap !== 30)).toEqual([]);
        expect(gaps[change]).toBeLessThanOrEqual(50);
        expect(await jobIds()).toHaveLength(ids.length);
      });

      if (mode === "single")
        it("add each job once when their processes are killed around any of their calls", async () => {
          const schedules = make();
          await schedules.upsert("often", { everyMs: 20, name: "job", missed: "all" });
          const program = new URL("programs/schedules.mjs", import.meta.url);
          const port = String(redis.server.nodes[0]!.port);
          // The first two calls check the server; then it looks for due runs, adds their jobs, and looks again.
          const kills = ["3 after", "4 before", "4 after", "5 after"].map((kill) => kill.split(" "));
          await Promise.all(
            kills.map(async (kill) => {
              const { code } = await runProgram(redis, program, [port, redis.prefix, name, ...kill]);
              expect(code).toBe(null);
            }),
          );
          await schedules.runDue();
          const runs = await runsAt();
          expect(runs.length).toBeGreaterThan(5);
          expect(runs).toEqual(runs.map((_, index) => runs[0]! + 20 * index));
          expect(await schedules.next("often")).toEqual([runs.at(-1)! + 20]);
        });

      it("continue after schedules that this version cannot read, and after an entry without a schedule", async () => {
        const schedules = make();
        const errors: Error[] = [];
        schedules.on("error", (error) => errors.push(error));
        const { schedules: fields, templates, upcoming } = fixture.keysOf();
        await fixture.db.zadd(upcoming, 1, "newer", 2, "gone");
        await fixture.db.hset(fields, "newer", '0\tr\t\t{"phase":"moon"}');
        await fixture.db.hset(templates, "newer", "job\n1");
        await schedules.upsert("hourly", hourly);
        await age("hourly", aligned(await serverMs(), hourMs));
        expect(await schedules.runDue()).toBe(1);
        expect(await schedules.runDue()).toBe(0);
        expect(errors).toMatchObject([{ code: "KIT_QUEUE_SCHEDULE", schedule: "newer" }]);
        expect(errors[0]).toBeInstanceOf(ScheduleError);
        expect(await fixture.db.zrange(upcoming, "0", "-1")).toEqual(["newer", "hourly"]);
        expect(await rejection(schedules.get("newer"))).toBeInstanceOf(ScheduleError);
        expect(await schedules.get("gone")).toBeUndefined();
        expect(await schedules.remove("newer")).toBe(true);
      });
    });

    it("whose stored timing breaks a rule of an upsert is refused", async () => {
      const schedules = make();
      const { schedules: fields } = fixture.keysOf();
      await schedules.upsert("hourly", hourly);
      const field = (await fixture.db.hget(fields, "hourly"))!;
      const numbers = ["0.5", "-1", "1e-9", "1e300", '"x"', "null"];
      const timings = ["everyMs", "startAt", "endAt", "jitterMs", "count"].flatMap((name) =>
        numbers.map((number) => `{"everyMs":1000,"${name}":${number}}`),
      );
      for (const timing of [...timings, '{"everyMs":0}', "null", "[[[["]) {
        await fixture.db.hset(fields, "hourly", field.replace(/[^\t]*$/, timing));
        expect(await rejection(schedules.get("hourly")), timing).toMatchObject({ code: "KIT_QUEUE_SCHEDULE" });
      }
      // An upsert at a version that no schedule can have would try for ever.
      for (const version of ["-1", "text", "1e300"]) {
        await fixture.db.hset(fields, "hourly", field.replace(/^\d+/, version));
        expect(await rejection(schedules.upsert("hourly", hourly))).toMatchObject({ code: "KIT_QUEUE_SCHEDULE" });
      }
    });

    it("whose stored name or data cannot be read is refused, and still listed", async () => {
      const schedules = make();
      const { templates } = fixture.keysOf();
      await schedules.upsert("hourly", hourly);
      for (const template of ["%\n1", "job\n{"]) {
        await fixture.db.hset(templates, "hourly", template);
        expect(await rejection(schedules.get("hourly"))).toMatchObject({ code: "KIT_QUEUE_SCHEDULE" });
        expect(await schedules.list()).toMatchObject([{ id: "hourly", name: template.split("\n", 1)[0] }]);
      }
    });

    describe("an upsert", () => {
      it("of several processes makes one schedule, and leaves its next run as it is", async () => {
        const outcomes = await Promise.all(
          Array.from({ length: 10 }, () => make().upsert("nightly", { cron: "0 3 * * *", name: "job", data: 1 })),
        );
        expect(outcomes.filter(({ outcome }) => outcome === "added")).toHaveLength(1);
        expect(outcomes.filter(({ outcome }) => outcome === "kept")).toHaveLength(9);
        expect(new Set(outcomes.map(({ nextAt }) => nextAt)).size).toBe(1);
        expect(outcomes[0]!.nextAt! % dayMs).toBe(3 * hourMs);
        expect(await make().list()).toMatchObject([{ id: "nightly", timezone: "UTC", nextAt: outcomes[0]!.nextAt }]);
      });

      it("of a lower version changes nothing, and one of other data keeps the next run and the count", async () => {
        const schedules = make();
        const at = aligned(await serverMs(), hourMs);
        await schedules.upsert("hourly", { ...hourly, data: "old", version: 2, count: 5, missed: "all" });
        await age("hourly", at - hourMs);
        expect(await schedules.upsert("hourly", { ...hourly, everyMs: 5, version: 1 })).toEqual({
          outcome: "older",
          nextAt: at - hourMs,
        });
        const newer = { ...hourly, data: "new", version: 3, count: 5, missed: "all" } as const;
        expect(await schedules.upsert("hourly", newer)).toEqual({ outcome: "changed", nextAt: at - hourMs });
        expect(await schedules.runDue()).toBe(2);
        expect(await schedules.get("hourly")).toMatchObject({ data: "new", version: 3, left: 3, nextAt: at + hourMs });
        expect(await schedules.upsert("hourly", newer)).toEqual({ outcome: "kept", nextAt: at + hourMs });
        // A new timing begins anew. A run that is due is not lost by it.
        await age("hourly", at);
        expect(await schedules.upsert("hourly", { ...newer, count: 4, everyMs: 2 * hourMs })).toEqual({
          outcome: "changed",
          nextAt: at,
        });
        expect(await schedules.get("hourly")).toMatchObject({ left: 4 });
      });

      it("refuses an invalid schedule, and stores nothing", async () => {
        const schedules = make();
        const wrong: readonly object[] = [
          {},
          { name: "job" },
          { ...hourly, cron: "* * * * *" },
          { ...hourly, timezone: "UTC" },
          { cron: "61 * * * *", name: "job" },
          { cron: "2030-01-01T00:00:00Z", name: "job" },
          { cron: "* * * * *", timezone: "Mars/Olympus", name: "job" },
          { ...hourly, startAt: 2, endAt: 1 },
          // They never run.
          { cron: "0 0 30 2 *", name: "job" },
          { cron: "0 0 1 1 *", startAt: Date.UTC(2030, 1), endAt: Date.UTC(2030, 11), name: "job" },
          { ...hourly, every: 5 },
          { ...hourly, options: { delayMs: 5 } },
        ];
        for (const one of wrong)
          expect(String(await rejection(schedules.upsert("wrong", one as never)))).toMatch(
            /^(Type|Range)Error: (Expected|Unknown option) /,
          );
        for (const id of ["", "x".repeat(101), "a\tb", "!5!x"])
          expect(String(await rejection(schedules.upsert(id, hourly)))).toMatch(/^RangeError: Expected `id`/);
        expect(await schedules.list()).toEqual([]);
      });
    });

    it("has ended when it is added after its end, and reports it", async () => {
      const schedules = make();
      const over = { ...hourly, endAt: Date.UTC(2020, 0) };
      const pastYear = { cron: "0 0 0 1 1 * 2020", name: "job" };
      for (const [id, one] of Object.entries({ over, pastYear })) {
        for (const outcome of ["added", "kept"])
          expect(await schedules.upsert(id, one)).toEqual({ outcome, nextAt: undefined });
        expect(await schedules.next(id)).toEqual([]);
      }
      expect(await schedules.runDue()).toBe(0);
    });

    describe("missed runs", () => {
      const missedOf = async (
        missed: "skip" | "last" | "all",
        everyMs: number,
      ): Promise<readonly [number[], object[]]> => {
        const schedules = make();
        const events: object[] = [];
        schedules.on("missed", (event) => events.push(event));
        await schedules.upsert("late", { everyMs, name: "job", missed });
        await age("late", aligned(await serverMs(), everyMs) - 250 * everyMs);
        await schedules.runDue();
        return [await runsAt(), events];
      };

      it("all add a job with `all`, in slices", async () => {
        const [runs, events] = await missedOf("all", dayMs);
        expect(runs).toHaveLength(251);
        expect(runs).toEqual(runs.map((_, index) => runs[0]! + dayMs * index));
        expect(events).toEqual([]);
      });

      it("add one job with `last`, and none with `skip` if that is late by more than a minute", async () => {
        const today = aligned(await serverMs(), dayMs);
        const [runs, events] = await missedOf("last", dayMs);
        expect(runs).toEqual([today]);
        expect(events).toEqual([{ schedule: "late", from: today - 250 * dayMs, to: today }]);
        const schedules = make();
        // The latest run is half a day late.
        const startAt = (await serverMs()) - 2.5 * dayMs;
        const last = startAt + 2 * dayMs;
        await schedules.upsert("skipped", { everyMs: dayMs, startAt, name: "job", missed: "skip" });
        const skipped: object[] = [];
        schedules.on("missed", (event) => skipped.push(event));
        await age("skipped", last);
        expect(await schedules.runDue()).toBe(0);
        expect(skipped).toEqual([{ schedule: "skipped", from: last, to: last + dayMs }]);
        expect(await schedules.next("skipped", 2)).toEqual([last + dayMs, last + 2 * dayMs]);
      });

      it("add a job with `skip` if the latest one is late by less than a minute", async () => {
        const [runs] = await missedOf("skip", 1_000);
        expect(runs).toHaveLength(1);
        expect((await serverMs()) - runs[0]!).toBeLessThan(60_000);
      });
    });

    describe("cron", () => {
      /** The runs of an expression between two instants, as a process adds them that has been away since. */
      const between = async (cron: string, timezone: string, from: string, to: string): Promise<string[]> => {
        const schedules = make();
        const [startAt, endAt] = [new Date(from), new Date(to)];
        await schedules.upsert("cron", { cron, timezone, startAt, endAt, name: "job", missed: "all" });
        expect(await schedules.next("cron")).toEqual([]);
        const { Cron } = await import("croner");
        await age(
          "cron",
          new Cron(cron, { timezone, paused: true }).nextRun(new Date(startAt.getTime() - 1))!.getTime(),
        );
        await schedules.runDue();
        const runs = await runsAt();
        await fixture.db.del(fixture.keysOf().waiting, fixture.keysOf().jobs);
        return runs.map((at) => new Date(at).toISOString().slice(5, 16));
      };

      it("runs a time that summer time leaves out once, at the end of the gap", async () => {
        expect(await between("30 2 * * *", "Europe/Berlin", "2024-03-30T00:00Z", "2024-04-01T12:00Z")).toEqual([
          "03-30T01:30",
          "03-31T01:00",
          "04-01T00:30",
        ]);
        expect(await between("0,30 2,14 * * *", "Europe/Berlin", "2024-03-30T12:45Z", "2024-03-31T18:00Z")).toEqual([
          "03-30T13:00",
          "03-30T13:30",
          "03-31T01:00",
          "03-31T12:00",
          "03-31T12:30",
        ]);
        // The gap ends on the next day.
        expect(await between("30 23 * * 5,6", "America/Nuuk", "2024-03-29T00:00Z", "2024-04-01T00:00Z")).toEqual([
          "03-30T01:30",
          "03-31T01:00",
        ]);
        expect(await between("15 2 * * *", "Australia/Lord_Howe", "2024-10-04T12:00Z", "2024-10-06T18:00Z")).toEqual([
          "10-04T15:45",
          "10-05T15:30",
          "10-06T15:15",
        ]);
      });

      it("runs a time that occurs twice once, and each hour of such a night", async () => {
        expect(await between("30 2 * * *", "Europe/Berlin", "2024-10-26T00:00Z", "2024-10-28T12:00Z")).toEqual([
          "10-26T00:30",
          "10-27T00:30",
          "10-28T01:30",
        ]);
        expect(await between("30 2,14 * * *", "Europe/Berlin", "2024-10-26T12:00Z", "2024-10-27T18:00Z")).toEqual([
          "10-26T12:30",
          "10-27T00:30",
          "10-27T13:30",
        ]);
        expect(await between("30 * * * *", "Europe/Berlin", "2024-10-26T23:00Z", "2024-10-27T03:00Z")).toEqual([
          "10-26T23:30",
          "10-27T00:30",
          "10-27T01:30",
          "10-27T02:30",
        ]);
      });
    });

    describe("an end", () => {
      it("comes by count or instant, and a deploy does not start the schedule again", async () => {
        const schedules = make();
        const at = aligned(await serverMs(), hourMs);
        const counted = { ...hourly, count: 3, missed: "all" } as const;
        const ending = { ...hourly, startAt: at - 2 * hourMs, endAt: at + 1, missed: "all" } as const;
        await schedules.upsert("counted", counted);
        await schedules.upsert("ending", ending);
        await schedules.upsert("last", hourly);
        expect(await schedules.next("counted", 5)).toEqual([at + hourMs, at + 2 * hourMs, at + 3 * hourMs]);
        expect(await schedules.next("ending", 5)).toEqual([]);
        await age("counted", at - 9 * hourMs);
        await age("ending", at - hourMs);
        expect(await schedules.next("ending", 5)).toEqual([at - hourMs, at]);
        expect(await schedules.runDue()).toBe(5);
        expect(await schedules.runDue()).toBe(0);
        for (const [id, one] of [
          ["counted", counted],
          ["ending", ending],
        ] as const)
          expect(await make().upsert(id, one)).toEqual({ outcome: "kept", nextAt: undefined });
        const listed = await schedules.list();
        expect(listed.map(({ id }) => id)).toEqual(["last", "counted", "ending"]);
        expect(listed[1]).toMatchObject({ left: 0, nextAt: undefined, name: "job", count: 3 });
        expect((await schedules.list({ start: 1, count: 1 })).map(({ id }) => id)).toEqual(["counted"]);
        expect(await schedules.remove("counted")).toBe(true);
        expect(await schedules.remove("counted")).toBe(false);
        expect(await schedules.upsert("counted", counted)).toEqual({ outcome: "added", nextAt: at + hourMs });
      });
    });

    describe("a late copy", () => {
      const base = { id: "hourly", revision: "", at: "", removed: "0", template: "job\n1" };
      const put = (args: object): Promise<boolean> =>
        scripts.putSchedule.run(redis.client, fixture.keysOf(), {
          ...{ ...base, schedule: '0\tfirst\t\t{"everyMs":3600000}', next: "1000" },
          ...args,
        });
      const second = { revision: "first", at: "1000", schedule: '0\tsecond\t2\t{"everyMs":3600000}', next: "2000" };
      const fire = (line: string): Promise<readonly boolean[]> =>
        scripts.fire.run(redis.client, fixture.keysOf(), { stamp: "k1", plan: line });

      it("of an upsert changes nothing, whatever was done since", async () => {
        expect(await put({})).toBe(true);
        expect(await put({})).toBe(true);
        expect(await put(second)).toBe(true);
        expect(await put({})).toBe(false);
        expect(await put({ ...second, schedule: second.schedule.replace("second", "third") })).toBe(false);
        expect(await fixture.db.hget(fixture.keysOf().schedules, "hourly")).toBe(second.schedule);
        const drop = (revision: string): Promise<boolean> =>
          scripts.dropSchedule.run(redis.client, fixture.keysOf(), { id: "hourly", revision });
        expect(await drop("first")).toBe(false);
        expect(await drop("second")).toBe(true);
        expect(await drop("second")).toBe(true);
        expect(await put({})).toBe(false);
        expect(await put({ removed: "1" })).toBe(true);
        expect(await drop("second")).toBe(false);
        expect(await make().remove("hourly")).toBe(true);
        const { schedules, templates, upcoming } = fixture.keysOf();
        expect(await fixture.db.exists(schedules, templates, upcoming)).toBe(0);
      });

      it("of a call that adds jobs adds none, even if the schedule has changed since", async () => {
        await put({});
        await put(second);
        expect(await fire("hourly\tsecond\t2000\t3000\t1\t1500,2000\t\t0")).toEqual([true]);
        expect(await jobIds()).toEqual(["hourly@1500", "hourly@2000"]);
        expect(await fire("hourly\tsecond\t2000\t3000\t1\t1500,2000\t\t0")).toEqual([false]);
        expect(await fire("hourly\tfirst\t3000\t4000\t\t3000\t\t0\nnone\tfirst\t1\t2\t\t1\t\t0")).toEqual([
          false,
          false,
        ]);
        expect(await fixture.db.hget(fixture.keysOf().schedules, "hourly")).toBe('0\tsecond\t1\t{"everyMs":3600000}');
        // An upsert that read the schedule before it fired.
        const stale = { ...second, revision: "second", at: "2000", schedule: "0\tthird\t\t{}" };
        expect(await put(stale)).toBe(false);
        // A job that is still there is not added again.
        expect(await fire("hourly\tsecond\t3000\tinf\t0\t2000,3000\t\t0")).toEqual([true]);
        expect(await jobIds()).toEqual(["hourly@1500", "hourly@2000", "hourly@3000"]);
        expect(await fixture.db.zscore(fixture.keysOf().upcoming, "hourly")).toBe("inf");
      });
    });

    if (mode === "cluster") {
      const seed = async (): Promise<void> => {
        const { jobs, waiting, prioritised, wake, meta, schedules, templates, upcoming } = fixture.keysOf();
        for (const hash of [jobs, meta, schedules, templates]) await fixture.db.hset(hash, "other", "1");
        await fixture.db.rpush(waiting, "other");
        for (const zset of [prioritised, wake, upcoming]) await fixture.db.zadd(zset, 1, "other");
        await fixture.db.hset(schedules, "one", '0\tfirst\t\t{"everyMs":3600000}');
        await fixture.db.hset(templates, "one", "job\n1");
        await fixture.db.zadd(upcoming, 1_000, "one");
      };
      slots.itRanAll(
        () => fixture.keysOf(),
        () => [
          { script: scripts.due, args: [0, 10], seed },
          { script: scripts.fire, args: ["k1", "one\tfirst\t1000\t2000\t1\t1000\nlost\t\t1\tinf\t\t"], seed },
          { script: scripts.readSchedule, args: ["one"], seed },
          { script: scripts.listSchedules, args: [0, 10], seed },
          { script: scripts.putSchedule, args: ["one", "first", "1000", "0", "0\tnext\t\t{}", "job\n1", "2000"], seed },
          { script: scripts.dropSchedule, args: ["one", "first"], seed },
        ],
      );
    }
  });
});
