// Every implementation runs a case once in every round, in another order each time, so that a noisy minute hits all.
import { Lab, type Team } from "./lab.js";
import { median, shuffled } from "./statistics.js";
import type { Implementation } from "./implementation.js";
import type { Case, Measurement } from "./suite.js";

/** One round of one implementation. */
export interface Ran {
  /** By entry name. */
  readonly values: Readonly<Record<string, number | undefined>>;
  readonly details?: Readonly<Record<string, number>> | undefined;
  /** Per operation, if operations are counted. */
  readonly serverCpuMicros?: number;
  readonly innerCommands?: number;
}

/** The results of one implementation in one case. */
export interface CaseRun {
  readonly implementation: Implementation;
  readonly rounds: readonly Ran[];
  /** Its error, if it failed. */
  readonly error: string | undefined;
  /** Whether the rounds are slices, of two builds by turns. */
  readonly isSliced?: boolean;
}

export interface Plan {
  readonly rounds: number;
  /** Shortens the measurements; below 1 the figures show only that everything runs. */
  readonly scale: number;
  readonly say: (text: string) => void;
}

export const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

/** A measurement, with the values by the names of their entries. */
const ranOf = ({ entries }: Case, { values, details }: Measurement): Ran => ({
  values: Object.fromEntries(entries.map(({ name }, index) => [name, values[index]])),
  details,
});

export const runCase = async (common: Lab, one: Case, { rounds, scale, say }: Plan): Promise<readonly CaseRun[]> => {
  let lab = common;
  const ran = new Map<string, Ran[]>(one.implementations.map(({ id }) => [id, []]));
  const failed = new Map<string, string>();
  const teams = new Map<string, Team>();
  const teamOf = async (implementation: Implementation): Promise<Team> => {
    const { id } = implementation;
    let team = teams.get(id);
    if (team) return team;
    [team] = await lab.start([implementation], one);
    if (!team) throw new Error("no processes");
    teams.set(id, team);
    await team.all("ready");
    await lab.clear();
    await one.warmUp?.(team, lab, scale);
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
      failed.set(id, messageOf(error));
      await dismiss(id);
    }
  };

  const count = Math.min(rounds, one.rounds ?? rounds);
  for (let round = 1; round <= count; round++) {
    say(`${one.entries[0]?.name ?? ""}: round ${String(round)} of ${String(count)}`);
    await using own = one.server && (await Lab.open(common.package, one.server));
    lab = own ?? common;
    const order = shuffled(one.implementations.filter(({ id }) => !failed.has(id)));
    if ("together" in one) {
      const together: Team[] = [];
      for (const implementation of order)
        await attempt(implementation.id, async () => together.push(await teamOf(implementation)));
      // Two sides of ours have the same keys, so they take turns.
      const hasSides = order.some(({ opens }) => opens !== undefined);
      for (const teams of hasSides ? together.map((team) => [team]) : [together]) {
        await lab.clear();
        for (const [id, outcome] of await one.together(teams, lab, scale)) {
          if (outcome instanceof Error) failed.set(id, messageOf(outcome));
          else ran.get(id)?.push(ranOf(one, outcome));
        }
        if (one.isFinal) for (const { implementation } of teams) await dismiss(implementation);
      }
      continue;
    }
    for (const implementation of order) {
      const { id } = implementation;
      await attempt(id, async () => {
        const team = await teamOf(implementation);
        await lab.clear();
        await one.prepare?.(team, lab, scale);
        const watched = await lab.watch();
        const measurement = await one.measure(team, lab, scale);
        const { commands, cpuMicros } = await watched();
        const { operations = 0, sent } = measurement;
        ran.get(id)?.push({
          ...ranOf(one, measurement),
          ...(operations > 0 && { serverCpuMicros: cpuMicros / operations }),
          ...(operations > 0 && sent !== undefined && { innerCommands: (commands - sent) / operations }),
        });
        if (one.isFinal) await dismiss(id);
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
  rounds.flatMap(({ values }) => values[entry] ?? []);

/** The median over the rounds of a figure that not every case has. */
export const medianOf = ({ rounds }: CaseRun, figure: (ran: Ran) => number | undefined): number | undefined => {
  const values = rounds.flatMap((ran) => figure(ran) ?? []);
  return values.length > 0 ? median(values) : undefined;
};
