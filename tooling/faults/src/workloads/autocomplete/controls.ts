import type { PackageControl } from "../../plain/workload.js";
import type { Law } from "./checker.js";

/** Lua by which a command of a script does nothing. */
const without = (command: string): string =>
  `local call = redis.call local redis = setmetatable({ call = function(command, ...) if command == '${command}' then return 0 end return call(command, ...) end }, { __index = redis })`;

/** What an index may get wrong; a checker that does not see it is of no use. */
export const controls: readonly PackageControl<Law>[] = [
  {
    name: "old-rows-stay",
    laws: ["P1", "P2"],
    kind: "8 scripts flushed",
    mutation: { script: "items", operands: [], lua: without("ZREM") },
  },
  {
    name: "touch-forgets-itself",
    laws: ["P1", "P3"],
    kind: "27 requests repeated",
    mutation: { script: "touch", operands: ["op"], lua: "op = redis.call('TIME')[1] .. redis.call('TIME')[2]" },
  },
  {
    name: "batches-go-live",
    laws: ["P4"],
    kind: "8 scripts flushed",
    mutation: { script: "write", operands: ["token"], lua: "token = ''" },
  },
  {
    name: "staged-for-ever",
    laws: ["P2"],
    kind: "1 worker killed",
    strikes: 6,
    mutation: { script: "items", operands: [], lua: without("PEXPIRE") },
  },
  {
    name: "rebuild-forgets-changes",
    laws: ["P1", "P3"],
    kind: "8 scripts flushed",
    mutation: { script: "items", operands: [], lua: without("SADD") },
  },
  { name: "answers-of-before", laws: ["P1"], kind: "8 scripts flushed" },
];
