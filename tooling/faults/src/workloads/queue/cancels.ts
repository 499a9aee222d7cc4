import { type Judge, stalledIn } from "../../common-invariants.js";
import { patience } from "../../patience.js";
import { clockErrorMs } from "../../records.js";
import type { ChangeCall, RunHistory } from "./history.js";
import { type Begun, mayBeLost, saw, type Story } from "./stories.js";

/** Allowed for timers and the machine. */
const lateMs = 100 * patience;

const isEnding = ({ what }: { readonly what: string }): boolean => what === "cancel" || what === "remove";
const hasEnded = ({ outcome, said = "" }: ChangeCall): boolean =>
  outcome === "ok" && (said === "cancelled" || said === "removed");
const didNothing = ({ outcome, said = "" }: ChangeCall): boolean =>
  outcome === "failed" || (outcome === "ok" && ["active", "dead", "lost"].includes(said));

/** Whether the job may have been removed or cancelled: a call said so, or its outcome is unknown. */
export const mayBeCancelled = ({ asked, changes }: Story): boolean =>
  asked.filter(isEnding).length > changes.filter(isEnding).filter(didNothing).length;

/**
 * `cancelled`: a job that was removed or cancelled is in no later take, and no end of it counts. The worker that has it can
 * no longer renew its lease, so within one lease its handler does not begin any more, or its signal has aborted.
 */
export const checkCancels = (run: RunHistory, story: Story, judge: Judge<"cancelled">): void => {
  const { job, runs, changes } = story;
  for (const call of changes.filter(isEnding)) {
    const { said = "", what, startedAt, settledAt, outcome } = call;
    if (mayBeLost(run, Math.min(startedAt, ...story.adds.map((add) => add.startedAt)), Infinity)) continue;
    if (outcome === "ok" && said === "none")
      judge("cancelled", !isExplained(run, story, call) && `${job}: ${what} found no job, which had not ended`);
    if (!hasEnded(call)) continue;
    const ended = runs.some((one) => saw(one, "done") ?? saw(one, "dead"));
    judge("cancelled", ended && `${job} was ${said}, and an end of it counted`);
    const [name = "", key = ""] = job.split(" ");
    const isDead = run.letters.get(name)?.some((letter) => letter.key === key) === true;
    judge("cancelled", isDead && `${job} was ${said}, and is a dead letter`);
    if (run.isShifted) continue;
    const again = runs.find(({ takenAt }) => takenAt > settledAt + clockErrorMs);
    judge("cancelled", again && `${job} was ${said}, and taken ${(again.takenAt - settledAt).toFixed(0)} ms later`);
    for (const one of runs) checkAborted(run, story, one, settledAt, judge);
  }
};

/** It has ended otherwise, or by another call; or this call was sent twice, since its connection was lost or its process stood still. */
const isExplained = (
  { outages }: RunHistory,
  { runs, asked }: Story,
  { startedAt, settledAt, stalledMs }: ChangeCall,
): boolean =>
  stalledMs > lateMs ||
  runs.some(({ after }) => after.some(({ kind, how, at }) => kind === "ran" && how === "ok" && at <= settledAt)) ||
  asked.some((one) => isEnding(one) && one.at < startedAt - clockErrorMs) ||
  outages.some(({ from, to }) => from <= settledAt && to >= startedAt);

const checkAborted = (
  run: RunHistory,
  { job }: Story,
  one: Begun,
  endedAt: number,
  judge: Judge<"cancelled">,
): void => {
  const { worker, at } = one;
  const knownAt = Math.min(...["ran", "cancelled", "lost"].map((kind) => saw(one, kind as "ran")?.at ?? Infinity));
  if (knownAt <= endedAt || worker.end !== "exit 0") return;
  const by = endedAt + run.leaseMs + lateMs;
  const isLate = (from: number): boolean => from - stalledIn(worker, endedAt - lateMs, from) > by;
  judge("cancelled", isLate(at) && `${job} began ${(at - endedAt).toFixed(0)} ms after its cancellation`);
  judge("cancelled", isLate(knownAt) && `${job} was told ${(knownAt - endedAt).toFixed(0)} ms after its cancellation`);
};
