import { type Control, misled } from "../../lab/control.js";
import type { Invariant } from "./checker.js";

/** Deliberate faults of a database, each of which the checker must detect. */
export const controls: readonly Control<Invariant>[] = [
  {
    name: "staged-for-ever",
    invariants: ["G4"],
    kind: "worker killed",
    injections: 6,
    lua: { stage: misled("if command == 'PEXPIRE' then return 1 end") },
  },
  {
    name: "last-page-is-lost",
    invariants: ["G3"],
    kind: "scripts flushed",
    lua: { "stage(fields)": "if fields[3] and fields[1] == '0' then fields[#fields] = nil fields[#fields] = nil end" },
  },
  { name: "names-another-version", invariants: ["G1"], kind: "scripts flushed" },
  { name: "silence-is-a-gap", invariants: ["G2"], kind: "replies lost" },
];
