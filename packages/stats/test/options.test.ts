import { useRedis } from "@kit/testing";
import { guardPrototypes, hostileNames, polluted } from "@tooling/vitest/helpers";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { createStats } from "../src/index.js";
import { fixtureOf } from "./harness.js";

const redis = useRedis(vitest);
const fixture = fixtureOf(redis);
guardPrototypes();

describe("what is no option is refused, by its name", () => {
  it.each<[string, unknown]>([
    ["prefix", "a{b"],
    ["isolate", "yes"],
    ["deadlineMs", 0],
    ["flushMs", 0.5],
    ["maxPending", 0],
    ["delivery", "exactly-once"],
    ["flushInterval", 250],
  ])("of a statistics object: %s", (name, value) => {
    expect(() => createStats(redis.client, { [name]: value })).toThrow(name);
  });

  it.each<[string, unknown]>([
    ["labelNames", "category"],
    ["labelNames", ["a", "a"]],
    ["labelNames", ["le"]],
    ["labelNames", ["__x"]],
    ["labelNames", ["a-b"]],
    ["help", 1],
    ["maxSeries", 0],
    ["precisions", []],
    ["precisions", [{ stepMs: 1_000 }]],
    ["precisions", [{ stepMs: 1_000, keepMs: 1_000, keepSamples: 1 }]],
    ["precisions", [{ stepMs: 1_000, keepMs: 500 }]],
    ["precisions", [{ stepMs: 1_000, keepMs: 1_000_000_000 }]],
    [
      "precisions",
      [
        { stepMs: 1_000, keepSamples: 5 },
        { stepMs: 1_500, keepSamples: 5 },
      ],
    ],
    [
      "precisions",
      [
        { stepMs: 1_000, keepSamples: 5 },
        { stepMs: 1_000, keepSamples: 6 },
      ],
    ],
    ["windows", []],
  ])("of a counter: %s %j", (name, value) => {
    expect(() => fixture.make().counter("ok_total", { [name]: value })).toThrow(name);
  });

  it.each<[string, unknown]>([
    ["windows", [{ stepMs: 1_000, keepMs: 3_000_000 }]],
    ["maxBins", 8],
    ["slowest", -1],
    ["bounds", []],
    ["bounds", [1, 1]],
    ["bounds", [1, Infinity]],
    ["timeUnit", "minutes"],
    ["labelNames", ["quantile"]],
  ])("of a distribution: %s %j", (name, value) => {
    expect(() => fixture.make().distribution("ok_ms", { [name]: value })).toThrow(name);
  });

  it("of metrics: names", () => {
    const stats = fixture.make();
    for (const name of ["", "1a", "a-b", "a:b", "a b", "é", "x".repeat(129), 7 as never])
      expect(() => stats.counter(name), String(name)).toThrow("`name`");
    stats.counter("one");
    expect(() => stats.distribution("one")).toThrow("one kind");
    expect(() => stats.messages("")).toThrow("name");
    expect(() => stats.counter("one_total")).toThrow("one_total");
    expect(() => stats.counter("wait_count") && stats.distribution("wait")).toThrow("wait_count");
    expect(stats.counter("one")).toBe(stats.counter("one"));
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

  it("of amounts, values, instants and levels", async () => {
    const stats = fixture.make();
    const counter = stats.counter("ok_total");
    for (const amount of [-1, 0.5, Number.NaN, Infinity, 2 ** 53, "1", null, 1n])
      expect(() => counter.inc(amount as never), String(amount)).toThrow("`amount`");
    for (const at of [-1, Number.NaN, Infinity, "now", new Date()])
      expect(() => counter.inc(1, { at: at as never }), String(at)).toThrow("`at`");
    await expect(counter.add(1, { signal: {} as never })).rejects.toThrow("`signal`");
    await expect(counter.read({ lastMs: 1_000, stepMs: 1_500 })).rejects.toThrow("`stepMs`");
    const log = stats.messages("log");
    for (const level of ["warning", -1, 1.5, 2_000, null])
      expect(() => log.log(level as never, "x")).toThrow("`level`");
    expect(() => log.log("info", 7 as never)).toThrow("`text`");
    expect(() => log.log("info", "x", { fields: { big: "x".repeat(9_000) } })).toThrow("`fields`");
    expect(() => log.log("info", "x", { fingerprint: "" })).toThrow("`fingerprint`");
    await expect(log.recent({ before: "x" })).rejects.toThrow("`before`");
    await expect(log.frequent({})).rejects.toThrow("lastMs");
    await expect(stats.distribution("ok_ms").slowest({ lastMs: 1 })).rejects.toThrow("`slowest`");
    await expect(stats.apply([], { writer: "", seq: 1 })).rejects.toThrow("`writer`");
    await expect(stats.apply([], { writer: "w", seq: 0 })).rejects.toThrow("`seq`");
    await expect(stats.expose({ format: "json" as never })).rejects.toThrow("`format`");
    await expect(stats.expose({ scope: "all" as never })).rejects.toThrow("`scope`");
    await expect(stats.expose({ include: [{}] as never })).rejects.toThrow("`include`");
    await expect(stats.close({ timeoutMs: -1 })).rejects.toThrow("`timeoutMs`");
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
    polluted("maxPending", 0, () => expect(() => fixture.make()).not.toThrow());
  });
});
