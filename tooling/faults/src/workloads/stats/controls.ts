import { type Control, misled } from "../../lab/control.js";
import type { Invariant } from "./checker.js";

/** Counts each copy of a batch. */
const forgetful = "plan[1] = '0'";

/** Deliberate faults of statistics, each of which the checker must detect. */
export const controls: readonly Control<Invariant>[] = [
  { name: "count-forgets-itself", invariants: ["E1"], kind: "requests repeated", lua: { "count(plan)": forgetful } },
  { name: "merge-forgets-itself", invariants: ["E1"], kind: "requests repeated", lua: { "merge(plan)": forgetful } },
  { name: "log-forgets-itself", invariants: ["E1"], kind: "requests repeated", lua: { "log(plan)": forgetful } },
  {
    name: "buckets-lose-some",
    invariants: ["E4"],
    kind: "scripts flushed",
    lua: {
      count: misled(
        "local field = select(3, ...) if command == 'HINCRBY' and field ~= 'total' and field % 2 == 1 then return call(command, key, field, 0) end",
      ),
    },
  },
  {
    name: "bins-are-shifted",
    invariants: ["Q1"],
    kind: "scripts flushed",
    lua: {
      merge: misled(
        "local bin = command == 'HINCRBY' and string.match(select(3, ...), '^p(%d+)$') if bin then return call(command, key, 'p' .. string.format('%d', bin + 2), select(4, ...)) end",
      ),
    },
  },
  { name: "sends-again", invariants: ["E2"], kind: "replies lost" },
  { name: "gives-up", invariants: ["E3"], kind: "replies lost" },
  { name: "drops-in-silence", invariants: ["E2", "E6"], kind: "replies lost" },
  { name: "refused-is-counted", invariants: ["E1", "E5"], kind: "server full" },
];
