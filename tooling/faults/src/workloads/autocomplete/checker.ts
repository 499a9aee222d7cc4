import { judged, type Verdict } from "../../common-invariants.js";
import type { RunHistory, State } from "./history.js";
import { checkPlain } from "../../plain.js";

/**
 * The invariants that the checker judges a run by.
 *
 * - `P1` after a change its worker finds the entry once, with its text and weight; a repeated touch counts once
 * - `P2` each row has its record, each record its rows, and the staged data of a dead rebuild expires
 * - `P3` in the end each entry is as its last change left it, or as a later change of unknown outcome would have
 * - `P4` a reply is of one rebuild, and complete
 * - `U1` every promise settles by its deadline and 100 ms
 * - `U3` work goes on within a second after an outage, and after a failover as soon as there is a new master
 * - `U4` nothing is left: no rejection unhandled, nothing printed, no process that does not end
 * - `U5` every error is typed
 */
export type Invariant = (typeof invariants)[number];
export const invariants = ["P1", "P2", "P3", "P4", "U1", "U3", "U4", "U5"] as const;

const textOf = (state: State): string => (state ? `${state.text} (${String(state.weight)})` : "nothing");

/** Checks a run against the invariants. */
export const verdictOn = (run: RunHistory): Verdict<Invariant> =>
  judged(invariants, (judge) => {
    // A server without a file, or a failover, may lose the last acknowledged changes.
    checkPlain(run, judge, (invariant) => invariant === "P1" && !run.losesNothing);
    if (!run.losesNothing) return;
    const possible = new Map<string, Set<string>>();
    for (const { records } of run.workers)
      for (const record of records) {
        if (record.kind !== "intends" && record.kind !== "done") continue;
        const key = `${record.index} ${record.id}`;
        const text = textOf(record.state);
        const before = possible.get(key) ?? new Set(["nothing"]);
        possible.set(key, record.kind === "done" ? new Set([text]) : before.add(text));
      }
    for (const [key, texts] of possible) {
      const text = textOf(run.found[key] ?? null);
      judge("P3", !texts.has(text) && `${key} is ${text}, not ${[...texts].join(" or ")}`);
    }
  });
