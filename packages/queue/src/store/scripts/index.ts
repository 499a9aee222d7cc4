import { defineScript } from "@kit/core";
import { groupKeys } from "../../job/keys.js";
import { addReplyOf } from "./added.js";
import addSource from "./add.lua";
import beginSource from "./begin.lua";
import bucketSource from "./bucket.lua";
import chooseSource from "./choose.lua";
import contactSource from "./contact.lua";
import deadSource from "./dead.lua";
import entriesSource from "./entries.lua";
import eventsSource from "./events.lua";
import flowSource from "./flow.lua";
import handBackSource from "./handBack.lua";
import heartbeatSource from "./heartbeat.lua";
import { lines, lostOf, type LostLeases } from "./lost.js";
import namesSource from "./names.lua";
import noGroupsSource from "./noGroups.lua";
import openSource from "./open.lua";
import outcomesSource from "./outcomes.lua";
import readySource from "./ready.lua";
import recoverSource from "./recover.lua";
import revokedSource from "./revoked.lua";
import stepSource from "./step.lua";
import successorSource from "./successor.lua";
import takesSource from "./takes.lua";
import uniqueSource from "./unique.lua";
import watchSource from "./watch.lua";
import workerSource from "./worker.lua";

/** The layout of the data that this version writes. */
export const layout = 1;

export type { AddReply } from "./added.js";

/** The maximum number of jobs in one call of `step`. */
export const maxEnded = 500;
/** The maximum number of outcomes that one call requests. */
export const maxWanted = 100;

/** Rejects data of a newer layout. Replies with the server's time in epoch ms. */
export const open = defineScript({
  name: "queue.open",
  source: openSource,
  keys: ["meta"],
  args: ["layout"],
  idempotent: true,
  reply: Number,
});

/** A lease that ended without its holder. */
export interface Reclaimed {
  /** Its member of `leases`. */
  readonly member: string;
  readonly crashes: number;
  readonly isDead: boolean;
  /** The job was removed earlier. */
  readonly isGone: boolean;
}

/** The reply of a step. */
export interface StepReply {
  /** The jobs that were taken, in order. */
  readonly blobs: readonly Buffer[];
  /** Their entries. */
  readonly entries: readonly string[];
  /** Their records in `failures`, empty for jobs without one. An empty list if no job has a record. */
  readonly records: readonly string[];
  /** Members of ended jobs whose leases had been revoked. The server refuses their ends. */
  readonly refused: readonly string[];
  /** The refused members whose jobs were cancelled. */
  readonly cancelled: readonly string[];
  /** Leases that ended without their holder, and what happened to their jobs. */
  readonly reclaimed: readonly Reclaimed[];
  /** The server's time in epoch microseconds. 0 if the queue is idle and the step did not request the time. */
  readonly nowMicros: number;
  /**
   * When the next delayed job is due and when the next lease ends, in epoch ms of the server. Infinity if there is none. Undefined if the
   * step did not look.
   */
  readonly nextDue: number | undefined;
  readonly nextEnd: number | undefined;
  /** How many due jobs and reclaimed jobs became ready. */
  readonly promoted: number;
  /** The step left ready jobs to idle workers. */
  readonly isMore: boolean;
  /**
   * When the next ready job can start, in epoch ms of the server, if only time holds it back. Otherwise Infinity. Undefined if the queue
   * has no limits. With limits a step takes no jobs ahead.
   */
  readonly nextStart: number | undefined;
  /** No job can start: the queue is paused, or a handler threw a RateLimitError. */
  readonly isStopped: boolean;
  /** How many dead letters of the last hour were dropped to make room. */
  readonly droppedYoung: number;
}

const instant = (ms: number): number | undefined => (ms === -2 ? undefined : ms === -1 ? Infinity : ms);

const reclaimedOf = (line: string): Reclaimed => {
  const [member = "", crashes, state] = line.split("\t");
  return { member, crashes: Number(crashes) || 0, isDead: state === "dead", isGone: crashes === "gone" };
};

const decodeStep = (raw: unknown): StepReply => {
  const all = raw as Buffer[];
  const [entries, records, refused, reclaimed, state] = all.splice(-5);
  const [nowMicros = 0, nextDue = -2, nextEnd = -2, promoted = 0, isMore = 0, nextStart = -2, isStopped, young = 0] =
    String(state).split(" ").map(Number);
  const { lost, cancelled } = lostOf(refused);
  return {
    blobs: all,
    entries: lines(entries),
    records: lines(records),
    refused: lost,
    cancelled,
    reclaimed: lines(reclaimed).map(reclaimedOf),
    nowMicros,
    nextDue: instant(nextDue),
    nextEnd: instant(nextEnd),
    promoted,
    isMore: isMore === 1,
    nextStart: instant(nextStart),
    isStopped: isStopped === 1,
    droppedYoung: young,
  };
};

const stepKeys = [
  "jobs",
  "waiting",
  "prioritised",
  "delayed",
  "leases",
  "wake",
  "failures",
  "dead",
  "revoked",
  "meta",
  "taken",
  "limits",
  "events",
  "suspended",
  "named",
  "families",
  ...groupKeys,
] as const;

/** Extends leases. */
export const heartbeat = defineScript({
  name: "queue.heartbeat",
  source: [entriesSource, readySource, contactSource, watchSource, revokedSource, workerSource, heartbeatSource],
  keys: ["leases", "wake", "meta", "revoked", "workers"],
  args: ["leaseMs", "members", "record"],
  idempotent: true,
  reply: (raw): LostLeases & { readonly now: number } => {
    const [now, lost] = raw as unknown[];
    return { now: Number(now), ...lostOf(lost) };
  },
});

/** Records that a handler is about to run a job that has one crash left. Replies with whether the lease is still held. */
export const begin = defineScript({
  name: "queue.begin",
  source: [entriesSource, beginSource],
  keys: ["leases", "failures"],
  args: ["member"],
  idempotent: true,
  reply: (raw): boolean => Number(raw) === 1,
});

/**
 * Reads outcomes of jobs: `jJSON` or `bBYTES` if the job is done, `xRECORD` if it became a dead letter, or `waiting`, `gone`, `later`; see
 * `outcomes.lua`.
 */
export const outcomes = defineScript({
  name: "queue.outcomes",
  source: outcomesSource,
  keys: ["jobs", "failures", "dead", "replies"],
  args: ["received", "wanted"],
  idempotent: true,
  bytes: true,
  reply: (raw): readonly Buffer[] => raw as Buffer[],
});

/** The scripts that move jobs of groups. `groups` is the source of `groups.lua`, or of `noGroups.lua`. */
export const scriptsWith = (groups: string) => ({
  /** Stores jobs. */
  add: defineScript({
    name: "queue.add",
    source: [entriesSource, readySource, groups, successorSource, uniqueSource, eventsSource, addSource],
    keys: ["jobs", "waiting", "prioritised", "delayed", "wake", "producers", "limits", "events", "...others"],
    args: ["producer", "sequence", "isNew", "plan", "...blobs"],
    idempotent: true,
    reply: addReplyOf,
  }),

  /** The only call of a worker. Its take id makes a lost reply safe: `recover` returns the jobs that were in the reply. */
  step: defineScript({
    name: "queue.step",
    source: [
      entriesSource,
      readySource,
      groups,
      deadSource,
      revokedSource,
      contactSource,
      watchSource,
      takesSource,
      successorSource,
      bucketSource,
      eventsSource,
      flowSource,
      namesSource,
      chooseSource,
      stepSource,
    ],
    keys: [...stepKeys, "...replies"],
    args: [
      "takeId",
      "count",
      "sure",
      "room",
      "leaseMs",
      "flags",
      "bounds",
      "maintenance",
      "done",
      "...others[member verdict record answer]",
    ],
    bytes: true,
    reply: decodeStep,
  }),

  /** Returns jobs to the front of the queue. Replies with their number. */
  handBack: defineScript({
    name: "queue.handBack",
    source: [entriesSource, readySource, groups, bucketSource, namesSource, eventsSource, handBackSource],
    keys: [
      "leases",
      "waiting",
      "prioritised",
      "wake",
      "limits",
      "failures",
      "events",
      "jobs",
      "suspended",
      "named",
      ...groupKeys,
    ],
    args: ["members", "after", "limited", "begun"],
    idempotent: true,
    reply: Number,
  }),

  /** Undoes a take whose reply was lost. Replies with the number of returned jobs. */
  recover: defineScript({
    name: "queue.recover",
    source: [entriesSource, readySource, groups, takesSource, bucketSource, namesSource, eventsSource, recoverSource],
    keys: [
      "leases",
      "waiting",
      "prioritised",
      "wake",
      "taken",
      "limits",
      "events",
      "jobs",
      "suspended",
      "named",
      ...groupKeys,
    ],
    args: ["takeId"],
    idempotent: true,
    reply: Number,
  }),
});

/** For queues that never had a job of a group; see `noGroups.lua`. */
export const plain: ReturnType<typeof scriptsWith> = scriptsWith(noGroupsSource);
export const { add, step, handBack, recover } = plain;
