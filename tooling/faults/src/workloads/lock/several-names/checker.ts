import { type Judge as AnyJudge, resumeMs } from "../../../common-invariants.js";
import { lostDataBetween } from "../../../lease-invariants.js";
import { clockErrorMs, type Span } from "../../../records.js";
import { contactsOf, wasInReach } from "../contacts.js";
import type { RestRecord, RunHistory } from "../history.js";

type Judge = AnyJudge<"whole" | "rest">;

/** When a worker may have ended the lease of a name by force. */
export class Forces {
  readonly #spans = new Map<string, Span[]>();

  constructor({ workers, leaseMs }: RunHistory) {
    for (const { records } of workers)
      for (const record of records) {
        if (record.kind !== "forced") continue;
        // The call takes some commands, and its victim may learn of it a lease later.
        const span = { from: record.at, to: record.at + 5 * leaseMs };
        this.#spans.set(record.name, [...(this.#spans.get(record.name) ?? []), span]);
      }
  }

  /** Whether that may have happened to one of the names of a set before an instant. */
  concern(set: string, at: number): boolean {
    return set
      .split("+")
      .some((name) => this.#spans.get(name)?.some(({ from, to }) => from - clockErrorMs <= at && at <= to));
  }
}

/** Checks the sets of locks that workers took at once, by what the server had of them. */
export const checkSets = (run: RunHistory, judge: Judge): void => {
  const forced = new Forces(run);
  const contacts = contactsOf(run);
  for (const { id, records } of run.workers)
    for (const record of records) {
      if (record.kind === "rest")
        checkRest(run, record, wasInReach(contacts, id, record.endedAt, record.seenAt), judge);
      if (record.kind !== "member" || !record.isHeld) continue;
      const { name, set, from, at, isOwn } = record;
      // When the server loses data, a holder may keep its lease for up to a lease's length before it learns of the loss.
      if (forced.concern(name, at) || lostDataBetween(run, from - run.leaseMs, at)) continue;
      judge("whole", !isOwn && `${set} certainly held its set without ${name}`);
    }
};

const checkRest = (
  run: RunHistory,
  { name, set, endedAt, seenAt, left, lasting }: RestRecord,
  isInReach: boolean,
  judge: Judge,
): void => {
  const { outages, leaseMs } = run;
  const isCalm = isInReach && !outages.some(({ from, to }) => from <= seenAt && endedAt <= to + resumeMs);
  if (isCalm) judge("rest", left > 0 && `${name}: ${set} had ${String(left)} names when its set was over`);
  if (lostDataBetween(run, endedAt - leaseMs, seenAt + 2 * leaseMs)) return;
  judge("rest", lasting > 0 && `${name}: ${set} had ${String(lasting)} names a lease after its set was over`);
};
