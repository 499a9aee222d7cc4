import { subjectOf } from "../../lab/control.js";
import { grows, modeOf, surround } from "../../lab/lab.js";
import { runPhase } from "../../phase.js";
import { failoverFaults } from "../../faults/failover.js";
import { faults as allFaults, movingFaults } from "../../faults/index.js";
import type { Fault } from "../../faults/fault.js";
import type { PhaseOptions, PhaseReport, Workload } from "../../workload.js";
import { invariants, recoveryMs, verdictOn, worstStallMs } from "./checker.js";
import { controls } from "./controls.js";
import { CoreLab } from "./lab.js";

const workers = 5;

/** A fault of this workload alone. */
const flapping: Fault = {
  kind: "entry flaps",
  setting: "kept",
  inject: async (lab) => {
    const worker = await lab.victim();
    const before = worker.logged("flapped");
    worker.tell("flap");
    return {
      until: () => grows(() => worker.logged("flapped"), before),
      tookEffect: () => worker.logged("flapped") > before,
    };
  },
};

/** Whether a fault flips bytes in a lease. */
const isForLeases = ({ kind }: Fault): boolean => kind === "byte flipped";

const faults: readonly Fault[] = [
  ...allFaults.filter((fault) => (fault.setting === "kept" || fault.setting === "lost") && !isForLeases(fault)),
  ...failoverFaults,
  ...movingFaults,
  flapping,
];

const run = async (phase: PhaseOptions): Promise<PhaseReport> => {
  const { seed, setting, mode = modeOf[setting], control } = phase;
  const options = {
    seed,
    setting,
    mode,
    subject: subjectOf("core", ["@kit/core/config", "@kit/core/durable"], control),
  };
  const lab = new CoreLab(options, await surround(options));
  return await runPhase(lab, workers, phase, (history) => ({
    ...verdictOn(history),
    recoveries: lab.marks
      .filter(({ kind }) => kind !== "end")
      .map((mark) => ({ kind: mark.kind, ms: recoveryMs(history, mark) }))
      .filter(({ ms }) => Number.isFinite(ms)),
    worstStallMs: worstStallMs(history),
    duplicates: history.echoes,
  }));
};

/** Processes read their configuration from a server, and write durably to it. */
export const workload: Workload = {
  name: "core",
  invariants,
  faults,
  shares: { kept: 0.3, lost: 0.08, failover: 0.29, cluster: 0.1, address: 0.12, resharded: 0.11 },
  controls,
  run,
};
