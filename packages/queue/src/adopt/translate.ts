import { dated, resolve } from "@kit/core/toolkit";
import { longestWaitMs, type ResolvedBackoff } from "../job/backoff.js";
import { idText, ownId } from "../job/ids.js";
import { encodedName } from "../job/names.js";
import { blobOf, headOf, type Payload } from "../job/payload.js";
import { keyWordOf, type ResolvedUnique, uniqueWords } from "../job/unique.js";
import { planned } from "../job/words.js";
import { queueSettings } from "../store/options.js";
import { scheduleId, type ScheduleOptions, scheduleRules } from "../schedules/options.js";
import { wantedOf } from "../schedules/wanted.js";
import type { Item } from "./scripts/index.js";
import type { StoredBullJob, StoredScheduler } from "./source.js";

/** A job in the form that `add.lua` stores. */
export interface AdoptedJob {
  readonly id: string;
  /** The words after its id in the plan. */
  readonly words: string;
  readonly blob: Payload;
}

/** The options of a job that have a counterpart. BullMQ does not check them when it reads them, so they can hold anything. */
interface BullOptions {
  readonly attempts?: unknown;
  readonly backoff?: unknown;
  readonly priority?: unknown;
  readonly timestamp?: unknown;
  readonly delay?: unknown;
  /** In a job of a job scheduler: the options of the scheduler. */
  readonly repeat?: Readonly<Record<string, string | number | undefined>>;
  readonly de?: { readonly keepLastIfActive?: unknown; readonly replace?: unknown };
}

const maxAttempts = 1_000_000;
const maxPriority = 2 ** 20 - 1;

const number = (value: unknown, least: number, most: number): number =>
  Math.min(most, Math.max(least, Math.ceil(Number(value)) || 0));

const optionsOf = (text: string): BullOptions => {
  const options: unknown = JSON.parse(text === "" ? "{}" : text);
  return typeof options === "object" && options !== null ? options : {};
};

/** The backoff for BullMQ's two built-in kinds, as it is after this many attempts. Undefined for a custom strategy. */
const backoffOf = (backoff: unknown, attempts: number): ResolvedBackoff | undefined => {
  const given: { readonly type?: unknown; readonly delay?: unknown; readonly jitter?: unknown } =
    typeof backoff === "object" && backoff !== null ? backoff : { type: "fixed", delay: backoff };
  const delay = number(given.delay, 0, longestWaitMs);
  const jitter = Math.min(1, Math.max(0, Number(given.jitter) || 0));
  if (given.type === "fixed") return { firstMs: delay, factor: 1, maxMs: longestWaitMs, jitter };
  if (given.type !== "exponential") return undefined;
  return { firstMs: Math.min(longestWaitMs, delay * 2 ** attempts), factor: 2, maxMs: longestWaitMs, jitter };
};

/** The remaining attempts, and the waits before them. */
const retriesOf = (
  { attempts = 1, backoff }: BullOptions,
  made: number,
): { readonly maxAttempts: number; readonly backoff: ResolvedBackoff | undefined } => {
  const left = number(number(attempts, 1, Infinity) - made, 1, maxAttempts);
  return { maxAttempts: left, backoff: left === 1 ? undefined : backoffOf(backoff, made) };
};

/** BullMQ runs jobs without a priority first, then 1, 2 and so on. A queue does the same with these numbers, up to its largest one. */
const priorityOf = (value: unknown): number => number(value, 0, maxPriority);

/** The key of a job that has its deduplication key in BullMQ. */
const uniqueOf = ({ id, deduplication, holder }: StoredBullJob, { de }: BullOptions): ResolvedUnique | undefined => {
  if (holder?.id !== id) return undefined;
  const keepsLast = de?.keepLastIfActive === true || de?.replace === true;
  const ttlMs = holder.ttlMs > 0 && !keepsLast ? holder.ttlMs : undefined;
  return { key: deduplication, mode: keepsLast ? "keepLast" : "keepFirst", ttlMs, extend: false };
};

/** Why a child of a flow stays in BullMQ. */
export const isChild = "it is a child job: adoption does not move flows";

/** The reason why a job stays in BullMQ. Undefined if it can move. `isFollowing`: its job scheduler would be moved. */
export const refusalOf = (id: string, job: StoredBullJob | undefined, isFollowing?: boolean): string | undefined => {
  if (!job) return "BullMQ has no data for it";
  if (job.isParent) return "it has children: adoption does not move flows";
  if (job.parent !== "") return isChild;
  if (job.failure !== "") return "BullMQ has marked it as failed";
  if (!isFollowing && job.at !== "" && id.endsWith(`:${job.at}`)) return "its job scheduler cannot move";
  const isHolder = job.holder?.id === id;
  if (isHolder && job.holder.hasNext) return "another job with its deduplication id runs after it";
  try {
    encodedName(job.name);
    ownId("id", id);
    if (isHolder) idText("deduplication id", job.deduplication);
    optionsOf(job.opts);
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
  return undefined;
};

/** Whether a job uses a custom backoff strategy of its BullMQ worker. */
export const hasOwnStrategy = ({ opts, attempts }: StoredBullJob): boolean => {
  const { maxAttempts: left, backoff } = retriesOf(optionsOf(opts), number(attempts, 0, maxAttempts));
  return left > 1 && backoff === undefined;
};

/** Converts a BullMQ job that {@link refusalOf} lets move. */
export const adoptedJob = ({ kind, score, id }: Item, job: StoredBullJob): AdoptedJob => {
  const options = optionsOf(job.opts);
  const policy = {
    ...retriesOf(options, number(job.attempts, 0, maxAttempts)),
    timeoutMs: undefined,
    expires: undefined,
  };
  const rank = priorityOf(job.priority);
  const unique = uniqueOf(job, options);
  const head = headOf(job.name, policy, rank, false, undefined, unique ? [keyWordOf(unique)] : []);
  // Twelve bits below the instant are for the order of jobs that are due together.
  const due = kind === "delayed" ? planned("due", Math.floor(Number(score) / 4_096)) : "";
  // Without the word that replaces a job of the key: the job in the new queue is newer.
  const key = unique ? uniqueWords({ ...unique, mode: "keepFirst" }) : planned("answer");
  const stamp = number(job.timestamp, 0, 8.64e15).toString(36);
  return {
    id,
    words: (rank === 0 ? "" : planned("priority", rank)) + due + planned("ifNew") + key,
    blob: blobOf(stamp, head, job.data),
  };
};

/** The schedule for a BullMQ job scheduler. */
export interface AdoptedSchedule {
  /** Undefined if it has ended. */
  readonly schedule: ScheduleOptions | undefined;
  /** The reason why it stays in BullMQ. */
  readonly refusal?: string;
}

/**
 * The schedule that continues after the next job of a job scheduler. That job is already in BullMQ's queue. `zone` is the zone of patterns
 * without one, because BullMQ uses the zone of the process that computes them.
 *
 * BullMQ stored no definition before version 5.10, no template before 5.31, and no limit before 5.41: in these versions only the next job
 * has them. In every version the next job stores how many jobs came before it. A later version restarts the count in a definition of an earlier
 * one.
 */
export const adoptedSchedule = async (
  { id, score }: Pick<Item, "id" | "score">,
  { facts, job, next }: StoredScheduler,
  zone: string | undefined,
): Promise<AdoptedSchedule> => {
  const refused = (refusal: string): AdoptedSchedule => ({ schedule: undefined, refusal });
  try {
    scheduleId(id);
    if (!next) return refused("BullMQ has no next job for it");
    const { repeat = {}, timestamp, delay } = optionsOf(job.opts);
    const fact = (key: "pattern" | "tz" | "every" | "limit" | "endDate"): string =>
      facts[key] || String(repeat[key] ?? "");
    const [cron, every, limit, end] = [fact("pattern"), fact("every"), fact("limit"), fact("endDate")];
    const timezone = fact("tz") || zone;
    if (!every && !timezone) return refused("its pattern has no time zone: set `timezone`");
    const left = limit ? Number(limit) - Number(repeat["count"] ?? facts["ic"]) : undefined;
    const endAt = end ? Number(end) : undefined;
    const at = Number(score);
    // Until version 5.58, jobs with an offset run that long after the instant in their ids, and BullMQ reads the clock twice. Later versions keep
    // the offset of an earlier version, and ignore it.
    const offset = Number(repeat["offset"]);
    const startAt = offset > 0 && Number(timestamp) + Number(delay) >= at + offset / 2 ? at + offset : at;
    if ((left !== undefined && left <= 0) || (endAt !== undefined && endAt < startAt)) return { schedule: undefined };
    const options = optionsOf(facts["opts"] || job.opts);
    const schedule = {
      ...{ name: facts["name"] || job.name, data: JSON.parse(facts["data"] || job.data) as unknown },
      ...(every ? { everyMs: Number(every) } : { cron, timezone }),
      ...{ startAt, endAt, count: left },
      options: { ...retriesOf(options, 0), priority: priorityOf(options.priority) },
    };
    // `upsert` would check this only later, after the next job has moved.
    const { after } = await wantedOf(id, resolve("schedule", schedule, scheduleRules), queueSettings({}));
    const first = after(0) ?? at;
    if (!every && first !== at)
      return refused(`its next job in BullMQ is at ${String(dated(at))}, but croner computes ${String(dated(first))}`);
    const following = after(first);
    return { schedule: following ? { ...schedule, startAt: following } : undefined };
  } catch (error) {
    return refused(error instanceof Error ? error.message : String(error));
  }
};
