import type { Call, CommonRecord, WorkerHistory as AnyWorkerHistory } from "../../records.js";

/** What an entry is, or is going to be; null: it is not there. */
export type State = { readonly text: string; readonly weight: number } | null;

/** What a worker compared with what it should be; `wrong`: how it differed. */
export interface SightRecord {
  readonly kind: "saw";
  readonly law: string;
  readonly wrong: string | false;
}

export type LogRecord =
  | CommonRecord
  | SightRecord
  /** Written before the call, so that a kill leaves no doubt about what can have been done. */
  | { readonly kind: "intends" | "done"; readonly index: string; readonly id: string; readonly state: State }
  | { readonly kind: "blocked"; readonly from: number; readonly to: number };

/** All that is known of one run, of what the workers of a package with few laws of its own wrote down. */
export interface PlainHistory<R extends { readonly kind: string }> {
  readonly workers: readonly AnyWorkerHistory<R>[];
  readonly heals: readonly { readonly kind: string; readonly at: number; readonly dueMs?: number | undefined }[];
  /** Whether the server keeps all that it acknowledged. */
  readonly losesNothing: boolean;
  /** What is wrong with what is there in the end, by law; empty: it was looked at, and nothing is. */
  readonly wrong: Readonly<Record<string, readonly string[]>>;
  /** Copies of requests that were answered. */
  readonly echoes: number;
}

export interface RunHistory extends PlainHistory<LogRecord> {
  /** What is found of each entry in the end, by index and id. */
  readonly found: Readonly<Record<string, State>>;
}

export const callsOf = ({ records }: AnyWorkerHistory<{ readonly kind: string }>): readonly Call[] =>
  (records as readonly CommonRecord[]).filter((record) => record.kind === "call");
