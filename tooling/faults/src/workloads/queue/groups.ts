import type { Judge } from "../../common-invariants.js";
import { patience } from "../../patience.js";
import { mayBeCancelled } from "./cancels.js";
import { mayHaveExpired } from "./expiry.js";
import type { RunHistory } from "./history.js";
import { type Active, activeIn } from "./limits.js";
import { mayBeLost, type Story } from "./stories.js";

/** So many other jobs must begin while a group stands still. */
const mostOthers = 200;

/**
 * Jobs of groups, of which one is active at a time.
 *
 * - `groupConcurrency` when the server takes a job, no other job of its group is surely active
 * - `groupTurns` a group does not stand still while jobs that were added later begin, though one of its jobs waits
 */
export const checkGroups = (
  run: RunHistory,
  stories: readonly Story[],
  judge: Judge<"groupConcurrency" | "groupTurns">,
): void => {
  if (run.isShifted) return;
  const lostAt = Math.min(...run.losses.map(({ from }) => from));
  for (const { name, isPaused, isLimited } of run.specs) {
    const jobs = stories.filter(({ job }) => job.startsWith(`${name} `));
    const byGroup = new Map<string, Story[]>();
    for (const story of jobs) {
      const group = story.adds.flatMap((add) => add.jobs).find(({ key }) => story.job === `${name} ${key}`)?.group;
      if (group !== undefined) byGroup.set(group, [...(byGroup.get(group) ?? []), story]);
    }
    for (const [group, members] of byGroup) {
      const active = members
        .flatMap((story) => activeIn(run, story))
        .filter(({ from, to }) => from < to && from < lostAt);
      checkOne(active, (what) => judge("groupConcurrency", what && `${name}: ${what} of group ${group}`));
      if (isPaused || isLimited || run.losses.length > 0) continue;
      const others = jobs.filter((story) => !members.includes(story));
      checkStarts(run, members, others, (what) => judge("groupTurns", what && `${name}: group ${group} ${what}`));
    }
  }
};

const checkOne = (active: readonly Active[], judge: (what: string | false) => void): void => {
  for (const { from } of active) {
    const count = active.filter((one) => one.from <= from && one.to > from).length;
    judge(count > 1 && `${String(count)} jobs were active at ${String(from)}`);
  }
};

/** The instants at which jobs began that the lab did not run itself, and at which each of them had been added. */
const startsOf = (stories: readonly Story[]): { readonly at: number; readonly addedAt: number }[] =>
  stories.flatMap(({ runs, adds }) => {
    const addedAt = Math.min(...adds.map(({ startedAt }) => startedAt));
    return runs.filter(({ worker }) => worker.id !== "lab").map(({ at }) => ({ at, addedAt }));
  });

const checkStarts = (
  run: RunHistory,
  members: readonly Story[],
  others: readonly Story[],
  judge: (what: string | false) => void,
): void => {
  const leastMs = (6 * run.leaseMs + 2_000) * patience;
  const own = startsOf(members).map(({ at }) => at);
  const later = startsOf(others);
  const last = Math.max(...later.map(({ at }) => at));
  for (const story of members) {
    const [add] = story.adds.filter(({ outcome, isAdded }) => outcome === "ok" && isAdded !== false);
    const isPlain = story.adds.every(({ jobs }) => jobs.every(({ delayMs, children }) => delayMs === 0 && !children));
    if (!add || !isPlain || story.asked.length > 0 || mayBeCancelled(story) || mayHaveExpired(run, story)) continue;
    const begunAt = Math.min(story.runs[0]?.at ?? Infinity, last);
    if (mayBeLost(run, add.startedAt, begunAt)) continue;
    const marks = [add.settledAt, ...own.filter((at) => at > add.settledAt && at < begunAt), begunAt].toSorted(
      (a, b) => a - b,
    );
    for (const [index, to] of marks.entries()) {
      const from = marks[index - 1] ?? to;
      const passed = later.filter(({ at, addedAt }) => addedAt > from && at > from && at < to).length;
      judge(
        to - from > leastMs &&
          passed > mostOthers &&
          `began no job for ${(to - from).toFixed(0)} ms, while ${String(passed)} later ones of others began`,
      );
    }
  }
};
