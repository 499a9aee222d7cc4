import { counted, countText, type Facts, type InspectCall, type Report } from "@kit/core/toolkit";
import type { Precision, RangeOptions, Stats, Summary } from "../index.js";
import { kindOf, listedSeries, type NamedSeries } from "./series.js";
import { assertFew, spanText, timeText } from "./spans.js";
import { withStats } from "./with-stats.js";

/** The values of a distribution. If it is empty, all fields except `count` and `sum` are null. */
interface Values {
  readonly count: number;
  readonly sum: number;
  readonly mean: number | null;
  readonly stddev: number | null;
  readonly min: number | null;
  readonly max: number | null;
  readonly p50: number | null;
  readonly p90: number | null;
  readonly p99: number | null;
}

interface Bucket {
  readonly startAt: number;
  readonly isPartial: boolean;
  /** The amount; for a distribution its values. */
  readonly value: number | Values;
}

/** A metric over a range; what `kit inspect stats NAME --json` and `kit stats show NAME --json` print. */
interface MetricReport {
  /** The series, labels sorted. */
  readonly metric: string;
  /** Null if nothing of it is stored. */
  readonly kind: "counter" | "distribution" | null;
  readonly total: number | Values | null;
  readonly sinceMs: number;
  /** Null if nothing is stored. */
  readonly stepMs: number | null;
  readonly buckets: readonly Bucket[];
  /** Series of a metric with labels. */
  readonly series: number;
  /** Those that were counted last. */
  readonly newestSeries: readonly string[];
}

interface Reading {
  readonly total: number | Values;
  readonly buckets: readonly Bucket[];
}

/** How one kind of metric is read. */
interface View {
  /** Widths that the default precisions can give for the spans that are shown by them. */
  readonly steps: readonly number[];
  readonly finestMs: number;
  /** `stored`: a width instead of the defaults. */
  readonly read: (stats: Stats, series: NamedSeries, range: RangeOptions, stored?: Precision) => Promise<Reading>;
  readonly columns: readonly string[];
}

const minuteMs = 60_000;
const hourMs = 3_600_000;
const dayMs = 86_400_000;
const usualRows = 30;

const known = (value: number): number | null => (Number.isFinite(value) ? value : null);

const valuesOf = (summary: Summary): Values => {
  const { count, sum, mean, stddev, min, max } = summary;
  const at = (q: number): number | null => (count === 0 ? null : known(summary.quantile(q)));
  return {
    ...{ count, sum, mean: known(mean), stddev: known(stddev), min: known(min), max: known(max) },
    ...{ p50: at(0.5), p90: at(0.9), p99: at(0.99) },
  };
};

const views: Readonly<Record<"counter" | "distribution", View>> = {
  counter: {
    steps: [1_000, 10_000, minuteMs, 5 * minuteMs, 15 * minuteMs, hourMs, 6 * hourMs, dayMs, 7 * dayMs],
    finestMs: 1_000,
    read: async (stats, { metric, labels }, range, stored) => {
      const precisions = stored && [stored];
      const one = stats.counter<string>(metric, { labelNames: Object.keys(labels), precisions }).series(labels);
      return { total: await one.total(), buckets: await one.read(range) };
    },
    columns: ["from", "count", ""],
  },
  distribution: {
    steps: [minuteMs, 5 * minuteMs, hourMs, 6 * hourMs, dayMs, 7 * dayMs],
    finestMs: minuteMs,
    read: async (stats, { metric, labels }, range, stored) => {
      const windows = stored && [stored];
      const one = stats.distribution<string>(metric, { labelNames: Object.keys(labels), windows }).series(labels);
      const buckets = (await one.windows(range)).map(({ startAt, summary, isPartial }) => ({
        startAt,
        isPartial,
        value: valuesOf(summary),
      }));
      return { total: valuesOf(await one.total()), buckets };
    },
    columns: ["from", "count", "mean", "p50", "p99", "max", ""],
  },
};

const countOf = (value: number | Values): number => (typeof value === "number" ? value : value.count);

/**
 * The widths that a metric stores are options of the programs that write it: this tries the usual ones, then the requested one.
 */
const readingOf = async (
  call: InspectCall,
  { finestMs, read }: View,
  series: NamedSeries,
  { sinceMs, stepMs }: { readonly sinceMs: number; readonly stepMs: number },
): Promise<Reading> => {
  const range = { lastMs: sinceMs, stepMs };
  const own = { stepMs, keepMs: Math.max(sinceMs, stepMs) };
  const readOwn = (): Promise<Reading> => withStats(call, (stats) => read(stats, series, range, own));
  if (stepMs % finestMs !== 0) return await readOwn();
  const usual = await withStats(call, (stats) => read(stats, series, range));
  if (usual.buckets.some(({ value }) => countOf(value) > 0)) return usual;
  const found = await readOwn();
  return found.buckets.some(({ value }) => countOf(value) > 0) ? found : usual;
};

/** Measured numbers, with a readable number of digits. */
const numberText = (value: number | null): string => (value === null ? "-" : String(Number(value.toPrecision(5))));

const rowOf = ({ startAt, value, isPartial }: Bucket): readonly string[] => {
  const state = isPartial ? "incomplete" : "";
  if (typeof value === "number") return [timeText(startAt), String(value), state];
  const { count, mean, p50, p99, max } = value;
  return [timeText(startAt), String(count), ...[mean, p50, p99, max].map(numberText), state];
};

const totalFacts = (total: number | Values): Facts => {
  if (typeof total === "number") return [["total", String(total)]];
  const { count, mean, stddev, min, max, p50, p90, p99 } = total;
  return [
    ["total", `${counted(count, "value")}, from ${numberText(min)} to ${numberText(max)}`],
    ["mean", `${numberText(mean)}, standard deviation ${numberText(stddev)}`],
    ["quantiles", `50 % ${numberText(p50)}, 90 % ${numberText(p90)}, 99 % ${numberText(p99)}`],
  ];
};

const factsOf = ({ metric, kind, total, sinceMs, buckets, series, newestSeries }: MetricReport): Facts => {
  const isEmpty = buckets.every(({ value }) => countOf(value) === 0);
  const nothing = series > 0 ? "none: the metric has labels. Pass one of its series" : "nothing stored";
  return [
    [kind ?? "metric", metric],
    ...(total === null ? ([["total", nothing]] as const) : totalFacts(total)),
    ...(series > 0 ? [["series", countText(series, newestSeries)] as const] : []),
    ...(kind !== null && isEmpty
      ? [["buckets", `empty for the last ${spanText(sinceMs)}. If the metric has its own width, pass --step`] as const]
      : []),
  ];
};

const summaryOf = ({ kind, total, series }: MetricReport): string => {
  if (total === null) return `${String(series)} series`;
  return typeof total === "number"
    ? `${String(kind)}, total ${String(total)}`
    : `${String(kind)}, ${counted(total.count, "value")}`;
};

/** The span of a report. Without `stepMs` it has about thirty buckets, or fewer. */
interface ReportOptions {
  readonly sinceMs: number;
  readonly stepMs?: number | undefined;
}

/** @throws {RangeError} the range has too many buckets. */
export const metricReport = async (
  call: InspectCall,
  series: NamedSeries,
  { sinceMs, stepMs: wantedMs }: ReportOptions,
): Promise<Report> => {
  if (wantedMs !== undefined) assertFew(sinceMs, wantedMs, "step");
  const kind = await kindOf(call, series);
  const { count, newest } = await listedSeries(call, series);
  const head = { metric: series.id, kind, sinceMs, series: count, newestSeries: newest };
  if (kind === null) {
    const data: MetricReport = { ...head, total: null, stepMs: null, buckets: [] };
    return { data, facts: factsOf(data), summary: summaryOf(data), isUnknown: count === 0 };
  }
  const view = views[kind];
  const stepMs = wantedMs ?? view.steps.find((one) => sinceMs / one <= usualRows) ?? 7 * dayMs;
  const data: MetricReport = { ...head, stepMs, ...(await readingOf(call, view, series, { sinceMs, stepMs })) };
  return {
    data,
    facts: factsOf(data),
    summary: summaryOf(data),
    table: { columns: view.columns, rows: data.buckets.map(rowOf) },
  };
};
