import { judged, type Verdict } from "../../common-invariants.js";
import { checkPlain, type PlainRun } from "../../plain.js";

export const invariants = ["G1", "G2", "G3", "G4", "U1", "U3", "U4", "U5"] as const;
/**
 * The invariants that the checker judges a run by.
 *
 * - `G1` a result is entirely of the version that it names
 * - `G2` ranges that every version has are found, before and after a switch, in every mode
 * - `G3` no part of the serving version is missing, even if importers were killed
 * - `G4` data of an interrupted import expires; only the serving version stays
 * - `U1` every promise settles by its deadline and 100 ms
 * - `U3` work goes on within a second after an outage, and after a failover as soon as there is a new master
 * - `U4` nothing is left: no rejection unhandled, nothing printed, no process that does not end
 * - `U5` every error is typed
 */
export type Invariant = (typeof invariants)[number];

/** Checks a run against the invariants. */
export const verdictOn = (run: PlainRun): Verdict<Invariant> =>
  judged(invariants, (judge) =>
    // A server without a file, or a failover, may lose an import or a part of it.
    checkPlain(run, judge, (invariant) => (invariant === "G2" || invariant === "G3") && !run.losesNothing),
  );
