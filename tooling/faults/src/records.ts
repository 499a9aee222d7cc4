/** Processes and server read the same clock of one machine, each with its own rounding. In milliseconds. */
export const clockErrorMs = 2;

/** A call of a worker. Instants are milliseconds since the epoch, counted by a monotonic clock. */
export interface Call {
  readonly kind: "call";
  readonly what: string;
  readonly name: string;
  readonly startedAt: number;
  readonly settledAt: number;
  /** Within how many milliseconds it had to settle. */
  readonly dueMs: number;
  /** The part of that time in which the process did not run. */
  readonly stalledMs: number;
  readonly outcome: "ok" | "failed" | "unknown" | "aborted" | "untyped";
  readonly code?: string;
  readonly error?: string;
}

/** The process did not run: it was stopped, blocked, or had to wait for a processor. */
interface StallRecord {
  readonly kind: "stall";
  readonly from: number;
  readonly to: number;
}

/** The records of any worker. */
export type CommonRecord =
  | Call
  | StallRecord
  | { readonly kind: "crash"; readonly error: string }
  | { readonly kind: "background"; readonly typed: boolean; readonly code?: string }
  | { readonly kind: "jumped"; readonly bySeconds: number }
  | { readonly kind: "started"; readonly pid: number }
  | { readonly kind: "left"; readonly open: readonly string[]; readonly stalledMs: number };

export interface WorkerHistory<R extends { readonly kind: string } = CommonRecord> {
  readonly id: string;
  readonly records: readonly R[];
  /** When it was killed on purpose: then no last record is expected. */
  readonly killedAt?: number | undefined;
  /** Its output; libraries print nothing. */
  readonly printed: string;
  /** How it ended: `exit 0`. */
  readonly end: string;
}

/** A span of time. Instants are server time, epoch milliseconds. */
export interface Span {
  readonly from: number;
  readonly to: number;
}

/** The log of one worker; a kill may have torn its last line. */
export const parseLog = <R>(text: string): R[] => {
  const lines = text.split("\n");
  return lines.slice(0, -1).map((line) => JSON.parse(line) as R);
};

/** How the calls of all workers ended. */
export const outcomesOf = (
  workers: readonly WorkerHistory<{ readonly kind: string; readonly outcome?: string }>[],
): Record<string, number> => {
  const counts: Record<string, number> = {};
  for (const { records } of workers)
    for (const { kind, outcome = "" } of records) if (kind === "call") counts[outcome] = (counts[outcome] ?? 0) + 1;
  return counts;
};
