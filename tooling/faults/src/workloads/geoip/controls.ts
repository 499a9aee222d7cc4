import type { PackageControl } from "../../plain/workload.js";
import type { Invariant } from "./checker.js";

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
