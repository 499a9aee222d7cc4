import { defineScript } from "@kit/core";
import cleanKeptSource from "../history/scripts/cleanKept.lua";
import cleanSource from "../store/scripts/clean.lua";
import deadSource from "../store/scripts/dead.lua";
import entriesSource from "../store/scripts/entries.lua";
import eventsSource from "../store/scripts/events.lua";
import flowSource from "../store/scripts/flow.lua";
import groupsSource from "../store/scripts/groups.lua";
import { groupKeys } from "../job/keys.js";
import leaveGroupSource from "../store/scripts/leaveGroup.lua";
import findKeysSource from "../store/scripts/findKeys.lua";
import purgeSource from "../store/scripts/purge.lua";
import readySource from "../store/scripts/ready.lua";
import successorSource from "../store/scripts/successor.lua";
import unlinkSource from "../store/scripts/unlink.lua";

/** The reply of {@link clean}. */
export interface Cleaned {
  /** How many jobs were deleted, or would be. */
  readonly deleted: number;
  /** The cursor of the next page. 0 if this is the last page. */
  readonly cursor: string;
  /** When the operation started. */
  readonly begun: string;
}

const cleanedOf = (raw: unknown): Cleaned => {
  const [deleted, cursor = "0", begun = ""] = (raw as unknown[]).map(String);
  return { deleted: Number(deleted), cursor, begun };
};

/** Deletes jobs of one state that are old enough. See `clean.lua`. */
export const clean = defineScript({
  name: "queue.clean",
  source: [
    ...[
      entriesSource,
      readySource,
      groupsSource,
      leaveGroupSource,
      deadSource,
      successorSource,
      eventsSource,
      flowSource,
    ],
    cleanSource,
  ],
  keys: [
    "jobs",
    "failures",
    "delayed",
    "wake",
    "unique",
    "dead",
    "meta",
    "limits",
    "events",
    "families",
    ...groupKeys,
    "listed",
  ],
  args: ["verb", "state", "olderThanMs", "begun", "name", "cursor"],
  idempotent: true,
  reply: cleanedOf,
});

/** Deletes records of jobs that ended long enough ago. See `cleanKept.lua`. */
export const cleanKept = defineScript({
  name: "queue.cleanKept",
  source: cleanKeptSource,
  keys: ["kept", "records"],
  args: ["verb", "olderThanMs", "begun", "name", "cursor"],
  idempotent: true,
  reply: cleanedOf,
});

/** Finds keys of a queue by their beginning. Replies with how each of them goes on. */
export const findKeys = defineScript({
  name: "queue.findKeys",
  source: findKeysSource,
  keys: ["meta"],
  args: ["cursor"],
  readonly: true,
  reply: (raw): { readonly cursor: string; readonly ends: readonly string[] } => {
    const [cursor = "0", ...ends] = (raw as unknown[]).map(String);
    return { cursor, ends };
  },
});

/** Deletes keys. Replies with their number. */
export const unlink = defineScript({
  name: "queue.unlink",
  source: unlinkSource,
  keys: ["...others"],
  args: [],
  idempotent: true,
  reply: Number,
});

/** Deletes the keys of a queue that have fixed names. Not idempotent: a second run deletes the queue that came after it. */
export const purge = defineScript({
  name: "queue.purge",
  source: purgeSource,
  keys: ["jobs", "leases", "schedules", "...others"],
  args: ["latest"],
  reply: (raw) => {
    const [jobs = 0, active = 0, schedules = 0, keys = 0, now = 0, isDone] = (raw as unknown[]).map(Number);
    return { counts: { jobs, active, schedules, keys }, now, isDone: isDone === 1 };
  },
});
