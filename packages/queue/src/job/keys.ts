import { keyspace } from "@kit/core";
import { slotOf, slots, workerWidth } from "./take-id.js";

/** The start of every key of a queue. */
export const keyHead = (prefix: string, name: string): string => keyspace("queue", prefix).base(name);

/** The outcomes of jobs that one queue object called. Each job's header names that object. */
export const repliesKey = (head: string, caller: string): string => `${head}replies:${caller}`;

/** The record of the last take in one slot of a worker. A take id names both. */
export const takenKey = (head: string, takeId: string): string =>
  `${head}taken:${takeId.slice(0, workerWidth)}${String(slotOf(takeId))}`;

/** The records of the last takes of a worker, by slot. */
export const takenKeys = (head: string, worker: string): readonly string[] =>
  Array.from({ length: slots }, (_, slot) => `${head}taken:${worker}${String(slot)}`);

/** The answers to a producer's last call that had an `addOnce` or a key. */
export const answeredKey = (head: string, producer: string): string => `${head}answered:${producer}`;

/** The notes of handlers about one job; see `progress/`. */
export const notesKey = (head: string, id: string): string => `${head}notes:${id}`;

/** The channel on which a lease is published when its job is cancelled. */
export const cancelledChannel = (head: string): string => `${head}cancelled`;

/** The address of a queue. */
export interface QueueAddress {
  /** The name of the queue. */
  readonly queue: string;
  /**
   * The prefix of the queue's keys.
   *
   * @default "kit"
   */
  readonly prefix?: string | undefined;
}

/** What every script needs that moves jobs of groups. */
export const groupKeys = ["grouped", "turns", "held", "groups"] as const;

/** Parts of a queue that never expire. A key without data does not exist. */
export const endlessParts = [
  "jobs",
  "waiting",
  "prioritised",
  "delayed",
  "leases",
  "failures",
  "dead",
  "wake",
  "limits",
  "suspended",
  "named",
  "unique",
  "meta",
  "schedules",
  "templates",
  "upcoming",
  "adopted",
  "families",
  ...groupKeys,
] as const;

const parts = [
  ...endlessParts,
  "revoked",
  "producers",
  "kept",
  "records",
  "events",
  "changed",
  "staged",
  "workers",
] as const;

/**
 * Every key that this package writes. All keys of a queue share the hash tag `{name}`, so they are in one slot.
 *
 * An **entry** identifies a job: its id, `!priority!id` if its priority is not 0, or `!priority@group!id` if it has a group. A **take id**
 * has 12 letters and digits: seven for the worker, and the number of its take.
 *
 * | Key                            | Type   | Content                                                                                         | Life                         |
 * | ------------------------------ | ------ | ----------------------------------------------------------------------------------------------- | ---------------------------- |
 * | `kit:queue:{name}:jobs`        | hash   | id → header line, line feed, payload bytes                                                      | a field as long as its job   |
 * | `kit:queue:{name}:waiting`     | list   | ids of ready jobs of priority 0, the next one first                                             | while there are some         |
 * | `kit:queue:{name}:prioritised` | zset   | ids of the other ready jobs → priority × 2^33 + position; positions start at 2^32               | while there are some         |
 * | `kit:queue:{name}:delayed`     | zset   | entry → server ms at which it is due; plus 10^15 if it waits for another job, plus 2 × 10^15 if for children | while there are some         |
 * | `kit:queue:{name}:leases`      | zset   | take id + entry → server ms at which the lease ends; the only record of active jobs             | while there are some         |
 * | `kit:queue:{name}:failures`    | hash   | id → attempts, crashes and last error, after a failure only                                     | a field as long as its job   |
 * | `kit:queue:{name}:dead`        | zset   | id → server ms at which it died; the job stays in `jobs`                                        | bounded by `deadLetters`     |
 * | `kit:queue:{name}:wake`        | zset   | markers that wake workers: `job` (work is ready), `timer` and `backup` (an instant to wait for) | until a worker pops them     |
 * | `kit:queue:{name}:revoked`     | zset   | leases that ended without their holder → server ms of the end; plus 0.5 if the job was cancelled | 10 minutes after each        |
 * | `kit:queue:{name}:workers`     | hash   | id of a worker → server ms, facts as JSON, names of its handlers, its running jobs              | until its worker closes, or 15 min |
 * | `kit:queue:{name}:taken:…`     | string | the last take in one slot of a worker: its take id, and the entries it took                     | 10 minutes                   |
 * | `kit:queue:{name}:producers`   | zset   | producer → sequence number of its last add; repeated add → number of the first add              | a day after the last new entry |
 * | `kit:queue:{name}:answered:…`  | string | sequence number and answers of a producer's last add with an `addOnce` or a key                 | 10 minutes                   |
 * | `kit:queue:{name}:replies:…`   | hash   | id → outcome of a job that one queue object called                                              | until read, or 10 minutes    |
 * | `kit:queue:{name}:limits`      | hash   | `paused`, `concurrency`, `rate`, `fullAt`, `heldUntil`, `names` (what keeps jobs from starting); `listened` (the end of the recording of events) | while the queue has any |
 * | `kit:queue:{name}:changed`     | hash   | limit or pause → server µs at which its last change was requested                               | 10 minutes                   |
 * | `kit:queue:{name}:events`      | stream | `e` → what happened, a line for each event                                                      | `recordMs` after the last listener |
 * | `kit:queue:{name}:suspended`   | zset   | ready jobs whose names are stopped: name, place among its jobs, entry                           | until the name continues     |
 * | `kit:queue:{name}:named`       | zset   | active jobs of names with a concurrency: name, member of `leases`                               | until its job ends           |
 * | `kit:queue:{name}:unique`      | hash   | key → its last job, the end of its `ttlMs`, the earlier job that this job waits for             | until unused and swept       |
 * | `kit:queue:{name}:meta`        | hash   | `layout`, `watchedAt`, `contactAt`, `graceUntil`, `deadBytes`, counters                         | permanent                    |
 * | `kit:queue:{name}:schedules`   | hash   | id of a schedule → version, revision, runs left, timing as JSON, last run, `paused` if it is    | until it is removed          |
 * | `kit:queue:{name}:templates`   | hash   | id of a schedule → header and payload of its jobs                                               | until it is removed          |
 * | `kit:queue:{name}:upcoming`    | zset   | id of a schedule → server ms of its next run; `inf` if it has ended or is paused                | until it is removed          |
 * | `kit:queue:{name}:notes:ID`    | hash   | progress, checkpoint and log lines of a job                                                     | 14 days from the last write  |
 * | `kit:queue:{name}:kept`        | zset   | id of an ended job → server ms of its end; only with `history`                                  | `maxAgeMs` of the history    |
 * | `kit:queue:{name}:records`     | hash   | id of an ended job → take id, facts as JSON, result; `!bytes` → the bytes of all                | `maxAgeMs` of the history    |
 * | `kit:queue:{name}:adopted`     | zset   | adoption of a BullMQ queue → number of the last slice that it added                             | permanent, 30 bytes each     |
 * | `kit:queue:{name}:families`    | hash   | id of a parent in a flow → number of its open children; that id, a tab and a number → a child's id, later with its outcome | until its parent has ended   |
 * | `kit:queue:{name}:staged`      | hash   | parts of large flows (over 1,000 jobs) that have not started                                     | until they have started, or 10 minutes |
 * | `kit:queue:{name}:grouped`     | zset   | ready jobs that have a group: group, place among its jobs, entry                                | while there are some         |
 * | `kit:queue:{name}:turns`       | zset   | group → its next turn; plus 4 × 10^15 if it may not start a job                                  | while it has ready or active jobs |
 * | `kit:queue:{name}:held`        | zset   | group and id of each job that uses the concurrency of its group: it is active, or waits to run again | until its job ends           |
 * | `kit:queue:{name}:groups`      | hash   | group → concurrency, weight, pause; the empty name → settings of all groups                        | until they are removed       |
 *
 * The lease of a cancelled job is published on the channel `kit:queue:{name}:cancelled`.
 */
export type QueueKeys = Readonly<Record<(typeof parts)[number], string>>;

/** The keys of one queue. */
export const queueKeys = (prefix: string, name: string): QueueKeys => {
  const head = keyHead(prefix, name);
  return Object.fromEntries(parts.map((part) => [part, head + part])) as QueueKeys;
};

/** The last keys of `add.lua`, if a job has an id or a key. `answered`: the keys of the producers whose answers it needs. `isKeyed`: a job has a `unique` key. */
export const onceKeys = (keys: QueueKeys, answered: readonly string[], isKeyed: boolean): readonly string[] => {
  const { leases, dead, unique, failures, suspended } = keys;
  return [leases, dead, failures, suspended, ...(isKeyed ? [unique] : []), ...answered];
};
