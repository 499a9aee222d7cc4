import type { Judge } from "../../common-invariants.js";
import { clockErrorMs } from "../../records.js";
import type { RunHistory } from "./history.js";
import { mayBeLost, type Story } from "./stories.js";

/**
 * How much later than its time a job may expire: its `addedAt` is the server's time as its producer estimates it. The round trip of the fastest
 * add of that producer until then is the bound; there is none for the first.
 */
const estimateErrorMs = (run: RunHistory, { adds: [add] }: Story): number => {
  const own = run.workers.find(({ records }) => records.some((record) => record === add));
  let fastest = Infinity;
  for (const record of own?.records ?? [])
    if (record.kind === "call" && "jobs" in record && record.name === add?.name && record.settledAt <= add.startedAt)
      fastest = Math.min(fastest, record.settledAt - record.startedAt);
  return fastest;
};

/** When a job expires: since this time has passed for certain, and not before that. */
const expiryOf = ({ job, adds }: Story): { readonly from: number; readonly to: number } | undefined => {
  const added = adds.flatMap(({ name, jobs }) => jobs.filter(({ key }) => `${name} ${key}` === job))[0];
  if (added?.expiresMs === undefined) return undefined;
  const afterMs = added.delayMs + added.expiresMs;
  const isKnown = adds.some(({ outcome }) => outcome === "ok");
  const to = isKnown ? Math.max(...adds.map(({ settledAt }) => settledAt)) + afterMs : Infinity;
  return { from: Math.min(...adds.map(({ startedAt }) => startedAt)) + afterMs, to };
};

/**
 * Whether the job may have expired: a worker says so, or one was killed that may have found it. That it did not expire too early,
 * `expired` says.
 */
export const mayHaveExpired = ({ workers }: RunHistory, story: Story): boolean => {
  const expiry = expiryOf(story);
  return (
    expiry !== undefined &&
    (story.expired.length > 0 ||
      workers.some(({ id, killedAt = -Infinity }) => id !== "lab" && killedAt >= expiry.from - clockErrorMs))
  );
};

/**
 * `expired`: no job expires before its time, and none begins that no worker took in time. A job that had begun before, or whose worker died,
 * runs however late it is.
 */
export const checkExpiry = (run: RunHistory, story: Story, judge: Judge<"expired">): void => {
  const { job, runs, expired, adds } = story;
  const expiry = expiryOf(story);
  if (run.isShifted || !expiry) return;
  for (const { at } of expired) {
    const earlyBy = expiry.from - clockErrorMs - at;
    judge("expired", earlyBy > 0 && `${job} expired ${earlyBy.toFixed(0)} ms early`);
  }
  const [first] = runs;
  const from = Math.min(...adds.map(({ startedAt }) => startedAt));
  if (!first || first.crashes > 0 || mayBeLost(run, from, Infinity)) return;
  const isEarly = first.takenAt <= expiry.to + clockErrorMs;
  const lateBy = isEarly ? 0 : first.takenAt - expiry.to - clockErrorMs - estimateErrorMs(run, story);
  judge("expired", lateBy > 0 && `${job} was taken ${lateBy.toFixed(0)} ms after it had expired, and began`);
};
