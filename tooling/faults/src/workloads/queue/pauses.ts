import type { Judge } from "../../common-invariants.js";
import { clockErrorMs, type Span } from "../../records.js";
import { askedIn } from "./asked.js";
import type { AccessRecord, RunHistory } from "./history.js";
import { mayBeLost } from "./stories.js";

interface Pause extends Span {
  readonly name: string;
  /** Of a pause of single jobs. */
  readonly jobName: string | undefined;
  readonly askedAt: number;
}

/** From the confirmation of each pause to the first resume that anybody may have sent. */
const pausesOf = (run: RunHistory): Pause[] => {
  const resumes = askedIn(run, "resume");
  return askedIn(run, "pause").flatMap(({ name, jobName, at, confirmedAt }) => {
    if (confirmedAt === undefined) return [];
    const later = resumes.filter((one) => one.name === name && one.jobName === jobName && one.doneAt >= at);
    return [{ name, jobName, askedAt: at, from: confirmedAt, to: Math.min(...later.map((one) => one.at)) }];
  });
};

/**
 * `paused`: the server takes no job between a confirmed pause and the resume. A take whose reply was lost may be repeated then, but
 * only while its leases last. `namePaused`: the same of the jobs of a name.
 */
export const checkPauses = (run: RunHistory, judge: Judge<"paused" | "namePaused">): void => {
  if (run.isShifted) return;
  const begun = run.workers.flatMap(({ records }) =>
    records.filter((one): one is AccessRecord => one.kind === "access"),
  );
  for (const { name, jobName, askedAt, from, to } of pausesOf(run)) {
    if (from >= to) continue;
    const isInterrupted = run.outages.some((one) => one.from <= to && one.to >= askedAt - run.leaseMs);
    const earliest = from + clockErrorMs + (isInterrupted ? run.leaseMs : 0);
    const taken = begun.find(
      (one) =>
        one.name === name &&
        (jobName === undefined || one.jobName === jobName) &&
        one.takenAt > earliest &&
        one.takenAt < to - clockErrorMs &&
        !mayBeLost(run, askedAt, one.takenAt),
    );
    const lateBy = ((taken?.takenAt ?? 0) - from).toFixed(0);
    const what = taken && `${name} ${taken.key} was taken ${lateBy} ms after ${jobName ?? "the queue"} was paused`;
    judge(jobName === undefined ? "paused" : "namePaused", what);
  }
};
