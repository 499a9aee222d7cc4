// The common case of locks and semaphores: loops that contend for a name.
import { now } from "@tooling/lab";
import type { Team } from "../lab.js";
import type { Case, Entry } from "../suite.js";
import { type LoopsRun, loopsRunOf, type Frame, unfairness } from "./loops-run.js";
import type { LoopsResult, LoopsTask } from "./loops-jobs.js";

/** The messages to the processes must be there before the start that they name. */
export const headStartMs = 40;

export interface Loops {
  /** In all processes together. */
  readonly loops: number;
  /** How many may hold at once. */
  readonly permits: number;
  readonly holdMs: number;
  readonly settleMs: number;
  readonly countMs: number;
  /** Calls may fail. */
  readonly goesOn?: boolean;
}

/** Runs the contending loops. */
export const runLoops = async (
  team: Team,
  { loops, permits, holdMs, settleMs, countMs, goesOn = false }: Loops,
): Promise<{ readonly results: readonly LoopsResult[]; readonly frame: Frame }> => {
  const startAt = now() + headStartMs;
  const countFrom = startAt + settleMs;
  const stopAt = countFrom + countMs;
  const loopsPerProcess = loops / team.workers.length;
  const task: LoopsTask = { loops: loopsPerProcess, name: "contended", startAt, countFrom, stopAt, holdMs, goesOn };
  return {
    results: await team.all<LoopsResult>("loops", task),
    frame: { loopsPerProcess, countFrom, stopAt, permits },
  };
};

const mean = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0) / values.length;

/** A case that gets its values from one run of loops, in the order of its entries. */
export const loopsCase = (
  entries: readonly Entry[],
  loops: Loops,
  settings: Pick<Case, "implementations" | "setup" | "rounds">,
  values: (run: LoopsRun) => readonly (number | undefined)[],
): Case => ({
  ...settings,
  entries,
  processes: 4,
  warmUp: (team, _lab, scale) => runLoops(team, { ...loops, settleMs: 0, countMs: (loops.settleMs + 200) * scale }),
  measure: async (team, _lab, scale) => {
    const shortened = { ...loops, settleMs: loops.settleMs * scale, countMs: loops.countMs * scale };
    const { results, frame } = await runLoops(team, shortened);
    const run = loopsRunOf(results, frame);
    const { operations, sent, sentInWindow, grants, seconds, perLoop, gapsToOthers } = run;
    // Throughput means nothing without fairness: a caller that re-takes its own lock again and again hands nothing
    // over.
    const details = {
      handOffsPerSecond: grants / seconds,
      commandsPerHandOff: sentInWindow / grants,
      fewestPerLoop: Math.min(...perLoop),
      mostPerLoop: Math.max(...perLoop),
      maxToMinPerLoop: unfairness(perLoop),
      shareToOthers: gapsToOthers.length / grants,
      meanHoldMs: mean(run.holds),
      meanHandOffMs: mean(run.gaps),
    };
    return { values: values(run), operations, sent, details };
  },
});
