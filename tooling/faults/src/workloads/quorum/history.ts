import type { CommonRecord, Run, Span } from "../../records.js";

/** A worker certainly held a name at this instant, by its own clock. `grant` is unique. */
interface HeldRecord {
  readonly kind: "held";
  readonly name: string;
  readonly grant: string;
  readonly at: number;
}

export type LogRecord = CommonRecord | HeldRecord;

export interface QuorumRun extends Run<LogRecord> {
  /** When no worker reached more than one server. */
  readonly withoutMajority: readonly Span[];
  /** The keys that are there when all leases must have ended. */
  readonly leftovers: readonly string[];
}

/** The time in which a worker certainly held a name. */
export interface Hold extends Span {
  readonly name: string;
  readonly worker: string;
  readonly grant: string;
}

/** All holds, by their beginnings. */
export const holdsOf = ({ workers }: Pick<QuorumRun, "workers">): Hold[] => {
  const found = new Map<string, Hold>();
  for (const { id: worker, records } of workers)
    for (const record of records) {
      if (record.kind !== "held") continue;
      const { name, grant, at } = record;
      found.set(grant, { name, worker, grant, from: found.get(grant)?.from ?? at, to: at });
    }
  return [...found.values()].toSorted((one, other) => one.from - other.from);
};
