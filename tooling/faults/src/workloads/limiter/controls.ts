import { type Control, misled } from "../../lab/control.js";
import type { Invariant } from "./checker.js";

/** Deliberate faults of a limiter, each of which the checker must detect. */
export const controls: readonly Control<Invariant>[] = [
  {
    name: "one-too-many",
    invariants: ["R1"],
    kind: "scripts flushed",
    lua: {
      "take(settings)":
        "settings = string.gsub(settings, ',(%d+),([01])', function(burst, shared) return ',' .. string.format('%d', burst + 1) .. ',' .. shared end)",
    },
  },
  {
    name: "forgets-some-calls",
    invariants: ["R1", "R2"],
    kind: "scripts flushed",
    lua: { take: misled("if command == 'SET' and tonumber(call('TIME')[2]) % 8 == 0 then return end") },
  },
  { name: "counts-twice", invariants: ["R2"], kind: "replies lost" },
];
