import { builtWith, type Mutation, wrappedBy } from "../../lab/mutation.js";
import type { Control } from "../../workload.js";
import type { Law } from "./checker.js";

interface AutocompleteControl extends Control {
  readonly laws: readonly Law[];
  /** In the built package; without it that is wrapped, with the lie of the control's own name. */
  readonly mutation?: Mutation;
}

/** Lua by which a command of a script does nothing. */
const without = (command: string): string =>
  `local call = redis.call local redis = setmetatable({ call = function(command, ...) if command == '${command}' then return 0 end return call(command, ...) end }, { __index = redis })`;

/** What an index may get wrong; a checker that does not see it is of no use. */
export const autocompleteControls: readonly AutocompleteControl[] = [
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

/** What the workers import as the package. */
export const moduleOf = (control?: AutocompleteControl): string => {
  if (!control) return "@kit/autocomplete";
  const { name, mutation } = control;
  return mutation
    ? builtWith(`autocomplete-${name}`, "@kit/autocomplete", "index.js", mutation)
    : wrappedBy("autocomplete", "wrapped-autocomplete.mjs", name);
};
