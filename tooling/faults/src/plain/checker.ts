import { checkWorker, type Judge as AnyJudge, stalledByAll } from "../common-laws.js";
import { callsOf, type PlainHistory, type SightRecord } from "./history.js";

type CommonLaw = "U1" | "U3" | "U4" | "U5";
type Run = PlainHistory<{ readonly kind: string }>;

const resumeMs = 1_000;

const resumedAt = (run: Run, at: number): number =>
  run.workers
    .flatMap(callsOf)
    .reduce(
      (first, { startedAt, settledAt, outcome }) =>
        outcome === "ok" && startedAt > at ? Math.min(first, settledAt) : first,
      Infinity,
    );

/** The laws that all have, what the workers saw themselves, and what is there in the end. */
export const checkPlain = <L extends string>(
  run: Run,
  judge: AnyJudge<L | CommonLaw>,
  isExcused: (law: string) => boolean,
): void => {
  for (const worker of run.workers) {
    checkWorker(worker, judge);
    for (const record of worker.records) {
      if (record.kind !== "saw") continue;
      const { law, wrong } = record as SightRecord;
      if (!isExcused(law)) judge(law as L, wrong && `${worker.id}: ${wrong}`);
    }
  }
  for (const { kind, at, dueMs = resumeMs } of run.heals) {
    const tookMs = resumedAt(run, at) - at - stalledByAll(run.workers, at, at + dueMs);
    judge("U3", tookMs > dueMs && `work went on ${tookMs.toFixed(0)} ms after ${kind} at ${at.toFixed(0)}`);
  }
  for (const [law, all] of Object.entries(run.wrong)) {
    judge(law as L);
    if (!isExcused(law)) for (const what of all) judge(law as L, what);
  }
};

export const recoveriesOf = (run: Run): { kind: string; ms: number }[] =>
  run.heals
    .filter(({ kind }) => kind !== "end")
    .map(({ kind, at }) => ({ kind, ms: resumedAt(run, at) - at }))
    .filter(({ ms }) => Number.isFinite(ms));

/** The longest time in which no call ended well. */
export const worstStallMs = (run: Run): number => {
  const instants = run.workers
    .flatMap(callsOf)
    .filter(({ outcome }) => outcome === "ok")
    .map(({ settledAt }) => settledAt)
    .toSorted((a, b) => a - b);
  return instants.reduce((worst, at, index) => Math.max(worst, at - (instants[index - 1] ?? at)), 0);
};
