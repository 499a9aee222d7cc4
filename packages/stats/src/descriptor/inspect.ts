import type { CliOption, Inspector } from "@kit/core/toolkit";
import { metricReport } from "./metric-report.js";
import { lastingKeys, seriesOf } from "./series.js";
import { spanOption } from "./spans.js";

export const nameAbout = "a metric, or one of its series as 'metric;label=value;…'";

export const stepOption: CliOption = {
  name: "step",
  takes: "text",
  about: "bucket width, such as 10s, 5m or 1h: a stored width, or a multiple of a default one",
};

const newestBuckets = 10;

export const statsInspector: Inspector = {
  thing: "stats",
  about: "a counter or distribution: totals and newest buckets",
  args: [{ name: "name", about: nameAbout }],
  options: [stepOption],
  look: (call, name: string) => {
    const stepMs = spanOption(call, "step") ?? 60_000;
    return metricReport(call, seriesOf(name), { sinceMs: newestBuckets * stepMs, stepMs });
  },
  // The name of a series with labels: `metric;label=value`.
  cost: 6,
  listed: {
    things: "metrics",
    keys: ["{NAME}:total", "{NAME}:dist"],
    columns: ["counter", "distribution", "total", "series"],
    thingOf: (text) => ({ name: text.split(/;|%3B/)[0] ?? text }),
  },
  // The keys of buckets depend on the server's time, which is not known here.
  keys: (prefix, name: string) => lastingKeys(prefix, seriesOf(name)),
};
