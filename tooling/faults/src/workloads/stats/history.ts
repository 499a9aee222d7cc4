import type { CommonRecord, Run, Span, WorkerHistory as AnyWorkerHistory } from "../../records.js";

/** By series: an amount, a number of values or a number of messages. */
type Units = Readonly<Record<string, number>>;

/** Written before a worker gives an amount or values to be counted. */
interface GiveRecord {
  readonly kind: "gives";
  readonly series: string;
  readonly units: number;
  /** The sum of the values; only for a distribution. */
  readonly sum?: number;
  /** Only for a distribution. */
  readonly values?: readonly number[];
  readonly calls: number;
}

/** The outcome for a caller that awaited its call: counted, not counted, or unknown. */
interface FateRecord {
  readonly kind: "fate";
  readonly series: string;
  readonly units: number;
  readonly sum?: number;
  readonly fate: "counted" | "not" | "open";
  readonly from: number;
  readonly to: number;
  /** The total in the reply. */
  readonly total?: number;
}

/** Written after a flush: all buffered amounts up to these sums are counted or reported as dropped. */
interface SureRecord extends Span {
  readonly kind: "sure";
  readonly upTo: Units;
  readonly sums: Units;
}

interface DropRecord {
  readonly kind: "dropped";
  readonly series: string;
  readonly reason: string;
  readonly count: number;
}

/** The report of a statistics object after its close. */
interface ReportRecord {
  readonly kind: "report";
  readonly pending: number;
  readonly dropped: Units;
}

export type LogRecord =
  CommonRecord | GiveRecord | FateRecord | SureRecord | DropRecord | ReportRecord | { readonly kind: "closing" };

export type WorkerHistory = AnyWorkerHistory<LogRecord>;

/** Quantiles of a distribution, by the share of values that they are not below. */
export interface Quantiles {
  readonly of: string;
  readonly count: number;
  readonly values: Readonly<Record<string, number>>;
}

/** The numbers of a series after the run. */
export interface Found {
  readonly series: string;
  readonly delivery: "at-most-once" | "at-least-once" | "effectively-once";
  readonly total: number;
  /** Only for a distribution. */
  readonly sum?: number;
  /** Only for a distribution. */
  readonly quantiles?: readonly Quantiles[];
  /** Sums that must equal the total, by name: buckets of each precision, windows, bins. */
  readonly parts: Units;
}

/** All records of one run. */
export interface RunHistory extends Run<LogRecord> {
  /** Whether parts must add up to their total. False where the server evicts keys or its clock jumps. */
  readonly isWhole: boolean;
  readonly found: readonly Found[];
  /** Amounts that the network delivered twice without a ledger to recognise the copy. */
  readonly copied: Units;
  readonly leftovers: readonly string[];
}
