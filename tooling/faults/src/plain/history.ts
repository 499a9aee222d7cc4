import type { Call, CommonRecord, WorkerHistory } from "../records.js";

/** A worker's comparison with the right value; `wrong`: how it differed. */
export interface SightRecord {
  readonly kind: "saw";
  readonly invariant: string;
  readonly wrong: string | false;
}

/** All that is known of one run, of what the workers of a package with few invariants of its own wrote down. */
export interface PlainHistory<R extends { readonly kind: string }> {
  readonly workers: readonly WorkerHistory<R>[];
  readonly heals: readonly { readonly kind: string; readonly at: number; readonly dueMs?: number | undefined }[];
  /** Whether the server keeps all that it acknowledged. */
  readonly losesNothing: boolean;
  /** The faults of the final state, by invariant; empty: it was looked at, and there are none. */
  readonly wrong: Readonly<Record<string, readonly string[]>>;
  /** Copies of requests that were answered. */
  readonly echoes: number;
}

export const callsOf = ({ records }: WorkerHistory<{ readonly kind: string }>): readonly Call[] =>
  (records as readonly CommonRecord[]).filter((record) => record.kind === "call");
