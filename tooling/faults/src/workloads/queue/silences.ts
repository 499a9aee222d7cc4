import type { Span } from "../../records.js";
import type { RunHistory } from "./history.js";

/** Calls that wait for more than the server: for a job's result, or for handlers. */
const waitsForMore = new Set(["call", "close"]);

/**
 * The spans of more than half a lease in which the server replied to no worker, while calls of two workers or more waited all the time: a
 * disk or a machine that stood still.
 */
export const silencesIn = ({ workers, leaseMs }: Pick<RunHistory, "workers" | "leaseMs">): readonly Span[] => {
  const calls = workers.flatMap(({ id, records }) =>
    records.flatMap((record) =>
      record.kind === "call" && !waitsForMore.has(record.what)
        ? [{ id, from: record.startedAt, to: record.settledAt }]
        : [],
    ),
  );
  const ends = calls.map(({ to }) => to).toSorted((a, b) => a - b);
  return ends.flatMap((end, index) => {
    const from = ends[index - 1] ?? end;
    if (end - from <= leaseMs / 2) return [];
    // Calls that started a little later than the silence did waited for nearly all of it.
    const waiting = calls.filter((call) => call.from <= end - leaseMs / 2 && call.to >= end);
    return new Set(waiting.map(({ id }) => id)).size > 1 ? [{ from, to: end }] : [];
  });
};
