// Ours against an earlier state of ours: the same cases, one build of our packages beside the other. A case that counts an
// operation is measured in slices: both builds are in the same processes and take turns, so that a noisy moment hits both.
import type { Implementation } from "./implementation.js";
import type { Lab, Team } from "./lab.js";
import { rateOf, runAll } from "./rates.js";
import { type CaseRun, messageOf, type Plan, type Ran } from "./rounds.js";
import { atLeast, type Case, type Suite } from "./suite.js";

const peer = "before";

/** A case of ours alone, which the build in `checkout` runs as well. */
const twice = (one: Case, checkout: string): Case => ({
  ...one,
  // In slices nothing but the operation is measured.
  entries: (one.operation === undefined ? one.entries : one.entries.slice(0, 1)).map((entry) => ({
    ...entry,
    goal: atLeast({ [peer]: 0.95 }),
    floor: undefined,
  })),
  implementations: one.implementations
    .filter((implementation) => implementation.peer === "kit")
    .flatMap((ours): Implementation[] => [
      ours,
      { ...ours, id: `${ours.id} ${peer}`, peer, opens: ours.id, checkout, settings: `the build in ${checkout}` },
    ]),
});

/** The cases of a suite, without its peers and with a build of ours from another checkout. */
export const againstBefore = ({ cases, ...suite }: Suite, checkout: string): Suite => ({
  ...suite,
  cases: cases.map((one) => twice(one, checkout)),
});

const [warmUpMs, sliceMs] = [800, 60];
/** An even number, so that each build is first as often as the other. */
const pairsPerRound = 12;

/** Measures the builds of a case by turns. In each round the server is emptied once, before the first slice. */
export const runSlices = async (
  lab: Lab,
  one: Case,
  operation: unknown,
  { rounds, scale, say }: Plan,
): Promise<readonly CaseRun[]> => {
  const sides = (await lab.start(one.implementations, one)).map((team) => ({ team, rounds: [] as Ran[], error: "" }));
  const attempt = async (side: (typeof sides)[number], work: (team: Team) => Promise<unknown>): Promise<void> => {
    if (side.error !== "") return;
    await work(side.team).catch((error: unknown) => (side.error = messageOf(error)));
  };
  for (const side of sides) await attempt(side, (team) => team.all("ready"));
  const prepare = async (team: Team, ms: number): Promise<void> => {
    await one.prepare?.(team, lab, scale);
    await runAll(team, operation, ms * scale);
  };
  for (const side of sides) await attempt(side, (team) => prepare(team, warmUpMs));
  const name = one.entries[0]?.name ?? "";
  const count = Math.min(rounds, one.rounds ?? rounds);
  for (let round = 1; round <= count; round++) {
    say(`${name}: round ${String(round)} of ${String(count)}`);
    await lab.clear();
    for (const side of sides) await attempt(side, (team) => prepare(team, sliceMs));
    for (let pair = 0; pair < pairsPerRound; pair++)
      for (const side of pair % 2 === 0 ? sides : sides.toReversed())
        await attempt(side, async (team) => {
          const rate = rateOf(await runAll(team, operation, sliceMs * scale));
          side.rounds.push({ values: { [name]: rate } });
        });
  }
  for (const { team } of sides) await lab.dismiss(team);
  return sides.map(({ rounds: all, error }, index) => ({
    implementation: one.implementations[index] as Implementation,
    rounds: all,
    error: error === "" ? undefined : error,
    isSliced: true,
  }));
};
