import { defineScript } from "@kit/core";
import { decodedName } from "@kit/core/toolkit";
import bucketSource from "../store/scripts/bucket.lua";
import cancelSource from "../store/scripts/cancel.lua";
import entriesSource from "../store/scripts/entries.lua";
import deadSource from "../store/scripts/dead.lua";
import drainSource from "../store/scripts/drain.lua";
import editSource from "../store/scripts/edit.lua";
import eventsSource from "../store/scripts/events.lua";
import findSource from "../store/scripts/find.lua";
import flowSource from "../store/scripts/flow.lua";
import groupPlacesSource from "../store/scripts/groupPlaces.lua";
import groupsSource from "../store/scripts/groups.lua";
import { groupKeys } from "../job/keys.js";
import namesSource from "../store/scripts/names.lua";
import limitSource from "../store/scripts/limit.lua";
import leaveGroupSource from "../store/scripts/leaveGroup.lua";
import listGroupsSource from "../store/scripts/listGroups.lua";
import listSource from "../store/scripts/list.lua";
import overviewSource from "../store/scripts/overview.lua";
import pageSource from "../store/scripts/page.lua";
import placesSource from "../store/scripts/places.lua";
import prioritiseSource from "../store/scripts/prioritise.lua";
import rankSource from "../store/scripts/rank.lua";
import readySource from "../store/scripts/ready.lua";
import removeSource from "../store/scripts/remove.lua";
import repairSource from "../store/scripts/repair.lua";
import rescheduleSource from "../store/scripts/reschedule.lua";
import revokedSource from "../store/scripts/revoked.lua";
import scanSource from "../store/scripts/scan.lua";
import successorSource from "../store/scripts/successor.lua";

/** In epoch ms. Null if there is none. */
type Instant = number | null;

/** A due time from here on means that the job waits for others to end; see `entries.lua`. */
const behind = 1e15;

const instant = (text: unknown): Instant => {
  const ms = Math.round(Number(String(text)));
  return String(text) === "" || ms >= behind ? null : ms;
};

/** Whether the next job of a group starts while a job of the group waits for its next attempt. */
export type GroupRetry = "wait" | "pass";

/** The state of a queue at one time. */
export interface Overview {
  readonly jobs: number;
  readonly waiting: number;
  readonly prioritised: number;
  /** Delayed jobs, without jobs that wait for their children. */
  readonly delayed: number;
  /** Jobs that start once their children have ended, see `@kit/queue/flows`. */
  readonly waitingForChildren: number;
  readonly active: number;
  readonly dead: number;
  /** Ready jobs whose names are paused or at their concurrency limit. They continue automatically after that. */
  readonly suspended: number;
  /** Ready jobs that have a group; see `listGroups()`. */
  readonly grouped: number;
  /** How many groups have ready or active jobs, and how many of them may start another job now. */
  readonly groups: number;
  readonly groupsInTurn: number;
  /** The limits of every group that has no limits itself; see `setLimits()`. */
  readonly groupConcurrency: number;
  readonly groupRetry: GroupRetry;
  readonly groupRate: { readonly count: number; readonly perMs: number } | null;
  /** Stored jobs that cannot run, because their list, entry or lease was deleted manually or evicted. See `repairQueue()`. */
  readonly lost: number;
  readonly now: number;
  readonly nextDue: Instant;
  /** When the first of the jobs that wait for their children was added or due. */
  readonly oldestParent: Instant;
  readonly firstLeaseEnd: Instant;
  readonly oldestDead: Instant;
  /** When the queue was paused. */
  readonly pausedAt: Instant;
  /** See `setLimits()`. */
  readonly concurrency: number | null;
  readonly rate: { readonly count: number; readonly perMs: number; readonly burst: number } | null;
  /** The names of jobs that have a limit or are paused. */
  readonly names: readonly {
    readonly name: string;
    readonly concurrency: number | null;
    readonly pausedAt: Instant;
    /** How many of its jobs are held back. Jobs that no worker has reached yet don't count. */
    readonly suspended: number;
  }[];
  /** No job starts before this time, because a handler threw a RateLimitError. */
  readonly heldUntil: Instant;
  readonly completed: number;
  readonly died: number;
  readonly crashed: number;
  readonly deadDropped: number;
  readonly deadBytes: number;
  /** How many records of ended jobs are kept; see `keepHistory()`. */
  readonly kept: number;
  /** The number of ready jobs of each priority other than 0, lowest number first, for up to 100 priorities. */
  readonly byPriority: readonly { readonly priority: number; readonly jobs: number }[];
}

export const overview = defineScript({
  name: "queue.overview",
  source: [entriesSource, overviewSource],
  keys: [
    "jobs",
    "waiting",
    "prioritised",
    "delayed",
    "leases",
    "dead",
    "meta",
    "limits",
    "kept",
    "suspended",
    "grouped",
    "turns",
    "groups",
  ],
  args: [],
  readonly: true,
  reply: (raw): Overview => {
    const all = raw as unknown[];
    const [jobs = 0, waiting = 0, prioritised = 0, held = 0, active = 0, dead = 0, now = 0] = all
      .slice(0, 7)
      .map(Number);
    const waitingForChildren = Number(all[18]);
    const delayed = held - waitingForChildren;
    const [completed = 0, died = 0, crashed = 0, deadDropped = 0, deadBytes = 0, kept = 0] = String(all[10])
      .split(" ")
      .map(Number);
    const suspended = Number(all[16]);
    const [grouped = 0, groups = 0, groupsInTurn = 0] = all.slice(20, 23).map(Number);
    const [most, retry = "wait", starts = "0", per = "0"] = String(all[23]).split(" ");
    const groupRate = starts === "0" ? null : { count: Number(starts), perMs: Number(per) };
    const named = String(all[17]).trim().split(" ");
    const names = Array.from({ length: Math.floor(named.length / 4) }, (_, index) => {
      const [name = "", most, since, waits] = named.slice(4 * index, 4 * index + 4);
      return {
        name: decodedName(name),
        concurrency: Number(most) || null,
        pausedAt: Number(since) || null,
        suspended: Number(waits),
      };
    });
    const [count = 0, perMs = 0, burst = 0] = String(all[14]).split(" ").map(Number);
    const ranks = String(all[11]).split(" ").map(Number);
    const byPriority = Array.from({ length: Math.floor(ranks.length / 2) }, (_, index) => ({
      priority: ranks[2 * index] ?? 0,
      jobs: ranks[2 * index + 1] ?? 0,
    }));
    return {
      ...{ jobs, waiting, prioritised, delayed, waitingForChildren, active, dead, suspended, now },
      ...{
        grouped,
        groups,
        groupsInTurn,
        groupConcurrency: Number(most) || 1,
        groupRetry: retry as GroupRetry,
        groupRate,
      },
      lost: Math.max(0, jobs - waiting - prioritised - held - active - dead - suspended - grouped),
      ...{
        nextDue: instant(all[7]),
        oldestParent: waitingForChildren === 0 ? null : Number(all[19]) - 2 * behind,
        firstLeaseEnd: instant(all[8]),
        oldestDead: instant(all[9]),
        pausedAt: instant(all[12]),
      },
      concurrency: Number(all[13]) || null,
      rate: count === 0 ? null : { count, perMs, burst },
      heldUntil: instant(all[15]),
      names,
      ...{ completed, died, crashed, deadDropped, deadBytes, kept, byPriority },
    };
  },
});

/**
 * The state of a job. `none`: there is no job with this id. `lost`: the job is stored, but cannot run until the queue is repaired; see
 * `repairQueue()`.
 */
export type JobState = "none" | "dead" | "delayed" | "waiting-for-children" | "active" | "ready" | "lost";

/** Where one job is. `at`: when it died, is due, or its lease ends. */
export interface Found {
  readonly state: JobState;
  readonly at: Instant;
  readonly blob: Buffer;
  readonly record: string;
  readonly entry: string;
}

export const find = defineScript({
  name: "queue.find",
  source: [entriesSource, findSource],
  keys: ["jobs", "prioritised", "delayed", "failures", "dead"],
  args: ["id"],
  readonly: true,
  bytes: true,
  reply: (raw): Found => {
    const [state, at, blob, record, entry] = raw as [Buffer, Buffer, Buffer, Buffer, Buffer];
    return {
      ...{ state: String(state) as Found["state"], at: instant(at), blob },
      ...{ record: String(record), entry: String(entry) },
    };
  },
});

/** A page of entries. */
export interface Scanned {
  /** The cursor of the next page. 0 if this is the last page. */
  readonly cursor: string;
  /** The entries, or members of `leases`, each with the end of its lease. */
  readonly entries: readonly (readonly [entry: string, at: Instant])[];
}

export const scan = defineScript({
  name: "queue.scan",
  source: [entriesSource, scanSource],
  keys: ["jobs", "waiting", "prioritised", "delayed", "leases", "dead", "suspended", "grouped"],
  args: ["from", "cursor"],
  readonly: true,
  reply: (raw): Scanned => {
    const [cursor = "0", ...all] = (raw as unknown[]).map(String);
    return {
      cursor,
      entries: Array.from({ length: all.length / 2 }, (_, index) => [
        all[2 * index] ?? "",
        instant(all[2 * index + 1]),
      ]),
    };
  },
});

/** Makes jobs ready that are in no list of work. Replies with their ids. */
export const repair = defineScript({
  name: "queue.repair",
  source: [entriesSource, readySource, groupsSource, eventsSource, repairSource],
  keys: [
    "jobs",
    "waiting",
    "prioritised",
    "delayed",
    "leases",
    "wake",
    "dead",
    "limits",
    "events",
    "suspended",
    ...groupKeys,
  ],
  args: ["verb", "ids"],
  idempotent: true,
  reply: (raw): readonly string[] => {
    const text = String(raw);
    return text === "" ? [] : text.split("\n");
  },
});

/** One job of a page. */
interface Listed {
  readonly id: string;
  readonly at: Instant;
  readonly header: string;
  readonly bytes: number;
  readonly record: string;
  /** Its member of `leases`. Empty in other states. */
  readonly member: string;
}

/** A page, and how many jobs to skip for the next one. Undefined if this is the last page. */
interface ListedPage {
  readonly next: number | undefined;
  readonly page: readonly Listed[];
}

export const list = defineScript({
  name: "queue.list",
  source: [entriesSource, pageSource, listSource],
  keys: ["jobs", "failures", "listed"],
  args: ["kind", "from", "start", "count", "name", "group"],
  readonly: true,
  reply: (raw): ListedPage => {
    const [next = "-1", ...all] = (raw as unknown[]).map(String);
    return {
      next: next === "-1" ? undefined : Number(next),
      page: Array.from({ length: all.length / 6 }, (_, index) => {
        const [id = "", at = "", header = "", bytes = "", record = "", member = ""] = all.slice(6 * index);
        return { id, at: instant(at), header, bytes: Number(bytes), record, member };
      }),
    };
  },
});

/** Gives a ready or delayed job another priority. Replies with whether there is such a job. */
export const prioritise = defineScript({
  name: "queue.prioritise",
  source: [
    entriesSource,
    readySource,
    groupsSource,
    leaveGroupSource,
    namesSource,
    placesSource,
    rankSource,
    prioritiseSource,
  ],
  keys: ["jobs", "waiting", "prioritised", "delayed", "wake", "suspended", ...groupKeys],
  args: ["id", "priority"],
  idempotent: true,
  reply: (raw): boolean => Number(raw) === 1,
});

/** What a script needs that ends jobs for which others wait. */
const endingSources = [deadSource, successorSource, eventsSource, flowSource] as const;

/** Deletes a ready or delayed job. See `remove.lua`. */
export const remove = defineScript({
  name: "queue.remove",
  source: [
    entriesSource,
    readySource,
    groupsSource,
    leaveGroupSource,
    namesSource,
    placesSource,
    ...endingSources,
    removeSource,
  ],
  keys: [
    "jobs",
    "waiting",
    "prioritised",
    "delayed",
    "failures",
    "dead",
    "wake",
    "limits",
    "events",
    "suspended",
    "meta",
    "families",
    ...groupKeys,
  ],
  args: ["id"],
  idempotent: true,
  reply: (raw) => String(raw) as "removed" | "none" | "dead" | "elsewhere",
});

/** Replaces the stored form of a job. See `edit.lua`. */
export const edit = defineScript({
  name: "queue.edit",
  source: [
    entriesSource,
    readySource,
    groupsSource,
    leaveGroupSource,
    namesSource,
    placesSource,
    rankSource,
    editSource,
  ],
  keys: ["jobs", "waiting", "prioritised", "delayed", "wake", "dead", "meta", "suspended", ...groupKeys],
  args: ["id", "digest", "blob"],
  idempotent: true,
  reply: (raw) => String(raw) as "edited" | "none" | "changed" | "elsewhere",
});

/** Deletes some of the waiting jobs. Not idempotent: a second run deletes further jobs. */
export const drain = defineScript({
  name: "queue.drain",
  source: [entriesSource, readySource, groupsSource, leaveGroupSource, ...endingSources, drainSource],
  keys: [
    "jobs",
    "waiting",
    "ranked",
    "failures",
    "delayed",
    "wake",
    "unique",
    "limits",
    "events",
    "dead",
    "meta",
    "families",
    ...groupKeys,
  ],
  args: ["from", "count", "group"],
  reply: (raw): { readonly deleted: number; readonly left: number } => {
    const [deleted = 0, left = 0] = (raw as unknown[]).map(Number);
    return { deleted, left };
  },
});

/** Ends a job, including an active one. See `cancel.lua`. */
export const cancel = defineScript({
  name: "queue.cancel",
  source: [
    ...[
      entriesSource,
      readySource,
      groupsSource,
      leaveGroupSource,
      namesSource,
      placesSource,
      revokedSource,
      ...endingSources,
    ],
    cancelSource,
  ],
  keys: [
    "jobs",
    "waiting",
    "prioritised",
    "delayed",
    "leases",
    "failures",
    "dead",
    "revoked",
    "wake",
    "limits",
    "events",
    "suspended",
    "named",
    "meta",
    "families",
    ...groupKeys,
    "...replies",
  ],
  args: ["id", "header", "cursor", "channel", "caller", "pushes"],
  idempotent: true,
  reply: (raw) => {
    const [outcome, cursor] = (raw as unknown[]).map(String);
    return { outcome: outcome as "removed" | "cancelled" | "none" | "dead" | "elsewhere", cursor: cursor ?? "0" };
  },
});

/** Gives a ready or delayed job another due time. See `reschedule.lua`. */
export const reschedule = defineScript({
  name: "queue.reschedule",
  source: [
    ...[
      entriesSource,
      readySource,
      groupsSource,
      leaveGroupSource,
      namesSource,
      placesSource,
      successorSource,
      eventsSource,
    ],
    rescheduleSource,
  ],
  keys: ["jobs", "waiting", "prioritised", "delayed", "wake", "dead", "limits", "events", "suspended", ...groupKeys],
  args: ["id", "due"],
  idempotent: true,
  reply: (raw) => String(raw) as "ready" | "delayed" | "none" | "dead" | "elsewhere",
});

/** Changes the limits of a queue. See `limit.lua`. */
export const limit = defineScript({
  name: "queue.limit",
  source: [entriesSource, readySource, groupsSource, bucketSource, eventsSource, limitSource],
  keys: ["limits", "wake", "events", "named", "changed", ...groupKeys],
  args: ["paused", "concurrency", "rate", "names", "ofGroups", "askedAt"],
  idempotent: true,
  reply: String,
});

/** One group, as `listGroups.lua` reads it. */
export interface ListedGroup {
  readonly group: string;
  readonly ready: number;
  readonly active: number;
  readonly concurrency: number;
  readonly weight: number;
  readonly pausedAt: Instant;
  readonly retryAt: Instant;
  readonly haltedUntil: Instant;
  readonly addedAt: Instant;
}

/** Reads a page of groups, by name. See `listGroups.lua`. */
export const listGroups = defineScript({
  name: "queue.listGroups",
  source: [entriesSource, listGroupsSource],
  keys: ["jobs", "delayed", ...groupKeys],
  args: ["from", "count"],
  readonly: true,
  reply: (raw): { readonly now: number; readonly groups: readonly ListedGroup[] } => {
    const [now, ...all] = (raw as unknown[]).map(String);
    const groups = Array.from({ length: all.length / 9 }, (_, index) => {
      const [name = "", ready, active, most, weight, ...instants] = all.slice(9 * index, 9 * index + 9);
      const [pausedAt = null, retryAt = null, haltedUntil = null, addedAt = null] = instants.map(instant);
      return {
        ...{ group: decodedName(name), ready: Number(ready), active: Number(active) },
        ...{ concurrency: Number(most), weight: Number(weight) },
        ...{ pausedAt, retryAt, haltedUntil, addedAt },
      };
    });
    return { now: Number(now), groups };
  },
});

/** Reads the ids of the jobs that have a place of a group. See `groupPlaces.lua`. */
export const groupPlaces = defineScript({
  name: "queue.groupPlaces",
  source: groupPlacesSource,
  keys: ["held"],
  args: ["group"],
  readonly: true,
  reply: (raw): readonly string[] => (raw as unknown[]).map(String),
});
