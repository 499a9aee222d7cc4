// The work of loops in several processes on one name, from the records of each.
import type { LoopsResult } from "./loops-jobs.js";

/** The work of all loops together, from `countFrom` to `stopAt`. */
export interface LoopsRun {
  /** From a release to the next acquisition running in its place. */
  readonly gaps: number[];
  /** Of these, the gaps after which another loop ran than the one that had released. */
  readonly gapsToOthers: number[];
  readonly waits: number[];
  readonly holds: number[];
  readonly grants: number;
  readonly perLoop: number[];
  readonly sentInWindow: number;
  readonly operations: number;
  readonly sent: number;
  readonly seconds: number;
}

export interface Frame {
  readonly loopsPerProcess: number;
  readonly countFrom: number;
  readonly stopAt: number;
  /** How many may hold at once. */
  readonly permits: number;
}

interface Acquisition {
  readonly requestedAt: number;
  readonly grantedAt: number;
  readonly releasedAt: number;
  readonly loop: number;
}

const acquisitionsOf = (results: readonly LoopsResult[], loopsPerProcess: number): Acquisition[] =>
  results
    .flatMap(({ requested, granted, released, loop }, worker) =>
      Array.from(granted, (grantedAt, index) => ({
        requestedAt: requested[index] ?? NaN,
        grantedAt,
        releasedAt: released[index] ?? NaN,
        loop: worker * loopsPerProcess + (loop[index] ?? 0),
      })),
    )
    .toSorted((one, other) => one.grantedAt - other.grantedAt);

/** The largest number of holders above the limit, and how often one acquired although no place was free. */
export interface Excess {
  readonly atOnce: number;
  readonly admissions: number;
  readonly of: number;
}

export const excessOf = (results: readonly LoopsResult[], permits: number): Excess => {
  const all = acquisitionsOf(results, 0);
  const ends = all.map(({ releasedAt }) => releasedAt).toSorted((one, other) => one - other);
  let ended = 0;
  let atOnce = 0;
  let admissions = 0;
  for (const [index, { grantedAt }] of all.entries()) {
    while ((ends[ended] ?? Infinity) <= grantedAt) ended++;
    const above = index + 1 - ended - permits;
    if (above > 0) admissions++;
    atOnce = Math.max(atOnce, above);
  }
  return { atOnce, admissions, of: all.length };
};

/** @throws {Error} more held at once than allowed, so that the figures mean nothing. */
export const loopsRunOf = (
  results: readonly LoopsResult[],
  { loopsPerProcess, countFrom, stopAt, permits }: Frame,
): LoopsRun => {
  const { atOnce } = excessOf(results, permits);
  if (atOnce > 0) throw new Error(`${String(permits + atOnce)} held at once what ${String(permits)} may`);
  const all = acquisitionsOf(results, loopsPerProcess);
  const inReturn = all.toSorted((one, other) => one.releasedAt - other.releasedAt);
  const inWindow = (instant: number): boolean => instant >= countFrom && instant < stopAt;
  const handOffs = all.flatMap(({ grantedAt, loop }, index) => {
    const before = inReturn[index - permits];
    return before && inWindow(grantedAt)
      ? [{ gap: grantedAt - before.releasedAt, isToOther: loop !== before.loop }]
      : [];
  });
  const perLoop = Array.from({ length: results.length * loopsPerProcess }, () => 0);
  for (const { grantedAt, loop } of all) if (inWindow(grantedAt)) perLoop[loop] = (perLoop[loop] ?? 0) + 1;
  return {
    gaps: handOffs.map(({ gap }) => gap),
    gapsToOthers: handOffs.flatMap(({ gap, isToOther }) => (isToOther ? [gap] : [])),
    // Includes requests in time that were served only at the end: they waited longest.
    waits: all.flatMap(({ requestedAt, grantedAt }) =>
      grantedAt >= countFrom && requestedAt < stopAt ? [grantedAt - requestedAt] : [],
    ),
    holds: all.flatMap(({ grantedAt, releasedAt }) => (inWindow(grantedAt) ? [releasedAt - grantedAt] : [])),
    grants: handOffs.length,
    perLoop,
    sentInWindow: results.reduce((sum, result) => sum + result.sentInWindow, 0),
    operations: all.length,
    sent: results.reduce((sum, result) => sum + result.sent, 0),
    seconds: (stopAt - countFrom) / 1_000,
  };
};

/** A loop that got nothing counts as one acquisition, so that the ratio stays finite. */
export const unfairness = (perLoop: readonly number[]): number =>
  Math.max(...perLoop) / Math.max(1, Math.min(...perLoop));
