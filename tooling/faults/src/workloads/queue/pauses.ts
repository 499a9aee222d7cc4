import type { Judge } from "../../common-invariants.js";
import { clockErrorMs, type Span } from "../../records.js";
import type { AccessRecord, AskRecord, PauseCall, RunHistory } from "./history.js";
import { mayBeLost } from "./stories.js";

/** How long a request may be under way whose caller has no reply. */
const lateRequestMs = 5_000;

interface Pause extends Span {
  readonly name: string;
  readonly askedAt: number;
}

/** From the confirmation of each pause to the first resume that anybody may have sent. */
const pausesOf = ({ workers }: RunHistory): Pause[] => {
  const calls: PauseCall[] = [];
  const resumes: (AskRecord & { readonly doneAt: number })[] = [];
  for (const { records } of workers) {
    const own = records.filter((one): one is PauseCall => one.kind === "call" && /^(pause|resume)$/.test(one.what));
    calls.push(...own);
    for (const one of records)
      if (one.kind === "asked" && one.what === "resume") {
        const call = own.find(({ what, startedAt }) => what === "resume" && startedAt >= one.at);
        resumes.push({ ...one, doneAt: call?.outcome === "ok" ? call.settledAt : one.at + lateRequestMs });
      }
  }
  return calls
    .filter(({ what, outcome }) => what === "pause" && outcome === "ok")
    .map(({ name, startedAt, settledAt }) => {
      const later = resumes.filter((one) => one.name === name && one.doneAt >= startedAt);
      return { name, askedAt: startedAt, from: settledAt, to: Math.min(...later.map(({ at }) => at)) };
    });
};

/**
 * `paused`: the server takes no job between a confirmed pause and the resume. A take whose reply was lost may be repeated then, but
 * only while its leases last.
 */
export const checkPauses = (run: RunHistory, judge: Judge<"paused">): void => {
  if (run.isShifted) return;
  const begun = run.workers.flatMap(({ records }) =>
    records.filter((one): one is AccessRecord => one.kind === "access"),
  );
  for (const { name, askedAt, from, to } of pausesOf(run)) {
    if (from >= to) continue;
    const isInterrupted = run.outages.some((one) => one.from <= to && one.to >= askedAt - run.leaseMs);
    const earliest = from + clockErrorMs + (isInterrupted ? run.leaseMs : 0);
    const taken = begun.find(
      (one) =>
        one.name === name &&
        one.takenAt > earliest &&
        one.takenAt < to - clockErrorMs &&
        !mayBeLost(run, askedAt, one.takenAt),
    );
    const lateBy = ((taken?.takenAt ?? 0) - from).toFixed(0);
    judge("paused", taken && `${name} ${taken.key} was taken ${lateBy} ms after the queue was paused`);
  }
};
