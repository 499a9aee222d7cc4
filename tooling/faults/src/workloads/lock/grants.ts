import type { Judge } from "../../common-invariants.js";
import { clockErrorMs } from "../../records.js";
import type { RunHistory } from "./history.js";

interface KnownGrant {
  readonly worker: string;
  readonly fence: bigint;
  readonly startedAt: number;
  readonly settledAt: number;
}

/** The grants that callers know of, by name. */
export const grantsOf = (run: RunHistory): Map<string, KnownGrant[]> => {
  const byName = new Map<string, KnownGrant[]>();
  for (const { id, records } of run.workers)
    for (const record of records) {
      if (record.kind !== "call") continue;
      const { startedAt, settledAt, fence, fences = fence === undefined ? {} : { [record.name]: fence } } = record;
      for (const [name, token] of Object.entries(fences)) {
        const grants = byName.get(name) ?? [];
        byName.set(name, grants);
        grants.push({ worker: id, fence: BigInt(token), startedAt, settledAt });
      }
    }
  return byName;
};

/** Checks, by the callers' records, that a request made after another caller's grant got a larger token. */
export const checkGrantOrder = (run: RunHistory, judge: Judge<"L1">): void => {
  for (const [name, grants] of grantsOf(run)) {
    const byEnd = grants.toSorted((a, b) => a.settledAt - b.settledAt);
    let newest = 0n;
    let ended = 0;
    for (const { worker, fence, startedAt } of grants.toSorted((a, b) => a.startedAt - b.startedAt)) {
      for (let next = byEnd[ended]; next && next.settledAt + clockErrorMs < startedAt; next = byEnd[++ended])
        if (next.fence > newest) newest = next.fence;
      judge(
        "L1",
        fence <= newest && `${name}: ${worker} was granted ${String(fence)} after ${String(newest)} was known`,
      );
    }
  }
};
