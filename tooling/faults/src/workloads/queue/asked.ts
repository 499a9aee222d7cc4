import { clockErrorMs } from "../../records.js";
import type { AskRecord, QueueChangeCall, RunHistory } from "./history.js";

/** How long a request may be under way whose caller has no reply. */
const lateRequestMs = 5_000;

/** A change of a whole queue that a process asked for. */
export interface Asked extends AskRecord {
  /** The server had not made the change before `at`, and makes it no more after this. */
  readonly doneAt: number;
  /** The server had made the change by then; undefined: it may not have made it. */
  readonly confirmedAt: number | undefined;
}

/** All changes of this kind. A worker that was killed has no call for its last one. */
export const askedIn = ({ workers }: RunHistory, what: QueueChangeCall["what"]): Asked[] =>
  workers.flatMap(({ id, records }) => {
    const calls = records.filter((one): one is QueueChangeCall => one.kind === "call" && one.what === what);
    const asked = records.filter((one): one is AskRecord => one.kind === "asked" && one.what === what);
    return asked.map((one) => {
      const call = calls.find(
        ({ name, jobName, schedule, startedAt }) =>
          name === one.name && jobName === one.jobName && schedule === one.schedule && startedAt >= one.at,
      );
      const isConfirmed = call?.outcome === "ok";
      // The lab repeats its own changes until they succeed, and records no calls.
      const doneAt = isConfirmed ? call.settledAt : one.at + (id === "lab" ? Infinity : lateRequestMs);
      return { ...one, doneAt, confirmedAt: isConfirmed ? call.settledAt : undefined };
    });
  });

/** Those of the changes that may be in force at an instant: no other one has surely replaced them. Without one there is none of them. */
export const inForce = (changes: readonly Asked[], instant: number): readonly Asked[] => {
  const before = changes.filter(({ at }) => at <= instant + clockErrorMs);
  const isReplaced = (one: Asked): boolean =>
    before.some(({ at, confirmedAt = Infinity }) => at >= one.doneAt && confirmedAt < instant - clockErrorMs);
  return before.filter((one) => !isReplaced(one));
};
