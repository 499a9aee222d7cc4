import type { Control } from "../../lab/control.js";
import type { Invariant } from "./checker.js";

/** Deliberate faults of configuration and durability, each of which the checker must detect. */
export const controls: readonly Control<Invariant>[] = [
  { name: "durable-trusts-anybody", invariants: ["D1"], kind: "replication cut, master killed", injections: 2 },
  { name: "short-is-safe", invariants: ["D2"], kind: "scripts flushed" },
  { name: "emptiness-is-truth", invariants: ["C5"], kind: "server comes back empty" },
  { name: "never-reads-again", invariants: ["C3"], kind: "subscribers killed" },
  { name: "expects-nothing", invariants: ["C1"], kind: "scripts flushed", lua: { "set(expected)": "expected = ''" } },
  {
    name: "set-forgets-itself",
    invariants: ["C4"],
    kind: "requests repeated",
    lua: { "set(op)": "op = op .. '+' .. redis.call('TIME')[2]" },
  },
];
