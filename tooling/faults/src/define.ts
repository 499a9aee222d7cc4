import type { Verdict } from "./common-invariants.js";
import { failoverFaults } from "./faults/failover.js";
import type { Fault } from "./faults/fault.js";
import { faults as allFaults, movingFaults } from "./faults/index.js";
import { type Control, type Mutations, subjectOf } from "./lab/control.js";
import type { LabOptions } from "./lab/lab.js";
import type { Setting } from "./lab/setting.js";
import { surround, type Surroundings } from "./lab/surroundings.js";
import { runPhase, type Stage } from "./phase.js";
import type { Run } from "./records.js";
import { recoveryOf, type Work } from "./work.js";
import type { PhaseReport, Workload } from "./workload.js";

const usualShares = {
  kept: 0.35,
  lost: 0.09,
  shifted: 0.06,
  failover: 0.18,
  cluster: 0.09,
  address: 0.12,
  resharded: 0.11,
} as const;

/** What one package's workload is made of. */
interface Parts<H extends Run> {
  readonly name: string;
  /** The modules that workers import; a control changes the scripts of the first. @default the package itself */
  readonly modules?: readonly string[];
  /** What the scripts of the package run first, in every run of a setting. */
  readonly lua?: (setting: Setting) => Mutations;
  readonly invariants: readonly string[];
  readonly controls: readonly Control[];
  readonly workers: number;
  readonly shares?: Workload["shares"];
  /** Whether its workers hook into ioredis, and cannot run on another client. @default false */
  readonly needsIoredis?: boolean;
  /** Faults that do not concern the package, or that nothing of it can survive. */
  readonly notFor?: readonly string[];
  /** Faults of this workload alone. */
  readonly ownFaults?: readonly Fault[];
  readonly open: (options: LabOptions, around: Surroundings) => Stage<H>;
  readonly verdictOn: (run: H) => Verdict;
  readonly workOf: (run: H) => Work;
  /** Further facts to report. */
  readonly facts?: (run: H) => Partial<Pick<PhaseReport, "remarks" | "duplicates" | "operations">>;
}

/** A workload under all faults of its settings. */
export const defineWorkload = <H extends Run>(parts: Parts<H>): Workload => {
  const { name, modules = [`@kit/${name}`], lua, invariants, controls, workers, shares = usualShares } = parts;
  const { needsIoredis = false, notFor = [], ownFaults = [], open, verdictOn, workOf, facts } = parts;
  const common = [...allFaults, ...failoverFaults, ...movingFaults];
  return {
    name,
    invariants,
    needsIoredis,
    faults: [...common.filter(({ kind, setting }) => setting in shares && !notFor.includes(kind)), ...ownFaults],
    shares,
    controls,
    run: async (phase) => {
      const { seed, setting, control, client = "ioredis" } = phase;
      const subject = subjectOf(name, modules, control, lua?.(setting));
      const lab = open({ seed, setting, workload: name, subject, client }, await surround(phase));
      return await runPhase(lab, workers, phase, (run) => ({
        ...verdictOn(run),
        ...recoveryOf(run, workOf(run)),
        duplicates: run.echoes,
        ...facts?.(run),
      }));
    },
  };
};
