import type { MetricSample } from "@kit/core/toolkit";
import { labelNames, metricName, type SeriesLabels } from "./labels.js";

/** The text formats that Prometheus reads. */
export type ExpositionFormat = "prometheus" | "openmetrics";

/** The text of an exposition. */
export interface Exposition {
  /** The value for the header `Content-Type`. */
  readonly contentType: string;
  readonly text: string;
}

/** One line: the family's name with a suffix, labels, a value. */
interface Sample {
  readonly suffix: string;
  readonly labels: SeriesLabels;
  readonly value: number;
}

/** All samples of one name. */
export interface Family {
  /** The OpenMetrics name: for a counter without `_total`. */
  readonly name: string;
  readonly type: "counter" | "gauge" | "histogram";
  readonly help: string;
  readonly samples: Sample[];
}

/** The values of one series of a distribution. */
export interface HistogramSeries {
  readonly labels: SeriesLabels;
  /** How many values are at most each bound; undefined if no longer known. */
  readonly upTo: readonly (number | undefined)[];
  readonly count: number;
  readonly sum: number;
}

const contentTypes: Readonly<Record<ExpositionFormat, string>> = {
  prometheus: "text/plain; version=0.0.4; charset=utf-8",
  openmetrics: "application/openmetrics-text; version=1.0.0; charset=utf-8",
};

/** In OpenMetrics the sample has the suffix `_total`, and the family has not. */
export const counterFamilyName = (name: string): string => name.replace(/(?<=.)_total$/, "");

/** The names under which a metric appears: two metrics may not share one. */
export const exposedNames = (name: string, type: Family["type"]): readonly string[] => {
  const base = type === "counter" ? counterFamilyName(name) : name;
  const suffixes = { counter: ["_total"], gauge: [], histogram: ["_bucket", "_count", "_sum"] }[type];
  return ["", ...suffixes].map((suffix) => base + suffix);
};

export const counterSample = (labels: SeriesLabels, value: number): Sample => ({ suffix: "_total", labels, value });

/** The lines of one histogram. */
export const histogramSamples = (
  bounds: readonly number[],
  { labels, upTo, count, sum }: HistogramSeries,
  format: ExpositionFormat,
): Sample[] => {
  const bucket = (le: string, value: number): Sample => ({ suffix: "_bucket", labels: [...labels, ["le", le]], value });
  const samples = bounds.flatMap((bound, index) => {
    const value = upTo[index];
    return value === undefined ? [] : [bucket(boundText(bound, format), value)];
  });
  samples.push(bucket("+Inf", count));
  // OpenMetrics allows no sum that may go down.
  if (format === "prometheus" || (bounds[0] ?? 0) >= 0)
    samples.push({ suffix: "_sum", labels, value: sum }, { suffix: "_count", labels, value: count });
  return samples;
};

/**
 * Adds the metrics of another package.
 *
 * @throws {TypeError | RangeError} a sample is invalid, or a metric of another type has its name.
 */
export const addSamples = (families: Map<string, Family>, samples: readonly MetricSample[]): void => {
  for (const { name, type, help, value, suffix = "", labels = {} } of samples) {
    metricName(name);
    if (!/^(counter|gauge|histogram_(bucket|sum|count))$/.test(type + suffix))
      throw new TypeError(`Expected metric ${name} to be a counter, a gauge or a histogram`);
    if (typeof value !== "number") throw new TypeError(`Expected metric ${name} to be a number, got ${typeof value}`);
    labelNames(Object.keys(labels).filter((label) => suffix !== "_bucket" || label !== "le"));
    const familyName = type === "counter" ? counterFamilyName(name) : name;
    let family = families.get(familyName);
    if (!family) families.set(familyName, (family = { name: familyName, type, help, samples: [] }));
    if (family.type !== type) throw new RangeError(`Expected metric ${name} to have one type, got two`);
    const pairs = Object.entries(labels).map(([label, text]) => [label, String(text)] as const);
    family.samples.push({ suffix: type === "counter" ? "_total" : suffix, labels: pairs, value });
  }
};

/**
 * Families as text, after the Prometheus exposition format 0.0.4 or OpenMetrics 1.0.
 *
 * @throws {RangeError} two samples have the same name and labels.
 */
export const rendered = (families: Iterable<Family>, format: ExpositionFormat): Exposition => {
  const lines: string[] = [];
  const isOpen = format === "openmetrics";
  for (const { name, type, help, samples } of families) {
    // In the older format a counter's family has the name of its sample.
    const shown = type === "counter" && !isOpen ? `${name}_total` : name;
    if (help !== "") lines.push(`# HELP ${shown} ${isOpen ? escaped(help) : escapedHelp(help)}`);
    lines.push(`# TYPE ${shown} ${type}`);
    const seen = new Set<string>();
    for (const { suffix, labels, value } of samples) {
      const pairs = labels.map(([label, text]) => `${label}="${escaped(text)}"`).join(",");
      const series = `${name}${suffix}${pairs === "" ? "" : `{${pairs}}`}`;
      if (seen.has(series)) throw new RangeError(`Expected each series of ${shown} once, got one twice`);
      seen.add(series);
      lines.push(`${series} ${numberText(value)}`);
    }
  }
  if (isOpen) lines.push("# EOF");
  return { contentType: contentTypes[format], text: lines.map((line) => `${line}\n`).join("") };
};

const escapedHelp = (text: string): string => text.replace(/\\/g, "\\\\").replace(/\n/g, "\\n");
const escaped = (text: string): string => escapedHelp(text).replace(/"/g, '\\"');

const numberText = (value: number): string =>
  value === Infinity ? "+Inf" : value === -Infinity ? "-Inf" : String(value);

/** OpenMetrics writes the bound 1 as 1.0. */
const boundText = (bound: number, format: ExpositionFormat): string =>
  format === "openmetrics" && Number.isInteger(bound) && Math.abs(bound) < 1e21 ? bound.toFixed(1) : String(bound);
