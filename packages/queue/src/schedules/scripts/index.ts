import { defineScript } from "@kit/core";
import entriesSource from "../../store/scripts/entries.lua";
import eventsSource from "../../store/scripts/events.lua";
import readySource from "../../store/scripts/ready.lua";
import successorSource from "../../store/scripts/successor.lua";
import dropSource from "./dropSchedule.lua";
import dueSource from "./due.lua";
import fireSource from "./fire.lua";
import listSource from "./listSchedules.lua";
import pendingSource from "./pending.lua";
import putSource from "./putSchedule.lua";
import readSource from "./readSchedule.lua";

/** The maximum number of schedules in one call of `due`, `fire` and `listSchedules`. */
export const maxSchedules = 100;

/** Rows of four in a flat reply, after its first `skip` values. */
const rowsOf = (all: readonly string[], skip: number): (readonly [string, string, string, string])[] =>
  Array.from({ length: (all.length - skip) / 4 }, (_, row) => {
    const [a = "", b = "", c = "", d = ""] = all.slice(skip + 4 * row, skip + 4 * row + 4);
    return [a, b, c, d];
  });

/** A schedule whose next run is due. */
export interface DueSchedule {
  readonly id: string;
  /** The time of the run, as the server stores it. */
  readonly at: string;
  /** Empty if the schedule no longer exists. */
  readonly field: string;
  /** The size of its template. */
  readonly bytes: number;
  /** Its field has its last run, and the job of that run is still in the queue and not a dead letter. */
  readonly isBusy: boolean;
}

export const due = defineScript({
  name: "queue.due",
  source: [pendingSource, dueSource],
  keys: ["schedules", "templates", "upcoming", "jobs", "dead"],
  args: ["skip", "count"],
  readonly: true,
  reply: (raw): { readonly now: number; readonly next: number; readonly found: readonly DueSchedule[] } => {
    const all = (raw as unknown[]).map(String);
    const [now = "", next = ""] = all;
    return {
      now: Number(now),
      next: next === "" ? Infinity : Number(next),
      found: rowsOf(all, 2).map(([id, at, field, bytes]) => ({
        ...{ id, at, field, bytes: Number.parseInt(bytes, 10) },
        isBusy: bytes.endsWith("busy"),
      })),
    };
  },
});

/** Adds the jobs of due runs. Replies with whether each schedule still matched its line. */
export const fire = defineScript({
  name: "queue.fire",
  source: [entriesSource, readySource, successorSource, eventsSource, pendingSource, fireSource],
  keys: [
    "jobs",
    "waiting",
    "prioritised",
    "delayed",
    "wake",
    "schedules",
    "templates",
    "upcoming",
    "limits",
    "events",
    "dead",
  ],
  args: ["stamp", "plan"],
  idempotent: true,
  reply: (raw): readonly boolean[] => Array.from(String(raw), (digit) => digit === "1"),
});

/** Adds a schedule, or replaces it. Replies with whether it was unchanged since the caller read it. */
export const putSchedule = defineScript({
  name: "queue.putSchedule",
  source: putSource,
  keys: ["schedules", "templates", "upcoming", "meta"],
  args: ["id", "revision", "at", "removed", "schedule", "template", "next"],
  idempotent: true,
  reply: (raw): boolean => Number(raw) === 1,
});

/** Removes a schedule. Replies with whether it was unchanged since the caller read it. */
export const dropSchedule = defineScript({
  name: "queue.dropSchedule",
  source: dropSource,
  keys: ["schedules", "templates", "upcoming", "meta"],
  args: ["id", "revision"],
  idempotent: true,
  reply: (raw): boolean => Number(raw) === 1,
});

/** A stored schedule, and the server's time. */
export interface ReadSchedule {
  readonly now: number;
  readonly removed: string;
  /** Empty if there is none. */
  readonly field: string;
  readonly template: Buffer;
  readonly at: string;
  /** See {@link DueSchedule}. */
  readonly isBusy: boolean;
}

export const readSchedule = defineScript({
  name: "queue.readSchedule",
  source: [pendingSource, readSource],
  keys: ["schedules", "templates", "upcoming", "meta", "jobs", "dead"],
  args: ["id"],
  readonly: true,
  bytes: true,
  reply: (raw): ReadSchedule => {
    const [now, removed, field, template, at, busy] = raw as Buffer[] & { readonly length: 6 };
    const facts = { now: Number(now), removed: String(removed), field: String(field), at: String(at) };
    return { ...facts, template: template!, isBusy: String(busy) === "busy" };
  },
});

/** One schedule of a page. */
interface ListedSchedule {
  readonly id: string;
  readonly at: string;
  readonly field: string;
  readonly head: string;
}

/** A page of the schedules, and the facts about all of them. */
export interface SchedulePage {
  readonly now: number;
  readonly total: number;
  /** When the first of all schedules is due. Infinity if none is. */
  readonly first: number;
  readonly page: readonly ListedSchedule[];
}

export const listSchedules = defineScript({
  name: "queue.listSchedules",
  source: listSource,
  keys: ["schedules", "templates", "upcoming"],
  args: ["start", "count"],
  readonly: true,
  reply: (raw): SchedulePage => {
    const all = (raw as unknown[]).map(String);
    const [now = "", total = "", first = ""] = all;
    return {
      now: Number(now),
      total: Number(total),
      first: first === "" || first === "inf" ? Infinity : Number(first),
      page: rowsOf(all, 3).map(([id, at, field, head]) => ({ id, at, field, head })),
    };
  },
});
