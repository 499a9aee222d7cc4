// Ours against an earlier state of ours: the same cases, one build of our packages beside the other.
import type { Case, Suite } from "./suite.js";

const peer = "before";

/** A case of ours alone, which the build in `checkout` runs as well. */
const twice = (one: Case, checkout: string): Case => ({
  ...one,
  entries: one.entries.map(({ name, unit, better, about }) => ({
    name,
    unit,
    better,
    about,
    goal: { text: `≥ 0.95 × ${peer}`, checks: [{ than: peer, atLeast: 0.95 }] },
  })),
  implementations: one.implementations
    .filter((implementation) => implementation.peer === "kit")
    .flatMap((ours) => [
      ours,
      { ...ours, id: `${ours.id} ${peer}`, peer, opens: ours.id, checkout, settings: `the build in ${checkout}` },
    ]),
});

/** The cases of a suite, without its peers and with a build of ours from another checkout. */
export const againstBefore = ({ cases, ...suite }: Suite, checkout: string): Suite => ({
  ...suite,
  cases: cases.map((one) => twice(one, checkout)),
});
