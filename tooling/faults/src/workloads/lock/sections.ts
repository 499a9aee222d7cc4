import { stallsOf } from "../../common-invariants.js";
import { clockErrorMs, type Span } from "../../records.js";
import type { HoldRecord, RunHistory } from "./history.js";

/** When a section is over: at its end, when its signal aborts, or when its process stood still and could not tell. */
const endOf = ({ grantedAt, endedAt, abortedAt = endedAt }: HoldRecord, stalls: readonly Span[]): number => {
  const stalled = stalls.find(({ to }) => to > grantedAt)?.from ?? Infinity;
  return Math.min(endedAt, abortedAt, Math.max(grantedAt, stalled));
};

/** Facts about the sections under the locks, as their own processes saw them. */
export const sectionsOf = ({ workers }: Pick<RunHistory, "workers">): Record<string, number> => {
  const holds = workers
    .flatMap((worker) => {
      const stalls = stallsOf(worker);
      return worker.records.flatMap((record) =>
        record.kind === "hold" ? [{ ...record, endsAt: endOf(record, stalls) }] : [],
      );
    })
    .toSorted((a, b) => a.grantedAt - b.grantedAt);
  const ends = new Map<string, number>();
  const newest = new Map<string, bigint>();
  const found = { sections: 0, overlapping: 0, "tokens that did not grow": 0 };
  for (const { name, fence, grantedAt, endsAt } of holds) {
    const [end = 0, token = 0n] = [ends.get(name), newest.get(name)];
    found.sections++;
    if (grantedAt + clockErrorMs < end) found.overlapping++;
    if (BigInt(fence) <= token) found["tokens that did not grow"]++;
    ends.set(name, Math.max(end, endsAt));
    newest.set(name, BigInt(fence) > token ? BigInt(fence) : token);
  }
  const tokens = new Set(holds.map(({ name, fence }) => `${name} ${fence}`)).size;
  return { ...found, "distinct tokens": tokens };
};
