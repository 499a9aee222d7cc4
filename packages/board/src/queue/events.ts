import type { QueueEvent } from "@kit/queue/events";
import { dated, secondsText } from "@kit/core/toolkit";
import { card, html, type Html, inspectorOf, instant, none, tableOf, type View } from "../view/index.js";
import type { JobData } from "./data.js";

/** The entries of the stream that a page reads. An entry is one call to the queue, with up to about 4 KiB. */
const maxEntries = 500;
/** An event can be recorded this much earlier or later than its job shows. */
const marginMs = 1_000;

/** The words for an event of a job, and its details. */
const wordsOf = (event: QueueEvent): readonly [text: string, details: string] => {
  switch (event.type) {
    case "added":
      return ["Added", event.state];
    case "active":
      return ["Taken by a worker", event.worker];
    case "failed": {
      const { attempts, error, retryInMs } = event;
      const then = retryInMs === undefined ? "last attempt" : `next attempt in ${secondsText(retryInMs)}`;
      return [`Attempt ${String(attempts)} failed`, `${error ? `${error.name}: ${error.message}; ` : ""}${then}`];
    }
    case "snoozed":
      return ["Snoozed", `for ${secondsText(event.retryInMs)}`];
    case "crashed":
      return ["Lease expired", `crash ${String(event.crashes)}, worker ${event.worker}`];
    case "gap":
      return ["Gap", "earlier events may be missing"];
    default:
      return [event.type.slice(0, 1).toUpperCase() + event.type.slice(1), ""];
  }
};

type Entry = readonly [id: string, fields: readonly string[]];

/** The recorded events of a job while it existed. Without the job, its events among the newest entries. */
export const eventsPart = async (view: View, queue: string, id: string, job?: JobData): Promise<Html> => {
  const keys = inspectorOf(view.packages, "queue")?.keys?.(view.prefix, queue) ?? [];
  const key = keys.find((one) => one.endsWith(":events"));
  if (key === undefined) return none;
  const end = job?.state === "dead" || job?.state === "completed" ? job.at : null;
  const from = job?.addedAt ? String(Math.max(0, Date.parse(job.addedAt) - marginMs)) : "-";
  const to = end === null ? "+" : String(Date.parse(end) + marginMs);
  const entries = (await view.redis.call("XREVRANGE", key, to, from, "COUNT", maxEntries)) as readonly Entry[];
  if (entries.length === 0) return none;
  // Only queues that record events need it. A bundler must not look for it: the package is optional.
  const module = await import(/* webpackIgnore: true */ "@kit/queue/events").catch(() => undefined);
  if (!module) return none;
  const { eventsOf } = module;
  const all = entries.toReversed().flatMap(([entry, fields]) => eventsOf({ id: entry, text: fields[1] ?? "" }));
  const own = all.filter((event) => event.type === "gap" || ("id" in event && event.id === id));
  if (own.every(({ type }) => type === "gap")) return none;
  const rows = own.map((event) => [instant(dated(event.at)), ...wordsOf(event)]);
  const oldest = instant(dated(all[0]?.at ?? 0));
  const isCut = !own.some(({ type }) => type === "added");
  return card(
    "Timeline",
    html`${tableOf("Timeline", ["at", "event", "details"], rows)}
    ${isCut ? html`<p class="quiet">Events older than ${oldest} were not recorded, or are more than ${maxEntries} entries back.</p>` : none}`,
  );
};
