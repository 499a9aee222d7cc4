import { type Judge, resumeMs, shared, stalledByAll } from "../../common-invariants.js";
import { isHarmless, maxAttempts, type RunHistory } from "./history.js";
import { type Begun, mayBeLost, storiesOf, type Story } from "./stories.js";

/** The first start of a parent, and when its children had ended for good. */
interface Started {
  readonly job: string;
  readonly first: Begun;
  readonly addedAt: number;
  readonly ends: readonly { readonly child: string; readonly at: readonly number[] }[];
  /** A child may have run twice: then its last end counts. Infinity if one has not ended. */
  readonly endedAt: number;
}

const startsOf = (stories: readonly Story[]): readonly Started[] => {
  const byJob = new Map(stories.map((story) => [story.job, story]));
  return stories.flatMap(({ job, adds, runs: [first] }) => {
    const [add] = adds;
    const children = add?.jobs.find(({ key }) => job === `${add.name} ${key}`)?.children ?? [];
    if (!first || !add || children.length === 0) return [];
    const endsOf = (child: string): readonly number[] =>
      (byJob.get(`${add.name} ${child}`)?.runs ?? []).flatMap(({ attempt, after }) =>
        after
          .filter(({ how }) => how === "ok" || (how === "failed" && attempt >= maxAttempts))
          .map(({ at }) => at)
          .filter((at) => at <= first.at),
      );
    const ends = children.map((child) => ({ child, at: endsOf(child) }));
    const endedAt = Math.max(...ends.map(({ at }) => (at.length === 0 ? Infinity : Math.max(...at))));
    return [{ job, first, addedAt: add.startedAt, ends, endedAt }];
  });
};

/** How long a parent may wait after its last child, without an outage. */
const mostMs = ({ leaseMs }: RunHistory): number => leaseMs + resumeMs;

/** Counts the parents that workers began, and those that waited for longer than a lease and a second, outages included. */
export const parentsIn = (run: RunHistory): Readonly<Record<string, number>> => {
  const waits = startsOf(storiesOf(run)).filter(({ first }) => first.worker.id !== "lab");
  const late = waits.filter(({ first, endedAt }) => first.at - endedAt > mostMs(run));
  return {
    "parents of flows": waits.length,
    "parents that began later than a lease and a second after their last child": late.length,
  };
};

/**
 * - `flows` no job begins before each of its children has ended
 * - `settled` it begins within a lease and a second after that. An outage adds its time, another lease and another second. That a job begins
 *   at all, `kept` says
 */
export const checkFlows = (run: RunHistory, stories: readonly Story[], judge: Judge<"flows" | "settled">): void => {
  const outages = run.outages.filter(({ kind }) => !isHarmless(kind));
  for (const { job, first, addedAt, ends, endedAt } of startsOf(stories)) {
    for (const { child, at } of ends)
      judge("flows", at.length === 0 && `${job} began before its child ${child} had ended`);
    if (endedAt === Infinity || run.isShifted || first.worker.id === "lab" || mayBeLost(run, addedAt, first.at))
      continue;
    const during = outages.filter(({ from, to }) => from <= first.at && to >= endedAt - run.leaseMs);
    const lostMs = shared(during, endedAt, first.at) + stalledByAll(run.workers, endedAt, first.at);
    const tookMs = first.at - endedAt - lostMs;
    const dueMs = (1 + during.length) * mostMs(run);
    judge("settled", tookMs > dueMs && `${job} began ${tookMs.toFixed(0)} ms after its last child had ended`);
  }
};
