import type { Judge } from "../../common-invariants.js";
import { clockErrorMs, type Span } from "../../records.js";
import { type Asked, askedIn, inForce } from "./asked.js";
import type { Rate, RunHistory } from "./history.js";
import { saw, type Story } from "./stories.js";

/**
 * The limits of queues that a worker changes, again and again. Each is judged by the limits that may have been in force then.
 *
 * - `concurrency` when the server takes a job, no more jobs are surely active than the limit allows
 * - `nameConcurrency` the same of the jobs of a name, by its own limit; jobs that were taken without one do not count
 * - `rate` no more jobs begin in any span than flow into the bucket, were in it, and return to it: a job that expired before it began had
 *   taken a token, maybe before the bucket was full again
 *
 * A run whose end the server confirmed was active from its take to the end of its handler. A job of a worker that was killed, or
 * stopped, was active at least until the end of the lease that the server had for it then.
 */
export const checkLimits = (
  run: RunHistory,
  stories: readonly Story[],
  judge: Judge<"concurrency" | "nameConcurrency" | "rate">,
): void => {
  if (run.isShifted) return;
  const lostAt = Math.min(...run.losses.map(({ from }) => from));
  const asked = askedIn(run, "limit");
  for (const { name } of run.specs.filter(({ isLimited }) => isLimited)) {
    const own = [unlimited, ...asked.filter((one) => one.name === name && one.jobName === undefined)];
    const ofNames = asked.filter((one) => one.name === name && one.jobName !== undefined);
    const jobs = stories.filter(({ job }) => job.startsWith(`${name} `));
    const active = jobs.flatMap((story) => activeIn(run, story)).filter(({ from, to }) => from < to && from < lostAt);
    checkConcurrency(active, own, (what) => judge("concurrency", what));
    for (const jobName of new Set(ofNames.map((one) => one.jobName))) {
      const changes = [unlimited, ...ofNames.filter((one) => one.jobName === jobName)];
      const limited = active.filter((one) => one.jobName === jobName && hasLimit(changes, one.from));
      checkConcurrency(limited, changes, (what) => judge("nameConcurrency", what));
    }
    const begun = jobs.flatMap(({ runs }) => runs).filter(({ takenAt }) => takenAt < lostAt);
    const taken = begun.map(({ takenAt }) => takenAt).toSorted((a, b) => a - b);
    const expired = jobs.flatMap((story) => story.expired.map(({ at }) => at));
    checkRate(run, { taken, expired }, own, judge);
  }
};

/** The state before the first change. It may still be in force while that change is under way. */
const unlimited: Asked = {
  kind: "asked",
  what: "limit",
  name: "",
  concurrency: null,
  rate: null,
  at: -Infinity,
  doneAt: -Infinity,
  confirmedAt: undefined,
};

export interface Active extends Span {
  readonly jobName: string | undefined;
}

/** When a job was surely active, by its runs. The server's milliseconds are whole. */
export const activeIn = ({ deaths }: RunHistory, { job, runs, asked }: Story): Active[] =>
  runs.map((one) => {
    const { worker, takenAt, jobName } = one;
    const ranAt = saw(one, "ran")?.at ?? Infinity;
    const isLast = runs.findLast((other) => other.worker === worker) === one;
    const death = deaths.find(({ name, key, worker: id }) => `${name} ${key}` === job && id === worker.id);
    const isHeld = death && isLast && !asked.some(({ what }) => what === "cancel");
    const heldUntil = isHeld ? death.endsAt : takenAt;
    const to = (saw(one, "done") ?? saw(one, "dead")) ? ranAt : Math.min(ranAt, heldUntil);
    return { jobName, from: takenAt + 1, to: to - clockErrorMs };
  });

/** Whether the limit of a name was surely in force, so that a job that was taken then counts. */
const hasLimit = (changes: readonly Asked[], takenAt: number): boolean =>
  inForce(changes, takenAt).every(({ concurrency }) => concurrency !== null);

const checkConcurrency = (
  active: readonly Span[],
  asked: readonly Asked[],
  judge: (what: string | false) => void,
): void => {
  const changes = asked.filter(({ concurrency }) => concurrency !== undefined);
  for (const { from } of active) {
    const most = Math.max(...inForce(changes, from).map(({ concurrency }) => concurrency ?? Infinity));
    if (most === Infinity) continue;
    const count = active.filter((one) => one.from <= from && one.to > from).length;
    judge(count > most && `${String(count)} jobs were active at ${String(from)}, of ${String(most)}`);
  }
};

const checkRate = (
  run: RunHistory,
  { taken, expired }: Readonly<Record<"taken" | "expired", readonly number[]>>,
  asked: readonly Asked[],
  judge: Judge<"rate">,
): void => {
  const changes = asked.filter(({ rate }) => rate !== undefined);
  for (const { rate, takes } of stretches(run, taken, changes)) {
    const { count, perMs, burst } = rate;
    for (const [last, at] of takes.entries())
      for (const [first, from] of takes.slice(0, last).entries()) {
        const returned = expired.filter((one) => one > from - run.leaseMs && one <= at).length;
        const most = Math.floor(burst + returned + ((at + 1 - from) * count) / perMs);
        const began = last - first + 1;
        const finding = `${String(began)} jobs began within ${String(at - from)} ms, of ${String(most)}`;
        judge("rate", began > most && `${finding}, until ${String(at)}`);
      }
  }
};

/**
 * The instants of takes under one and the same rate, without those that may be later than the server made them: the reply to a take that
 * is sent again, since its connection was lost, has another instant.
 */
const stretches = (
  { outages, leaseMs }: RunHistory,
  taken: readonly number[],
  changes: readonly Asked[],
): { readonly rate: Rate; readonly takes: readonly number[] }[] => {
  const found = new Map<Asked, number[]>();
  for (const takenAt of taken) {
    const [change, ...others] = inForce(changes, takenAt);
    if (!change?.rate || others.length > 0) continue;
    const isSure = !outages.some(
      ({ kind, from, to }) => kind !== "scripts flushed" && from <= takenAt && to >= takenAt - leaseMs,
    );
    if (isSure) found.set(change, [...(found.get(change) ?? []), takenAt]);
  }
  return [...found].flatMap(([{ rate }, takes]) => (rate ? [{ rate, takes }] : []));
};
