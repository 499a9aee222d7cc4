import { resumeMs, stalledIn } from "../../common-invariants.js";
import type { RunHistory, WorkerHistory } from "./history.js";

/** From the first message after an outage until every listener has heard of one, if the outage has no bound of its own. */
const hearMs = 2 * resumeMs;

const sendsOf = (run: RunHistory): { readonly startedAt: number; readonly settledAt: number }[] =>
  run.workers.flatMap(({ records }) =>
    records.flatMap((record) =>
      record.kind === "call" && record.what === "send" && record.outcome === "ok" && record.name !== run.mailbox
        ? [record]
        : [],
    ),
  );

/** Whether a worker was at work before one instant and after another. */
const worksFrom = ({ records }: WorkerHistory, from: number, to: number): boolean => {
  const calls = records.filter((record) => record.kind === "call");
  return calls.some(({ startedAt }) => startedAt < from) && calls.some(({ settledAt }) => settledAt > to);
};

/** U3 of listeners: each hears a message soon after an outage. A connection that stays where its server was hears none. */
export const checkListeners = (run: RunHistory, judge: (invariant: "U3", what: string | false) => void): void => {
  const sends = sendsOf(run).toSorted((a, b) => a.startedAt - b.startedAt);
  for (const { kind, at, dueMs = hearMs } of run.heals) {
    const first = sends.find(({ startedAt }) => startedAt > at);
    if (!first) continue;
    const dueAt = Math.max(at + dueMs, first.settledAt + hearMs);
    // The next outage may come first. Then its own end counts.
    if (run.outages.some(({ from }) => at < from && from <= dueAt)) continue;
    for (const worker of run.workers) {
      if (worker.killedAt !== undefined || !worksFrom(worker, at, dueAt)) continue;
      const by = dueAt + stalledIn(worker, at, dueAt);
      const hears = worker.records.some((record) => record.kind === "heard" && record.at > at && record.at <= by);
      judge("U3", !hears && `the listener of ${worker.id} heard nothing for ${(by - at).toFixed(0)} ms after ${kind}`);
    }
  }
};
