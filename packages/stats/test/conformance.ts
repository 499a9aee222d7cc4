import { eventually } from "@kit/testing";
import {
  boolean,
  canary,
  choice,
  clientRules,
  type Conformance,
  conforming,
  integer,
  type OptionRules,
  refusing,
  signal,
  text,
} from "@tooling/vitest/conformance";
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

const dayMs = 86_400_000;
const delivery = choice("at-most-once", "at-least-once", "effectively-once");
const steps = refusing(
  [],
  [{ stepMs: 1_000 }],
  [{ stepMs: 1_000, keepMs: 500 }],
  [{ stepMs: 1_000, keepMs: 1_000, keepSamples: 1 }],
  [{ stepMs: 1_000, keepMs: 1_000_000_000 }],
  [1_000, 1_500].map((stepMs) => ({ stepMs, keepSamples: 5 })),
  [5, 6].map((keepSamples) => ({ stepMs: 1_000, keepSamples })),
  1,
);
const at = refusing(-1, Number.NaN, Infinity, "now", null);
const level = refusing("warning", 1, null);
const metricRules: OptionRules = {
  help: refusing(1, null),
  labelNames: refusing("a", ["a", "a"], ["le"], ["quantile"], ["__x"], ["a-b"]),
  maxSeries: integer(1, 1_000_000),
  delivery,
};
const confirmRules: OptionRules = { at, op: refusing("", 1), signal };
const lastMinute = { lastMs: 60_000 };

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
      options: { ...clientRules, flushMs: integer(1, 60_000), maxPending: integer(1, 100_000_000), delivery },
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
          options: { ...metricRules, precisions: steps },
          run: (stats, options: CounterOptions) => void stats.counter("orders_total", options),
          isLocal: true,
        },
        "counter.inc": {
          options: { at },
          prepare: counted,
          run: (_stats, options, counter: Counter) => counter.inc(1, options),
          isLocal: true,
          closed: undefined,
        },
        "counter.add": {
          options: confirmRules,
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
          options: { lastMs: integer(1), stepMs: refusing(0, 1_500, "1") },
          required: lastMinute,
          prepare: counted,
          run: (_stats, options: { lastMs: number }, counter: Counter) => counter.read(options),
          trace: ["kit:stats.read", { series: "orders_total" }],
        },
        "counter.days": {
          options: { timeZone: refusing("Nowhere/Land", 1, null), lastDays: integer(1, 1_000) },
          required: { timeZone: "UTC", lastDays: 1 },
          prepare: counted,
          run: (_stats, options: { timeZone: string; lastDays: number }, counter: Counter) => counter.days(options),
          trace: ["kit:stats.days", { series: "orders_total" }],
        },
        distribution: {
          options: {
            ...metricRules,
            windows: steps,
            maxBins: integer(16, 2_048),
            slowest: integer(0, 1_000),
            bounds: refusing([], [1, 1], [1, Infinity]),
            timeUnit: choice("ms", "s"),
          },
          run: (stats, options: DistributionOptions) => void stats.distribution("request_ms", options),
          isLocal: true,
        },
        "distribution.record": {
          options: confirmRules,
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
          run: (_stats, _options, distribution: Distribution) => distribution.slowest(lastMinute),
          trace: ["kit:stats.slowest", { series: "request_ms" }],
        },
        messages: {
          options: {
            keepEntries: integer(1, 100_000),
            keepMs: integer(1_000, 3_660 * dayMs),
            window: refusing({ stepMs: 1 }, 1),
            maxDistinct: integer(1, 10_000),
            mask: boolean,
            maxTextBytes: integer(1, 1_048_576),
            delivery,
          },
          run: (stats, options: MessagesOptions) => void stats.messages("checkout", options),
          isLocal: true,
        },
        "messages.log": {
          options: { fields: refusing(1, [], null), fingerprint: text(200) },
          prepare: logged,
          run: (_stats, options: LogOptions, messages: Messages) => messages.log("info", canary, options),
          isLocal: true,
          closed: undefined,
        },
        "messages.recent": {
          options: { level, minLevel: level, limit: integer(1, 1_000), before: refusing("x", 1, null) },
          prepare: logged,
          run: (_stats, options: RecentOptions, messages: Messages) => messages.recent(options),
          trace: ["kit:stats.recent", { log: "checkout" }],
        },
        "messages.frequent": {
          options: { level, limit: integer(1, 1_000) },
          required: lastMinute,
          prepare: logged,
          run: (_stats, options: { lastMs: number }, messages: Messages) => messages.frequent(options),
          trace: ["kit:stats.frequent", { log: "checkout" }],
        },
        "messages.tail": {
          options: { minLevel: level, last: integer(0, 1_000), signal },
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
          options: { writer: text(200), seq: integer(1) },
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
          options: {
            format: refusing("json", 1, null),
            scope: choice("shared", "local"),
            include: refusing([{}], 1, null),
          },
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
