import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { useRedis } from "@kit/testing";
import { closedPort, rejection } from "@tooling/vitest/helpers";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import type { ExpositionFormat, MetricSample, Stats } from "../src/index.js";
import { indexKey } from "../src/store/keys.js";
import { fixtureOf } from "./harness.js";

const redis = useRedis(vitest);
const fixture = fixtureOf(redis);

const name = "[a-zA-Z_][a-zA-Z0-9_]*";
const pair = String.raw`${name}="(?:[^"\\\n]|\\["\\n])*"`;
const value = String.raw`[+-]?(?:\d+(?:\.\d+)?(?:e[+-]?\d+)?|Inf)|NaN`;
const sampleLine = new RegExp(`^(${name})(?:\\{(${pair}(?:,${pair})*)\\})? (${value})$`);
const helpLine = new RegExp(`^# HELP (${name}) .+$`);
const typeLine = new RegExp(`^# TYPE (${name}) (counter|gauge|histogram)$`);

const suffixes: Readonly<Record<string, readonly string[]>> = { counter: ["_total"], gauge: [""] };
const histogramSuffixes = ["_bucket", "_sum", "_count"];

/** The samples of a text by name and labels, if it keeps the grammar of its format: every family once, its samples under it. */
const parsed = (text: string, format: ExpositionFormat): Map<string, number> => {
  const samples = new Map<string, number>();
  const families = new Set<string>();
  let family = "";
  let type = "";
  expect(text.endsWith("\n")).toBe(true);
  const lines = text.split("\n").slice(0, -1);
  if (format === "openmetrics") expect(lines.pop()).toBe("# EOF");
  for (const line of lines) {
    const help = helpLine.exec(line);
    const ofType = typeLine.exec(line);
    if (help) family = help[1]!;
    else if (ofType) {
      if (family !== ofType[1]) family = ofType[1]!;
      expect(families.has(family)).toBe(false);
      families.add(family);
      type = ofType[2]!;
    } else {
      expect(line).toMatch(sampleLine);
      const [, sample = "", labels = "", number = ""] = sampleLine.exec(line) ?? [];
      const base = format === "prometheus" && type === "counter" ? family.replace(/_total$/, "") : family;
      expect((suffixes[type] ?? histogramSuffixes).map((suffix) => base + suffix)).toContain(sample);
      expect(samples.has(`${sample}{${labels}}`)).toBe(false);
      samples.set(`${sample}{${labels}}`, Number(number.replace("Inf", "Infinity")));
    }
  }
  return samples;
};

/** Prometheus' own program: `PROMTOOL`, or what is on PATH. Where there is none, the names of the tests say so. */
const promtool = process.env["PROMTOOL"] ?? "promtool";
const hasPromtool = spawnSync(promtool, ["--version"]).status === 0;
const readers = hasPromtool ? "Prometheus and the grammar here" : "the grammar here (no promtool)";

/** Runs promtool on a text; resolves with its complaints. */
const saidBy = (text: string, argsOf: (file: string, folder: string) => readonly string[]): string => {
  const folder = mkdtempSync(join(tmpdir(), "kit-promtool-"));
  try {
    const file = join(folder, "text");
    writeFileSync(file, text);
    const { status, stderr } = spawnSync(promtool, argsOf(file, folder), { input: text, encoding: "utf8" });
    // 3: it reads it well, and has hints on style (units, missing help).
    return status === 0 || status === 3 ? "" : `${String(status)}: ${stderr}`;
  } finally {
    rmSync(folder, { recursive: true });
  }
};

/** The objections of Prometheus to a text; its reader of OpenMetrics wants instants. */
const objections = (text: string, format: ExpositionFormat): string =>
  format === "prometheus"
    ? saidBy(text, () => ["check", "metrics"])
    : saidBy(text.replace(/^[^#].*$/gm, "$& 1700000000"), (file, folder) => [
        "tsdb",
        "create-blocks-from",
        "openmetrics",
        file,
        join(folder, "blocks"),
      ]);

/** The samples of an object in a format, checked by the grammar, and by Prometheus itself where it is there. */
const exposed = async (stats: Stats, options: Parameters<Stats["expose"]>[0] = {}): Promise<Map<string, number>> => {
  const { text, contentType } = await stats.expose(options);
  const { format = "prometheus" } = options;
  expect(contentType).toContain(format === "prometheus" ? "version=0.0.4" : "application/openmetrics-text");
  if (hasPromtool) expect(objections(text, format)).toBe("");
  return parsed(text, format);
};
const formats: readonly ExpositionFormat[] = ["prometheus", "openmetrics"];

describe.each(formats)(`an exposition as %s, read by ${readers}`, (format) => {
  it.each([
    ["an open label", 'a_total{b="x} 1'],
    ["no value", "a_total"],
    ["a name with a blank", "a b_total 1"],
    ["a bare quote", 'a_total{b="x"y"} 1'],
    ["a value that is none", "a_total one"],
  ])("would be refused with %s", (_, line) => {
    const text = `# TYPE ${format === "prometheus" ? "a_total" : "a"} counter\n${line}\n${format === "openmetrics" ? "# EOF\n" : ""}`;
    expect(() => parsed(text, format)).toThrow(/expected/);
    expect(hasPromtool ? objections(text, format) : "there is no promtool").not.toBe("");
  });

  it("shows counters with _total, once, and distributions as histograms", async () => {
    const stats = fixture.make();
    stats.counter("views", { help: "Item views, \\ and\nmore" }).inc(3);
    stats.counter("sales_total", { labelNames: ["shop"] }).inc({ shop: "a" }, 2 ** 53 - 1);
    const latency = stats.distribution("request_ms", { bounds: [-4, 0, 1, 4, 1_000] });
    for (const observed of [-8, -3, 0, 1, 3, 4, 2_000]) latency.observe(observed);
    await stats.flush();
    const text = format === "prometheus" ? ["-4", "0", "1", "4", "1000"] : ["-4.0", "0.0", "1.0", "4.0", "1000.0"];
    const counts = [1, 3, 4, 6, 6];
    expect(await exposed(stats, { format })).toEqual(
      new Map([
        ["views_total{}", 3],
        ['sales_total{shop="a"}', 2 ** 53 - 1],
        ...text.map((le, index) => [`request_ms_bucket{le="${le}"}`, counts[index]!] as const),
        ['request_ms_bucket{le="+Inf"}', 7],
        ...(format === "prometheus"
          ? ([
              ["request_ms_sum{}", 1_997],
              ["request_ms_count{}", 7],
            ] as const)
          : []),
      ]),
    );
  });

  it("escapes label values, which stay apart", async () => {
    const stats = fixture.make();
    const values = [
      '"',
      "\\",
      "\n",
      "\\n",
      "",
      "{a}",
      "a=b",
      "a;b",
      "%3B",
      "a%3Bb",
      "é😀",
      "\r",
      "\0",
      '}" 1\nfake 2',
      " ",
    ];
    const counter = stats.counter("odd_total", { labelNames: ["text", "other"] });
    values.forEach((text, index) => counter.inc({ text, other: "x;y=z%" }, index + 1));
    await stats.flush();
    const samples = await exposed(stats, { format });
    const shown = [...samples].map(([series, count]) => {
      const [, text = ""] = /text="((?:[^"\\]|\\.)*)"/s.exec(series) ?? [];
      expect(series).toContain('other="x;y=z%"');
      return [text.replace(/\\(.)/g, (_, one: string) => (one === "n" ? "\n" : one)), count];
    });
    expect(new Map(shown as [string, number][])).toEqual(new Map(values.map((text, index) => [text, index + 1])));
  });

  it("shows metrics that were never counted: at 0 without labels, otherwise without series", async () => {
    const stats = fixture.make();
    stats.counter("idle_total");
    stats.counter("silent_total", { labelNames: ["a"] });
    stats.distribution("idle_s", { bounds: [0.5], timeUnit: "s" });
    stats.distribution("silent_ms", { labelNames: ["a"] });
    for (const scope of ["shared", "local"] as const)
      expect(await exposed(stats, { format, scope })).toEqual(
        new Map([
          ["idle_total{}", 0],
          ['idle_s_bucket{le="0.5"}', 0],
          ['idle_s_bucket{le="+Inf"}', 0],
          ["idle_s_sum{}", 0],
          ["idle_s_count{}", 0],
        ]),
      );
  });

  it("includes the metrics of other objects", async () => {
    const stats = fixture.make();
    const lock: MetricSample[] = [
      { name: "kit_lock_held", type: "gauge", help: "Held leases", value: 2, labels: { name: 'a"b', shard: 1 } },
      { name: "kit_lock_waiting", type: "gauge", help: "", value: Number.NaN },
      { name: "kit_lock_lost_total", type: "counter", help: "Lost leases", value: 1 },
      ...(["0.5", "+Inf"] as const).map((le): MetricSample => ({
        ...{ name: "kit_lock_s", type: "histogram", help: "Waits", suffix: "_bucket", value: 2, labels: { le } },
      })),
      { name: "kit_lock_s", type: "histogram", help: "Waits", suffix: "_sum", value: 0.75 },
      { name: "kit_lock_s", type: "histogram", help: "Waits", suffix: "_count", value: 2 },
    ];
    const other = { metrics: () => [{ ...lock[0]!, value: -0.5, labels: { name: "c" } }] };
    const include = [{ metrics: () => Promise.resolve(lock) }, other, stats];
    const samples = await exposed(stats, { format, include });
    const ofLock = new Map([...samples].filter(([series]) => series.startsWith("kit_lock")));
    expect(ofLock).toEqual(
      new Map([
        ['kit_lock_held{name="a\\"b",shard="1"}', 2],
        ['kit_lock_held{name="c"}', -0.5],
        ["kit_lock_waiting{}", Number.NaN],
        ["kit_lock_lost_total{}", 1],
        ['kit_lock_s_bucket{le="0.5"}', 2],
        ['kit_lock_s_bucket{le="+Inf"}', 2],
        ["kit_lock_s_sum{}", 0.75],
        ["kit_lock_s_count{}", 2],
      ]),
    );
    expect([samples.get("kit_stats_pending{}"), samples.get('kit_stats_dropped_total{reason="full"}')]).toEqual([0, 0]);
  });
});

describe("an exposition", () => {
  it.each<[string, Partial<MetricSample>]>([
    ["name", { name: "a b" }],
    ["one type", { name: "views_total", type: "gauge" }],
    ["histogram", { type: "summary" as never }],
    ["histogram", { type: "histogram" }],
    ["histogram", { suffix: "_sum" }],
    ["number", { value: "1" as never }],
    ["labelNames", { labels: { "a b": 1 } }],
    ["labelNames", { labels: { le: 1 } }],
    ["twice", { name: "views_total", type: "counter" }],
  ])("refuses samples with a wrong %s", async (text, sample) => {
    const stats = fixture.make();
    stats.counter("views_total");
    const metrics = (): MetricSample[] => [{ name: "x", type: "gauge", help: "", value: 1, ...sample }];
    const names = sample.name === "views_total" && sample.type === "gauge" ? { name: "views" } : {};
    const include = [{ metrics: () => metrics().map((one) => ({ ...one, ...names })) }];
    expect(await rejection(stats.expose({ include }))).toMatchObject({
      message: expect.stringContaining(text) as unknown,
    });
  });

  it("counts exactly up to bounds within a bin, of all processes and in each scope, and stays right when bounds are added", async () => {
    const bounds = [-0.5, 0.005, 0.01, 0.1, 2.5];
    const values = [-1, -0.5, -0.49, 0.00499, 0.005, 0.00501, 0.0099, 0.01, 0.099, 0.1, 0.1001, 2.5, 2.501, 3];
    const [one, two] = [fixture.make(), fixture.on(fixture.connect())];
    const boundsOf = async (stats: Stats, scope: "shared" | "local"): Promise<(number | undefined)[]> => {
      const samples = await exposed(stats, { scope });
      return bounds.map((bound) => samples.get(`t_s_bucket{le="${String(bound)}"}`));
    };
    const exact = bounds.map((bound) => values.filter((value) => value <= bound).length);
    for (const stats of [one, two]) {
      const times = stats.distribution("t_s", { bounds });
      for (const value of values) times.observe(value);
      await stats.flush();
      expect(await boundsOf(stats, "local")).toEqual(exact);
    }
    expect(await boundsOf(one, "shared")).toEqual(exact.map((count) => 2 * count));
    const third = fixture.make();
    third.distribution("t_s", { bounds: [...bounds, 2.75, 3, 3.5] }).observe(3);
    await third.flush();
    const samples = await exposed(third);
    const added = [2.5, 2.75, 3, 3.5].map((bound) => samples.get(`t_s_bucket{le="${String(bound)}"}`));
    // The values that the others had counted in the bin of 3 count as above it.
    expect(added).toEqual([24, 26, 27, 29]);
  });

  it("leaves out the bounds below the resolution of a full sketch, and never goes down", async () => {
    const stats = fixture.make();
    const wide = stats.distribution("wide", { maxBins: 16, bounds: [1, 1_024, 65_536] });
    wide.observe(1);
    await stats.flush();
    expect((await exposed(stats)).get('wide_bucket{le="1"}')).toBe(1);
    for (let power = 0; power < 20; power++) wide.observe(2 ** power);
    await stats.flush();
    const samples = await exposed(stats);
    expect([...samples.keys()]).not.toContain('wide_bucket{le="1"}');
    expect([samples.get('wide_bucket{le="1024"}'), samples.get('wide_bucket{le="+Inf"}')]).toEqual([12, 21]);
    expect((await exposed(stats, { scope: "local" })).get('wide_bucket{le="1"}')).toBe(2);
    // A value below the collapsed bins: one bin too many, until it also collapses.
    await wide.record(2 ** -10);
    expect([...(await exposed(stats)).keys()]).not.toContain('wide_bucket{le="1"}');
  });

  it("finds the series of other processes and lost ones again, and forgets expired ones", async () => {
    const [writer, reader] = [fixture.make(), fixture.on(fixture.connect())];
    const views = writer.counter("views_total", { labelNames: ["category"] });
    reader.counter("views_total", { labelNames: ["category"] });
    await writer.apply([{ name: "views_total", labels: { category: "a" }, amount: 1 }], { writer: "w", seq: 1 });
    await views.add({ category: "b" }, 2);
    await writer.flush();
    const both = new Map([
      ['views_total{category="a"}', 1],
      ['views_total{category="b"}', 2],
    ]);
    expect(await exposed(reader)).toEqual(both);
    // A failover, say, that loses everything: counted from 0 again, and listed again though that was done just now.
    await fixture.db.del(indexKey(redis.prefix, "views_total"), views.series({ category: "b" }).outbox.keys.total);
    expect(await exposed(reader)).toEqual(new Map());
    views.inc({ category: "b" }, 5);
    await writer.flush();
    expect(await exposed(reader)).toEqual(new Map([['views_total{category="b"}', 5]]));
  });

  it("is shortened by clean(), which keeps series that were counted since", async () => {
    const stats = fixture.make();
    const views = stats.counter("views_total", { labelNames: ["category"] });
    const latency = stats.distribution("request_ms", { labelNames: ["route"] });
    for (const category of ["a", "b"]) views.inc({ category });
    latency.observe({ route: "/" }, 1);
    await stats.flush();
    expect(await stats.clean()).toBe(0);
    await fixture.db.del(views.series({ category: "a" }).outbox.keys.total);
    await fixture.db.del(latency.series({ route: "/" }).outbox.keys.dist);
    expect(await stats.clean()).toBe(2);
    expect(await fixture.db.zcard(indexKey(redis.prefix, "request_ms"))).toBe(0);
    expect([...(await exposed(stats)).keys()]).toEqual(['views_total{category="b"}']);
    latency.observe({ route: "/" }, 1);
    await stats.flush();
    expect((await exposed(stats)).get('request_ms_count{route="/"}')).toBe(1);
  });

  it("rejects with the server's error when there is no server", async () => {
    const nowhere = redis.connect({ port: closedPort, retryStrategy: () => 1_000 });
    const stats = fixture.on(nowhere, { deadlineMs: 200 });
    stats.counter("views_total");
    expect(await rejection(stats.expose())).toMatchObject({ code: "KIT_UNAVAILABLE" });
    expect((await exposed(stats, { scope: "local" })).get("views_total{}")).toBe(0);
  });
});

describe(`the dashboard, read by ${hasPromtool ? "Prometheus and " : ""}this test`, () => {
  interface Dashboard {
    readonly panels: readonly { readonly targets: readonly { readonly expr: string }[] }[];
    readonly templating: { readonly list: readonly { readonly name: string }[] };
  }
  const dashboard = JSON.parse(
    readFileSync(new URL("../grafana/dashboard.json", import.meta.url), "utf8"),
  ) as Dashboard;
  const queries = dashboard.panels.flatMap(({ targets }) => targets.map(({ expr }) => expr));

  it("shows every existing metric, and no other", () => {
    const shown = new Set(queries.flatMap((query) => query.match(/kit_stats_\w+/g) ?? []));
    const there = new Set(
      fixture
        .make()
        .metrics()
        .map(({ name: one }) => one),
    );
    expect([...shown].toSorted()).toEqual([...there].toSorted());
  });

  it("queries its variables by existing labels", async () => {
    const known = [...dashboard.templating.list.map((one) => one.name), "__rate_interval"];
    for (const query of queries) {
      for (const [, one = ""] of query.matchAll(/\$\{?(\w+)\}?/g)) expect(known).toContain(one);
      for (const [, one = ""] of query.matchAll(/by \((\w+)\)/g)) expect(["reason", "le"]).toContain(one);
    }
    const plain = queries
      .map((query) => query.replaceAll("$__rate_interval", "5m").replaceAll("${counter}", "views_total"))
      .map((query) => query.replaceAll("${distribution}", "request_ms"));
    for (const query of plain) expect(query).not.toContain("$");
    // The names that it makes are those of an exposition.
    const stats = fixture.make();
    stats.counter("views_total");
    stats.distribution("request_ms");
    const names = [...(await exposed(stats)).keys()].map((series) => series.replace(/\{.*/, ""));
    expect(names).toEqual(expect.arrayContaining(["views_total", "request_ms_bucket"]));
    if (!hasPromtool) return;
    const rules = plain.map((expr, index) => ({ record: `rule:${String(index)}`, expr }));
    const text = JSON.stringify({ groups: [{ name: "dashboard", rules }] });
    expect(saidBy(text, (file) => ["check", "rules", file])).toBe("");
  });
});
