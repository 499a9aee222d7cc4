import { subjectOf } from "../../lab/control.js";
import { modeOf, surround } from "../../lab/lab.js";
import { runPhase } from "../../phase.js";
import { faults, movingFaults } from "../../faults/index.js";
import type { PhaseOptions, PhaseReport, Workload } from "../../workload.js";
import { invariants, recoveryMs, verdictOn } from "./checker.js";
import { controls } from "./controls.js";
import type { RunHistory } from "./history.js";
import { LockLab } from "./lab.js";
import { sectionsOf } from "./sections.js";

const workers = 7;

/** The longest time in which no register accepted a write. */
const worstStallOf = (run: RunHistory): number => {
  const instants = [...run.registers.values()].flat().flatMap(({ at, accepted }) => (accepted ? [at] : []));
  instants.sort((a, b) => a - b);
  return instants.reduce((worst, at, index) => Math.max(worst, at - (instants[index - 1] ?? at)), 0);
};

const run = async (phase: PhaseOptions): Promise<PhaseReport> => {
  const { seed, setting, mode = modeOf[setting], control } = phase;
  const options = { seed, setting, mode, subject: subjectOf("lock", ["@kit/lock"], control) };
  const lab = new LockLab(options, await surround(options));
  return await runPhase(lab, control ? 5 : workers, phase, (history) => {
    const accesses = [...history.registers.values()].flat();
    return {
      ...verdictOn(history),
      operations: accesses.filter(({ action }) => action === "write").length,
      recoveries: lab.marks
        .filter(({ kind }) => kind !== "end")
        .map(({ kind, at, name }) => ({ kind, ms: recoveryMs(history, at, name) }))
        .filter(({ ms }) => Number.isFinite(ms)),
      worstStallMs: worstStallOf(history),
      duplicates: history.echoes.length,
      // Where no process stands still, sections have no excuse.
      ...(setting === "address" || setting === "resharded" ? { remarks: sectionsOf(history) } : {}),
    };
  });
};

/** Workers contend for locks, each of which guards a register. */
export const workload: Workload = {
  name: "lock",
  invariants,
  faults: [...faults, ...movingFaults],
  shares: { kept: 0.47, lost: 0.15, shifted: 0.09, address: 0.14, resharded: 0.15 },
  controls,
  run,
};
