import { resumeMs, stallsOf } from "../../common-invariants.js";
import { callsOf, type Span } from "../../records.js";
import type { RunHistory } from "./history.js";

/** Until when each worker was there, and the spans in which its client may have had no connection. */
export type Contacts = ReadonlyMap<string, { readonly until: number; readonly outOfReach: readonly Span[] }>;

/** Shorter stalls let no command of a client time out. */
const stallMs = 50;

export const contactsOf = ({ workers }: RunHistory): Contacts =>
  new Map(
    workers.map((worker) => {
      const stalls = stallsOf(worker).filter(({ from, to }) => to - from > stallMs);
      const failures = callsOf(worker)
        .filter(({ code, outcome }) => code === "KIT_UNAVAILABLE" || outcome === "unknown")
        .map(({ startedAt, settledAt }) => ({ from: startedAt, to: settledAt }));
      return [worker.id, { until: worker.killedAt ?? Infinity, outOfReach: [...stalls, ...failures] }];
    }),
  );

/** Whether a worker was certainly in touch with the server between two instants. */
export const wasInReach = (contacts: Contacts, worker: string, from: number, to: number): boolean => {
  const { until = 0, outOfReach = [] } = contacts.get(worker) ?? {};
  return until > to && !outOfReach.some((span) => span.from <= to && from <= span.to + 2 * resumeMs);
};
