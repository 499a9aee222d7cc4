export { CounterOverflowError, StatsExpiredError, StatsTimeError } from "./errors.js";
export { createStats } from "./stats.js";

export type { Precision, RangeOptions } from "./time/buckets.js";
export type { Counter, CounterBucket, CounterDay, CounterSeries } from "./counter/counter.js";
export type { Day } from "./time/days.js";
export type {
  Distribution,
  DistributionSeries,
  EndTimer,
  ObserveOptions,
  Outcome,
  Recorded,
  RecordOptions,
  WindowSummary,
} from "./distribution/distribution.js";
export type { Exposition, ExpositionFormat } from "./metric/exposition.js";
export type { StatsErrorCode } from "./errors.js";
export type { Labelled, Labels, LabelValue } from "./metric/labels.js";
export type { Level } from "./messages/levels.js";
export type { Entry, FrequentMessage, Messages, Page } from "./messages/messages.js";
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
export type { ApplyOptions, CounterDelta, Stats, StatsEvents, StatsReport } from "./stats.js";
export type { Summary } from "./distribution/summary.js";
export type { CloseOptions, MetricSample, MetricSource } from "@kit/core/toolkit";
