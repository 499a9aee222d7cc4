// What loops in several processes did together on one name, from what each wrote down.
import type { LoopsResult } from "./lock-jobs.js";

/** What all loops did together, from `countFrom` to `stopAt`. */
export interface Course {
  readonly gaps: number[];
  /** Of these, the gaps after which another loop ran than before. */
  readonly gapsToOthers: number[];
  readonly waits: number[];
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
}

/** @throws {Error} two held the lock at the same time, so that no figure of theirs means anything. */
export const courseOf = (results: readonly LoopsResult[], { loopsPerProcess, countFrom, stopAt }: Frame): Course => {
  const all = results
    .flatMap(({ requested, granted, released, loop }, worker) =>
      Array.from(granted, (grantedAt, index) => ({
        requestedAt: requested[index] ?? NaN,
        grantedAt,
        releasedAt: released[index] ?? NaN,
        loop: worker * loopsPerProcess + (loop[index] ?? 0),
      })),
    )
    .toSorted((one, other) => one.grantedAt - other.grantedAt);
  for (const [index, { grantedAt }] of all.entries())
    if (index > 0 && grantedAt < (all[index - 1]?.releasedAt ?? 0)) throw new Error("two held the lock at once");
  const inWindow = (instant: number): boolean => instant >= countFrom && instant < stopAt;
  const handOffs = all.flatMap(({ grantedAt, loop }, index) => {
    const before = all[index - 1];
    return before && inWindow(grantedAt)
      ? [{ gap: grantedAt - before.releasedAt, isToOther: loop !== before.loop }]
      : [];
  });
  const perLoop = Array.from({ length: results.length * loopsPerProcess }, () => 0);
  for (const { grantedAt, loop } of all) if (inWindow(grantedAt)) perLoop[loop] = (perLoop[loop] ?? 0) + 1;
  return {
    gaps: handOffs.map(({ gap }) => gap),
    gapsToOthers: handOffs.flatMap(({ gap, isToOther }) => (isToOther ? [gap] : [])),
    // Of all that asked in time, also those that were only served in the end: they waited longest.
    waits: all.flatMap(({ requestedAt, grantedAt }) =>
      grantedAt >= countFrom && requestedAt < stopAt ? [grantedAt - requestedAt] : [],
    ),
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
