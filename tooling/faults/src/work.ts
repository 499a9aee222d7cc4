import { type Judge, resumeMs, shared, stalledByAll } from "./common-invariants.js";
import type { CommonRecord, Mark, Run, Span } from "./records.js";

/** Work that was done. */
export interface Progress {
  /** A name, like `send` or `send news`. */
  readonly what: string;
  readonly from: number;
  readonly at: number;
}

/** How work went on after the faults of a run. */
export interface Recovery {
  readonly recoveries: readonly { readonly kind: string; readonly ms: number }[];
  /** The longest span in which the resource accepted no access. */
  readonly worstStallMs: number;
}

/** The work of a successful call. */
export const anyWork = (record: { readonly kind: string }): readonly Progress[] => {
  const call = record as CommonRecord;
  return call.kind === "call" && call.outcome === "ok" ? [{ what: "", from: call.startedAt, at: call.settledAt }] : [];
};

/** Whether this is the wanted work, or a part of it. All work is a part of that without a name. */
export const isPartOf = (wanted: string, what: string): boolean =>
  wanted === "" || what === wanted || what.startsWith(`${wanted} `);

/** The work of a run, and how soon it has to go on after an outage. */
export interface Work {
  /** In any order. */
  readonly done: readonly Progress[];
  /** The names of the work that has to go on. @default any work */
  readonly dueAfter?: (mark: Mark) => readonly string[];
  /** Milliseconds, unless the outage has a bound of its own. @default a second */
  readonly dueMs?: number;
  /** Spans in which nobody could work, since the machine was busy. */
  readonly slow?: readonly Span[];
}

/** All work that the records of a run show. */
export const workIn = <R extends { readonly kind: string }>(
  { workers }: Pick<Run<R>, "workers">,
  progressIn: (record: R) => readonly Progress[],
): Progress[] => workers.flatMap(({ records }) => records.flatMap(progressIn));

/** Calls of a package whose calls are all alike. */
export const callsIn = (run: Pick<Run, "workers">): Work => ({ done: workIn(run, anyWork) });

const worksAfter = ({ dueAfter = () => [""] }: Work, mark: Mark): readonly string[] => dueAfter(mark);

const resumedAt = ({ done }: Work, after: number, wanted: string): number => {
  let first = Infinity;
  for (const { what, from, at } of done) if (from > after && at < first && isPartOf(wanted, what)) first = at;
  return first;
};

/** U3: all work continues after each outage. */
export const checkResumption = ({ heals, workers }: Run, work: Work, judge: Judge<"U3">): void => {
  const { slow = [] } = work;
  for (const mark of heals) {
    const { kind, at, name, dueMs = work.dueMs ?? resumeMs } = mark;
    if (name !== undefined) continue;
    const lostMs = Math.max(stalledByAll(workers, at, at + dueMs), shared(slow, at, at + dueMs));
    for (const what of worksAfter(work, mark)) {
      const tookMs = resumedAt(work, at, what) - at - lostMs;
      const finding = `${what || "work"} went on ${tookMs.toFixed(0)} ms after ${kind} at ${at.toFixed(0)}`;
      judge("U3", tookMs > dueMs && `${finding}, due within ${dueMs.toFixed(0)}`);
    }
  }
};

/** The milliseconds from each mark until all work went on, and the longest time without any. */
export const recoveryOf = ({ heals }: Pick<Run, "heals">, work: Work): Recovery => {
  const recoveries = heals
    .filter(({ kind }) => kind !== "end")
    .map((mark) => ({
      kind: mark.kind,
      ms: Math.max(...worksAfter(work, mark).map((what) => resumedAt(work, mark.at, what))) - mark.at,
    }))
    .filter(({ ms }) => Number.isFinite(ms));
  const instants = work.done.map(({ at }) => at).toSorted((a, b) => a - b);
  const stalls = instants.map((at, index) => at - (instants[index - 1] ?? at));
  return { recoveries, worstStallMs: stalls.reduce((worst, ms) => Math.max(worst, ms), 0) };
};
