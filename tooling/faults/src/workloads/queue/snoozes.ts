import type { Judge } from "../../common-invariants.js";
import { clockErrorMs } from "../../records.js";
import type { JobRecord, RunHistory } from "./history.js";
import type { Story } from "./stories.js";

/**
 * `snoozed`: a snooze is no attempt, is counted once, and its job does not begin before its time. That it is not lost, `kept` says.
 */
export const checkSnoozes = (run: RunHistory, { job, runs }: Story, judge: Judge<"snoozed">): void => {
  for (const [index, { attempt, snoozes, takenAt }] of runs.entries()) {
    const former = runs.slice(0, index);
    const ends = former.flatMap(({ after }) => after.filter(({ kind }) => kind === "ran"));
    const failed = ends.filter(({ how }) => how === "failed");
    judge(
      "snoozed",
      attempt > failed.length + 1 && `${job} began attempt ${String(attempt)} after ${String(failed.length)} failures`,
    );
    const snoozed = ends.filter((end): end is JobRecord & { waitMs: number } => end.how === "snoozed");
    judge(
      "snoozed",
      snoozes > snoozed.length && `${job} was snoozed ${String(snoozed.length)} times, and counts ${String(snoozes)}`,
    );
    // The first run after a snooze; a later one has lost no time.
    if (run.isShifted || snoozes <= (former.at(-1)?.snoozes ?? 0)) continue;
    const due = Math.min(...snoozed.filter((end) => end.snoozes === snoozes - 1).map(({ at, waitMs }) => at + waitMs));
    const earlyBy = Math.floor(due) - clockErrorMs - takenAt;
    judge("snoozed", earlyBy > 0 && `${job} began ${earlyBy.toFixed(0)} ms before its snooze was over`);
  }
};
