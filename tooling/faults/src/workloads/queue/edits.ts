import type { Judge } from "../../common-invariants.js";
import { clockErrorMs } from "../../records.js";
import type { AskRecord, ChangeCall, RunHistory } from "./history.js";
import { mayBeLost, type Story } from "./stories.js";

const isEdit = ({ what }: AskRecord | ChangeCall): boolean => what === "edit";

/**
 * `edited`: after a confirmed edit each take of the job has the new data, and before the edit was asked for none has. An edit that was refused
 * has changed nothing.
 */
export const checkEdits = (run: RunHistory, story: Story, judge: Judge<"edited">): void => {
  const { job, runs, adds } = story;
  const asked = story.asked.filter(isEdit);
  const edits = story.changes.filter(isEdit);
  if (asked.length === 0 || mayBeLost(run, Math.min(...adds.map(({ startedAt }) => startedAt)), Infinity)) return;
  const edited = runs.filter(({ version }) => version === 2);
  if (!run.isShifted)
    for (const { settledAt } of edits.filter(({ said }) => said === "edited")) {
      const former = runs.find(({ version = 1, takenAt }) => version === 1 && takenAt > settledAt + clockErrorMs);
      const lateBy = ((former?.takenAt ?? 0) - settledAt).toFixed(0);
      judge("edited", former && `${job} was taken with its former data ${lateBy} ms after it was edited`);
    }
  const isRefused = asked.length === edits.filter((one) => isRefusal(run, one)).length;
  judge("edited", isRefused && edited.length > 0 && `${job} has new data, though every edit was refused`);
};

/** A call that was sent twice, since its connection was lost, may find that the job has ended meanwhile. */
const isRefusal = ({ outages }: RunHistory, { outcome, said, startedAt, settledAt }: ChangeCall): boolean =>
  outcome === "failed" ||
  (outcome === "ok" && said !== "edited" && !outages.some(({ from, to }) => from <= settledAt && to >= startedAt));
