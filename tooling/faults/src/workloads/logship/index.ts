import { clock } from "@tooling/lab";
import { subjectOf } from "../../lab/control.js";
import { modeOf, surround, within } from "../../lab/lab.js";
import { runPhase } from "../../phase.js";
import { failoverFaults } from "../../faults/failover.js";
import { faults as allFaults, movingFaults } from "../../faults/index.js";
import type { Fault } from "../../faults/fault.js";
import type { PhaseOptions, PhaseReport, Workload } from "../../workload.js";
import { invariants, recoveryMs, verdictOn, worstStallMs } from "./checker.js";
import { controls } from "./controls.js";
import { LogshipLab, points } from "./lab.js";

const workers = 4;

/** Faults of this workload alone. A process dies before it sends a command, or after the reply and before it is handled. */
const crashes = points.map(({ point }): Fault => ({
  kind: `dies at ${point}`,
  setting: "kept",
  inject: async (lab) => {
    const worker = await lab.victim();
    let hasDied = false;
    worker.tell(`die at ${point}`);
    return {
      until: async () => {
        await within(worker.ended, 8_000);
        hasDied = worker.hasEnded;
      },
      heal: async () => {
        if (worker.hasEnded) worker.killedAt = clock();
        else await worker.kill();
        // The killed worker's open file holds up the files behind it until another worker ships it.
        lab.spawn();
      },
      tookEffect: () => hasDied,
    };
  },
}));

const faults: readonly Fault[] = [
  ...allFaults.filter(({ setting }) => setting === "kept"),
  ...crashes,
  ...failoverFaults.filter(({ kind }) => kind !== "replica stopped"),
  ...movingFaults,
];

const run = async (phase: PhaseOptions): Promise<PhaseReport> => {
  const { seed, setting, mode = modeOf[setting], control } = phase;
  const options = { seed, setting, mode, subject: subjectOf("logship", ["@kit/logship"], control) };
  const lab = new LogshipLab(options, await surround(options));
  return await runPhase(lab, workers, phase, (history) => ({
    ...verdictOn(history),
    recoveries: history.heals
      .filter(({ kind }) => kind !== "end")
      .map(({ kind, at }) => ({ kind, ms: recoveryMs(history, at) }))
      .filter(({ ms }) => Number.isFinite(ms)),
    worstStallMs: worstStallMs(history),
    duplicates: history.echoes,
    operations: history.accesses.length,
  }));
};

/** Processes ship files through a channel with a small limit, receive them as two consumers, and process a job. */
export const workload: Workload = {
  name: "logship",
  invariants,
  faults,
  shares: { kept: 0.46, failover: 0.22, cluster: 0.09, address: 0.12, resharded: 0.11 },
  controls,
  run,
};
