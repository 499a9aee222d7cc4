import { type Judge, stalledIn } from "../../common-invariants.js";
import type { Fault } from "../../faults/fault.js";
import { stopped } from "../../lab/process-state.js";
import { patience } from "../../patience.js";
import type { RunHistory } from "./history.js";
import type { Story } from "./stories.js";

const kind = "server stopped for long";

/** From this length on no worker can have reached the queue, and no lease that ended meanwhile is a crash. */
const longMs = (leaseMs: number): number => leaseMs / 2 + 1_000;

/** A stop in which every lease ends. */
export const longStop: Fault = {
  kind,
  setting: "kept",
  inject: async (lab) => {
    lab.node.pause();
    await stopped(lab.node.pid);
    const lastsMs = longMs(lab.leaseMs) + lab.leaseMs * lab.between(0.5, 1.5);
    return { lastsMs, heal: () => lab.node.resume(), tookEffect: () => true };
  },
};

/**
 * `outage`: a long stop of the server charges no crash to a job whose worker lives. Judged for the jobs that were added or began after the
 * fault before, and began (again) before the next one: in a campaign the faults are seconds apart.
 */
export const checkOutages = (run: RunHistory, stories: readonly Story[], judge: Judge<"outage">): void => {
  const { leaseMs, outages, workers } = run;
  const others = outages.filter((one) => one.kind !== kind);
  const isAlone = (from: number, to: number): boolean => others.every((one) => one.to < from || one.from > to);
  for (const outage of outages.filter((one) => one.kind === kind && one.to - one.from >= longMs(leaseMs))) {
    const until = outage.to + leaseMs;
    // A process that stood still may have been charged for that.
    const isBusy = workers.some((one) => stalledIn(one, outage.to, until) > (leaseMs / 4) * patience);
    if (isBusy) continue;
    for (const { job, adds, runs } of stories)
      for (const [index, { at, crashes }] of runs.entries()) {
        // Before its first run a job may have been taken ahead.
        const before = runs[index - 1];
        const since = before?.at ?? Math.min(...adds.map(({ startedAt }) => startedAt));
        if (since > outage.from || at <= outage.from || at > until || !isAlone(since, at)) continue;
        if (before && stalledIn(before.worker, since, outage.from) > (leaseMs / 4) * patience) continue;
        judge("outage", crashes > (before?.crashes ?? 0) && `${job} was charged the stop of the server`);
      }
  }
};
