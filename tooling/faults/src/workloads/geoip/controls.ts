import type { PackageControl } from "../../plain/workload.js";

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
type Invariant = (typeof invariants)[number];

/** Deliberate faults of a database, each of which the checker must detect. */
export const controls: readonly PackageControl<Invariant>[] = [
  {
    name: "staged-for-ever",
    invariants: ["G4"],
    kind: "worker killed",
    injections: 6,
    mutation: {
      script: "stage",
      operands: [],
      lua: "local call = redis.call local redis = { call = function(command, ...) if command == 'PEXPIRE' then return 1 end return call(command, ...) end }",
    },
  },
  {
    name: "last-page-is-lost",
    invariants: ["G3"],
    kind: "scripts flushed",
    mutation: {
      script: "stage",
      operands: ["fields"],
      lua: "if fields[3] and fields[1] == '0' then fields[#fields] = nil fields[#fields] = nil end",
    },
  },
  { name: "names-another-version", invariants: ["G1"], kind: "scripts flushed" },
  { name: "silence-is-a-gap", invariants: ["G2"], kind: "replies lost" },
];
