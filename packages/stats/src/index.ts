export { CounterOverflowError, StatsExpiredError, StatsTimeError } from "./errors.js";
export { createStats } from "./stats.js";

export type { Precision, RangeOptions } from "./time/buckets.js";
export type { ApplyOptions, CounterDelta } from "./counter/apply.js";
export type { Counter } from "./counter/counter.js";
export type { CounterBucket, CounterDay, CounterSeries } from "./counter/series.js";
export type { Day } from "./time/days.js";
export type { Distribution, EndTimer, Outcome } from "./distribution/distribution.js";
export type { Recorded } from "./distribution/outbox.js";
export type { DistributionSeries, ObserveOptions, RecordOptions, WindowSummary } from "./distribution/series.js";
export type { Exposition, ExpositionFormat } from "./metric/exposition.js";
export type { StatsErrorCode } from "./errors.js";
export type { Labelled, Labels, LabelValue } from "./metric/labels.js";
export type { Level } from "./messages/levels.js";
export type { Entry } from "./messages/entry.js";
export type { FrequentMessage } from "./messages/frequent.js";
export type { Messages, Page } from "./messages/messages.js";
export type {
  ConfirmOptions,
  CounterOptions,
  DaysOptions,
  DistributionOptions,
  ExposeOptions,
  ExpositionScope,
  FrequentOptions,
  LogOptions,
  MessagesOptions,
  RecentOptions,
  SlowestOptions,
  StatsOptions,
  TailOptions,
  WriteOptions,
} from "./options.js";
export type { Delivery, DropReason } from "./send/outbox.js";
export type { Stats, StatsEvents, StatsReport } from "./stats.js";
export type { Summary } from "./distribution/summary.js";
export type { CloseOptions, MetricSample, MetricSource } from "@kit/core/toolkit";
