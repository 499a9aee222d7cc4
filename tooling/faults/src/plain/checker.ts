import { checkWorker, type Judge as AnyJudge, resumeMs, stalledByAll } from "../common-invariants.js";
import type { Call } from "../records.js";
import { callsOf, type PlainHistory, type SightRecord } from "./history.js";

type CommonInvariant = "U1" | "U3" | "U4" | "U5";
type Run = PlainHistory<{ readonly kind: string }>;

/** The work that has to go on after an outage. */
export interface Work {
  /** Whether every worker has to continue. */
  readonly kinds: readonly string[];
  /** The kind of work of a call that succeeded. */
  readonly kindOf: (call: Call) => string | undefined;
  /** Milliseconds within which work must continue, unless the fault has its own bound. */
  readonly dueMs: number;
}

export const anyWork: Work = {
  kinds: ["work"],
  kindOf: ({ outcome }) => (outcome === "ok" ? "work" : undefined),
  dueMs: resumeMs,
};

const resumedAt = ({ workers }: Pick<Run, "workers">, at: number, kind: string, { kindOf }: Work): number => {
  let first = Infinity;
  for (const call of workers.flatMap(callsOf))
    if (call.startedAt > at && call.settledAt < first && kindOf(call) === kind) first = call.settledAt;
  return first;
};

/** U3: all work continues after each outage. */
export const checkResumption = (
  run: Pick<Run, "workers" | "heals">,
  judge: AnyJudge<"U3">,
  work: Work = anyWork,
): void => {
  for (const { kind, at, dueMs = work.dueMs } of run.heals)
    for (const what of work.kinds) {
      const tookMs = resumedAt(run, at, what, work) - at - stalledByAll(run.workers, at, at + dueMs);
      const finding = `${what} went on ${tookMs.toFixed(0)} ms after ${kind} at ${at.toFixed(0)}`;
      judge("U3", tookMs > dueMs && `${finding}, due within ${dueMs.toFixed(0)}`);
    }
};

/** Judges the common invariants, the workers' own findings, and the final state. */
export const checkPlain = <L extends string>(
  run: Run,
  judge: AnyJudge<L | CommonInvariant>,
  isExcused: (invariant: string) => boolean,
): void => {
  for (const worker of run.workers) {
    checkWorker(worker, judge);
    for (const record of worker.records) {
      if (record.kind !== "saw") continue;
      const { invariant, wrong } = record as SightRecord;
      if (!isExcused(invariant)) judge(invariant as L, wrong && `${worker.id}: ${wrong}`);
    }
  }
  checkResumption(run, judge);
  for (const [invariant, all] of Object.entries(run.wrong)) {
    judge(invariant as L);
    if (!isExcused(invariant)) for (const what of all) judge(invariant as L, what);
  }
};

/** The milliseconds from each heal until all kinds of work continued. */
export const recoveriesOf = (
  run: Pick<Run, "workers" | "heals">,
  work: Work = anyWork,
): { kind: string; ms: number }[] =>
  run.heals
    .filter(({ kind }) => kind !== "end")
    .map(({ kind, at }) => ({ kind, ms: Math.max(...work.kinds.map((what) => resumedAt(run, at, what, work))) - at }))
    .filter(({ ms }) => Number.isFinite(ms));

/** The longest time without a successful call. */
export const worstStallMs = ({ workers }: Pick<Run, "workers">, { kindOf }: Work = anyWork): number => {
  const instants = workers
    .flatMap(callsOf)
    .filter((call) => kindOf(call) !== undefined)
    .map(({ settledAt }) => settledAt)
    .toSorted((a, b) => a - b);
  return instants.reduce((worst, at, index) => Math.max(worst, at - (instants[index - 1] ?? at)), 0);
};
