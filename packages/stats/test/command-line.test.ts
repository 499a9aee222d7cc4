import { connect } from "@kit/core";
import { eventually, useRedis } from "@kit/testing";
import { commandCall, inspectCall, rejection } from "@tooling/vitest/helpers";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { descriptor } from "../src/descriptor/index.js";
import { fixtureOf } from "./harness.js";

const redis = useRedis(vitest);
const fixture = fixtureOf(redis);

const connection = async () => {
  const client = await connect({ url: redis.url, deadlineMs: 10_000 });
  redis.defer(() => client.close());
  return client;
};

describe("kit inspect stats", () => {
  const [inspector] = descriptor.inspectors!;
  const look = async (name: string, options = {}) =>
    await inspector!.look(inspectCall(await connection(), redis.prefix, options), name);
  const keysOf = (name: string) => inspector!.keys!(redis.prefix, name);

  it("shows a counter's total and newest buckets, and changes nothing", async () => {
    const counter = fixture.make().counter("views_total", { labelNames: ["shop", "category"] });
    const now = await fixture.serverMs();
    const labels = { shop: "a;b", category: "hats" };
    await counter.add(labels, 3, { at: now });
    await counter.add(labels, 4, { at: now - 60_000 });
    await counter.add(labels, 5, { at: now - 86_400_000 });
    const before = await redis.keys();
    const { data, facts, table } = await look("views_total;shop=a%3Bb;category=hats");
    const id = "views_total;category=hats;shop=a%3Bb";
    expect(data).toMatchObject({ metric: id, kind: "counter", total: 12, stepMs: 60_000, series: 0 });
    expect(Object.fromEntries(facts!)).toEqual({ counter: id, total: "12" });
    const counted = table!.rows.filter(([, count]) => count !== "0");
    expect(counted.map(([, count]) => count)).toEqual(["4", "3"]);
    expect(keysOf("views_total;shop=a%3Bb;category=hats").filter((key) => before.includes(key))).toEqual([
      fixture.keysOf(id).total,
    ]);
    expect(await redis.keys()).toEqual(before);
  });

  it("names the series of a metric with labels", async () => {
    const stats = fixture.make();
    const counter = stats.counter("views_total", { labelNames: ["shop"] });
    for (const shop of ["a", "b"]) await counter.add({ shop });
    await stats.flush();
    const { data, facts } = await look("views_total");
    expect(data).toMatchObject({ kind: null, total: null, buckets: [], series: 2 });
    const said = Object.fromEntries(facts!);
    expect(said["total"]).toBe("none: the metric has labels. Pass one of its series");
    expect(said["series"]).toMatch(/^2: views_total;shop=[ab], views_total;shop=[ab]$/);
  });

  it("shows a distribution's values", async () => {
    const latency = fixture.make().distribution("request_ms");
    const at = await fixture.serverMs();
    for (const ms of [16, 16, 64]) await latency.record(ms, { at });
    const { data, facts, table } = await look("request_ms");
    expect(data).toMatchObject({ kind: "distribution", total: { count: 3, sum: 96, mean: 32, min: 16, max: 64 } });
    expect(Object.fromEntries(facts!)).toMatchObject({
      total: "3 values, from 16 to 64",
      mean: "32, standard deviation 22.627",
    });
    const [row] = table!.rows.filter(([, count]) => count !== "0");
    expect([row![1], row![2], row![5]]).toEqual(["3", "32", "64"]);
    expect(table!.rows.find(([, count]) => count === "0")!.slice(1, 6)).toEqual(["0", "-", "-", "-", "-"]);
  });

  it("finds buckets of a width that only this counter has, when it is named", async () => {
    const counter = fixture.make().counter("orders_total", { precisions: [{ stepMs: 300_000, keepMs: 86_400_000 }] });
    await counter.add(7);
    const { facts } = await look("orders_total");
    expect(Object.fromEntries(facts!)["buckets"]).toBe(
      "empty for the last 10m. If the metric has its own width, pass --step",
    );
    const { table } = await look("orders_total", { step: "5m" });
    expect(table!.rows.filter(([, count]) => count === "7")).toHaveLength(1);
  });

  it("says that nothing is stored, and what is no name", async () => {
    const { data, facts } = await look("nothing_total");
    expect(data).toMatchObject({ kind: null, total: null, stepMs: null, buckets: [] });
    expect(Object.fromEntries(facts!)).toEqual({ metric: "nothing_total", total: "nothing stored" });
    expect(await redis.keys()).toEqual([]);
    for (const name of ["a-b", "a;b", "a;=b", "a;b=1;b=2"])
      expect(await rejection((async () => await look(name))())).toBeInstanceOf(RangeError);
    for (const step of ["5", "0s", "9ms", "m", "1e3s", "9999d"])
      expect(await rejection((async () => await look("a_total", { step }))())).toMatchObject({
        message: expect.stringContaining("--step") as string,
      });
  });
});

const commandOf = (path: string) => descriptor.commands!.find((one) => one.path === path)!;

/** The report of a command. */
const reported = async (path: string, name: string, options = {}) => {
  const call = commandCall(await connection(), redis.prefix, options);
  await commandOf(path).run(call, name);
  expect(call.written.reports).toHaveLength(1);
  return call.written.reports[0]!;
};

describe("kit stats show", () => {
  it("shows a span in as many buckets as a person reads, or in those that are requested", async () => {
    const counter = fixture.make().counter("orders_total");
    const at = await fixture.serverMs();
    await counter.add(2, { at: at - 7_000_000 });
    await counter.add(5, { at });
    const sumOf = async (options: object) => {
      const report = await reported("stats show", "orders_total", options);
      const { stepMs, buckets } = report as { stepMs: number; buckets: { value: number }[] };
      return { stepMs, sum: buckets.reduce((sum, { value }) => sum + value, 0) };
    };
    expect(await sumOf({})).toEqual({ stepMs: 300_000, sum: 5 });
    expect(await sumOf({ since: "2h" })).toEqual({ stepMs: 300_000, sum: 7 });
    expect(await sumOf({ since: "1d" })).toEqual({ stepMs: 3_600_000, sum: 7 });
    expect(await sumOf({ since: "1d", step: "3h" })).toEqual({ stepMs: 10_800_000, sum: 7 });
    const seconds = await reported("stats show", "orders_total", { since: "15m", step: "1s" });
    // Seconds are kept for ten minutes.
    expect(seconds).toMatchObject({ buckets: expect.arrayContaining([expect.objectContaining({ isPartial: true })]) });
    expect(await rejection(reported("stats show", "orders_total", { since: "1h", step: "1s" }))).toMatchObject({
      name: "RangeError",
      message: expect.stringContaining("1000 times --step") as string,
    });
  });

  it("shows windows of a distribution, even where only the hours are left", async () => {
    const latency = fixture.make().distribution("request_ms", { labelNames: ["route"] });
    const at = await fixture.serverMs();
    await latency.record({ route: "/" }, 10, { at: at - 5 * 3_600_000 });
    await latency.record({ route: "/" }, 30, { at });
    const report = await reported("stats show", "request_ms;route=/", { since: "6h" });
    const { stepMs, buckets } = report as { stepMs: number; buckets: { value: { count: number; max: number } }[] };
    expect(stepMs).toBe(3_600_000);
    expect(buckets.filter(({ value }) => value.count > 0).map(({ value }) => value.max)).toEqual([10, 30]);
  });
});

describe("kit stats top", () => {
  it("lists the most frequent messages of a log", async () => {
    const stats = fixture.make();
    const log = stats.messages("checkout");
    for (const card of [1, 2, 3]) log.log("warn", `Card ${String(card)} refused`);
    log.log("error", "No answer");
    await stats.flush();
    // The hour may have ended since.
    const since = { since: "2h" };
    expect(await reported("stats top", "checkout", since)).toMatchObject({
      log: "checkout",
      sinceMs: 7_200_000,
      messages: [
        { level: "warn", count: 3, sample: "Card 1 refused" },
        { level: "error", count: 1 },
      ],
    });
    expect(await reported("stats top", "checkout", { ...since, limit: 1 })).toMatchObject({ messages: [{ count: 3 }] });
    const errors = await reported("stats top", "checkout", { ...since, level: "error" });
    expect(errors).toMatchObject({ messages: [{ level: "error" }] });
    expect(await reported("stats top", "nothing")).toMatchObject({ messages: [] });
    expect(await rejection(reported("stats top", "checkout", { level: "loud" }))).toBeInstanceOf(RangeError);
  });

  it("reads windows of another width, when it is named", async () => {
    const stats = fixture.make();
    stats.messages("fast", { window: { stepMs: 60_000, keepMs: 600_000 } }).log("info", "up");
    await stats.flush();
    const found = await reported("stats top", "fast", { since: "10m", window: "1m" });
    expect(found).toMatchObject({ messages: [{ sample: "up", count: 1 }] });
  });
});

describe("kit stats tail", () => {
  it("prints the last messages, then each new one, until it is stopped", async () => {
    const stats = fixture.make();
    const log = stats.messages("checkout");
    for (const text of ["a", "b", "c"]) log.log("warn", text);
    await stats.flush();
    const call = commandCall(await connection(), redis.prefix, { last: 2, level: "warn" });
    redis.defer(() => call.stop());
    const running = commandOf("stats tail").run(call, "checkout");
    await eventually(() => expect(call.written.lines).toMatchObject([{ text: "b" }, { text: "c" }]));
    log.log("info", "not shown");
    log.log("error", "d", { fields: { card: 4242 } });
    await stats.flush();
    await eventually(() =>
      expect(call.written.lines.slice(2)).toMatchObject([{ level: "error", text: "d", fields: { card: 4242 } }]),
    );
    call.stop();
    await running;
    expect(call.written.lines).toHaveLength(3);
    expect(call.written.notes).toEqual([]);
  });

  it("refuses what is no level", async () => {
    const call = commandCall(await connection(), redis.prefix, { level: "loud" });
    redis.defer(() => call.stop());
    expect(await rejection(commandOf("stats tail").run(call, "checkout"))).toBeInstanceOf(RangeError);
  });
});
