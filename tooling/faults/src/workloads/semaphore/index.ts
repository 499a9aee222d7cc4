import { subjectOf } from "../../lab/control.js";
import { modeOf, surround } from "../../lab/lab.js";
import { runPhase } from "../../phase.js";
import { failoverFaults } from "../../faults/failover.js";
import { faults as allFaults, movingFaults } from "../../faults/index.js";
import type { Fault } from "../../faults/fault.js";
import type { PhaseOptions, PhaseReport, Workload } from "../../workload.js";
import { invariants, operationsOf, recoveryMs, remarksOn, verdictOn, worstStallMs } from "./checker.js";
import { controls } from "./controls.js";
import { SemaphoreLab } from "./lab.js";
import { isRecorded, recorders } from "./recorder.js";

const workers = 5;

/** Whether a fault affects only durable writes, which wait for replicas. */
const isForDurability = ({ kind }: Fault): boolean => kind === "replica stopped";

const faults: readonly Fault[] = [
  ...allFaults,
  ...failoverFaults.filter((fault) => !isForDurability(fault)),
  ...movingFaults,
];

const run = async (phase: PhaseOptions): Promise<PhaseReport> => {
  const { seed, setting, mode = modeOf[setting], control } = phase;
  const subject = subjectOf("semaphore", ["@kit/semaphore"], control, isRecorded(setting) ? recorders() : {});
  const options = { seed, setting, mode, subject };
  const lab = new SemaphoreLab(options, await surround(options));
  return await runPhase(lab, workers, phase, (history) => ({
    ...verdictOn(history),
    operations: operationsOf(history),
    recoveries: lab.marks
      .filter(({ kind }) => kind !== "end")
      .map((mark) => ({ kind: mark.kind, ms: recoveryMs(history, mark, mark.name) }))
      .filter(({ ms }) => Number.isFinite(ms)),
    worstStallMs: worstStallMs(history),
    duplicates: history.echoes.length,
    remarks: remarksOn(history),
  }));
};

/** Workers contend for permits by weight, priority and tenant, under changing limits. */
export const workload: Workload = {
  name: "semaphore",
  invariants,
  faults,
  shares: { kept: 0.32, lost: 0.11, shifted: 0.07, failover: 0.19, cluster: 0.08, address: 0.12, resharded: 0.11 },
  controls,
  run,
};
