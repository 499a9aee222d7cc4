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

/** A worker's comparison with the expected value. `wrong` describes the difference. */
export interface SightRecord {
  readonly kind: "saw";
  readonly invariant: string;
  readonly wrong: string | false;
}

/** The records of any worker. */
export type CommonRecord =
  | Call
  | StallRecord
  | SightRecord
  /** The work blocked the event loop. */
  | { readonly kind: "blocked"; readonly from: number; readonly to: number }
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

/** The end of an outage, or an interruption. From here on work is possible again. */
export interface Mark {
  readonly kind: string;
  readonly at: number;
  /** The only object concerned, if there is just one. */
  readonly name?: string;
  /** Milliseconds within which work must continue, where servers need a part of that time. */
  readonly dueMs?: number;
}

/** The acknowledged writes that a server has lost: all, the newest, the unsynced or the unreplicated ones. */
export type Loss = "all" | "newest" | "unsynced" | "unreplicated";

export interface DataLoss extends Span {
  readonly what: Loss;
}

/** The facts of any run. */
export interface Run<R extends { readonly kind: string } = { readonly kind: string }> {
  readonly leaseMs: number;
  readonly workers: readonly WorkerHistory<R>[];
  readonly heals: readonly Mark[];
  /** When a fault was active. */
  readonly outages: readonly (Span & { readonly kind: string })[];
  /** Spans in which acknowledged data was lost, or a jump of the clock ended leases. */
  readonly losses: readonly DataLoss[];
  /** Whether the server keeps all acknowledged data. */
  readonly losesNothing: boolean;
  /** The number of repeated requests that got a reply. */
  readonly echoes: number;
}

export const callsOf = <R extends { readonly kind: string }>({
  records,
}: WorkerHistory<R>): readonly Extract<R, { readonly kind: "call" }>[] =>
  records.filter((record): record is Extract<R, { readonly kind: "call" }> => record.kind === "call");

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
