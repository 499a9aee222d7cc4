/** Milliseconds. Processes and server read the same clock, each with its own rounding. */
export const clockErrorMs = 2;

/** A call of a worker. Instants are milliseconds since the epoch, counted by a monotonic clock. */
export interface Call {
  readonly kind: "call";
  readonly what: string;
  readonly name: string;
  readonly startedAt: number;
  readonly settledAt: number;
  /** Milliseconds within which the call had to settle. */
  readonly dueMs: number;
  /** The part of that time in which the process did not run. */
  readonly stalledMs: number;
  readonly outcome: "ok" | "failed" | "unknown" | "aborted" | "untyped";
  readonly code?: string;
  /** Of `KIT_CLUSTER`: whether another try may help. */
  readonly retryable?: boolean;
  readonly error?: string;
}

/** A span in which the process did not run: it was stopped, blocked, or waited for a processor. */
interface StallRecord {
  readonly kind: "stall";
  readonly from: number;
  readonly to: number;
}

/** The records of any worker. */
export type CommonRecord =
  | Call
  | StallRecord
  /** `isUnhandled`: a promise was rejected and nobody handled it. */
  | { readonly kind: "crash"; readonly error: string; readonly isUnhandled?: boolean }
  | { readonly kind: "background"; readonly typed: boolean; readonly code?: string; readonly retryable?: boolean }
  | { readonly kind: "jumped"; readonly bySeconds: number }
  | { readonly kind: "started"; readonly pid: number }
  | { readonly kind: "left"; readonly open: readonly string[]; readonly stalledMs: number };

export interface WorkerHistory<R extends { readonly kind: string } = CommonRecord> {
  readonly id: string;
  readonly records: readonly R[];
  /** When the lab killed the worker. Then no last record is expected. */
  readonly killedAt?: number | undefined;
  /** The output of the worker, which must be empty. */
  readonly printed: string;
  /** The exit status or signal, like `exit 0`. */
  readonly end: string;
}

/** A span of time. Instants are server time, epoch milliseconds. */
export interface Span {
  readonly from: number;
  readonly to: number;
}

/** Parses the log of one worker. A kill may have torn its last line. */
export const parseLog = <R>(text: string): R[] => {
  const lines = text.split("\n");
  return lines.slice(0, -1).map((line) => JSON.parse(line) as R);
};

/** The rejections that nobody handled, of all workers. */
export const unhandledIn = (workers: readonly WorkerHistory<{ readonly kind: string }>[]): string[] =>
  workers.flatMap(({ id, records }) =>
    (records as readonly CommonRecord[]).flatMap((record) =>
      record.kind === "crash" && record.isUnhandled === true ? [`${id}: ${record.error}`] : [],
    ),
  );

/** Counts the outcomes of all workers' calls. */
export const outcomesOf = (
  workers: readonly WorkerHistory<{ readonly kind: string; readonly outcome?: string }>[],
): Record<string, number> => {
  const counts: Record<string, number> = {};
  for (const { records } of workers)
    for (const { kind, outcome = "" } of records) if (kind === "call") counts[outcome] = (counts[outcome] ?? 0) + 1;
  return counts;
};
