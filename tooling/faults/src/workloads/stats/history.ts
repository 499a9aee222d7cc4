import type { Loss } from "../../lab/lab.js";
import type { PlainHistory } from "../../plain/history.js";
import type { CommonRecord, Span, WorkerHistory as AnyWorkerHistory } from "../../records.js";

/** How much of each series, by its id: an amount, or a number of values or messages. */
type Units = Readonly<Record<string, number>>;

/** Something is going to be given to be counted. */
interface GiveRecord {
  readonly kind: "gives";
  readonly series: string;
  readonly units: number;
  /** Of a distribution: the sum of the values. */
  readonly sum?: number;
  /** So many calls. */
  readonly calls: number;
}

/** The outcome for a caller who waited: counted, not counted, or unknown. */
interface FateRecord {
  readonly kind: "fate";
  readonly series: string;
  readonly units: number;
  readonly sum?: number;
  readonly fate: "counted" | "not" | "open";
  readonly from: number;
  readonly to: number;
  /** The total of the series then. */
  readonly total?: number;
}

/** All that had been given without waiting, up to these sums, is counted or reported as dropped. */
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

/** The last words of a statistics object. */
interface ReportRecord {
  readonly kind: "report";
  readonly pending: number;
  readonly dropped: Units;
}

export type LogRecord =
  | CommonRecord
  | GiveRecord
  | FateRecord
  | SureRecord
  | DropRecord
  | ReportRecord
  | { readonly kind: "closing" }
  | { readonly kind: "blocked"; readonly from: number; readonly to: number };

export type WorkerHistory = AnyWorkerHistory<LogRecord>;

/** The numbers of a series in the end. */
export interface Found {
  readonly series: string;
  readonly delivery: "at-most-once" | "at-least-once" | "effectively-once";
  readonly total: number;
  /** Of a distribution. */
  readonly sum?: number;
  /** The parts that have to add up to the total: buckets of each precision, windows, bins; by what they are. */
  readonly parts: Units;
}

export interface DataLoss extends Span {
  readonly what: Loss;
}

/** All that is known of one run. */
export interface RunHistory extends Omit<PlainHistory<LogRecord>, "wrong" | "losesNothing"> {
  readonly losses: readonly DataLoss[];
  /** Whether the parts of a series share the fate of its total: not where the server forgets keys, or its clock jumps. */
  readonly isWhole: boolean;
  readonly found: readonly Found[];
  /** Amounts that the network delivered twice and that no ledger could recognise. */
  readonly copied: Units;
  readonly leftovers: readonly string[];
}
