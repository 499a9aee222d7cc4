// Cases that count operations per second. Their calls can be run for any time, so two builds can take turns in slices.
import type { Team } from "./lab.js";
import type { RunResult } from "./operation.js";
import { percentile } from "./statistics.js";
import type { Case, Entry, Prepare } from "./suite.js";

/** Runs the operation of `task` in all processes at once. */
export const runAll = (team: Team, task: unknown, ms: number): Promise<RunResult[]> =>
  team.all<RunResult>("run", { task, ms });

const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0);

/** Operations per second of all processes together. */
export const rateOf = (results: readonly RunResult[]): number =>
  (1_000 * sum(results.map(({ operations }) => operations))) / Math.max(...results.map(({ elapsedMs }) => elapsedMs));

export interface RateSettings extends Pick<Case, "implementations" | "setup" | "processes" | "servers" | "rounds"> {
  /** The task from which the jobs of the package make an operation. */
  readonly task: unknown;
  readonly prepare?: Prepare;
  /** A run before each measurement, since the server was emptied. @default 100 */
  readonly settleMs?: number;
}

const [warmUpMs, measureMs] = [800, 900];

export const rateCase = (entry: Entry, { task, settleMs = 100, prepare, ...settings }: RateSettings): Case => ({
  ...settings,
  entries: [entry],
  operation: task,
  warmUp: async (team, lab, scale) => {
    await prepare?.(team, lab, scale);
    await runAll(team, task, warmUpMs * scale);
  },
  prepare: async (team, lab, scale) => {
    await prepare?.(team, lab, scale);
    await runAll(team, task, settleMs * scale);
  },
  measure: async (team, _lab, scale) => {
    const results = await runAll(team, task, measureMs * scale);
    const operations = sum(results.map((result) => result.operations));
    const commands = sum(results.map((result) => result.sent));
    const waits = results.flatMap((result) => [...result.waits]);
    const details = {
      commands: commands / operations,
      clientCpuMicros: sum(results.map(({ cpuMicros }) => cpuMicros)) / operations,
      // The client's, since the server's also count what was prepared.
      ...(waits.length > 0 && { p99Ms: percentile(waits, 0.99) }),
    };
    return { values: [rateOf(results)], operations, sent: commands, details };
  },
});

const everydayRates = [10, 100, 1_000];

/** The everyday case: calls at an even rate instead of as fast as they go. `what` names a call in the unit. */
export const steadyCases = (what: string, about: string, { task, prepare, ...settings }: RateSettings): Case[] =>
  everydayRates.map((perSecond) => {
    const name = `steady ${perSecond.toLocaleString("en")}/s`;
    const work = `${about}, at an even rate`;
    return {
      ...settings,
      entries: [
        { name: `${name}: server`, unit: `µs of the server's CPU a ${what}`, about: work },
        { name: `${name}: p50`, unit: "ms", about: work },
        { name: `${name}: p99`, unit: "ms", about: work },
        { name: `${name}: client`, unit: `µs of CPU a ${what}`, about: work },
      ],
      prepare: async (team, lab, scale) => {
        await prepare?.(team, lab, scale);
        // The first calls would measure interpreted code.
        await runAll(team, task, warmUpMs * scale);
      },
      measure: async (team, lab, scale) => {
        const watched = await lab.watch();
        const ms = (perSecond <= 10 ? 10_000 : 3_000) * scale;
        const [result] = await team.all<RunResult>("steady", { task, ms, perSecond });
        if (!result) throw new Error("There is no client process");
        const { cpuMicros, commands } = await watched();
        const { operations } = result;
        const waits = [...result.waits];
        return {
          values: [
            cpuMicros / operations,
            percentile(waits, 0.5),
            percentile(waits, 0.99),
            result.cpuMicros / operations,
          ],
          details: { commands: commands / operations },
        };
      },
    };
  });
