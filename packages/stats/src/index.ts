export { CounterOverflowError, StatsExpiredError, StatsTimeError } from "./errors.js";
export { createStats } from "./stats.js";

export type { Precision, RangeOptions } from "./buckets.js";
export type { Counter, CounterBucket, CounterDay, CounterSeries } from "./counter.js";
export type { Day } from "./days.js";
export type {
  Distribution,
  DistributionSeries,
  EndTimer,
  ObserveOptions,
  Outcome,
  Recorded,
  RecordOptions,
  WindowSummary,
} from "./distribution.js";
export type { Exposition, ExpositionFormat } from "./exposition.js";
export type { StatsErrorCode } from "./errors.js";
export type { Labelled, Labels, LabelValue } from "./labels.js";
export type { Level } from "./levels.js";
export type { Entry, FrequentMessage, Messages, Page } from "./messages.js";
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
export type { Delivery, DropReason } from "./outbox.js";
export type { ApplyOptions, CounterDelta, Stats, StatsEvents, StatsReport } from "./stats.js";
export type { Summary } from "./summary.js";
export type { CloseOptions, MetricSample, MetricSource } from "@kit/core/toolkit";
