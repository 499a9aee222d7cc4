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

/** `outage`: a long stop of the server charges no crash to a job whose worker lives. */
export const checkOutages = (run: RunHistory, stories: readonly Story[], judge: Judge<"outage">): void => {
  const { leaseMs, outages, workers } = run;
  for (const outage of outages.filter((one) => one.kind === kind && one.to - one.from >= longMs(leaseMs))) {
    const from = outage.from - 4 * leaseMs;
    const until = outage.to + leaseMs;
    // What another fault, or a process that stood still, may have charged.
    const isAlone = outages.every((one) => one.kind === kind || one.to < from || one.from > until);
    const isBusy = workers.some((one) => stalledIn(one, outage.to, until) > (leaseMs / 4) * patience);
    if (!isAlone || isBusy) continue;
    for (const { job, runs } of stories)
      for (const [index, { at, crashes }] of runs.entries())
        if (at > outage.from && at <= until)
          judge("outage", crashes > (runs[index - 1]?.crashes ?? 0) && `${job} was charged the stop of the server`);
  }
};
