// Ours against ours: the same cases, with another build of our packages or another client of Redis beside it. A case that counts
// an operation is measured in slices: both sides are in the same processes and take turns, so that a noisy moment hits both.
import type { ClientName } from "@tooling/lab";
import type { Implementation } from "./implementation.js";
import type { Lab, Team } from "./lab.js";
import { rateOf, runAll } from "./rates.js";
import { type CaseRun, messageOf, type Plan, type Ran } from "./rounds.js";
import { atLeast, type Case, type Suite } from "./suite.js";

/** One side of ours. */
type SideOf = (ours: Implementation) => Implementation;

/** Ours alone, as one side and as another, which stands for the peer of the name. */
const twice = ({ cases, ...suite }: Suite, peer: string, goal: number, side: SideOf, other: SideOf): Suite => ({
  ...suite,
  cases: cases.map((one) => ({
    ...one,
    // In slices nothing but the operation is measured.
    entries: (one.operation === undefined ? one.entries : one.entries.slice(0, 1)).map((entry) => ({
      ...entry,
      goal: atLeast({ [peer]: goal }),
      floor: undefined,
    })),
    implementations: one.implementations
      .filter((implementation) => implementation.peer === "kit")
      .flatMap((ours): Implementation[] => [
        side(ours),
        { ...other(ours), id: `${ours.id} ${peer}`, peer, opens: ours.id },
      ]),
  })),
});

/** The cases of a suite, without its peers and with a build of ours from another checkout. */
export const againstBefore = (suite: Suite, checkout: string): Suite =>
  twice(
    suite,
    "before",
    0.95,
    (ours) => ours,
    (ours) => ({ ...ours, checkout, settings: `the build in ${checkout}` }),
  );

/** The cases of a suite, without its peers: ours on a client, and ours on ioredis. */
export const againstIoredis = (suite: Suite, client: ClientName): Suite =>
  twice(
    suite,
    "ioredis",
    0.8,
    (ours) => ({ ...ours, client, settings: `on ${client}; ${ours.settings}` }),
    (ours) => ours,
  );

const [warmUpMs, sliceMs] = [800, 60];
/** An even number, so that each side is first as often as the other. */
const pairsPerRound = 12;

/** Measures the sides of a case by turns. In each round the server is emptied once, before the first slice. */
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
