import type { Mutation } from "../../lab/mutation.js";
import type { PackageControl } from "../../plain/workload.js";
import type { Invariant } from "./checker.js";

/** Counts each copy of a batch. */
const forgetful = (script: string): Mutation => ({ script, operands: ["plan"], lua: "plan[1] = '0'" });

/** Deliberate faults of statistics, each of which the checker must detect. */
export const controls: readonly PackageControl<Invariant>[] = [
  { name: "count-forgets-itself", invariants: ["E1"], kind: "requests repeated", mutation: forgetful("count") },
  { name: "merge-forgets-itself", invariants: ["E1"], kind: "requests repeated", mutation: forgetful("merge") },
  { name: "log-forgets-itself", invariants: ["E1"], kind: "requests repeated", mutation: forgetful("log") },
  {
    name: "buckets-lose-some",
    invariants: ["E4"],
    kind: "scripts flushed",
    mutation: {
      script: "count",
      operands: [],
      lua: "local call = redis.call local function wrapped(...) local command, key, field = ... if command == 'HINCRBY' and field ~= 'total' and field % 2 == 1 then return call(command, key, field, 0) end return call(...) end local redis = { call = wrapped, pcall = wrapped }",
    },
  },
  {
    name: "bins-are-shifted",
    invariants: ["Q1"],
    kind: "scripts flushed",
    mutation: {
      script: "merge",
      operands: [],
      lua: "local server = redis local redis = { call = server.call, pcall = function(command, key, field, ...) local bin = string.match(field, '^p(%d+)$') return server.pcall(command, key, bin and 'p' .. string.format('%d', bin + 2) or field, ...) end }",
    },
  },
  { name: "sends-again", invariants: ["E2"], kind: "replies lost" },
  { name: "gives-up", invariants: ["E3"], kind: "replies lost" },
  { name: "drops-in-silence", invariants: ["E2", "E6"], kind: "replies lost" },
  { name: "refused-is-counted", invariants: ["E1", "E5"], kind: "READONLY" },
];
