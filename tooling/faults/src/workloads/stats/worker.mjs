// A process that counts, observes and logs, in every way of delivery. Some calls are buffered in bursts, others await the
// reply. Each amount is logged before it is given.
import { pause } from "@kit/core/toolkit";
import { clock } from "@tooling/lab";
import {
  attempt,
  closing,
  detail,
  insist,
  isLeaving,
  log,
  noteBackground,
  obey,
  outcomeOf,
  pick,
  repeating,
  run,
  settings,
  subject,
  subjectClient,
  timed,
  upTo,
} from "../../lab/contender.mjs";

const { id, prefix, deadlineMs, series, precisions } = settings;
const { createStats } = subject;

/** Of nine decades, over which quantiles are promised; whole, so that sums are exact. */
const decades = 9;
const observed = (random) => Math.floor(10 ** (decades * random()));
const isSlow = (value) => value > 10 ** (decades * 0.99);

const client = await subjectClient(settings.url);
const stats = createStats(client, { prefix, deadlineMs, flushMs: 20 });
stats.on("error", noteBackground);
stats.on("dropped", ({ series: name, reason, count }) => log("dropped", { series: name, reason, count }));
const handles = new Map(
  series.map((one) => {
    const { metric, labels, delivery, kind } = one;
    if (kind === "log") return [one, stats.messages(metric)];
    const options = { labelNames: Object.keys(labels), delivery };
    if (kind === "counter") return [one, stats.counter(metric, { ...options, precisions }).series(labels)];
    return [one, stats.distribution(metric, { ...options, slowest: 3 }).series(labels)];
  }),
);

// ── buffered calls ──────────────────────────────────────────────────────────────────────────────────────────────────

const given = new Map();
const sums = new Map();
const add = (map, name, value) => map.set(name, (map.get(name) ?? 0) + value);

/** Logs before it gives: after a kill the log has every amount that can have been given. */
const giveSome = (random) => {
  const one = pick(random, series);
  const { name, kind } = one;
  const handle = handles.get(one);
  const isObserved = kind === "distribution";
  const values = Array.from({ length: upTo(random, 40) }, () => (isObserved ? observed(random) : upTo(random, 1_000)));
  const sum = values.reduce((all, value) => all + value, 0);
  const units = kind === "counter" ? sum : values.length;
  log("gives", { series: name, units, ...(isObserved && { sum, values }), calls: values.length });
  add(given, name, units);
  add(sums, name, sum);
  for (const value of values)
    if (kind === "counter") handle.inc(value);
    else if (kind === "distribution") handle.observe(value, isSlow(value) ? { subject: `${id}/${value}` } : {});
    else handle.log("warn", `Order ${value} was ${value % 3 ? "paid" : "sent"}`);
};

const giveAll = repeating(async (random) => {
  for (let bursts = upTo(random, 5); bursts > 0; bursts--) giveSome(random);
});

let sureAt = clock();
const sure = (from, upToNow, sumsNow) => {
  log("sure", { from: sureAt, to: clock(), upTo: upToNow, sums: sumsNow });
  sureAt = from;
};

const flushAll = repeating(async () => {
  const from = clock();
  const [upToNow, sumsNow] = [Object.fromEntries(given), Object.fromEntries(sums)];
  const flushed = await attempt("flush", "", settings.flushDueMs, async () => {
    await stats.flush();
    return true;
  });
  if (flushed) sure(from, upToNow, sumsNow);
});

// ── awaited calls ───────────────────────────────────────────────────────────────────────────────────────────────────

/** Repeats a call until its outcome is known or the worker leaves. */
const settle = async (what, one, units, sum, call) => {
  const from = clock();
  log("gives", { series: one.name, units, ...(sum !== undefined && { sum, values: [sum] }), calls: 1 });
  const fate = (word, total) => log("fate", { series: one.name, units, sum, fate: word, from, to: clock(), total });
  for (let op; ;) {
    const settled = timed(what, one.name, deadlineMs);
    try {
      const total = await call(op);
      settled("ok");
      return fate("counted", total);
    } catch (error) {
      const outcome = outcomeOf(error);
      settled(outcome, detail(error));
      const isRefused = outcome === "failed" && error.code !== "KIT_STATS_EXPIRED";
      if (isRefused && op === undefined) return fate("not");
      // Only effectively-once delivery can repeat an operation by its id.
      if (one.delivery !== "effectively-once" || outcome !== "unknown" || isLeaving()) return fate("open");
      op = error.op;
      await pause(20);
    }
  }
};

const awaited = series.filter(({ kind }) => kind !== "log");

const waitAll = repeating(async (random) => {
  const one = pick(random, awaited);
  const handle = handles.get(one);
  const value = one.kind === "counter" ? upTo(random, 1_000) : observed(random);
  if (one.kind === "counter") await settle("add", one, value, undefined, (op) => handle.add(value, { op }));
  else await settle("record", one, 1, value, async (op) => void (await handle.record(value, { op })));
});

const applied = series.filter(({ kind, delivery }) => kind === "counter" && delivery === "effectively-once");
let seq = 0;

/** A sink that repeats its call until all of it is counted. */
const applyAll = repeating(async (random) => {
  const parts = applied.map((one) => ({ one, amount: upTo(random, 1_000) }));
  const deltas = parts.map(({ one, amount }) => ({ name: one.metric, labels: one.labels, amount }));
  const from = clock();
  for (const { one, amount } of parts) log("gives", { series: one.name, units: amount, calls: 1 });
  const own = ++seq;
  const isDone = await insist("apply", "", deadlineMs, () => stats.apply(deltas, { writer: id, seq: own }));
  for (const { one, amount } of parts)
    log("fate", { series: one.name, units: amount, fate: isDone ? "counted" : "open", from, to: clock() });
});

await run([giveAll, giveAll, flushAll, waitAll, waitAll, waitAll, applyAll, obey], async () => {
  const from = clock();
  log("closing", {});
  await closing(settings.closeMs, () => stats.close({ timeoutMs: settings.closeMs }));
  sure(from, Object.fromEntries(given), Object.fromEntries(sums));
  log("report", stats.report());
});
