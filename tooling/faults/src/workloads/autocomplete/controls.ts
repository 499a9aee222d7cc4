import type { PackageControl } from "../../plain/workload.js";
import type { Invariant } from "./checker.js";

/** Lua that makes a command of a script do nothing. */
const without = (command: string): string =>
  `local call = redis.call local redis = setmetatable({ call = function(command, ...) if command == '${command}' then return 0 end return call(command, ...) end }, { __index = redis })`;

/** Deliberate faults of an index, each of which the checker must detect. */
export const controls: readonly PackageControl<Invariant>[] = [
  {
    name: "old-rows-stay",
    invariants: ["P1", "P2"],
    kind: "scripts flushed",
    mutation: { script: "items", operands: [], lua: without("ZREM") },
  },
  {
    name: "changes-forget-themselves",
    invariants: ["P1", "P3"],
    kind: "requests repeated",
    mutation: { script: "write", operands: ["op"], lua: "op = redis.call('TIME')[1] .. redis.call('TIME')[2]" },
  },
  {
    name: "batches-go-live",
    invariants: ["P4"],
    kind: "scripts flushed",
    mutation: { script: "write", operands: ["token"], lua: "token = ''" },
  },
  {
    name: "staged-for-ever",
    invariants: ["P2"],
    kind: "worker killed",
    injections: 6,
    mutation: { script: "items", operands: [], lua: without("PEXPIRE") },
  },
  {
    name: "rebuild-forgets-changes",
    invariants: ["P1", "P3"],
    kind: "scripts flushed",
    mutation: { script: "items", operands: [], lua: without("SADD") },
  },
  { name: "answers-of-before", invariants: ["P1"], kind: "scripts flushed" },
];
