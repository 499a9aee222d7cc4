import { builtWith, type Mutation, wrappedBy } from "../../lab/mutation.js";
import type { Control } from "../../workload.js";
import type { Invariant } from "./checker.js";

interface CoreControl extends Control {
  readonly invariants: readonly Invariant[];
  /** A change to the built configuration. Without it the modules are wrapped by the lie of the same name. */
  readonly mutation?: Mutation;
}

/** Deliberate faults of configuration and durability, each of which the checker must detect. */
export const coreControls: readonly CoreControl[] = [
  { name: "durable-trusts-anybody", invariants: ["D1"], kind: "replication cut, master killed", injections: 2 },
  { name: "short-is-safe", invariants: ["D2"], kind: "scripts flushed" },
  { name: "emptiness-is-truth", invariants: ["C5"], kind: "server comes back empty" },
  { name: "never-reads-again", invariants: ["C3"], kind: "subscribers killed" },
  {
    name: "expects-nothing",
    invariants: ["C1"],
    kind: "scripts flushed",
    mutation: { script: "set", operands: ["expected"], lua: "expected = ''" },
  },
  {
    name: "set-forgets-itself",
    invariants: ["C4"],
    kind: "requests repeated",
    mutation: { script: "set", operands: ["op"], lua: "op = op .. '+' .. redis.call('TIME')[2]" },
  },
];

export interface Modules {
  readonly configModule: string;
  readonly durableModule: string;
}

/** The module that the workers import as configuration and durability. */
export const modulesOf = (control?: CoreControl): Modules => {
  const real = { configModule: "@kit/core/config", durableModule: "@kit/core/durable" };
  if (!control) return real;
  const { name, mutation } = control;
  if (mutation) return { ...real, configModule: builtWith(name, "@kit/core", "config.js", mutation) };
  const wrapped = wrappedBy("core", "wrapped-core.mjs", name);
  return { configModule: wrapped, durableModule: wrapped };
};
