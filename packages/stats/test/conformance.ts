import { eventually } from "@kit/testing";
import { canary, type Conformance, conforming } from "@tooling/vitest/conformance";
import { applyRules, counterRules, daysRules } from "../src/counter/options.js";
import { distributionRules, observeRules, recordRules, slowestRules } from "../src/distribution/options.js";
import {
  type Counter,
  type CounterOptions,
  createStats,
  type Distribution,
  type DistributionOptions,
  type ExposeOptions,
  type LogOptions,
  type Messages,
  type MessagesOptions,
  type RecentOptions,
  type Stats,
  type TailOptions,
} from "../src/index.js";
import { frequentRules, logRules, messagesRules, recentRules, tailRules } from "../src/messages/options.js";
import { exposeRules } from "../src/metric/options.js";
import { confirmRules, statsRules, writeRules } from "../src/send/options.js";
import { rangeRules } from "../src/time/buckets.js";

const steps = [
  [],
  [{ stepMs: 1_000 }],
  [{ stepMs: 1_000, keepMs: 500 }],
  [{ stepMs: 1_000, keepMs: 1_000, keepSamples: 1 }],
  [{ stepMs: 1_000, keepMs: 1_000_000_000 }],
  [1_000, 1_500].map((stepMs) => ({ stepMs, keepSamples: 5 })),
  [5, 6].map((keepSamples) => ({ stepMs: 1_000, keepSamples })),
  1,
];
const at = [-1, Number.NaN, Infinity, "now", null];
const metric = { help: [1, null], labelNames: ["a", ["a", "a"], ["le"], ["quantile"], ["__x"], ["a-b"]] };
const lastMinute = { lastMs: 60_000 };
/** By buckets that do not end while the clients are compared, but at midnight. */
const byDay = { ...lastMinute, stepMs: 86_400_000 };

/** The suites give calls little time, which preparing them may take longer than: what was not sent stays in the buffer. */
const flushed = (stats: Stats): Promise<void> => eventually(() => stats.flush(), { timeoutMs: 30_000 });

/** The text of what comes first. */
const first = async (entries: AsyncIterable<{ readonly text: string }>): Promise<string | undefined> => {
  for await (const entry of entries) return entry.text;
  return undefined;
};

const counted = async (stats: Stats): Promise<Counter> => {
  const counter = stats.counter("orders_total");
  counter.inc(3);
  await flushed(stats);
  return counter;
};
const observed = async (stats: Stats): Promise<Distribution> => {
  const distribution = stats.distribution("request_ms", { slowest: 2 });
  distribution.observe(7, { subject: "/" });
  await flushed(stats);
  return distribution;
};
const logged = async (stats: Stats): Promise<Messages> => {
  const messages = stats.messages("checkout");
  messages.log("warn", canary, { fields: { card: canary } });
  await flushed(stats);
  return messages;
};

/** Statistics, for the conformance suites. */
export const conformance: Conformance = {
  name: "stats",
  objects: [
    conforming<Stats>({
      what: "a statistics object",
      make: (client, options) => createStats(client, { flushMs: 60_000, ...options }),
      options: statsRules,
      uses: (stats) => stats.counter("used_total").add(1),
      wakes: {
        tail: async (stats, settle) => {
          const tailing = first(stats.messages("checkout").tail());
          await settle();
          await logged(stats);
          return await tailing;
        },
      },
      calls: {
        counter: {
          options: counterRules,
          refused: { ...metric, precisions: steps },
          run: (stats, options: CounterOptions) => void stats.counter("orders_total", options),
          isLocal: true,
        },
        "counter.inc": {
          options: writeRules,
          refused: { at },
          prepare: counted,
          run: (_stats, options, counter: Counter) => counter.inc(1, options),
          isLocal: true,
          closed: undefined,
        },
        "counter.add": {
          options: confirmRules,
          refused: { at },
          prepare: counted,
          run: (_stats, options, counter: Counter) => counter.add(1, options),
          trace: ["kit:stats.add", { series: "orders_total" }],
        },
        "counter.total": {
          prepare: counted,
          run: (_stats, _options, counter: Counter) => counter.total(),
          trace: ["kit:stats.total", { series: "orders_total" }],
        },
        "counter.read": {
          options: rangeRules,
          refused: { stepMs: [0, 1_500, "1"], fromAt: at, toAt: at },
          required: byDay,
          prepare: counted,
          run: (_stats, options: { lastMs: number }, counter: Counter) => counter.read(options),
          trace: ["kit:stats.read", { series: "orders_total" }],
        },
        "counter.days": {
          options: daysRules,
          refused: { timeZone: ["Nowhere/Land", 1, null] },
          required: { timeZone: "UTC", lastDays: 1 },
          prepare: counted,
          run: (_stats, options: { timeZone: string; lastDays: number }, counter: Counter) => counter.days(options),
          trace: ["kit:stats.days", { series: "orders_total" }],
        },
        distribution: {
          options: distributionRules,
          refused: { ...metric, windows: steps, bounds: [[], [1, 1], [1, Infinity]] },
          run: (stats, options: DistributionOptions) => void stats.distribution("request_ms", options),
          isLocal: true,
        },
        "distribution.observe": {
          options: observeRules,
          refused: { at },
          prepare: observed,
          run: (_stats, options, distribution: Distribution) => distribution.observe(5, options),
          isLocal: true,
          closed: undefined,
        },
        "distribution.record": {
          options: recordRules,
          refused: { at },
          prepare: observed,
          run: (_stats, options, distribution: Distribution) => distribution.record(5, options),
          trace: ["kit:stats.record", { series: "request_ms" }],
        },
        "distribution.total": {
          prepare: observed,
          run: (_stats, _options, distribution: Distribution) => distribution.total(),
          trace: ["kit:stats.total", { series: "request_ms" }],
        },
        "distribution.summary": {
          prepare: observed,
          run: (_stats, _options, distribution: Distribution) => distribution.summary(lastMinute),
          trace: ["kit:stats.summary", { series: "request_ms" }],
        },
        "distribution.windows": {
          prepare: observed,
          run: (_stats, _options, distribution: Distribution) => distribution.windows({ lastMs: 60_000 }),
          trace: ["kit:stats.windows", { series: "request_ms" }],
        },
        "distribution.slowest": {
          prepare: observed,
          options: slowestRules,
          refused: { limit: [0, 11, "1"], fromAt: at, toAt: at },
          required: lastMinute,
          run: (_stats, options: { lastMs: number }, distribution: Distribution) => distribution.slowest(options),
          trace: ["kit:stats.slowest", { series: "request_ms" }],
        },
        messages: {
          options: messagesRules,
          refused: { window: [{ stepMs: 1 }, 1] },
          run: (stats, options: MessagesOptions) => void stats.messages("checkout", options),
          isLocal: true,
        },
        "messages.log": {
          options: logRules,
          refused: { fields: [1, [], null] },
          prepare: logged,
          run: (_stats, options: LogOptions, messages: Messages) => messages.log("info", canary, options),
          isLocal: true,
          closed: undefined,
        },
        "messages.recent": {
          options: recentRules,
          prepare: logged,
          run: (_stats, options: RecentOptions, messages: Messages) => messages.recent(options),
          trace: ["kit:stats.recent", { log: "checkout" }],
        },
        "messages.frequent": {
          options: frequentRules,
          refused: { fromAt: at, toAt: at },
          required: lastMinute,
          prepare: logged,
          run: (_stats, options: { lastMs: number }, messages: Messages) => messages.frequent(options),
          trace: ["kit:stats.frequent", { log: "checkout" }],
        },
        "messages.tail": {
          options: tailRules,
          prepare: logged,
          run: async (_stats, options: TailOptions, messages: Messages) => {
            for await (const entry of messages.tail(options)) if (entry.text !== canary) throw new Error(entry.text);
          },
          waits: true,
          isFinished: true,
          aborted: undefined,
          closed: undefined,
        },
        apply: {
          options: applyRules,
          required: { writer: "w", seq: 1 },
          prepare: counted,
          run: (stats, options: { writer: string; seq: number }) =>
            stats.apply([{ name: "orders_total", amount: 1 }], options),
          trace: ["kit:stats.apply", { writer: "w", seq: 1 }],
        },
        flush: {
          prepare: async (stats) => stats.counter("orders_total").inc(),
          run: (stats) => stats.flush(),
          // Nothing is left to be sent.
          closed: undefined,
          trace: ["kit:stats.flush", { series: 1 }],
        },
        expose: {
          options: exposeRules,
          refused: { include: [[{}], 1, null] },
          prepare: counted,
          run: (stats, options: ExposeOptions) => stats.expose(options),
          trace: ["kit:stats.expose", {}],
        },
        clean: { prepare: counted, run: (stats) => stats.clean(), trace: ["kit:stats.clean", {}] },
      },
      others: ["metrics", "report"],
    }),
  ],
};
