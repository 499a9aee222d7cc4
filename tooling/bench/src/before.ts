// Ours against an earlier state of ours: the same cases, one build of our packages beside the other.
import type { Implementation } from "./implementation.js";
import { atLeast, type Case, type Suite } from "./suite.js";

const peer = "before";

/** A case of ours alone, which the build in `checkout` runs as well. */
const twice = (one: Case, checkout: string): Case => ({
  ...one,
  entries: one.entries.map((entry) => ({
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
