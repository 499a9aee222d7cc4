import type { Judge } from "../../common-invariants.js";
import { patience } from "../../patience.js";
import { clockErrorMs } from "../../records.js";
import { type Asked, askedIn, inForce } from "./asked.js";
import type { RunHistory } from "./history.js";
import type { Story } from "./stories.js";

/** The time in which a run that is due adds its job, if nothing is wrong. */
const lateMs = 1_000 * patience;

/**
 * `scheduled`: each run of a schedule has its job, and there is no other job. The instants follow from the definition that was in force; if a run
 * was late when that was changed, those after it follow from the new one. None of the jobs begins before its instant. That none is added
 * twice, `repeats` and `ended` say.
 */
export const checkSchedules = (run: RunHistory, stories: readonly Story[], judge: Judge<"scheduled">): void => {
  const { scheduledUntil } = run;
  if (scheduledUntil === undefined || run.losses.length > 0) return;
  const asked = askedIn(run, "schedule");
  const byJob = new Map(stories.map((story) => [story.job, story]));
  for (const id of new Set(asked.map(({ schedule = "" }) => schedule))) {
    const changes = asked.filter(({ schedule }) => schedule === id);
    const name = changes[0]?.name ?? "";
    for (const [at, story] of runsOf(stories, `${name} ${id}@`)) {
      const takenAt = story.runs[0]?.takenAt ?? at;
      const held = [...inForce(changes, at), ...changes.filter((one) => one.at > at && one.at < takenAt)];
      const isWanted = held.some(({ everyMs = 1 }) => at % everyMs === 0);
      judge("scheduled", !isWanted && `${story.job} is no run of its schedule`);
      const early = story.runs.find(({ takenAt }) => takenAt < at);
      judge("scheduled", early && `${story.job} began ${String(at - (early?.takenAt ?? at))} ms early`);
    }
    for (const at of dueIn(run, changes, scheduledUntil)) {
      const story = byJob.get(`${name} ${id}@${String(at)}`);
      const isRun = story?.runs.some(({ after }) => after.some(({ how }) => how === "ok")) === true;
      judge("scheduled", !isRun && `${name} ${id}@${String(at)} was due, and did not run`);
    }
  }
};

/** By the instants in their ids. */
const runsOf = (stories: readonly Story[], start: string): Map<number, Story> =>
  new Map(
    stories.filter(({ job }) => job.startsWith(start)).map((story) => [Number(story.job.slice(start.length)), story]),
  );

/**
 * The instants at which the schedule surely ran. A new definition holds from its change on, so runs are left out that may have been late
 * then.
 */
function* dueIn(run: RunHistory, changes: readonly Asked[], until: number): Generator<number> {
  const from = Math.min(...changes.map(({ confirmedAt = Infinity }) => confirmedAt));
  const timings = new Set(changes.map(({ everyMs = 1 }) => everyMs));
  for (const everyMs of timings)
    for (let at = everyMs * Math.ceil((from + clockErrorMs) / everyMs); at < until - clockErrorMs; at += everyMs) {
      const held = inForce(changes, at);
      if (held.length === 0 || held.some((one) => one.everyMs !== everyMs)) continue;
      const outages = run.outages.filter((one) => one.from <= at + lateMs && one.to >= at);
      const by = Math.max(at, ...outages.map(({ to }) => to)) + lateMs;
      if (!changes.some((one) => one.everyMs !== everyMs && one.at >= at && one.at <= by)) yield at;
    }
}
