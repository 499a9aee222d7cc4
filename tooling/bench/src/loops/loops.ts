// The common cases of locks and semaphores: callers alone on a name, and loops that contend for one.
import { now } from "@tooling/lab";
import type { Team } from "../lab.js";
import type { Case, Implementation, Entry, Measurement } from "../suite.js";
import { type LoopsRun, loopsRunOf, type Frame, unfairness } from "./loops-run.js";
import type { LoopsResult, LoopsTask, PairsResult, PairsTask } from "./loops-jobs.js";

/** The implementations and the settings of each. */
export interface Field {
  readonly implementations: readonly Implementation[];
  readonly setup: unknown;
}

/** Pairs of acquire and release with nothing in between and no contention. */
export const pairsCase = (entry: Entry, field: Field, task: Omit<PairsTask, "ms">): Case => {
  const run = async (team: Team, ms: number): Promise<PairsResult> => {
    const [result] = await team.all<PairsResult>("pairs", { ...task, ms } satisfies PairsTask);
    if (!result) throw new Error("no process");
    return result;
  };
  return {
    entries: [entry],
    ...field,
    rounds: Infinity,
    processes: 1,
    warmUp: async (team, scale) => void (await run(team, 600 * scale)),
    measure: {
      alone: async (team, _lab, scale): Promise<Measurement> => {
        const { pairs, elapsedMs } = await run(team, 700 * scale);
        return { values: { [entry.name]: (pairs / elapsedMs) * 1_000 }, operations: pairs };
      },
    },
  };
};

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

export const loopsCase = (
  entries: readonly Entry[],
  field: Field,
  rounds: number,
  loops: Loops,
  values: (run: LoopsRun) => Record<string, number>,
): Case => ({
  entries,
  ...field,
  rounds,
  processes: 4,
  warmUp: async (team, scale) =>
    void (await runLoops(team, { ...loops, settleMs: 0, countMs: (loops.settleMs + 200) * scale })),
  measure: {
    alone: async (team, _lab, scale): Promise<Measurement> => {
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
  },
});

const mean = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0) / values.length;
