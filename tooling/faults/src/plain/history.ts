import type { Call, CommonRecord, WorkerHistory } from "../records.js";

/** A worker's comparison with the expected value. `wrong` describes the difference. */
export interface SightRecord {
  readonly kind: "saw";
  readonly invariant: string;
  readonly wrong: string | false;
}

/** All records of one run of a package with few invariants of its own. */
export interface PlainHistory<R extends { readonly kind: string }> {
  readonly workers: readonly WorkerHistory<R>[];
  readonly heals: readonly { readonly kind: string; readonly at: number; readonly dueMs?: number | undefined }[];
  /** Whether the server keeps all acknowledged data. */
  readonly losesNothing: boolean;
  /** The faults of the final state, by invariant. An empty list means that it was checked and is right. */
  readonly wrong: Readonly<Record<string, readonly string[]>>;
  /** The number of repeated requests that got a reply. */
  readonly echoes: number;
}

export const callsOf = ({ records }: WorkerHistory<{ readonly kind: string }>): readonly Call[] =>
  (records as readonly CommonRecord[]).filter((record) => record.kind === "call");
