import type { InspectCall } from "@kit/core/toolkit";
import { labelNames, labelsOf, metricName, seriesId } from "../metric/labels.js";
import { indexKey, seriesKeys } from "../store/keys.js";

/** One series, as named on the command line. */
export interface NamedSeries {
  readonly metric: string;
  readonly labels: Readonly<Record<string, string>>;
  /** With labels in the order used in keys. */
  readonly id: string;
}

/**
 * The series of `metric` or `metric;label=value;…`.
 *
 * @throws {TypeError | RangeError} it is no such name.
 */
export const seriesOf = (name: string): NamedSeries => {
  const [metric = "", ...pairs] = name.split(";");
  if (!pairs.every((pair) => pair.includes("=")))
    throw new RangeError("Expected the name of a metric, or metric;label=value;… for one of its series");
  const labels = labelsOf(name);
  const names = labelNames(labels.map(([label]) => label));
  const values = labels.map(([, value]) => value);
  return { metric: metricName(metric), labels: Object.fromEntries(labels), id: seriesId(metric, names, values) };
};

/** The keys of a series that do not depend on the time. */
export const lastingKeys = (prefix: string, { metric, id }: NamedSeries): readonly string[] => {
  const { total, dist } = seriesKeys(prefix, id);
  return metric === id ? [total, dist, indexKey(prefix, metric)] : [total, dist];
};

/** The kind of a series, by its totals, which live longest. Null if nothing of it is stored. */
export const kindOf = async (
  { redis, prefix }: InspectCall,
  { id }: NamedSeries,
): Promise<"counter" | "distribution" | null> => {
  const { total, dist } = seriesKeys(prefix, id);
  if ((await redis.call("TYPE", total)) !== "none") return "counter";
  return (await redis.call("TYPE", dist)) === "none" ? null : "distribution";
};

/** How many series of a metric with labels are listed, and those that were counted last. */
export const listedSeries = async (
  { redis, prefix }: InspectCall,
  { metric, id }: NamedSeries,
): Promise<{ readonly count: number; readonly newest: readonly string[] }> => {
  if (metric !== id) return { count: 0, newest: [] };
  const key = indexKey(prefix, metric);
  const [count, newest] = await Promise.all([redis.call("ZCARD", key), redis.call("ZREVRANGE", key, 0, 9)]);
  return { count: Number(count), newest: (newest as unknown[]).map(String) };
};
