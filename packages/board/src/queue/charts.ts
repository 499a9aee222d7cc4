import { type MetricSample, secondsText } from "@kit/core/toolkit";
import { count, foreign, html, type Html, none, note, type Sample, tableOf, type View } from "../view/index.js";
import type { QueueData } from "./data.js";

type Point = readonly [at: number, value: number];

const width = 240;
const height = 48;
/** The names of jobs whose times are shown. */
const maxNames = 20;

const short = (value: number): string => (value < 10 && value % 1 !== 0 ? value.toFixed(1) : count(Math.round(value)));

/** Draws one chart. Its texts show the numbers. */
const figureOf = (tone: string, value: string, title: string, drawn: Html, below: string): Html =>
  html`<figure class="chart ${tone}">
    <figcaption><b>${value}</b> ${title}</figcaption>
    <svg viewBox="0 -2 ${width} ${height + 4}" preserveAspectRatio="none" aria-hidden="true">${drawn}</svg>
    <p class="quiet">${below}</p>
  </figure>`;

/** A line from the first to the last point. */
const lineOf = (title: string, tone: string, points: readonly Point[]): Html => {
  const values = points.map(([, value]) => value);
  const [least, most] = [Math.min(...values), Math.max(...values)];
  const [from = 0, to = 0] = [points[0]?.[0], points.at(-1)?.[0]];
  const x = (at: number): string => ((width * (at - from)) / Math.max(1, to - from)).toFixed(1);
  const y = (value: number): string => (height - (height * value) / Math.max(1e-9, most)).toFixed(1);
  const line = html`<polyline points="${points.map(([at, value]) => `${x(at)},${y(value)}`).join(" ")}" />`;
  const below = `${short(least)} to ${short(most)} in ${secondsText(to - from)}`;
  return figureOf(tone, short(values.at(-1) ?? 0), title, line, below);
};

/** The change of a counter between neighbors, for `perMs`. */
const rateOf = (samples: readonly Sample[], counter: "completed" | "died", perMs: number): readonly Point[] =>
  samples.slice(1).map((next, at) => {
    const last = samples[at] ?? next;
    return [next.at, (perMs * (next[counter] - last[counter])) / Math.max(1, next.at - last.at)];
  });

const linesPart = (samples: readonly Sample[], isPaused: boolean): Html => {
  const [first] = samples;
  const last = samples.at(-1);
  if (!first || !last || samples.length < 3)
    return html`<p class="quiet">Charts start when this page has updated twice. They show what the board has seen.</p>`;
  const perMs = (last.completed - first.completed) / Math.max(1, last.at - first.at);
  const depthOf = (of: "ready" | "active"): readonly Point[] => samples.map((one) => [one.at, one[of]]);
  return html`<div class="charts">
      ${lineOf("ready", "", depthOf("ready"))} ${lineOf("active", "good", depthOf("active"))}
      ${lineOf("completed per second", "good", rateOf(samples, "completed", 1_000))}
      ${lineOf("died per minute", "bad", rateOf(samples, "died", 60_000))}
    </div>
    ${last.ready > 0 && perMs > 0 && !isPaused ? html`<p class="quiet">At the rate of these ${secondsText(last.at - first.at)}, the ready jobs are done in ${secondsText(last.ready / perMs)}.</p>` : none}`;
};

/** A histogram: upper bounds in seconds, and how many times are up to each. */
type Buckets = readonly (readonly [upTo: number, times: number])[];

const timeText = (seconds: number): string =>
  seconds < 1 ? `${String(Math.round(seconds * 1_000))} ms` : secondsText(seconds * 1_000);

/** As Prometheus computes it: evenly spread within a bucket. */
const quantileOf = (buckets: Buckets, share: number): string => {
  const total = buckets.at(-1)?.[1] ?? 0;
  if (total === 0) return "none";
  const rank = share * total;
  const at = buckets.findIndex(([, times]) => times >= rank);
  const [upTo, times] = buckets[at] ?? [0, 0];
  const [from, before] = buckets[at - 1] ?? [0, 0];
  if (upTo === Infinity) return `over ${timeText(from)}`;
  return timeText(from + ((upTo - from) * (rank - before)) / Math.max(1, times - before));
};

const quantilesOf = (buckets: Buckets): readonly string[] => [0.5, 0.95, 0.99].map((q) => quantileOf(buckets, q));

/** One bar for each bucket. */
const barsOf = (title: string, buckets: Buckets): Html => {
  const inEach = buckets.map(([, times], at) => times - (buckets[at - 1]?.[1] ?? 0));
  const highest = Math.max(1, ...inEach);
  const step = width / buckets.length;
  const bars = inEach.map((times, at) => {
    const high = (height * times) / highest;
    return html`<rect x="${at * step}" width="${step - 2}" y="${height - high}" height="${high}" />`;
  });
  const [p50, p95 = "", p99] = quantilesOf(buckets);
  const [least = 0, most = 0] = [buckets[0]?.[0], buckets.at(-2)?.[0]];
  const below = `p50 ${p50}, p99 ${p99}; bars from ${timeText(least)} to ${timeText(most)}`;
  return figureOf("", p95, `${title}, p95`, html`${bars}`, below);
};

/** The histogram of a metric: of one job name, or of all. */
const bucketsOf = (samples: readonly MetricSample[], metric: string, job?: string): Buckets => {
  const sums = new Map<number, number>();
  for (const { name, suffix, labels = {}, value } of samples)
    if (name === metric && suffix === "_bucket" && (job === undefined || labels["job"] === job)) {
      const upTo = labels["le"] === "+Inf" ? Infinity : Number(labels["le"]);
      sums.set(upTo, (sums.get(upTo) ?? 0) + value);
    }
  return [...sums].toSorted(([one], [other]) => one - other);
};

const waits = "kit_queue_wait_seconds";
const runs = "kit_queue_run_seconds";

const timesPart = async (view: View, queue: string): Promise<Html> => {
  const source = view.metrics?.(queue);
  if (!source) return none;
  const samples = (await source.metrics()).filter(({ labels }) => labels?.["queue"] === queue);
  const timesIn = (job: string): number => bucketsOf(samples, runs, job).at(-1)?.[1] ?? 0;
  const names = samples.flatMap(({ name, suffix, labels }) =>
    name === runs && suffix === "_count" ? [String(labels?.["job"])] : [],
  );
  const all = bucketsOf(samples, runs);
  if (all.length === 0) return note("info", "The workers of this process have run no job yet.");
  const rows = names
    .map((job) => [job, timesIn(job)] as const)
    .toSorted(([, one], [, other]) => other - one)
    .slice(0, maxNames)
    .map(([job, times]) => [
      foreign(job),
      count(times),
      ...quantilesOf(bucketsOf(samples, waits, job)),
      ...quantilesOf(bucketsOf(samples, runs, job)),
    ]);
  const columns = ["wait", "run"].flatMap((what) => ["p50", "p95", "p99"].map((share) => `${what} ${share}`));
  return html`<div class="charts">${barsOf("wait", bucketsOf(samples, waits))}${barsOf("run", all)}</div>
    ${tableOf("Times by name", ["job", "runs", ...columns], rows)}
    <p class="quiet">Times of the workers in this process, since it measures them.</p>`;
};

/** Draws depth, rates and times of a queue. Redis stores none of them. */
export const chartsPart = async (view: View, queue: string, data: QueueData): Promise<Html> =>
  html`<section class="card" aria-label="Charts">
    ${linesPart(view.samples.take(queue, data), data.pausedAt !== null)}${await timesPart(view, queue)}
  </section>`;
