import type { MissedRuns } from "./options.js";
import { latestRun, type RunAfter } from "./times.js";

/** How late the latest run may begin under `missed: "skip"`. */
const graceMs = 60_000;

/** The state of a schedule with due runs. */
export interface Due {
  /** The instant of its next run, which has come. */
  readonly at: number;
  /** The server's time. */
  readonly now: number;
  readonly missed: MissedRuns;
  /** How many jobs are left; undefined: there is no bound. */
  readonly left: number | undefined;
  /** The most jobs to add now. */
  readonly most: number;
  /** The job of the last run is still there, and no other may be added. */
  readonly isBusy?: boolean;
}

/** The fate of the due runs of a schedule. */
export interface Plan {
  /** The runs whose jobs are added. */
  readonly runs: readonly number[];
  /** The next run; it may be due, too. Infinity: the schedule ends. */
  readonly next: number;
  readonly left: number | undefined;
  /** Runs without a job: from the first of them until the next run with one. */
  readonly missed: { readonly from: number; readonly to: number } | undefined;
}

/** Decides by the policy of a schedule which of its due runs add a job. */
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
