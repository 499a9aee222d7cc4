import { keyspace } from "@kit/core";
import { slotOf, workerWidth } from "./work/take-id.js";

/** The beginning of every key of a queue. */
export const keyHead = (prefix: string, name: string): string => keyspace("queue", prefix).base(name);

/** Where outcomes of jobs wait for the queue object that called them; the header of each job names that object. */
export const repliesKey = (head: string, caller: string): string => `${head}replies:${caller}`;

/** Where the last take in one slot of a worker is recorded: the take id alone leads to it. */
export const takenKey = (head: string, takeId: string): string =>
  `${head}taken:${takeId.slice(0, workerWidth)}${String(slotOf(takeId))}`;

/** Where the answers to a producer's last call are kept that had an `addOnce`. */
export const answeredKey = (head: string, producer: string): string => `${head}answered:${producer}`;

/** The address of a queue. */
export interface QueueAddress {
  readonly queue: string;
  /** @default "kit" */
  readonly prefix?: string | undefined;
}

const parts = [
  "jobs",
  "waiting",
  "prioritised",
  "delayed",
  "leases",
  "failures",
  "dead",
  "wake",
  "revoked",
  "producers",
  "meta",
] as const;

/**
 * Every key that this package writes. All of one queue share the hash tag `{name}`, so one slot.
 *
 * An entry is a job's id, or `!priority!id` where the priority is not 0. A take id is 12 characters of one take.
 *
 * | Key                            | Type | Content                                                                        | Life                           |
 * | ------------------------------ | ---- | ------------------------------------------------------------------------------ | ------------------------------ |
 * | `kit:queue:{name}:jobs`        | hash | id → header line, line feed, payload                                           | each field as long as its job  |
 * | `kit:queue:{name}:waiting`     | list | ids of ready jobs of priority 0, the next one first                            | while there are some           |
 * | `kit:queue:{name}:prioritised` | zset | ids of the other ready jobs → priority × 2^33 + position                       | while there are some           |
 * | `kit:queue:{name}:delayed`     | zset | entry → server ms at which it is due                                           | while there are some           |
 * | `kit:queue:{name}:leases`      | zset | take id + entry → server ms at which the lease ends                            | while there are some           |
 * | `kit:queue:{name}:failures`    | hash | id → attempts, crashes, last error                                             | each field as long as its job  |
 * | `kit:queue:{name}:dead`        | zset | id → server ms of its death                                                    | bounded by count, age, bytes   |
 * | `kit:queue:{name}:wake`        | zset | markers that wake workers: `job`, `timer`, `backup`                            | until a worker pops them       |
 * | `kit:queue:{name}:revoked`     | zset | leases that ended without their holder                                         | 10 minutes after each          |
 * | `kit:queue:{name}:taken:…`     | text | the last take in one slot of a worker: its take id, and the entries it took    | 10 minutes                     |
 * | `kit:queue:{name}:producers`   | zset | producer → number of its last add                                              | a day after the last new one   |
 * | `kit:queue:{name}:answered:…`  | text | number and answers of a producer's last call that had an `addOnce`             | 10 minutes                     |
 * | `kit:queue:{name}:replies:…`   | hash | id → what became of the job, for one queue object that waits for it            | until read; 10 minutes         |
 * | `kit:queue:{name}:meta`        | hash | `layout`, `watchedAt`, `deadBytes`, and counts                                 | for good                       |
 */
export type QueueKeys = Readonly<Record<(typeof parts)[number], string>>;

/** The keys of one queue. */
export const queueKeys = (prefix: string, name: string): QueueKeys => {
  const head = keyHead(prefix, name);
  return Object.fromEntries(parts.map((part) => [part, head + part])) as QueueKeys;
};
