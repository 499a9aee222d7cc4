import { subjectOf } from "../../lab/control.js";
import { modeOf, surround } from "../../lab/lab.js";
import { runPhase } from "../../phase.js";
import { failoverFaults } from "../../faults/failover.js";
import { faults as allFaults, movingFaults } from "../../faults/index.js";
import type { Fault } from "../../faults/fault.js";
import type { PhaseOptions, PhaseReport, Workload } from "../../workload.js";
import { invariants, recoveryMs, repeatsOf, verdictOn, worstStallMs } from "./checker.js";
import { controls } from "./controls.js";
import { QueueLab } from "./lab.js";

const workers = 5;

/** Faults of replica waits, of a lock's lease text, or of subscribers. Queue workers block in a pop instead. */
const isForOthers = ({ kind }: Fault): boolean =>
  ["replica stopped", "byte flipped", "subscribers killed"].includes(kind);

const faults: readonly Fault[] = [...allFaults, ...failoverFaults, ...movingFaults].filter(
  (fault) => !isForOthers(fault),
);

const run = async (phase: PhaseOptions): Promise<PhaseReport> => {
  const { seed, setting, mode = modeOf[setting], control } = phase;
  const options = { seed, setting, mode, subject: subjectOf("queue", ["@kit/queue"], control) };
  const lab = new QueueLab(options, await surround(options));
  return await runPhase(lab, workers, phase, (history) => ({
    ...verdictOn(history),
    operations: lab.logged("access"),
    recoveries: lab.marks
      .filter(({ kind }) => kind !== "end")
      .map((mark) => ({ kind: mark.kind, ms: recoveryMs(history, mark.at) }))
      .filter(({ ms }) => Number.isFinite(ms)),
    worstStallMs: worstStallMs(history),
    duplicates: repeatsOf(history),
    remarks: { "copies of requests": history.echoes },
  }));
};

/** Producers and workers of two queues: one with prefetch, and a strict one with durable adds. */
export const workload: Workload = {
  name: "queue",
  invariants,
  faults,
  shares: { kept: 0.37, lost: 0.09, shifted: 0.06, failover: 0.16, cluster: 0.08, address: 0.12, resharded: 0.12 },
  controls,
  run,
};
