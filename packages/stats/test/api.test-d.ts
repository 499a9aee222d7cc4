// Compiled, never run: pins the types that callers see. A change of the surface must be made here too.
import type { KitError, RedisLike } from "@kit/core";
import type { Cluster, Redis } from "ioredis";
import type {
  ApplyOptions,
  CloseOptions,
  ConfirmOptions,
  Counter,
  CounterBucket,
  CounterDay,
  CounterDelta,
  CounterOptions,
  CounterOverflowError,
  createStats,
  Delivery,
  Distribution,
  DaysOptions,
  DistributionOptions,
  DropReason,
  Entry,
  ExposeOptions,
  Exposition,
  ExpositionFormat,
  FrequentMessage,
  FrequentOptions,
  Level,
  LogOptions,
  Messages,
  MessagesOptions,
  MetricSample,
  MetricSource,
  ObserveOptions,
  Outcome,
  Page,
  Precision,
  RangeOptions,
  RecentOptions,
  Recorded,
  RecordOptions,
  SlowestOptions,
  Stats,
  StatsErrorCode,
  StatsEvents,
  StatsExpiredError,
  StatsOptions,
  StatsReport,
  StatsTimeError,
  Summary,
  TailOptions,
  WindowSummary,
  WriteOptions,
} from "../src/index.js";

type Same<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;
type Check<Proof extends true> = Proof;
type Option<T> = T | undefined;
type Call<F> = F extends (...args: infer Args) => infer Result ? [Args, Result] : never;
/** Properties and methods, flattened, so that an interface and a literal can be compared. */
type Flat<T> = { [Key in keyof T]: T[Key] };

type Plain = Counter;
type Labelled = Counter<"route" | "status">;
type Labels = { readonly route: string | number; readonly status: string | number };
type Timed = Distribution<"route" | "outcome">;
type MetricOptions = "help" | "labelNames" | "maxSeries" | "delivery";

export type Pins = [
  Check<Same<Call<typeof createStats>, [[redis: RedisLike, options?: Option<StatsOptions>], Stats]>>,
  Check<Redis | Redis<"resp3"> | Cluster extends RedisLike ? true : false>,
  Check<Same<keyof StatsOptions, "prefix" | "isolate" | "deadlineMs" | "flushMs" | "maxPending" | "delivery">>,
  Check<Same<Delivery, "at-most-once" | "at-least-once" | "effectively-once">>,
  Check<
    Same<
      Exclude<keyof Stats, "on" | "once" | "off" | "emit">,
      | "counter"
      | "distribution"
      | "messages"
      | "apply"
      | "flush"
      | "expose"
      | "metrics"
      | "clean"
      | "report"
      | "close"
      | typeof Symbol.asyncDispose
    >
  >,

  Check<Same<keyof CounterOptions, MetricOptions | "precisions">>,
  Check<Same<keyof DistributionOptions, MetricOptions | "windows" | "bounds" | "maxBins" | "slowest" | "timeUnit">>,
  Check<
    Same<
      keyof MessagesOptions,
      "keepEntries" | "keepMs" | "window" | "maxDistinct" | "mask" | "maxTextBytes" | "delivery"
    >
  >,
  Check<
    Same<
      Precision,
      { readonly stepMs: number; readonly keepMs: number } | { readonly stepMs: number; readonly keepSamples: number }
    >
  >,
  Check<
    Same<
      Flat<RangeOptions>,
      {
        readonly stepMs?: Option<number>;
        readonly lastMs?: Option<number>;
        readonly fromAt?: Option<number>;
        readonly toAt?: Option<number>;
      }
    >
  >,

  // Without labels there is no first argument for them; with labels each is required, and no other is allowed.
  Check<Same<Call<Plain["inc"]>, [[amount?: number, options?: WriteOptions], void]>>,
  Check<Same<Call<Plain["add"]>, [[amount?: number, options?: ConfirmOptions], Promise<number>]>>,
  Check<Same<Parameters<Labelled["inc"]>[0], Labels>>,
  Check<Same<Call<Labelled["total"]>, [[labels: Labels], Promise<number>]>>,
  Check<Same<Call<Labelled["read"]>, [[labels: Labels, range: RangeOptions], Promise<CounterBucket[]>]>>,
  Check<Same<Call<Labelled["days"]>, [[labels: Labels, options: DaysOptions], Promise<CounterDay[]>]>>,
  Check<Same<Flat<DaysOptions>, { readonly timeZone: string; readonly lastDays: number }>>,
  Check<Same<keyof CounterDay, "date" | "startAt" | "endAt" | "value" | "isPartial">>,
  Check<Same<Flat<CounterBucket>, { readonly startAt: number; readonly value: number; readonly isPartial: boolean }>>,
  Check<Same<keyof ConfirmOptions, "at" | "signal" | "op">>,
  Check<Same<Call<Stats["apply"]>, [[deltas: readonly CounterDelta[], options: ApplyOptions], Promise<void>]>>,
  Check<Same<keyof CounterDelta, "name" | "labels" | "amount" | "at">>,
  Check<Same<Flat<ApplyOptions>, { readonly writer: string; readonly seq: number }>>,

  // Timers fill in the outcome.
  Check<Same<Parameters<Timed["timed"]>[0], { readonly route: string | number }>>,
  Check<
    Same<
      Flat<Exclude<Parameters<ReturnType<Timed["startTimer"]>>[0], Outcome | undefined>>,
      { readonly route?: string | number; readonly outcome?: string | number }
    >
  >,
  Check<Same<Outcome, "ok" | "error">>,
  Check<Same<Call<Distribution["observe"]>, [[value: number, options?: ObserveOptions], void]>>,
  Check<Same<Call<Distribution["record"]>, [[value: number, options?: RecordOptions], Promise<Recorded>]>>,
  Check<Same<Flat<Recorded>, { readonly window: Summary; readonly total: Summary }>>,
  Check<Same<keyof Summary, "count" | "sum" | "mean" | "stddev" | "min" | "max" | "quantile" | "accurateAbove">>,
  Check<Same<keyof WindowSummary, "startAt" | "summary" | "isPartial">>,
  Check<Same<keyof SlowestOptions, keyof RangeOptions | "limit">>,

  Check<Same<Level, "trace" | "debug" | "info" | "warn" | "error" | "fatal">>,
  Check<Same<Call<Messages["log"]>, [[level: Level | number, text: string, options?: Option<LogOptions>], void]>>,
  Check<Same<Call<Messages["recent"]>, [[options?: Option<RecentOptions>], Promise<Page>]>>,
  Check<Same<Call<Messages["frequent"]>, [[options: FrequentOptions], Promise<FrequentMessage[]>]>>,
  Check<Same<Call<Messages["tail"]>, [[options?: Option<TailOptions>], AsyncGenerator<Entry, void, undefined>]>>,
  Check<Same<keyof Entry, "id" | "at" | "level" | "severity" | "text" | "fields" | "fingerprint">>,
  Check<Same<keyof FrequentMessage, "level" | "fingerprint" | "sample" | "count" | "error" | "firstAt" | "lastAt">>,

  Check<Same<Call<Stats["expose"]>, [[options?: Option<ExposeOptions>], Promise<Exposition>]>>,
  Check<
    Same<
      Flat<ExposeOptions>,
      {
        readonly format?: Option<ExpositionFormat>;
        readonly scope?: Option<"shared" | "local">;
        readonly include?: Option<readonly MetricSource[]>;
      }
    >
  >,
  Check<Same<Flat<Exposition>, { readonly contentType: string; readonly text: string }>>,
  Check<Stats extends MetricSource ? true : false>,
  Check<Same<keyof MetricSample, "name" | "type" | "help" | "value" | "suffix" | "labels">>,

  Check<Same<DropReason, "full" | "unknown" | "future" | "overflow" | "refused" | "closed">>,
  Check<
    Same<
      Flat<StatsReport>,
      { readonly pending: number; readonly series: number; readonly dropped: Readonly<Record<DropReason, number>> }
    >
  >,
  Check<Same<keyof StatsEvents, "dropped" | "overflow" | "evictable" | "error">>,
  Check<Same<StatsErrorCode, "KIT_STATS_OVERFLOW" | "KIT_STATS_TIME" | "KIT_STATS_EXPIRED">>,
  Check<CounterOverflowError | StatsTimeError | StatsExpiredError extends KitError ? true : false>,
  Check<Same<Flat<CloseOptions>, { readonly timeoutMs?: Option<number> }>>,
];

declare const labelled: Labelled;
labelled.inc({ route: "/", status: 200 }, 2);
// @ts-expect-error a label is missing
labelled.inc({ route: "/" });
// @ts-expect-error no labels
labelled.inc(2);
declare const plain: Plain;
// @ts-expect-error there are no labels
plain.inc({ route: "/" });
