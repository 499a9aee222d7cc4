import type { MissedRuns } from "./options.js";
import { latestRun, type RunAfter } from "./times.js";

/** How late the latest run can start with `missed: "skip"`. */
const graceMs = 60_000;

/** The state of a schedule with due runs. */
export interface Due {
  /** The time of its next run, which has passed. */
  readonly at: number;
  /** The server's time. */
  readonly now: number;
  readonly missed: MissedRuns;
  /** How many jobs are left. Undefined if there is no limit. */
  readonly left: number | undefined;
  /** The maximum number of jobs to add now. */
  readonly most: number;
  /** The job of the last run still exists, so no other job can be added. */
  readonly isBusy?: boolean;
}

/** What happens to the due runs of a schedule. */
export interface Plan {
  /** The runs whose jobs are added. */
  readonly runs: readonly number[];
  /** The next run, which may be due as well. Infinity if the schedule ends. */
  readonly next: number;
  readonly left: number | undefined;
  /** Runs without a job: from the first of them until the next run with a job. */
  readonly missed: { readonly from: number; readonly to: number } | undefined;
}

/** Decides which due runs of a schedule add a job, according to its policy. */
export const planRuns = (after: RunAfter, { at, now, missed, left = Infinity, most, isBusy }: Due): Plan => {
  const runs: number[] = [];
  let next: number | undefined = at;
  if (isBusy) ({ next } = latestRun(after, at, now));
  else if (missed === "all")
    for (
      const bound = Math.min(most, left);
      next !== undefined && next <= now && runs.length < bound;
      next = after(next)
    )
      runs.push(next);
  else {
    const latest = latestRun(after, at, now);
    ({ next } = latest);
    if (missed === "last" || now - latest.run <= graceMs) runs.push(latest.run);
  }
  const rest = left - runs.length;
  const following = rest === 0 ? Infinity : (next ?? Infinity);
  const first = runs[0] ?? following;
  return {
    runs,
    next: following,
    left: rest === Infinity ? undefined : rest,
    missed: first > at ? { from: at, to: first } : undefined,
  };
};
