import type { Judge } from "../../common-invariants.js";
import { clockErrorMs, type Span } from "../../records.js";
import type { AddCall, RunHistory, Unique } from "./history.js";
import { mayBeLost, saw, type Story } from "./stories.js";

/** All adds of one data, and what became of it. */
interface Given {
  readonly story: Story;
  readonly unique: Unique;
  /** The server got the add within this span, if it did. */
  readonly added: Span;
  /** The call with the answer. */
  readonly answer: AddCall | undefined;
}

/**
 * `unique`: of the jobs of one key
 *
 * - none is added with `keepFirst` while another one waits or is active, and one is added when there is none
 * - no two are active at a time
 * - with `keepLast`, a job with the data of each add, or of a later one, begins after the add
 */
export const checkUnique = (run: RunHistory, stories: readonly Story[], judge: Judge<"unique">): void => {
  const byKey = new Map<string, Given[]>();
  /** Jobs that may be lost, or due at another instant since the server's clock jumped. */
  const unsure = new Set<string>();
  for (const story of stories) {
    const [first] = story.adds;
    if (!first?.unique) continue;
    const key = `${first.name} ${first.unique.key}`;
    const from = Math.min(...story.adds.map(({ startedAt }) => startedAt));
    const to = Math.max(...story.adds.map(({ settledAt }) => settledAt));
    const answer = story.adds.find(({ outcome }) => outcome === "ok");
    if (mayBeLost(run, from, Infinity)) {
      if (answer?.id !== undefined) unsure.add(answer.id);
      continue;
    }
    const given = { story, unique: first.unique, added: { from, to }, answer };
    byKey.set(key, [...(byKey.get(key) ?? []), given]);
  }
  for (const [key, all] of byKey) {
    checkActive(key, all, judge);
    const answered = all.filter(({ answer }) => answer !== undefined);
    if (answered[0]?.unique.mode === "keepFirst") checkFirst(key, answered, judge);
    else if (run.letters.size > 0)
      for (const one of answered.filter(({ answer }) => !unsure.has(answer?.id ?? "")))
        checkLast(run, key, one, all, judge);
  }
};

const endOf = ({ runs }: Story): number | undefined =>
  runs.flatMap((one) => saw(one, "done") ?? saw(one, "dead") ?? [])[0]?.at;

/** It was surely there from the answer to its add until its handler ended, or the server took it the last time. */
const lifeOf = ({ story: { runs }, added }: Given): Span => {
  const until = runs.map((one) => Math.max(one.takenAt, saw(one, "done") ? (saw(one, "ran")?.at ?? 0) : 0));
  return { from: added.to, to: Math.max(...until) };
};

const checkFirst = (key: string, answered: readonly Given[], judge: Judge<"unique">): void => {
  const kept = answered.filter(({ answer }) => answer?.isAdded);
  for (const { story, added, answer } of answered) {
    if (answer?.isAdded) {
      const others = kept.filter((one) => one.story !== story).map((one) => ({ ...one, life: lifeOf(one) }));
      const other = others.find(({ life }) => life.from < added.from && life.to > added.to + clockErrorMs);
      judge("unique", other && `${story.job} was added with the key ${key} beside ${other.story.job}`);
    } else {
      const holder = kept.find((one) => one.answer?.id === answer?.id);
      const endedAt = holder && endOf(holder.story);
      const lateBy = endedAt === undefined ? 0 : added.from - endedAt;
      const finding = `${story.job} was refused ${lateBy.toFixed(0)} ms after the end of the job with the key ${key}`;
      judge("unique", lateBy > 0 && finding);
    }
  }
};

const checkActive = (key: string, all: readonly Given[], judge: Judge<"unique">): void => {
  const active = all
    .flatMap(({ story: { job, runs } }) => runs.map((one) => ({ job, one })))
    .filter(({ one }) => saw(one, "done"))
    .map(({ job, one }) => ({ job, from: one.takenAt + 1, to: (saw(one, "ran")?.at ?? 0) - clockErrorMs }))
    .toSorted((a, b) => a.from - b.from);
  for (const [index, next] of active.entries()) {
    const other = active.slice(0, index).find((one) => one.job !== next.job && one.to > next.from);
    judge("unique", other && `${next.job} and ${other.job} with the key ${key} were active at a time`);
  }
};

const checkLast = (
  { letters }: RunHistory,
  key: string,
  { story, added, answer }: Given,
  all: readonly Given[],
  judge: Judge<"unique">,
): void => {
  const isHeld = answer?.isAdded !== true && answer?.isReplaced !== true;
  judge("unique", isHeld && `${story.job} with the key ${key} was neither added nor did it replace the job before`);
  const later = all.filter((one) => one.added.to >= added.from);
  const isDead = [...letters].some(([name, dead]) =>
    later.some((one) => dead.some((letter) => one.story.job === `${name} ${letter.key}`)),
  );
  const isRun = later
    .flatMap((one) => one.story.runs)
    .some((one) => one.takenAt >= Math.floor(added.from) - clockErrorMs && saw(one, "ran")?.how === "ok");
  judge(
    "unique",
    !isDead && !isRun && `neither ${story.job} with the key ${key} nor later data ran after it was added`,
  );
};
