import { KitKeyTypeError } from "@kit/core";
import { fromNodeRedis } from "@kit/core/node-redis";
import { eventually, useRedis } from "@kit/testing";
import {
  endMigrations,
  guardUsers,
  inModes,
  migrateLogin,
  moveSlot,
  nodeOf,
  onMovingSlots,
  rejection,
} from "@tooling/vitest/helpers";
import { onNodeRedis } from "@tooling/vitest/node-redis";
import * as vitest from "vitest";
import { describe, expect, it, vi } from "vitest";
import { CounterOverflowError, type Entry, type Stats, StatsTimeError } from "../src/index.js";
import { newestFirst } from "../src/messages/entry.js";
import * as scripts from "../src/store/scripts/index.js";
import { user } from "./acl.js";
import { drops, type Fixture, fixtureOf } from "./harness.js";

const minuteMs = 60_000;
const hourMs = 60 * minuteMs;
const yearMs = 8_760 * hourMs;
const largest = Number.MAX_SAFE_INTEGER;
const seconds = { precisions: [{ stepMs: 1_000, keepMs: hourMs }] };

const sum = (values: readonly { readonly value: number }[]): number =>
  values.reduce((all, { value }) => all + value, 0);

/**
 * The behaviour of statistics, on one server or on a Cluster. With a `login` everything but the tests runs as this user.
 */
inModes({ single: user.loginForText, nodeRedis: onNodeRedis(user.login, fromNodeRedis) }, (mode, login) => {
  const where = mode === "cluster" ? "Cluster" : "single server";
  describe(`statistics on a ${where}${login ? ", as their ACL user" : ""}`, () => {
    const redis = useRedis(vitest, { mode, args: login ? user.serverArgs(mode) : [] });
    if (login) guardUsers(redis);
    const slots = onMovingSlots(redis, scripts);
    let lazyFixture: Fixture | undefined;
    const fixture = (): Fixture => (lazyFixture ??= fixtureOf(redis, login));
    const make = (options?: Parameters<Fixture["make"]>[0]): Stats => fixture().make(options);
    const other = (options?: Parameters<Fixture["make"]>[0]): Stats => fixture().on(fixture().connect(), options);

    describe("counters", () => {
      it("sum up what all processes and objects count, for each set of labels apart", async () => {
        const objects = [make(), other(), other()];
        const options = { labelNames: ["category"] };
        for (const [index, stats] of objects.entries()) {
          const views = stats.counter("views_total", options);
          views.inc({ category: "hats" }, index);
          views.inc({ category: "hats" });
          views.inc({ category: "shoes" }, 10);
        }
        const peer = await fixture().spawn();
        await peer.inc("views_total", 1_000);
        await Promise.all([peer.flush(), ...objects.map((stats) => stats.flush())]);
        const views = objects[0]!.counter("views_total", options);
        expect(await views.total({ category: "hats" })).toBe(6);
        expect(await views.total({ category: "shoes" })).toBe(30);
        expect(await views.total({ category: "socks" })).toBe(0);
        expect(await make().counter("views_total").total()).toBe(1_000);
        expect(
          await make({ prefix: `${redis.prefix}-other` })
            .counter("views_total")
            .total(),
        ).toBe(0);
      });

      it("answer a waiting caller with a total that contains its amount, and all waiting callers at once", async () => {
        const counter = make().counter("orders_total");
        expect(await counter.add()).toBe(1);
        expect(await counter.add(0)).toBe(1);
        const totals = await Promise.all(Array.from({ length: 100 }, () => counter.add(2)));
        expect(Math.max(...totals)).toBe(201);
        expect(await counter.total()).toBe(201);
      });

      it("lose nothing and double nothing while 64 writers cross the ends of buckets and chunks", async () => {
        // A chunk of the finest step is 1.2 s: a burst of 1.3 s crosses the end of one, and of many buckets.
        const options = {
          precisions: [
            { stepMs: 20, keepMs: minuteMs },
            { stepMs: 100, keepMs: minuteMs },
          ],
        };
        const objects = Array.from({ length: 8 }, (_, index) => (index === 0 ? make() : other()));
        const from = await fixture().serverMs();
        const until = performance.now() + 1_300;
        let sent = 0;
        const windows = { windows: [100, 500].map((stepMs) => ({ stepMs, keepMs: minuteMs })) };
        const writer = async (stats: Stats): Promise<void> => {
          const counter = stats.counter("burst_total", options);
          const latency = stats.distribution("burst_ms", windows);
          while (performance.now() < until) {
            counter.inc();
            latency.observe(1);
            latency.observe(2);
            await Promise.all([counter.add(2), latency.record(3)]);
            sent += 3;
          }
        };
        await Promise.all(Array.from({ length: 64 }, (_, index) => writer(objects[index % 8]!)));
        await Promise.all(objects.map((stats) => stats.flush()));
        const counter = objects[0]!.counter("burst_total", options);
        const latency = objects[0]!.distribution("burst_ms", windows);
        expect([await counter.total(), await latency.total()]).toMatchObject([sent, { count: sent, sum: 2 * sent }]);
        for (const stepMs of [100, 500]) {
          const toAt = (await fixture().serverMs()) + 1_000;
          const parts = await latency.windows({ fromAt: from - 1_000, toAt, stepMs });
          const count = parts.reduce((all, { summary }) => all + summary.count, 0);
          const added = parts.reduce((all, { summary }) => all + summary.sum, 0);
          expect([count, added]).toEqual([sent, 2 * sent]);
          expect(parts.filter(({ summary }) => summary.count > 0).length).toBeGreaterThan(1);
        }
        for (const stepMs of [20, 100, 400]) {
          // Eight objects estimate the server's clock: some may be ahead of the one that reads.
          const buckets = await counter.read({
            fromAt: from - 1_000,
            toAt: (await fixture().serverMs()) + 1_000,
            stepMs,
          });
          expect(sum(buckets)).toBe(sent);
          expect(buckets.filter(({ value }) => value > 0).length).toBeGreaterThan(1);
        }
      });

      it("put an amount into the bucket of its own instant, at the edges of buckets and chunks", async () => {
        const stats = make();
        const counter = stats.counter("edges_total", seconds);
        const chunk = Math.floor((await fixture().serverMs()) / minuteMs) * minuteMs - 5 * minuteMs;
        for (const [offset, amount] of [
          [-1, 1],
          [0, 2],
          [999, 4],
          [1_000, 8],
          [59_999, 16],
          [60_000, 32],
        ] as const)
          counter.inc(amount, { at: chunk + offset });
        await stats.flush();
        const buckets = await counter.read({ fromAt: chunk - 1_000, toAt: chunk + 61_000 });
        expect(buckets).toHaveLength(62);
        expect(buckets.filter(({ value }) => value > 0)).toEqual([
          { startAt: chunk - 1_000, value: 1, isPartial: false },
          { startAt: chunk, value: 6, isPartial: false },
          { startAt: chunk + 1_000, value: 8, isPartial: false },
          { startAt: chunk + 59_000, value: 16, isPartial: false },
          { startAt: chunk + 60_000, value: 32, isPartial: false },
        ]);
        const minutes = await counter.read({ fromAt: chunk - minuteMs, toAt: chunk + 2 * minuteMs, stepMs: minuteMs });
        expect(minutes.map(({ value }) => value)).toEqual([1, 30, 32]);
      });

      it("sum up the days of a time zone from what is stored", async () => {
        const stats = make();
        const options = { precisions: [{ stepMs: 900_000, keepMs: 90 * 24 * hourMs }] };
        const counter = stats.counter("days_total", options);
        // Nearly six hours east of Greenwich.
        const zone = { timeZone: "Asia/Kathmandu", lastDays: 3 };
        const [first, second, today] = await counter.days(zone);
        expect([second!.startAt, today!.startAt]).toEqual([first!.endAt, second!.endAt]);
        counter.inc(1, { at: first!.startAt - 1 });
        counter.inc(2, { at: first!.startAt });
        counter.inc(4, { at: first!.endAt - 1 });
        counter.inc(8, { at: second!.startAt });
        counter.inc(16);
        await stats.flush();
        const days = await counter.days(zone);
        expect(days.map(({ value, isPartial }) => [value, isPartial])).toEqual([
          [6, false],
          [8, false],
          [16, true],
        ]);
        // The day before has the rest, and hours are those of the days.
        expect((await counter.days({ ...zone, lastDays: 4 }))[0]!.value).toBe(1);
        const hours = await counter.read({ fromAt: first!.startAt, toAt: first!.endAt, stepMs: 900_000 });
        expect([hours.length, sum(hours)]).toEqual([96, 6]);
        const coarse = stats.counter("coarse_total", { precisions: [{ stepMs: hourMs, keepMs: 24 * hourMs }] });
        await expect(coarse.days(zone)).rejects.toThrow(/divides the days/);
      });

      it("fill gaps with zeros, and say which buckets may lack something", async () => {
        const stats = make();
        const options = {
          precisions: [
            { stepMs: 1_000, keepMs: 10_000 },
            { stepMs: minuteMs, keepMs: hourMs },
          ],
        };
        const counter = stats.counter("gaps_total", options);
        const now = await fixture().serverMs();
        counter.inc(5, { at: now - 3 * hourMs });
        counter.inc(7, { at: now - 50 * minuteMs });
        counter.inc();
        await stats.flush();
        // Three hours without traffic are empty, and not the last active one.
        const hours = await counter.read({ lastMs: 3 * hourMs, stepMs: minuteMs });
        expect(hours.length).toBeGreaterThanOrEqual(180);
        expect(sum(hours)).toBe(8);
        expect(hours[0]).toMatchObject({ value: 0, isPartial: true });
        expect(hours.at(-1)).toMatchObject({ isPartial: true });
        expect(hours.find(({ value }) => value === 7)).toMatchObject({ isPartial: false });
        expect(hours.slice(-50, -10).every(({ value, isPartial }) => value === 0 && !isPartial)).toBe(true);
        // Without a width: the finest that still has the beginning.
        expect((await counter.read({ lastMs: 5_000 })).length).toBeLessThan(8);
        expect((await counter.read({ lastMs: 10 * minuteMs })).length).toBeLessThan(13);
        expect(await counter.total()).toBe(13);
      });

      it("go by the server's clock, whatever the clock of a process says", async () => {
        const counter = make().counter("skew_total", seconds);
        const before = await fixture().serverMs();
        for (const aheadMs of [10 * minuteMs, -10 * minuteMs, yearMs]) {
          const peer = await fixture().spawn({}, aheadMs);
          expect(Math.abs((await peer.now()) - before - aheadMs)).toBeLessThan(minuteMs);
          await peer.inc("skew_total", 10);
          await peer.flush();
          await peer.kill();
        }
        const buckets = await counter.read({ fromAt: before - 2_000 });
        expect([sum(buckets), await counter.total()]).toEqual([30, 30]);
      });

      it("take explicit instants: 0 is one; a late one counts in the total, one ahead is dropped or refused", async () => {
        const stats = make();
        const dropped = drops(stats);
        const counter = stats.counter("instants_total", seconds);
        const now = await fixture().serverMs();
        counter.inc(1, { at: 0 });
        counter.inc(2, { at: now - 2 * hourMs });
        counter.inc(4, { at: now + 30_000 });
        counter.inc(8, { at: now + yearMs });
        counter.inc(16, { at: now + 5 * minuteMs });
        await stats.flush();
        expect(await counter.total()).toBe(7);
        expect(sum(await counter.read({ fromAt: now - hourMs + 2_000, toAt: now + minuteMs }))).toBe(4);
        expect(dropped).toEqual({ future: 24 });
        const refused = await rejection(counter.add(1, { at: now + yearMs }));
        expect(refused).toBeInstanceOf(StatsTimeError);
        expect(await counter.add(1, { at: now - 1_000 })).toBe(8);
        for (const ttl of await ttls()) expect(ttl).toBeLessThan(hourMs + 5 * minuteMs + 86_400_000);
      });

      it("leave nothing behind: every key expires, and buckets are gone after their time, with no process running", async () => {
        const stats = make();
        const fleeting = {
          precisions: [
            { stepMs: 10, keepMs: 10 },
            { stepMs: 100, keepSamples: 2 },
          ],
        };
        const counter = stats.counter("fleeting_total", fleeting);
        counter.inc(3);
        stats
          .distribution("fleeting_ms", { windows: [{ stepMs: 10, keepMs: 30 }], slowest: 1 })
          .observe(1, { subject: "a" });
        stats.messages("fleeting", { window: { stepMs: 10, keepMs: 30 }, keepMs: 1_000 }).log("info", "gone soon");
        await stats.flush();
        await stats.close();
        // -1: it never would; some are gone already.
        for (const ttl of await ttls()) expect(ttl).not.toBe(-1);
        // The chunks of the coarser precision are six seconds long; totals and ledgers stay for longer.
        await eventually(
          async () => {
            const left = (await redis.keys()).filter((key) => /:(c|w|s|top|seen|log):/.test(key));
            expect(left).toEqual([]);
          },
          { timeoutMs: 20_000 },
        );
      });

      it("refuse an amount that would pass 2^53 - 1, and count all others of the call", async () => {
        const stats = make();
        const dropped = drops(stats);
        const errors: string[] = [];
        stats.on("error", ({ code }) => errors.push(code));
        const full = stats.counter("full_total");
        const fine = stats.counter("fine_total");
        expect(await full.add(largest - 1)).toBe(largest - 1);
        full.inc(2);
        fine.inc(7);
        expect(await rejection(stats.flush())).toBeInstanceOf(CounterOverflowError);
        expect([await full.total(), await fine.total()]).toEqual([largest - 1, 7]);
        const both = [rejection(full.add(2)), fine.add(1)];
        expect(await Promise.all(both)).toMatchObject([{ code: "KIT_STATS_OVERFLOW", series: "full_total" }, 8]);
        expect(await full.add(1)).toBe(largest);
        expect(dropped).toEqual({ overflow: 2 });
        expect(errors).toContain("KIT_STATS_OVERFLOW");
        // An amount that does not even fit into the local sum.
        fine.inc(largest);
        fine.inc(1);
        expect(dropped).toEqual({ overflow: 3 });
      });

      it("distinguish label values that look alike, and keep each in its own slot", async () => {
        const stats = make();
        const values = [
          "",
          " ",
          "a;b=c",
          "a%3Bb",
          "{x}",
          "}{",
          "a:b",
          'say "hi"',
          "back\\slash",
          "line\nbreak",
          "😀",
          "\0",
          "\u00e9",
          "e\u0301",
          "1",
        ];
        const counter = stats.counter("odd_total", { labelNames: ["b", "a"] });
        values.forEach((value, index) => counter.inc({ a: value, b: "x" }, index + 1));
        counter.inc({ a: "x;b=y", b: "z" }, 100);
        counter.inc({ a: "x", b: "y;b=z" }, 200);
        counter.inc({ a: 1, b: "x" }, 1_000);
        await stats.flush();
        const totals = await Promise.all(values.map((value) => counter.total({ b: "x", a: value })));
        expect(totals).toEqual(values.map((value, index) => index + 1 + (value === "1" ? 1_000 : 0)));
        expect(await counter.total({ a: "x;b=y", b: "z" })).toBe(100);
        expect(await counter.total({ a: "x", b: "y;b=z" })).toBe(200);
      });

      it("names a key of another type, and counts the other series of the call", async () => {
        const stats = make();
        const spoilt = stats.counter("spoilt_total");
        const { total } = fixture().keysOf("spoilt_total");
        await fixture().db.set(total, "a text", "PX", minuteMs);
        const fine = stats.counter("fine_total");
        const both = await Promise.all([rejection(spoilt.add(1)), fine.add(1)]);
        expect(both).toMatchObject([{ code: "KIT_KEY_TYPE" }, 1]);
        expect(both[0]).toBeInstanceOf(KitKeyTypeError);
        await fixture().db.del(total);
        await fixture().db.hset(total, { layout: "2", total: "5" });
        await fixture().db.pexpire(total, minuteMs);
        expect(await rejection(spoilt.add(1))).toMatchObject({ code: "KIT_LAYOUT" });
      });
    });

    describe("a counter sink", () => {
      const deltas = (at?: number) => [
        { name: "visits_total", labels: { country: "DE" }, amount: 17, at },
        { name: "visits_total", labels: { country: "FR" }, amount: 4, at },
        { name: "visits_total", labels: { country: "DE" }, amount: 3, at },
      ];
      const options = { labelNames: ["country"], ...seconds };

      it("adds each sequence number of a writer once, whichever process repeats it", async () => {
        const stats = make();
        const visits = stats.counter("visits_total", options);
        await stats.apply(deltas(), { writer: "access.log", seq: 1 });
        await stats.apply(deltas(), { writer: "access.log", seq: 1 });
        const peer = await fixture().spawn();
        await peer.apply(deltas(), { writer: "access.log", seq: 1 });
        expect(await visits.total({ country: "DE" })).toBe(20);
        await peer.apply(deltas(), { writer: "access.log", seq: 7 });
        await stats.apply(deltas(), { writer: "access.log", seq: 3 });
        await stats.apply(deltas(), { writer: "error.log {1}", seq: 1 });
        await expect(stats.apply(deltas(), { writer: "\ud83d", seq: 1 })).rejects.toThrow("well-formed Unicode");
        expect([await visits.total({ country: "DE" }), await visits.total({ country: "FR" })]).toEqual([60, 12]);
      });

      it("completes a call that was cut between two series", async () => {
        const stats = make();
        const visits = stats.counter("visits_total", options);
        const [first, second] = deltas();
        await stats.apply([first!], { writer: "w", seq: 1 });
        await stats.apply([first!, second!], { writer: "w", seq: 1 });
        expect([await visits.total({ country: "DE" }), await visits.total({ country: "FR" })]).toEqual([17, 4]);
      });

      it("adds the other series when one overflows, and reports what lies ahead", async () => {
        const stats = make();
        const dropped = drops(stats);
        const visits = stats.counter("visits_total", options);
        await visits.add({ country: "DE" }, largest);
        const now = await fixture().serverMs();
        const ahead = { name: "visits_total", labels: { country: "FR" }, amount: 5, at: now + yearMs };
        const applying = stats.apply([...deltas(now), ahead], { writer: "w", seq: 1 });
        expect(await rejection(applying)).toBeInstanceOf(CounterOverflowError);
        expect([await visits.total({ country: "FR" }), dropped]).toEqual([4, { future: 5 }]);
        await expect(stats.apply([{ name: "nobody_total", amount: 1 }], { writer: "w", seq: 2 })).rejects.toThrow(
          RangeError,
        );
      });
    });

    describe("distributions", () => {
      it("merge what all processes observe, in every window, with the same sketch as if one had", async () => {
        const options = {
          labelNames: ["route"],
          windows: [
            { stepMs: 50, keepMs: minuteMs },
            { stepMs: 1_000, keepMs: 10 * minuteMs },
          ],
        };
        const objects = [make(), other(), other()];
        const whole = make().distribution("whole_ms", options);
        const from = await fixture().serverMs();
        for (let value = 1; value <= 3_000; value++) {
          objects[value % 3]!.distribution("parts_ms", options).observe({ route: "/" }, value ** 1.5);
          whole.observe({ route: "/" }, value ** 1.5);
          if (value % 700 === 0) await objects[value % 3]!.flush();
        }
        await Promise.all([...objects, make()].map((stats) => stats.flush()));
        await whole.record({ route: "/" }, 0.5);
        await objects[1]!.distribution("parts_ms", options).record({ route: "/" }, 0.5);
        const parts = objects[0]!.distribution("parts_ms", options);
        // Each object estimates the server's clock: some may be ahead of the one that reads.
        const range = { fromAt: from - 1_000, toAt: (await fixture().serverMs()) + 1_000 };
        const [one, two] = [await parts.summary({ route: "/" }, range), await whole.summary({ route: "/" }, range)];
        expect([one.count, one.min, one.max]).toEqual([3_001, 0.5, 3_000 ** 1.5]);
        for (const field of ["sum", "mean", "stddev"] as const) expect(one[field] / two[field]).toBeCloseTo(1, 12);
        for (const q of [0, 0.01, 0.5, 0.9, 0.99, 0.999, 1]) expect(one.quantile(q)).toBe(two.quantile(q));
        const windows = await parts.windows({ route: "/" }, { ...range, stepMs: 1_000 });
        expect(windows.reduce((all, { summary }) => all + summary.count, 0)).toBe(3_001);
        expect((await parts.total({ route: "/" })).count).toBe(3_001);
      });

      it("answer a waiting caller with the new totals of the widest window and of all time", async () => {
        const stats = make();
        const sizes = stats.distribution("size_bytes", { windows: [{ stepMs: hourMs, keepMs: 24 * hourMs }] });
        const now = await fixture().serverMs();
        const hour = Math.floor(now / hourMs) * hourMs;
        await sizes.record(10, { at: hour - 1 });
        await sizes.record(20, { at: hour });
        const { window, total } = await sizes.record(40, { at: hour });
        expect(window).toMatchObject({ count: 2, sum: 60, mean: 30, stddev: 10, min: 20, max: 40 });
        expect(total).toMatchObject({ count: 3, sum: 70, min: 10, max: 40 });
        // The window before is the hour before, empty or not; never the last active one.
        expect((await sizes.summary({ fromAt: hour - hourMs, toAt: hour })).count).toBe(1);
        expect(await sizes.summary({ fromAt: hour - 2 * hourMs, toAt: hour - hourMs })).toMatchObject({
          count: 0,
          sum: 0,
          mean: Number.NaN,
        });
      });

      it("take negative values, zero, and the smallest and largest numbers", async () => {
        const stats = make();
        const values = [-1e308, -2.5, -5e-324, 0, -0, 5e-324, 1, 1e308];
        const distribution = stats.distribution("odd");
        for (const value of values) distribution.observe(value);
        await stats.flush();
        for (const value of values) await distribution.record(value);
        const total = await distribution.total();
        expect(total).toMatchObject({ count: 16, min: -1e308, max: 1e308, stddev: Infinity });
        expect(Math.abs(total.mean)).toBeLessThan(1e300);
        expect(total.quantile(0)).toBe(-1e308);
        expect(total.quantile(0.5)).toBe(0);
        expect(total.quantile(0.8) / 1).toBeCloseTo(1, 1);
        expect(total.quantile(1)).toBe(1e308);
        for (const value of [Number.NaN, Infinity, -Infinity, "1" as never])
          expect(() => distribution.observe(value)).toThrow(/Expected `value`/);
      });

      it("collapse the lowest bins past the limit, and keep high quantiles exact", async () => {
        const stats = make();
        const distribution = stats.distribution("wide_ms", { maxBins: 16 });
        // 2,000 values over 200 bins, sent in parts, so that the server collapses again and again.
        for (let part = 0; part < 4; part++) {
          for (let value = part; value < 2_000; value += 4) distribution.observe(2 ** (value / 320));
          await stats.flush();
        }
        const total = await distribution.total();
        expect(await fixture().db.hlen(fixture().keysOf("wide_ms").dist)).toBeLessThanOrEqual(16 + 9);
        expect(total.count).toBe(2_000);
        expect(total.accurateAbove).toBeGreaterThan(0.9);
        for (const q of [0.97, 0.99, 0.999]) {
          expect(q).toBeGreaterThan(total.accurateAbove);
          const exact = 2 ** ((Math.ceil(q * 2_000) - 1) / 320);
          expect(Math.abs(total.quantile(q) / exact - 1)).toBeLessThan(0.0109);
        }
      });

      it("time work that succeeds and work that fails, and list the slowest subjects", async () => {
        const stats = make();
        const latency = stats.distribution("request_ms", { labelNames: ["route", "outcome"], slowest: 2 });
        expect(await latency.timed({ route: "/" }, () => 42)).toBe(42);
        await expect(latency.timed({ route: "/" }, () => Promise.reject(new Error("no")))).rejects.toThrow("no");
        const end = latency.startTimer({ route: "/" }, { subject: "/basket/7" });
        const taken = end("error");
        expect([end(), taken >= 0]).toEqual([taken, true]);
        const [labels, options] = [{ route: "/changed" }, { subject: "/basket/8" }];
        const later = latency.startTimer(labels, options);
        Object.assign(labels, { route: undefined });
        Object.assign(options, { subject: 7 });
        const takenLater = later("error");
        for (const [subject, value] of [
          ["a", 5],
          ["b", 9],
          ["c", 7],
          ["b", 1],
          ["c", 11],
        ] as const)
          latency.observe({ route: "/slow", outcome: "ok" }, value, { subject });
        await stats.flush();
        const counts = await Promise.all(
          ["ok", "error"].map(async (outcome) => (await latency.total({ route: "/", outcome })).count),
        );
        expect(counts).toEqual([1, 2]);
        expect(await latency.slowest({ route: "/slow", outcome: "ok" }, { lastMs: hourMs })).toEqual([
          { subject: "c", value: 11 },
          { subject: "b", value: 9 },
        ]);
        expect(await latency.slowest({ route: "/", outcome: "error" }, { lastMs: hourMs })).toEqual([
          { subject: "/basket/7", value: taken },
        ]);
        expect(await latency.slowest({ route: "/changed", outcome: "error" }, { lastMs: hourMs })).toEqual([
          { subject: "/basket/8", value: takenLater },
        ]);
      });
    });

    describe("timers", () => {
      it("take labels at their end, also in a handler that fails, and never hide its error", async () => {
        const stats = make();
        const latency = stats.distribution("http_ms", { labelNames: ["route", "method", "status"], slowest: 1 });
        const handle = async (work: () => Promise<number>, isGiven = true): Promise<void> => {
          const end = latency.startTimer({ route: "/", method: "GET" }, { subject: "/" });
          let status: number | undefined = 500;
          try {
            status = await work();
          } finally {
            // The second call changes nothing.
            expect(end(isGiven ? { status } : {})).toBe(end({ status: "again" }));
          }
        };
        await handle(() => Promise.resolve(200));
        await expect(handle(() => Promise.reject(new Error("no")))).rejects.toThrow("no");
        await expect(handle(() => Promise.reject(new Error("none")), false)).rejects.toThrow("none");
        expect(() => latency.startTimer({ path: "/" } as never)).toThrow("path");
        expect(() => latency.startTimer({ route: null } as never)({ status: {} } as never)).toThrow("status");
        // An end with a wrong label has no effect.
        const again = latency.startTimer({ route: "/d", method: "GET" });
        expect(() => again({ stauts: 204 } as never)).toThrow("stauts");
        for (const labels of [null, 204]) {
          expect(() => latency.startTimer(labels as never)).toThrow("`labels`");
          expect(() => again(labels as never)).toThrow("`labels`");
        }
        again({ status: 204 });
        // The end has the last word.
        latency.startTimer({ route: "/a", method: "GET" })({ route: "/b", status: 204 });
        latency.startTimer()({ route: "/c", method: "GET", status: 204 });
        await stats.flush();
        const count = async (route: string, status: number | ""): Promise<number> =>
          (await latency.total({ route, method: "GET", status })).count;
        expect(await Promise.all([count("/", 200), count("/", 500), count("/", "")])).toEqual([1, 1, 1]);
        expect(await Promise.all([count("/a", 204), count("/b", 204), count("/c", 204)])).toEqual([0, 1, 1]);
        expect(await count("/d", 204)).toBe(1);
      });
    });

    describe("messages", () => {
      it("are read in pages that are bounded by bytes, in order, and complete", async () => {
        const stats = make();
        const log = stats.messages("long", { maxTextBytes: 200_000, keepEntries: 100 });
        for (let n = 0; n < 60; n++) {
          log.log(n % 3 === 0 ? "error" : "warn", `${String(n).padStart(2, "0")} ${"x".repeat(180_000)}`);
          if (n % 10 === 9) await stats.flush();
        }
        const sizes: number[] = [];
        const entries: Entry[] = [];
        for (let before: string | undefined, more = true; more;) {
          const page = await log.recent({ before });
          sizes.push(page.entries.length);
          entries.push(...page.entries);
          ({ next: before } = page);
          more = before !== undefined;
        }
        expect(Math.max(...sizes)).toBeLessThan(30);
        expect(new Set(entries.map(({ text }) => text.slice(0, 2))).size).toBe(60);
        expect(entries.map(({ id }) => id)).toEqual(entries.toSorted(newestFirst).map(({ id }) => id));
      });

      it("store an entry and count it by one call; levels by name and number, pages, fields", async () => {
        const stats = make();
        const log = stats.messages("checkout", { keepEntries: 3 });
        for (let card = 1; card <= 5; card++)
          log.log("warn", `Card ${card} refused`, { fields: { card, error: new TypeError("x") } });
        log.log(45, "between warn and error");
        log.log("error", "boom");
        log.log("debug", "nothing");
        await stats.flush();
        const all = await log.recent({ minLevel: "info" });
        expect(all.entries.map(({ text }) => text)).toEqual(
          expect.arrayContaining(["boom", "Card 5 refused", "between warn and error"]),
        );
        expect(all.entries).toHaveLength(4);
        const [between] = (await log.recent({ level: "warn" })).entries;
        expect(between).toMatchObject({ level: "warn", severity: 45, fields: {} });
        const card = all.entries.find(({ text }) => text === "Card 5 refused");
        expect(card).toMatchObject({ severity: 40, fields: { card: 5, error: { name: "TypeError", message: "x" } } });
        const pages: Entry[] = [];
        for (let before: string | undefined, more = true; more;) {
          const page = await log.recent({ limit: 2, before });
          pages.push(...page.entries);
          ({ next: before } = page);
          more = before !== undefined;
        }
        expect(pages).toEqual((await log.recent()).entries);
        expect(new Set(pages.map(({ id }) => id)).size).toBe(5);
        expect(await log.frequent({ lastMs: hourMs, limit: 2 })).toMatchObject([
          { level: "warn", sample: "Card 1 refused", count: 5, error: 0 },
          { count: 1 },
        ]);
      });

      it("count messages together that differ only in numbers, ids and quoted parts, unless masking is off", async () => {
        const stats = make({ maxPending: 1_000_000 });
        const log = stats.messages("masked", { keepEntries: 5 });
        const raw = stats.messages("raw", { keepEntries: 5, mask: false });
        for (let index = 0; index < 10_000; index++) {
          const id = `${index.toString(16).padStart(8, "0")}-0000-4000-8000-000000000000`;
          log.log(
            "info",
            `Order ${index} of user ${id} at 10.0.0.${index % 250} failed after ${index / 7}s: "item ${index}"`,
          );
          if (index < 500) raw.log("info", `Order ${index} failed`);
        }
        log.log("info", "Order 1 failed", { fingerprint: "mine" });
        await stats.flush();
        const frequent = await log.frequent({ lastMs: hourMs });
        expect(frequent.map(({ count }) => count)).toEqual([10_000, 1]);
        expect(frequent[1]).toMatchObject({ fingerprint: "mine", sample: "Order 1 failed" });
        expect(await raw.frequent({ lastMs: hourMs, limit: 1_000 })).toHaveLength(500);
      });

      it("keep the most frequent of many in a bounded list, with an honest error", async () => {
        const stats = make();
        const log = stats.messages("zipf", { maxDistinct: 100, mask: false, keepEntries: 1 });
        const sent = new Map<string, number>();
        // Rarer the higher its number; interleaved, and sent in parts of less than a hundred different ones.
        for (let round = 0; round < 20; round++) {
          for (let rank = 1; rank <= 60; rank++) {
            const text = rank <= 30 ? `common ${rank}` : `rare ${rank + 30 * round}`;
            const times = rank <= 30 ? Math.ceil(60 / rank) : 1;
            for (let time = 0; time < times; time++) log.log("error", text);
            sent.set(text, (sent.get(text) ?? 0) + times);
          }
          await stats.flush();
        }
        const top = await log.frequent({ lastMs: hourMs, level: "error", limit: 100 });
        const counted = new Map(top.map((one) => [one.sample, one]));
        for (let rank = 1; rank <= 20; rank++) expect(counted.has(`common ${rank}`)).toBe(true);
        for (const [sample, { count, error }] of counted) {
          expect(count).toBeGreaterThanOrEqual(sent.get(sample)!);
          expect(count - error).toBeLessThanOrEqual(sent.get(sample)!);
        }
        expect(
          await redis.client.zcard(
            fixture()
              .logKeysOf("zipf")
              .top("error", Math.floor((await fixture().serverMs()) / hourMs) * hourMs),
          ),
        ).toBeLessThanOrEqual(100);
      });

      it("put the lists of several windows together, with the doubt of each", async () => {
        const stepMs = 200;
        const stats = make();
        const log = stats.messages("windows", { window: { stepMs, keepSamples: 1_000 }, maxDistinct: 2, mask: false });
        const sent = new Map<string, number>();
        const from = await fixture().serverMs();
        for (const texts of ["aaaaab", "aaaccd", "eeaaaa"]) {
          const began = await fixture().serverMs();
          await eventually(async () =>
            expect(Math.floor((await fixture().serverMs()) / stepMs)).toBeGreaterThan(Math.floor(began / stepMs)),
          );
          for (const text of texts) {
            log.log("info", text);
            sent.set(text, (sent.get(text) ?? 0) + 1);
            // One after the other, so that a full list has to choose.
            await stats.flush();
          }
        }
        const range = { fromAt: from - stepMs, toAt: (await fixture().serverMs()) + 1_000 };
        const top = await log.frequent(range);
        expect(top[0]).toMatchObject({ sample: "a" });
        // Lists that may be that long are read two at a time. How much is uncertain is stored, whatever the reader's limit.
        const long = make().messages("windows", { window: { stepMs, keepSamples: 1_000 }, maxDistinct: 10_000 });
        expect(await long.frequent(range)).toEqual(top);
        for (const { sample, count, error } of top) {
          expect(count).toBeGreaterThanOrEqual(sent.get(sample)!);
          expect(count - error).toBeLessThanOrEqual(sent.get(sample)!);
        }
        // A window that is over does not count any more.
        expect((await log.frequent({ fromAt: from - 60_000, toAt: from - 10_000 })).length).toBe(0);
      });

      it("show entries as they come, after the last few, across a lost connection", async () => {
        const stats = make();
        const log = stats.messages("tailed");
        log.log("info", "first");
        log.log("info", "second");
        await stats.flush();
        const ending = new AbortController();
        const seen: string[] = [];
        const tailing = (async () => {
          for await (const { text } of log.tail({ minLevel: "info", last: 1, signal: ending.signal })) seen.push(text);
        })();
        await eventually(() => expect(seen).toEqual(["second"]));
        const key = fixture().logKeysOf("tailed").log("info");
        const node = await nodeOf(redis.server.nodes, key);
        const blocked = async (): Promise<string> => {
          const id = /^id=(\d+) .*cmd=xread /m.exec(String(await node.call("CLIENT", "LIST")))?.[1];
          if (id === undefined) throw new Error("no tail is blocked");
          return id;
        };
        await eventually(blocked);
        log.log("debug", "unseen");
        log.log("fatal", "third");
        await stats.flush();
        await eventually(() => expect(seen).toEqual(["second", "third"]));
        await node.call("CLIENT", "KILL", "ID", await eventually(blocked));
        log.log("warn", "fourth");
        await stats.flush();
        await eventually(() => expect(seen).toEqual(["second", "third", "fourth"]));
        ending.abort();
        await tailing;
        const closing = (async () => {
          for await (const { text } of log.tail()) seen.push(text);
        })();
        await eventually(blocked);
        await stats.close();
        await closing;
      });
    });

    describe("memory", () => {
      it("of a process is bounded by series: a million label values share the overflow series", async () => {
        const stats = make();
        const overflows: unknown[] = [];
        stats.on("overflow", (event) => overflows.push(event));
        const counter = stats.counter("flood_total", { labelNames: ["user"], maxSeries: 50 });
        for (let user = 0; user < 1_000_000; user++) counter.inc({ user: `u${user}` });
        expect(stats.report()).toMatchObject({ series: 51 });
        await stats.flush();
        expect(overflows).toEqual([{ metric: "flood_total", maxSeries: 50 }]);
        expect(await counter.total({ user: "u0" })).toBe(1);
        expect(
          await other()
            .counter("flood_total", { labelNames: ["user"] })
            .total({ user: "__overflow__" }),
        ).toBe(999_950);
      });

      it("of a process has room for a new series when another was idle for ten minutes", async () => {
        const stats = make();
        const counter = stats.counter("visits_total", { labelNames: ["user"], maxSeries: 1 });
        counter.inc({ user: "a" });
        await stats.flush();
        const at = await fixture().serverMs();
        const { now } = performance;
        const later = vi.spyOn(performance, "now").mockImplementation(() => now.call(performance) + 540_000);
        try {
          counter.inc({ user: "b" }, 1, { at });
          later.mockImplementation(() => now.call(performance) + 660_000);
          counter.inc({ user: "c" }, 1, { at });
        } finally {
          later.mockRestore();
        }
        await stats.flush();
        const reader = other().counter("visits_total", { labelNames: ["user"] });
        expect(await Promise.all(["b", "c"].map((user) => reader.total({ user })))).toEqual([0, 1]);
      });

      it("of the stack is bounded: a listener may count what is dropped, even where there is no room for that", async () => {
        const stats = make({ maxPending: 1 });
        const dropped = stats.counter("dropped_total");
        const events: string[] = [];
        stats.on("dropped", ({ series, count }) => {
          events.push(series);
          dropped.inc(count);
        });
        const counter = stats.counter("fine_total");
        counter.inc();
        stats.counter("full_total").inc(5);
        expect([events, stats.report().dropped.full]).toEqual([["full_total"], 10]);
        await stats.flush();
        stats.counter("full_total").inc(5);
        expect(await counter.total()).toBe(1);
      });

      it("of the buffer is bounded: what does not fit is dropped, and counted", async () => {
        const stats = make({ maxPending: 4 });
        const dropped = drops(stats);
        const counter = stats.counter("spread_total", seconds);
        const now = await fixture().serverMs();
        for (let second = 0; second < 10; second++) counter.inc(2, { at: now - second * 1_000 });
        expect(dropped).toEqual({ full: 12 });
        await stats.flush();
        expect([await counter.total(), stats.report().pending]).toEqual([8, 0]);
        counter.inc(1, { at: now });
        await stats.flush();
        expect(await counter.total()).toBe(9);
      });
    });

    describe("an exposition", () => {
      it("is the same from each instance, and the sum of what each shows of itself", async () => {
        const instances = [make(), other(), other()];
        const made = instances.map((stats) => ({
          views: stats.counter("views_total", { labelNames: ["category"] }),
          latency: stats.distribution("request_ms", { labelNames: ["route"], bounds: [1, 8] }),
        }));
        // More series than are read at once.
        for (const [index, { views, latency }] of made.entries())
          for (let n = 0; n < 100; n++) {
            views.inc({ category: n % (50 * (index + 1)) }, n);
            latency.observe({ route: n % 2 }, n % 16);
          }
        await Promise.all(made.map(({ views }) => views.add({ category: "last" }, 7)));
        await Promise.all(instances.map((stats) => stats.flush()));
        const shared = await Promise.all(instances.map((stats) => stats.expose()));
        expect(new Set(shared.map(({ text }) => text)).size).toBe(1);
        const sums = new Map<string, number>();
        for (const stats of instances) {
          const { text } = await stats.expose({ scope: "local" });
          for (const line of text.matchAll(/^([^#\s].*) (\d+)$/gm))
            sums.set(line[1]!, (sums.get(line[1]!) ?? 0) + Number(line[2]));
        }
        const totals = [...shared[0]!.text.matchAll(/^([^#\s].*) (\d+)$/gm)];
        expect(totals).toHaveLength(101 + 2 * 5);
        expect(sums).toEqual(new Map(totals.map(([, series = "", count]) => [series, Number(count)])));
        expect((await ttls()).every((ttl) => ttl > 0)).toBe(true);
      });
    });

    if (mode === "cluster")
      describe("on many nodes", () => {
        it("spreads series over all nodes, and never crosses slots", async () => {
          const stats = make();
          const counter = stats.counter("spread_total", { labelNames: ["n"] });
          for (let n = 0; n < 500; n++) counter.inc({ n }, n);
          await stats.flush();
          const sizes = await Promise.all(redis.server.nodes.map((node) => node.call("DBSIZE")));
          expect(sizes.every((size) => Number(size) > 300)).toBe(true);
          const totals = await Promise.all(Array.from({ length: 500 }, (_, n) => counter.total({ n })));
          expect(totals).toEqual(Array.from({ length: 500 }, (_, n) => n));
        });

        it("counts each amount once while its slot moves", async () => {
          const stats = make();
          const counter = stats.counter("moving_total");
          await counter.add(1);
          const { total } = fixture().keysOf("moving_total");
          const slot = String(await redis.server.nodes[0]!.call("CLUSTER", "KEYSLOT", total));
          const from = await nodeOf(redis.server.nodes, total);
          const to = redis.server.nodes.find((node) => node !== from)!;
          let isMoved = false;
          let added = 1;
          const adding = (async () => {
            while (!isMoved) {
              await counter.add(1);
              added++;
            }
          })();
          await moveSlot(redis.server.nodes, { slot, from, to, login: login ? migrateLogin : [] });
          isMoved = true;
          await adding;
          expect(await counter.add(0)).toBe(added);
          await endMigrations(redis.server.nodes);
          await moveSlot(redis.server.nodes, { slot, from: to, to: from, login: login ? migrateLogin : [] });
          await endMigrations(redis.server.nodes);
          expect(await counter.total()).toBe(added);
        });
      });

    const ttls = async (): Promise<number[]> => {
      const keys = await redis.keys();
      return await Promise.all(keys.map((key) => fixture().db.pttl(key)));
    };

    if (mode === "cluster") slots.itRanAll();
  });
});
