import { patience } from "./patience.js";
import type { Call, CommonRecord, Span, WorkerHistory } from "./records.js";

// The promises of every package:
//
// - `U1` every promise settles by its deadline and 100 ms
// - `U4` nothing is left: no rejection unhandled, nothing printed, no process that does not end
// - `U5` every error is typed, and none says that keys lie in several slots, since those of a call never do

type CommonInvariant = "U1" | "U4" | "U5";

/** Called for each check; `what` names the fault, if there is one. */
export type Judge<L extends string> = (invariant: L, what?: string | false) => void;

export interface Violation<L extends string = string> {
  readonly invariant: L;
  readonly what: string;
}

/** The violations of a run, and how often each invariant was checked. */
export interface Verdict<L extends string = string> {
  readonly violations: readonly Violation<L>[];
  readonly checked: Readonly<Record<L, number>>;
}

/** Runs `check`, and adds up its findings. */
export const judged = <L extends string>(invariants: readonly L[], check: (judge: Judge<L>) => void): Verdict<L> => {
  const violations: Violation<L>[] = [];
  const checked = Object.fromEntries(invariants.map((invariant) => [invariant, 0])) as Record<L, number>;
  check((invariant, what = false) => {
    checked[invariant]++;
    if (what !== false) violations.push({ invariant, what });
  });
  return { violations, checked };
};

/** Allowed beyond a deadline, for timers and the machine. */
export const lateMs: number = 100 * patience;

/** The time from the end of an outage until work continues. */
export const resumeMs: number = 1_000 * patience;

/** U1, U4 and U5 of one worker. */
export const checkWorker = (worker: WorkerHistory<{ readonly kind: string }>, judge: Judge<CommonInvariant>): void => {
  const { id, records, killedAt, printed, end } = worker;
  judge("U4", printed !== "" && `${id} printed: ${printed.slice(0, 500)}`);
  if (killedAt === undefined) {
    judge("U4", end !== "exit 0" && `${id} ended with ${end}`);
    judge("U4", !records.some(({ kind }) => kind === "left") && `${id} never came to its end`);
  }
  const stalls = stallsOf(worker).filter(({ from, to }) => to - from > stallMs);
  // Records of other kinds belong to a package.
  for (const record of records) checkRecord(id, record as CommonRecord, stalls, judge);
};

const checkRecord = (
  id: string,
  record: CommonRecord,
  stalls: readonly Span[],
  judge: Judge<CommonInvariant>,
): void => {
  switch (record.kind) {
    case "call":
      return checkCall(id, record, stalls, judge);
    case "crash":
      return judge("U4", `${id}: ${record.error}`);
    case "background":
      judge("U5", isUntrue(record) && `${id}: an error event says that keys lie in several slots`);
      return judge("U5", !record.typed && `${id}: an error event without a type`);
    case "left":
      for (const what of record.open) judge("U1", `${id}: ${what} never settled`);
  }
};

/** A slot that moves refuses a script that needs a key which is not there. Another try succeeds. */
const isUntrue = ({ code, retryable }: Pick<Call, "code" | "retryable">): boolean =>
  code === "KIT_CLUSTER" && retryable === false;

/** After a longer stall, in which a deadline passes, the call goes on. */
const stallMs = 50;
/** For as long as its whole time, from when the event loop turns again, and at most for this. */
const longestExtensionMs = 1_000;

const checkCall = (id: string, call: Call, stalls: readonly Span[], judge: Judge<CommonInvariant>): void => {
  const { what, name, startedAt, settledAt, dueMs, stalledMs, outcome } = call;
  const tookMs = settledAt - startedAt;
  const facts = `${tookMs.toFixed(0)} ms, due within ${dueMs.toFixed(0)} ms, stalled for ${stalledMs.toFixed(0)} ms`;
  const isStalled = stalls.some(({ from, to }) => from < settledAt && to > startedAt);
  const isLate =
    tookMs > dueMs + lateMs + stalledMs + (isStalled ? Math.max(0, Math.min(dueMs, longestExtensionMs)) : 0);
  judge("U1", isLate && `${name}: ${what} of ${id} (${outcome} ${call.code ?? ""}) took ${facts}`);
  judge("U5", isUntrue(call) && `${name}: ${what} of ${id} was told that its keys lie in several slots`);
  if (outcome !== "ok")
    judge("U5", outcome === "untyped" && `${name}: ${what} of ${id} rejected with ${call.error ?? "nothing"}`);
};

/** The spans in which a process did not run. */
export const stallsOf = ({ records }: WorkerHistory<{ readonly kind: string }>): Span[] =>
  (records as readonly CommonRecord[]).flatMap((record) =>
    record.kind === "stall" ? [{ from: record.from, to: record.to }] : [],
  );

/** The part of a span in which a process did not run. */
export const stalledIn = (worker: WorkerHistory<{ readonly kind: string }>, from: number, to: number): number =>
  shared(stallsOf(worker), from, to);

/** The part of a span that lies within others. */
export const shared = (spans: readonly Span[], from: number, to: number): number =>
  spans.reduce((sum, span) => sum + Math.max(0, Math.min(span.to, to) - Math.max(span.from, from)), 0);

/** The part of a span in which no worker ran, since the machine was busy. */
export const stalledByAll = (
  workers: readonly WorkerHistory<{ readonly kind: string }>[],
  from: number,
  to: number,
): number => {
  const stalls = workers
    .filter(({ killedAt = Infinity }) => killedAt > to)
    // Only workers that had started and not left.
    .filter(({ records }) => {
      const calls = (records as readonly CommonRecord[]).filter((record) => record.kind === "call");
      return calls.some(({ startedAt }) => startedAt < from) && calls.some(({ settledAt }) => settledAt > from);
    })
    .map((worker) => stalledIn(worker, from, to));
  return stalls.length === 0 ? 0 : Math.min(...stalls);
};
