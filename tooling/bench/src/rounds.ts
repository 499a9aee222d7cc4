// Every implementation runs a case once in every round, in another order each time, so that a noisy minute hits all.
import type { Lab, Team } from "./lab.js";
import { median, shuffled } from "./statistics.js";
import type { Case, Implementation, Measurement } from "./suite.js";

export interface Ran {
  readonly measurement: Measurement;
  /** Per operation; undefined if operations are not meaningful. */
  readonly serverCpuMicros: number | undefined;
  readonly innerCommands: number | undefined;
}

/** The results of one implementation in one case. */
export interface CaseRun {
  readonly implementation: Implementation;
  readonly rounds: readonly Ran[];
  /** Its error, if it failed. */
  readonly error: string | undefined;
}

export interface Plan {
  readonly rounds: number;
  /** Shortens the measurements; below 1 the figures show only that everything runs. */
  readonly scale: number;
  readonly say: (text: string) => void;
}

export const runCase = async (lab: Lab, one: Case, { rounds, scale, say }: Plan): Promise<readonly CaseRun[]> => {
  const ran = new Map<string, Ran[]>(one.implementations.map(({ id }) => [id, []]));
  const failed = new Map<string, string>();
  const teams = new Map<string, Team>();
  const fail = (id: string, error: unknown): void => {
    failed.set(id, error instanceof Error ? error.message : String(error));
  };
  const teamOf = async (implementation: Implementation): Promise<Team> => {
    const { id } = implementation;
    let team = teams.get(id);
    if (team) return team;
    team = await lab.team(implementation, one.processes, one.setup);
    teams.set(id, team);
    await lab.clear();
    await one.warmUp?.(team, scale);
    return team;
  };
  const dismiss = async (id: string): Promise<void> => {
    const team = teams.get(id);
    teams.delete(id);
    if (team) await lab.dismiss(team);
  };

  /** An implementation that fails is excluded, with its error. */
  const attempt = async (id: string, work: () => Promise<unknown>): Promise<void> => {
    try {
      await work();
    } catch (error) {
      fail(id, error);
      await dismiss(id);
    }
  };

  const { measure } = one;
  const count = Math.min(rounds, one.rounds);
  for (let round = 1; round <= count; round++) {
    say(`${one.entries[0]?.name ?? ""}: round ${String(round)} of ${String(count)}`);
    const order = shuffled(one.implementations.filter(({ id }) => !failed.has(id)));
    const dismissal = one.isFinal === true;
    if ("together" in measure) {
      const together: Team[] = [];
      for (const implementation of order)
        await attempt(implementation.id, async () => together.push(await teamOf(implementation)));
      // Two builds of ours have the same keys, so they take turns.
      const hasBuilds = order.some(({ checkout }) => checkout !== undefined);
      for (const teams of hasBuilds ? together.map((team) => [team]) : [together]) {
        await lab.clear();
        for (const [id, outcome] of await measure.together(teams, lab, scale)) {
          if (outcome instanceof Error) fail(id, outcome);
          else ran.get(id)?.push({ measurement: outcome, serverCpuMicros: undefined, innerCommands: undefined });
        }
        if (dismissal) for (const { implementation } of teams) await dismiss(implementation);
      }
      continue;
    }
    for (const implementation of order) {
      const { id } = implementation;
      await attempt(id, async () => {
        const team = await teamOf(implementation);
        await lab.clear();
        const watched = await lab.watch();
        const measurement = await measure.alone(team, lab, scale);
        const { commands, cpuMicros } = await watched();
        const { operations, sent } = measurement;
        ran.get(id)?.push({
          measurement,
          serverCpuMicros: operations > 0 ? cpuMicros / operations : undefined,
          innerCommands: sent === undefined || operations === 0 ? undefined : (commands - sent) / operations,
        });
        if (dismissal) await dismiss(id);
      });
    }
  }
  for (const id of [...teams.keys()]) await dismiss(id);
  return one.implementations.map((implementation) => ({
    implementation,
    rounds: ran.get(implementation.id) ?? [],
    error: failed.get(implementation.id),
  }));
};

/** The values of one entry, round by round. */
export const valuesOf = ({ rounds }: CaseRun, entry: string): number[] =>
  rounds.flatMap(({ measurement }) => measurement.values[entry] ?? []);

/** The median over the rounds of a figure that not every case has. */
export const medianOf = ({ rounds }: CaseRun, figure: (ran: Ran) => number | undefined): number | undefined => {
  const values = rounds.flatMap((ran) => figure(ran) ?? []);
  return values.length > 0 ? median(values) : undefined;
};
