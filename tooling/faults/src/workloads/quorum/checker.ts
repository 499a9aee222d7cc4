import { checkWorker, judged, lateMs, resumeMs, stalledIn, type Verdict } from "../../common-invariants.js";
import { clockErrorMs } from "../../records.js";
import { callsIn, checkResumption, type Work } from "../../work.js";
import { type Hold, holdsOf, type QuorumRun } from "./history.js";

export const invariants = ["exclusion", "majority", "U1", "U3", "U4", "U5"] as const;
/**
 * The invariants that the checker judges a run by.
 *
 * - `exclusion` no two workers certainly hold one name at the same time
 * - `majority` while only one of three servers can be reached, nobody is granted a name, and every holder has lost it a lease later
 * - `U1` every promise settles by its deadline and 100 ms
 * - `U3` work goes on within four seconds after an outage: servers that have restarted vote again by then
 * - `U4` nothing is left: no rejection unhandled, nothing printed, no process that does not end, no key
 * - `U5` every error is typed
 */
export type Invariant = (typeof invariants)[number];

/** For so long a server that has restarted may abstain: its age has whole seconds. */
const abstainsMs = 3_000;

export const workOf = (run: QuorumRun): Work => ({ ...callsIn(run), dueMs: resumeMs + abstainsMs });

const spanOf = ({ worker, grant, from, to }: Hold): string =>
  `${worker} (${grant}) from ${from.toFixed(1)} to ${to.toFixed(1)}`;

/** Checks a run against the invariants. */
export const verdictOn = (run: QuorumRun): Verdict<Invariant> =>
  judged(invariants, (judge) => {
    for (const worker of run.workers) checkWorker(worker, judge);
    checkResumption(run, workOf(run), judge);
    for (const key of run.leftovers) judge("U4", `${key} is left`);
    const holds = holdsOf(run);
    const longest = new Map<string, Hold>();
    for (const hold of holds) {
      const before = longest.get(hold.name);
      const isShared = before !== undefined && hold.from + clockErrorMs < before.to;
      judge("exclusion", isShared && `${hold.name}: ${spanOf(before)}, and ${spanOf(hold)}`);
      if (before === undefined || hold.to > before.to) longest.set(hold.name, hold);
    }
    for (const { from, to } of run.withoutMajority) {
      const during = holds.filter((one) => one.to > from && one.from < to);
      // Nobody held a name, nor was granted one.
      if (during.length === 0) judge("majority");
      for (const hold of during) {
        const worker = run.workers.find(({ id }) => id === hold.worker);
        const stalledMs = worker ? stalledIn(worker, from, hold.from) : 0;
        // The last votes may have been under way.
        const isNew = hold.from > from + lateMs + stalledMs;
        const isKept = Math.min(hold.to, to) > from + run.leaseMs + clockErrorMs;
        const since = `though no majority was there from ${from.toFixed(1)} to ${to.toFixed(1)}`;
        judge("majority", isNew && `${hold.name}: granted to ${spanOf(hold)}, ${since}`);
        judge("majority", isKept && `${hold.name}: held by ${spanOf(hold)}, ${since}`);
      }
    }
  });
