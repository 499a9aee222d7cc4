import type { Judge } from "../../common-invariants.js";
import { clockErrorMs } from "../../records.js";
import type { AskRecord, ChangeCall, RunHistory } from "./history.js";
import { mayBeLost, type Story } from "./stories.js";

const newDelayOf = ({ what, delayMs }: AskRecord | ChangeCall): number | undefined =>
  what === "promote" ? 0 : what === "reschedule" ? delayMs : undefined;

/**
 * `due`: no job begins before its time. A change counts from when it was asked for, since its outcome may be unknown; from its
 * confirmation on, no take has the job before the new time. Jobs to promote are added with a time that never comes, so one that was
 * promoted in vain is left over at the end.
 */
export const checkDue = (run: RunHistory, { job, runs, adds, asked, changes }: Story, judge: Judge<"due">): void => {
  const [first] = runs;
  if (!first || run.isShifted) return;
  // The same data may be added twice, if the worker gave the first call up.
  const delay = adds.flatMap(({ jobs }) => jobs).find(({ key }) => `${first.name} ${key}` === job)?.delayMs ?? 0;
  const due = Math.min(...adds.map(({ startedAt }) => startedAt)) + delay;
  const others = asked.map((one) => one.at + (newDelayOf(one) ?? Infinity));
  const earlyBy = Math.floor(Math.min(due, ...others)) - clockErrorMs - first.takenAt;
  // With `keepLast` a job that is ready gets the data, and no delay.
  if (delay > 0 && adds[0]?.unique?.mode !== "keepLast")
    judge("due", earlyBy > 0 && `${job} began ${earlyBy.toFixed(0)} ms early`);
  for (const change of changes) {
    const { startedAt, settledAt, said } = change;
    if (said !== "delayed" || mayBeLost(run, startedAt, Infinity)) continue;
    const from = settledAt + clockErrorMs;
    const to = Math.floor(startedAt) + (newDelayOf(change) ?? 0) - clockErrorMs;
    const early = runs.find(({ takenAt }) => takenAt > from && takenAt < to);
    judge("due", early && `${job} began ${String(to - early.takenAt)} ms before the time that it was given`);
  }
};
