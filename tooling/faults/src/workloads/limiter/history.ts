import type { Limit } from "@kit/limiter";
import type { Call, CommonRecord, Run } from "../../records.js";

/** A limit of this workload, and how many calls any window of it can have at most. */
export interface LimitFacts {
  readonly limiter: string;
  readonly limit: Limit;
  readonly most: number;
}

export type LogRecord =
  | Exclude<CommonRecord, Call>
  /** `allowed`: the call may go on. `name` is the limiter, and `key` its key. */
  | (Call & { readonly key?: string; readonly allowed?: boolean })
  /** Written before a call that is counted exactly. */
  | { readonly kind: "intends" };

export interface RunHistory extends Run<LogRecord> {
  readonly limits: readonly LimitFacts[];
  /** The rate of the calls that wait, per millisecond. */
  readonly waitRate: number;
  /** The tokens of the exact count that are used in the end. */
  readonly counted: number;
  readonly leftovers: readonly string[];
}
