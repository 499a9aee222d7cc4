import { defineScript } from "@kit/core";
import holdersSource from "./holders.lua";
import holdSource from "./hold.lua";
import jobsSource from "./bullJobs.lua";
import lookSource from "./look.lua";
import pageSource from "./page.lua";
import releaseSource from "./release.lua";
import schedulerSource from "./bullScheduler.lua";

/** The list or sorted set of BullMQ that has a job, or a job scheduler. */
export type Kind = "wait" | "paused" | "prioritized" | "delayed" | "repeat";

/** A job or job scheduler in the slice that an adoption holds. */
export interface Item {
  readonly kind: Kind;
  readonly score: string;
  readonly id: string;
}

const itemOf = (text: unknown): Item => {
  const [, kind = "", score = "", id = ""] = /^(\S+) (\S+) (.*)$/s.exec(String(text)) ?? [];
  return { kind: kind as Kind, score, id };
};

/** The state of a BullMQ queue at one time, and the slice that an adoption holds. */
export interface BullLook {
  readonly wait: number;
  readonly paused: number;
  readonly prioritized: number;
  readonly delayed: number;
  readonly active: number;
  readonly failed: number;
  readonly waitingChildren: number;
  readonly repeats: number;
  readonly isPaused: boolean;
  /** The token of the adoption. Empty if there was none within a day. */
  readonly token: string;
  readonly target: string;
  /** The number of the last slice. */
  readonly number: number;
  readonly items: readonly Item[];
}

export const look = defineScript({
  name: "queue.adopt.look",
  source: lookSource,
  keys: [
    ...["wait", "paused", "prioritized", "delayed", "active", "failed", "waitingChildren", "repeats", "meta", "state"],
  ] as const,
  args: [],
  readonly: true,
  reply: (raw): BullLook => {
    const all = raw as unknown[];
    const [wait = 0, paused = 0, prioritized = 0, delayed = 0, active = 0, failed = 0] = all.slice(0, 6).map(Number);
    return {
      ...{ wait, paused, prioritized, delayed, active, failed },
      ...{ waitingChildren: Number(all[6]), repeats: Number(all[7]), isPaused: Number(all[8]) === 1 },
      ...{ token: String(all[9]), target: String(all[10]), number: Number(all[11]) },
      items: all.slice(12).map(itemOf),
    };
  },
});

/** An id, and its score in the sorted set that has it. */
export interface Entry {
  readonly id: string;
  readonly score: string;
}

export const page = defineScript({
  name: "queue.adopt.page",
  source: pageSource,
  keys: ["listed"],
  args: ["kind", "start", "count"],
  readonly: true,
  reply: (raw): readonly Entry[] => {
    const all = (raw as unknown[]).map(String);
    return Array.from({ length: all.length / 2 }, (_, index) => ({
      id: all[2 * index] ?? "",
      score: all[2 * index + 1] ?? "0",
    }));
  },
});

/** A job as BullMQ has stored it. Fields that are missing in BullMQ are empty. */
export interface BullJob {
  readonly name: string;
  readonly opts: string;
  readonly data: Buffer;
  readonly timestamp: string;
  readonly priority: string;
  readonly attempts: string;
  readonly parent: string;
  readonly scheduler: string;
  readonly deduplication: string;
  readonly failure: string;
  readonly bytes: number;
  readonly isParent: boolean;
  /** The time of its scheduler's next job. */
  readonly at: string;
}

export const bullJobs = defineScript({
  name: "queue.adopt.bullJobs",
  source: jobsSource,
  keys: ["repeats", "...parts"],
  args: ["isWhole"],
  readonly: true,
  bytes: true,
  reply: (raw): readonly (BullJob | undefined)[] =>
    (raw as Buffer[][]).map((facts) => {
      if (facts.length === 0) return undefined;
      const [name = "", opts = "", , timestamp = "", priority = "", attempts = "", parent = "", ...others] =
        facts.map(String);
      const [scheduler = "", deduplication = "", failure = "", bytes = "", isParent = "", at = ""] = others;
      return {
        ...{ name, opts, data: facts[2] ?? Buffer.alloc(0), timestamp, priority, attempts, parent },
        ...{ scheduler, deduplication, failure, bytes: Number(bytes), isParent: isParent === "1", at },
      };
    }),
});

/** The job that has a deduplication key. */
export interface Holder {
  readonly id: string;
  /** -1: the key has no expiry. */
  readonly ttlMs: number;
  /** Whether another job waits for this job to end. */
  readonly hasNext: boolean;
}

export const holders = defineScript({
  name: "queue.adopt.holders",
  source: holdersSource,
  keys: ["...pairs"],
  args: [],
  readonly: true,
  reply: (raw): readonly Holder[] => {
    const all = raw as unknown[];
    return Array.from({ length: all.length / 3 }, (_, index) => ({
      id: String(all[3 * index]),
      ttlMs: Number(all[3 * index + 1]),
      hasNext: Number(all[3 * index + 2]) === 1,
    }));
  },
});

/** A job scheduler as BullMQ has stored it. */
export interface BullScheduler {
  /** The fields of its definition. */
  readonly facts: Readonly<Record<string, string | undefined>>;
  /** Which of the keys has its next job, from 1. 0 if none has it. */
  readonly place: number;
  /** The fields of its next job. Empty without one. */
  readonly job: { readonly name: string; readonly data: string; readonly opts: string };
}

export const bullScheduler = defineScript({
  name: "queue.adopt.bullScheduler",
  source: schedulerSource,
  keys: ["scheduler", "...nexts"],
  args: [],
  readonly: true,
  reply: (raw): BullScheduler => {
    const [place, name = "", data = "", opts = "", ...fields] = (raw as unknown[]).map(String);
    const facts: Record<string, string | undefined> = {};
    for (let at = 0; at < fields.length; at += 2) facts[String(fields[at])] = fields[at + 1];
    return { facts, place: Number(place), job: { name, data, opts } };
  },
});

/** Takes a slice out of a BullMQ queue. See `hold.lua`. */
export const hold = defineScript({
  name: "queue.adopt.hold",
  source: holdSource,
  keys: ["state", "listed", "...lists"],
  args: ["token", "target", "number", "kind", "start", "next", "...wanted[id score]"],
  idempotent: true,
  reply: (raw): readonly Item[] => (raw as unknown[]).map(itemOf),
});

/** Ends a slice. See `release.lua`. */
export const release = defineScript({
  name: "queue.adopt.release",
  source: releaseSource,
  keys: ["state", "wait", "paused", "prioritized", "delayed", "repeats", "...gone"],
  args: ["token", "number", "back", "...holders"],
  idempotent: true,
  reply: (raw): boolean => Number(raw) === 1,
});
