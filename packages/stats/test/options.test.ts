import { useRedis } from "@kit/testing";
import { guardPrototypes, hostileNames, polluted } from "@tooling/vitest/helpers";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { fixtureOf } from "./harness.js";

const redis = useRedis(vitest);
const fixture = fixtureOf(redis);
guardPrototypes();

describe("what is no option is refused, by its name", () => {
  it("of metrics: names", () => {
    const stats = fixture.make();
    for (const name of ["", "1a", "a-b", "a:b", "a b", "é", "x".repeat(129), 7 as never])
      expect(() => stats.counter(name), String(name)).toThrow("`name`");
    stats.counter("one");
    expect(() => stats.distribution("one")).toThrow("already exists with a different type");
    expect(() => stats.messages("")).toThrow("name");
    expect(() => stats.counter("one_total")).toThrow("one_total");
    expect(() => stats.counter("wait_count") && stats.distribution("wait")).toThrow("wait_count");
    expect(stats.counter("one")).toBe(stats.counter("one"));
  });

  it("of a second definition: other labels, bounds or whatever it names; no option but the labels need be named", () => {
    const stats = fixture.make();
    const sales = stats.counter("sales_total", { labelNames: ["shop", "country"], help: "Sales" });
    expect(stats.counter("sales_total", { labelNames: ["country", "shop"] })).toBe(sales);
    expect(() => stats.counter("sales_total", { labelNames: ["shop"] })).toThrow("`labelNames` of sales_total");
    expect(() => stats.counter("sales_total")).toThrow("`labelNames` of sales_total");
    const precisions = [{ stepMs: 1_000, keepMs: 60_000 }];
    expect(() => stats.counter("sales_total", { labelNames: ["shop", "country"], precisions })).toThrow("`precisions`");
    const latency = stats.distribution("d_ms", { bounds: [1, 2], windows: precisions });
    expect(stats.distribution("d_ms")).toBe(latency);
    expect(stats.distribution("d_ms", { bounds: [1, 2], windows: precisions, help: undefined })).toBe(latency);
    expect(() => stats.distribution("d_ms", { bounds: [1, 2, 4] })).toThrow("`bounds` of d_ms to be [1,2]");
    expect(() => stats.distribution("d_ms", { timeUnit: "s" })).toThrow("`timeUnit` of d_ms");
    const log = stats.messages("log", { mask: false });
    expect(stats.messages("log")).toBe(log);
    expect(() => stats.messages("log", { mask: true })).toThrow("`mask` of log");
    expect(stats.messages("log", { mask: false })).toBe(log);
  });

  it("of labels: each by its name", () => {
    const counter = fixture.make().counter("ok_total", { labelNames: ["route", "status"] });
    const inc = (labels: unknown) => () => counter.inc(labels as never);
    expect(inc({ route: "/" })).toThrow("status");
    expect(inc({ route: "/", status: 200, extra: 1 })).toThrow("extra");
    expect(inc({ route: "/", status: null })).toThrow("status");
    expect(inc({ route: "/", status: Number.NaN })).toThrow("status");
    expect(inc({ route: "\ud800", status: 1 })).toThrow("well-formed");
    expect(inc({ route: "x".repeat(201), status: 1 })).toThrow("200 characters");
    expect(inc(undefined)).toThrow("labels");
    expect(inc("route")).toThrow("labels");
  });

  it("of amounts, messages and lists", async () => {
    const stats = fixture.make();
    const counter = stats.counter("ok_total");
    for (const amount of [-1, 0.5, Number.NaN, Infinity, 2 ** 53, "1", null, 1n])
      expect(() => counter.inc(amount as never), String(amount)).toThrow("`amount`");
    const log = stats.messages("log");
    for (const level of ["warning", -1, 1.5, 2_000, null])
      expect(() => log.log(level as never, "x")).toThrow("`level`");
    expect(() => log.log("info", 7 as never)).toThrow("`text`");
    expect(() => log.log("info", "x", { fields: { big: "x".repeat(9_000) } })).toThrow("`fields`");
    const cycle: Record<string, unknown> = {};
    cycle["cycle"] = cycle;
    for (const fields of [cycle, { big: 1n }]) expect(() => log.log("info", "x", { fields })).toThrow("`fields`");
    expect(() => log.log("info", "x", { fingerprint: "" })).toThrow("`fingerprint`");
    await expect(log.frequent({})).rejects.toThrow("lastMs");
    await expect(stats.distribution("ok_ms").slowest({ lastMs: 1 })).rejects.toThrow("`slowest`");
  });
});

describe("hostile property names", () => {
  it("are label values and fields like any other", async () => {
    const stats = fixture.make();
    const counter = stats.counter("hostile_total", { labelNames: ["constructor", "toString"] });
    hostileNames.forEach((name, index) => counter.inc({ constructor: name, toString: name }, index + 1));
    const log = stats.messages("__proto__");
    for (const name of hostileNames)
      log.log("info", name, { fields: JSON.parse(`{"${name}":{"polluted":1}}`) as Record<string, unknown> });
    await stats.flush();
    for (const [index, name] of hostileNames.entries())
      expect(await counter.total({ constructor: name, toString: name })).toBe(index + 1);
    expect((await log.recent()).entries).toHaveLength(hostileNames.length);
  });

  it("on Object.prototype are no options and no labels", () => {
    const stats = fixture.make();
    const counter = stats.counter("clean_total", { labelNames: ["route"] });
    polluted("route", "/", () => expect(() => counter.inc({ other: 1 } as never)).toThrow("other"));
    polluted("route", "/", () => expect(() => counter.inc({} as never)).toThrow("route"));
    polluted("at", Date.now(), () => counter.inc({ route: "/" }, 1, {}));
  });
});
