import type { Control } from "../../lab/control.js";
import type { Invariant } from "./checker.js";

/** Deliberate faults of a quorum lock, each of which the checker must detect. */
export const controls: readonly Control<Invariant>[] = [
  { name: "quorum-of-a-minority", invariants: ["exclusion", "majority"], kind: "two servers cut off" },
  {
    name: "votes-after-a-restart",
    invariants: ["exclusion"],
    kind: "servers restart empty",
    injections: 6,
    // No server looks at its age.
    lua: { "acquire(terms)": "terms = string.gsub(terms, '%d$', '0')" },
  },
];
