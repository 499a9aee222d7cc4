import { defineScript, type Script } from "@kit/core";
import entriesSource from "../scripts/entries.lua";
import findSource from "../scripts/find.lua";
import listSource from "../scripts/list.lua";
import overviewSource from "../scripts/overview.lua";
import prioritiseSource from "../scripts/prioritise.lua";
import readySource from "../scripts/ready.lua";

/** Epoch ms, or none. */
type Instant = number | null;

const instant = (text: unknown): Instant => (String(text) === "" ? null : Math.round(Number(String(text))));

/** A queue at one instant. */
export interface Overview {
  readonly jobs: number;
  readonly waiting: number;
  readonly prioritised: number;
  readonly delayed: number;
  readonly active: number;
  readonly dead: number;
  readonly now: number;
  readonly nextDue: Instant;
  readonly firstLeaseEnd: Instant;
  readonly oldestDead: Instant;
  readonly completed: number;
  readonly died: number;
  readonly crashed: number;
  readonly deadDropped: number;
  readonly deadBytes: number;
  /** The number of ready jobs of each priority other than 0, lowest priority first; at most 100 priorities. */
  readonly byPriority: readonly { readonly priority: number; readonly jobs: number }[];
}

export const overview: Script<
  readonly ["jobs", "waiting", "prioritised", "delayed", "leases", "dead", "meta"],
  readonly [],
  Overview
> = defineScript({
  name: "queue.overview",
  source: overviewSource,
  keys: ["jobs", "waiting", "prioritised", "delayed", "leases", "dead", "meta"],
  args: [],
  readonly: true,
  reply: (raw) => {
    const all = raw as unknown[];
    const [jobs = 0, waiting = 0, prioritised = 0, delayed = 0, active = 0, dead = 0, now = 0] = all
      .slice(0, 7)
      .map(Number);
    const [completed = 0, died = 0, crashed = 0, deadDropped = 0, deadBytes = 0] = String(all[10])
      .split(" ")
      .map(Number);
    const ranks = String(all[11]).split(" ").map(Number);
    const byPriority = Array.from({ length: Math.floor(ranks.length / 2) }, (_, index) => ({
      priority: ranks[2 * index] ?? 0,
      jobs: ranks[2 * index + 1] ?? 0,
    }));
    return {
      ...{ jobs, waiting, prioritised, delayed, active, dead, now },
      ...{ nextDue: instant(all[7]), firstLeaseEnd: instant(all[8]), oldestDead: instant(all[9]) },
      ...{ completed, died, crashed, deadDropped, deadBytes, byPriority },
    };
  },
});

/** Where one job is. `at`: when it died, is due, or its lease ends. */
export interface Found {
  readonly state: "none" | "dead" | "delayed" | "active" | "ready";
  readonly at: Instant;
  readonly blob: Buffer;
  readonly record: string;
}

export const find: Script<
  readonly ["jobs", "prioritised", "delayed", "leases", "failures", "dead"],
  readonly ["id"],
  Found
> = defineScript({
  name: "queue.find",
  source: [entriesSource, findSource],
  keys: ["jobs", "prioritised", "delayed", "leases", "failures", "dead"],
  args: ["id"],
  readonly: true,
  bytes: true,
  reply: (raw) => {
    const [state, at, blob, record] = raw as [Buffer, Buffer, Buffer, Buffer];
    return { state: String(state) as Found["state"], at: instant(at), blob, record: String(record) };
  },
});

/** One job of a page. */
export interface Listed {
  readonly id: string;
  readonly at: Instant;
  readonly header: string;
  readonly bytes: number;
  readonly record: string;
}

export const list: Script<
  readonly ["jobs", "failures", "place"],
  readonly ["kind", "start", "count"],
  readonly Listed[]
> = defineScript({
  name: "queue.list",
  source: [entriesSource, listSource],
  keys: ["jobs", "failures", "place"],
  args: ["kind", "start", "count"],
  readonly: true,
  reply: (raw) => {
    const all = (raw as unknown[]).map(String);
    return Array.from({ length: all.length / 5 }, (_, index) => {
      const [id = "", at = "", header = "", bytes = "", record = ""] = all.slice(5 * index, 5 * index + 5);
      return { id, at: instant(at), header, bytes: Number(bytes), record };
    });
  },
});

/** Gives a ready or delayed job another priority; replies with whether there is such a job. */
export const prioritise: Script<
  readonly ["jobs", "waiting", "prioritised", "delayed", "wake"],
  readonly ["id", "priority"],
  boolean
> = defineScript({
  name: "queue.prioritise",
  source: [entriesSource, readySource, prioritiseSource],
  keys: ["jobs", "waiting", "prioritised", "delayed", "wake"],
  args: ["id", "priority"],
  idempotent: true,
  reply: (raw) => Number(raw) === 1,
});
