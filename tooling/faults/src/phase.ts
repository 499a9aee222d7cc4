import { pause } from "@kit/core/toolkit";
import { clock, seeded } from "@tooling/lab";
import type { Lab } from "./lab/lab.js";
import type { Verdict } from "./common-invariants.js";
import { outcomesOf, type Run, unhandledIn } from "./records.js";
import type { Fault } from "./faults/fault.js";
import type { Recovery } from "./work.js";
import type { PhaseOptions, PhaseReport } from "./workload.js";

/** One injection of a plan. Its random choices come from its seed. */
export interface Planned {
  readonly fault: Fault;
  readonly seed: number;
  /** The pause before the injection, in milliseconds. */
  readonly gapMs: number;
}

const longestGapMs = 250;
const usualCalmMs = 2_500;
/** The share of injections that follow a pause of `calmMs`. */
const calmShare = 0.1;

/** The injections of a seed: rounds in random order, each with every fault `times` times. */
export function* planOf(
  seed: number,
  faults: readonly Fault[],
  calmMs: number = usualCalmMs,
): Generator<Planned, never> {
  const random = seeded(seed);
  for (;;) {
    const left = faults.flatMap((fault) => Array.from({ length: fault.times ?? 1 }, () => fault));
    while (left.length > 0) {
      const [fault] = left.splice(Math.floor(random() * left.length), 1);
      if (fault) yield { fault, seed: Math.floor(random() * 2 ** 31), gapMs: gapOf(random, calmMs) };
    }
  }
}

const gapOf = (random: () => number, calmMs: number): number =>
  random() < calmShare ? calmMs : 20 + random() * longestGapMs;

/** Injects one fault. Resolves once work continues, with whether the fault took effect. */
const inject = async (lab: Lab, { fault, seed, gapMs }: Planned): Promise<boolean> => {
  await pause(gapMs);
  lab.random = seeded(seed);
  const from = clock();
  const injection = await fault.inject(lab);
  try {
    // A fault without an effect in time is healed, and does not count.
    await injection.until?.().catch(() => undefined);
    await pause(injection.lastsMs ?? 0);
  } finally {
    await injection.heal?.();
    lab.outages.push({ from, to: clock(), kind: fault.kind });
  }
  await lab.healed(fault.kind);
  return await injection.tookEffect();
};

/** How often a fault is tried until it takes effect. */
const mostTries = 6;

interface Injected {
  /** The number of injections that took effect, by fault. */
  readonly effects: ReadonlyMap<string, number>;
  /** Why the run ended early: work did not continue. */
  readonly stuck: string | undefined;
}

/** Injects faults until the time is over and each fault has taken effect or used up its tries. */
const injectAll = async (lab: Lab, { seed, faults, isOver, calmMs = usualCalmMs }: PhaseOptions): Promise<Injected> => {
  const effects = new Map<string, number>(faults.map(({ kind }) => [kind, 0]));
  const tries = new Map<string, number>();
  const stuckAt = (where: string, error: unknown): Injected => ({
    effects,
    stuck: `${where}: ${error instanceof Error ? error.message : String(error)}`,
  });
  let effective = 0;
  for (const planned of planOf(seed, faults, calmMs)) {
    const { kind } = planned.fault;
    const isOwed = faults.some((fault) => effects.get(fault.kind) === 0 && (tries.get(fault.kind) ?? 0) < mostTries);
    if (isOver(effective) && !isOwed) break;
    // After the time, only faults that have not taken effect yet.
    if (isOver(effective) && (effects.get(kind) ?? 0) > 0) continue;
    tries.set(kind, (tries.get(kind) ?? 0) + 1);
    try {
      if (await inject(lab, planned)) {
        effects.set(kind, (effects.get(kind) ?? 0) + 1);
        effective++;
      }
    } catch (error) {
      return stuckAt(kind, error);
    }
  }
  await pause(calmMs);
  try {
    await lab.finished();
  } catch (error) {
    return stuckAt("end", error);
  }
  return { effects, stuck: undefined };
};

/** The lab of a phase. */
export interface Stage<H extends Run> extends Lab {
  /** Ends the workers, and returns all records. `isStuck`: the workers no longer make progress. */
  end(isStuck: boolean): Promise<H>;
}

/** The parts of a report that depend on the package. */
type OwnReport = Verdict &
  Recovery &
  Pick<PhaseReport, "duplicates" | "remarks"> & {
    /** Operations besides the calls of the workers. */
    readonly operations?: number;
  };

/** Runs one phase in a lab, and closes the lab. */
export const runPhase = async <H extends Run>(
  lab: Stage<H>,
  workers: number,
  phase: PhaseOptions,
  reportOn: (history: H) => OwnReport,
): Promise<PhaseReport> => {
  // A stopped worker does not notice the end of its input.
  const killWorkers = (): void => {
    for (const worker of lab.workers) worker.signal("SIGKILL");
  };
  // Prepended, so that the workers are killed before their folder is removed.
  process.prependOnceListener("exit", killWorkers);
  try {
    await lab.begin(workers);
    const { effects, stuck } = await injectAll(lab, phase);
    const history = await lab.end(stuck !== undefined);
    const report = reportOn(history);
    const opsByOutcome = outcomesOf(history.workers);
    const calls = Object.values(opsByOutcome).reduce((sum, count) => sum + count, 0);
    const standstill = stuck === undefined ? [] : [{ invariant: "U3", what: `work did not go on: ${stuck}` }];
    return {
      ...report,
      operations: calls + (report.operations ?? 0),
      opsByOutcome,
      effects,
      unhandled: unhandledIn(history.workers),
      violations: [...standstill, ...report.violations],
      run: { ...history, endedAt: clock() },
    };
  } finally {
    await lab.stop();
    process.off("exit", killWorkers);
  }
};
