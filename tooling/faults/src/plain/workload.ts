import type { Verdict } from "../common-invariants.js";
import { type Control, subjectOf } from "../lab/control.js";
import { modeOf, surround, type Surroundings } from "../lab/lab.js";
import { runPhase } from "../phase.js";
import { failoverFaults } from "../faults/failover.js";
import { faults as allFaults, movingFaults } from "../faults/index.js";
import type { PhaseReport, Workload } from "../workload.js";
import { recoveriesOf, type Work, worstStallMs } from "./checker.js";
import type { PlainHistory } from "./history.js";
import type { PlainLabOptions } from "./lab.js";

type Lab<H> = Parameters<typeof runPhase<H & History>>[0];
type History = Omit<PlainHistory<{ readonly kind: string }>, "losesNothing" | "wrong">;

/** The parts that depend on the package. */
interface Parts<H> {
  readonly name: string;
  readonly invariants: readonly string[];
  readonly controls: readonly Control[];
  readonly workers: number;
  /** Faults that do not concern the package. */
  readonly notFor: readonly string[];
  readonly open: (options: PlainLabOptions, around: Surroundings) => Lab<H>;
  readonly verdictOn: (history: H) => Verdict;
  /** @default any call */
  readonly workIn?: (history: H) => Work;
  /** Further facts to report. */
  readonly facts?: (history: H) => Pick<PhaseReport, "remarks"> & { readonly operations?: number };
}

/** A workload whose workers all run the same program and hold no leases. */
export const plainWorkload = <H extends History>(parts: Parts<H>): Workload => {
  const { name, invariants, controls, workers, notFor, open, verdictOn, workIn, facts } = parts;
  return {
    name,
    invariants,
    faults: [...allFaults, ...failoverFaults, ...movingFaults].filter(({ kind }) => !notFor.includes(kind)),
    shares: { kept: 0.35, lost: 0.09, shifted: 0.06, failover: 0.18, cluster: 0.09, address: 0.12, resharded: 0.11 },
    controls,
    run: async (phase) => {
      const { seed, setting, mode = modeOf[setting], control } = phase;
      const options = { seed, setting, mode, workload: name, subject: subjectOf(name, [`@kit/${name}`], control) };
      const lab = open(options, await surround(options));
      return await runPhase(lab, workers, phase, (history) => ({
        ...verdictOn(history),
        recoveries: recoveriesOf(history, workIn?.(history)),
        worstStallMs: worstStallMs(history, workIn?.(history)),
        duplicates: history.echoes,
        ...facts?.(history),
      }));
    },
  };
};
