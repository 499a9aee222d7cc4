import { readFileSync } from "node:fs";
import { eventually, useRedis } from "@kit/testing";
import { inModes } from "@tooling/vitest/helpers";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { SnoozeError } from "../src/index.js";
import { pauseQueue, resumeQueue, setLimits } from "../src/manage/index.js";
import { type MetricSample, queueMetrics, type QueueMetricsOptions } from "../src/metrics/index.js";
import { fixtureOf, latch, name, permanentKeys, Runs } from "./harness.js";

/** The metrics of a queue, on one server or on a Cluster. */
inModes({}, (mode) => {
  describe(`metrics of a queue on a ${mode === "cluster" ? "Cluster" : "single server"}`, () => {
    const redis = useRedis(vitest, { mode, permanentKeys });
    const fixture = fixtureOf(redis);
    const address = () => ({ queue: name, prefix: redis.prefix });
    const metrics = (options?: QueueMetricsOptions) => {
      const source = queueMetrics(redis.client, address(), options);
      redis.defer(() => source.close());
      return source;
    };
    /** As an exposition writes them, without the queue. */
    const shown = (samples: readonly MetricSample[]): Record<string, number> =>
      Object.fromEntries(
        samples.map(({ name: own, suffix = "", labels = {}, value }) => {
          const { queue, ...others } = labels;
          expect(queue).toBe(name);
          const text = Object.entries(others).map(([label, one]) => `${label}=${String(one)}`);
          return [`${own.replace("kit_queue_", "")}${suffix}${text.length > 0 ? ` ${text.join(" ")}` : ""}`, value];
        }),
      );

    it("show how many jobs are in each state, how old the next one is, and the names of the next ones", async () => {
      const queue = fixture.make();
      await fixture.db.zadd(fixture.keysOf().delayed, 1, "AAAAAAAAA.0001");
      await fixture.db.hset(fixture.keysOf().jobs, "AAAAAAAAA.0001", `k1 late\n1`);
      await queue.addAll([
        ...Array.from({ length: 130 }, () => ({ name: "mail" })),
        ...Array.from({ length: 30 }, () => ({ name: "image" })),
        { name: "urgent", priority: -1 },
        { name: "later", delayMs: 600_000 },
      ]);
      await pauseQueue(redis.client, address());
      const all = shown(await metrics({ countNames: 140 }).metrics());
      expect(all).toMatchObject({
        ...{ "jobs state=ready": 161, "jobs state=delayed": 2, "jobs state=active": 0, "jobs state=dead": 0 },
        ...{ "jobs state=lost": 0, paused: 1, "next_jobs job=mail": 130, "next_jobs job=image": 10 },
      });
      expect(all["overdue_seconds"]).toBeGreaterThan(1_000_000_000);
      expect(all["next_age_seconds"]).toBeLessThan(600);
      const plain = shown(await metrics().metrics());
      expect(Object.keys(plain).filter((one) => one.startsWith("next_"))).toEqual(["next_age_seconds"]);
    });

    it("are those that the dashboard asks for", async () => {
      const dashboard = readFileSync(new URL("../../stats/grafana/dashboard.json", import.meta.url), "utf8");
      const asked = dashboard.match(/kit_queue_\w+/g);
      const there = (await metrics().metrics()).map((sample) => sample.name);
      expect(asked).not.toBeNull();
      expect(there).toEqual(expect.arrayContaining([...new Set(asked)]));
    });

    it("show names that are stopped, and their ready jobs apart", async () => {
      const queue = fixture.make();
      await pauseQueue(redis.client, address(), { name: "news" });
      await setLimits(redis.client, address(), { names: { slow: { concurrency: 1 } } });
      const runs = new Runs();
      const { promise, open } = latch();
      const run = async (job: Parameters<Runs["handler"]>[0]): Promise<void> => {
        runs.handler(job);
        await promise;
      };
      const worker = queue.work({ news: run, slow: run, job: run }, { concurrency: 5 });
      await queue.addAll(["news", "slow", "slow", "job"].map((job) => ({ name: job })));
      await runs.until(2);
      await eventually(async () =>
        expect(shown(await metrics().metrics())).toMatchObject({
          ...{ "jobs state=ready": 0, "jobs state=suspended": 2, "jobs state=active": 2 },
          ...{ paused: 0, "paused job=news": 1, "paused job=slow": 0 },
        }),
      );
      await resumeQueue(redis.client, address(), { name: "news" });
      open();
      await fixture.untilEmpty();
      const all = shown(await metrics().metrics());
      expect(all).toMatchObject({ "jobs state=suspended": 0, "paused job=slow": 0 });
      expect(all).not.toHaveProperty("paused job=news");
      await worker.close();
    });

    it("show ready jobs of groups, and groups, without a label for each", async () => {
      const queue = fixture.make();
      for (const group of ["a", "a", "b"]) await queue.add("job", 1, { group });
      await pauseQueue(redis.client, address(), { group: "b" });
      const all = shown(await metrics().metrics());
      expect(all).toMatchObject({ "jobs state=ready": 0, "jobs state=grouped": 3, groups: 2, groups_in_turn: 1 });
      expect(Object.keys(all).filter((one) => /=[ab]$/.test(one))).toEqual([]);
    });

    it("show how runs of the workers ended, and how long jobs waited and ran", async () => {
      const queue = fixture.make({ maxAttempts: 2, backoff: { firstMs: 1 } });
      const { promise, open } = latch();
      const runs = new Runs();
      const worker = queue.work({
        slow: async (job) => {
          runs.handler(job);
          await promise;
        },
        broken: () => {
          throw new Error("broken");
        },
        moody: (job) => {
          if (job.snoozes === 0) throw new SnoozeError(1);
        },
      });
      const source = metrics({ workers: [worker] });
      await queue.addAll([{ name: "broken" }, { name: "moody" }, { name: "slow" }]);
      await runs.until(1);
      const before = performance.now();
      await eventually(() => expect(performance.now() - before).toBeGreaterThan(60));
      open();
      await fixture.untilEmpty();
      await eventually(async () => {
        const all = shown(await source.metrics());
        expect(all).toMatchObject({
          ...{ "runs_total job=slow outcome=completed": 1, "runs_total job=slow outcome=failed": 0 },
          ...{ "runs_total job=broken outcome=failed": 2, "runs_total job=broken outcome=completed": 0 },
          ...{ "runs_total job=moody outcome=snoozed": 1, "runs_total job=moody outcome=completed": 1 },
          ...{
            "wait_seconds_count job=slow": 1,
            "wait_seconds_count job=broken": 1,
            "wait_seconds_count job=moody": 1,
          },
          ...{ "run_seconds_count job=slow": 1, "run_seconds_count job=broken": 2, "run_seconds_count job=moody": 2 },
          ...{ "run_seconds_bucket job=slow le=0.05": 0, "run_seconds_bucket job=slow le=+Inf": 1 },
          ...{ died_total: 1, "jobs state=dead": 1 },
        });
        expect(all["run_seconds_sum job=slow"]).toBeGreaterThan(0.06);
        const buckets = Object.entries(all).filter(([one]) => one.startsWith("run_seconds_bucket job=slow"));
        expect(buckets.map(([, value]) => value)).toEqual(
          buckets.map(([, value]) => value).sort((one, other) => one - other),
        );
        // Workers count what is done some time later.
        expect(all["completed_total"]).toBe(2);
      });
      source.close();
      const completed = new Promise((resolve) => worker.once("completed", resolve));
      await queue.add("moody", 1);
      await completed;
      expect(shown(await source.metrics())).toMatchObject({ "runs_total job=moody outcome=completed": 1 });
    });

    it("distinguish 100 job names, and reject options without a meaning", async () => {
      const queue = fixture.make();
      const worker = queue.work(
        Object.fromEntries(Array.from({ length: 130 }, (_, n) => [`job${String(n)}`, () => n])),
      );
      const source = metrics({ workers: [worker] });
      await queue.addAll(Array.from({ length: 130 }, (_, n) => ({ name: `job${String(n)}` })));
      await eventually(async () => {
        const runs = Object.entries(shown(await source.metrics())).filter(([one]) => /^runs.*completed$/.test(one));
        expect(runs).toHaveLength(101);
        expect(Object.fromEntries(runs)).toMatchObject({ "runs_total job=other outcome=completed": 30 });
      });
      expect(() => metrics({ workers: [{}] as never })).toThrow(TypeError);
      expect(() => metrics({ countNames: 1_001 })).toThrow(RangeError);
      expect(() => metrics({ other: 1 } as never)).toThrow(TypeError);
    });
  });
});
