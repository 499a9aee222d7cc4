import type { RedisLike } from "@kit/core";
import { boolean, choice, integer, resolve, textOption, withContext } from "@kit/core/toolkit";
import type { StoredError } from "../failure.js";
import { keyHead, notesKey, type QueueAddress, type QueueKeys, queueKeys } from "../keys.js";
import { dataOf, expiryOf, factsOf, type StoredFacts } from "./letters.js";
import { readNotes, type StoredNotes } from "../progress/scripts/index.js";
import { priority as priorityRule } from "../add/priority.js";
import { partsOf } from "../add/ids.js";
import { type JobState, list, overview, type Overview, prioritise, repair } from "./scripts.js";
import { located, pagesOf } from "./search.js";

export { cancelJob, promoteJob, removeJob, rescheduleJob } from "./change.js";
export { drainQueue } from "./drain.js";
export { editJob, type JobEdit } from "./edit.js";
export { pauseQueue, type QueueRate, resumeQueue, setLimits } from "./limits.js";
export type { Overview, QueueAddress };

/** States that can be listed. */
export type ListedState = "dead" | "waiting" | "prioritised" | "delayed" | "active";

/** For each state the key that has its jobs, and the form of their entries. */
const listedIn: Readonly<Record<ListedState, readonly [key: keyof QueueKeys, kind: string]>> = {
  dead: ["dead", "ids"],
  waiting: ["waiting", "list"],
  prioritised: ["prioritised", "ids"],
  delayed: ["delayed", "entries"],
  active: ["leases", "leases"],
};

const reportRules = { withData: boolean(false) };
const repairRules = { run: boolean(false) };
const listRules = {
  state: choice(Object.keys(listedIn) as ListedState[], "dead"),
  start: integer(0, undefined, 0),
  count: integer(1, 100, 20),
};

/** A job without its data. Instants are ISO text. */
export interface JobFacts extends Omit<StoredFacts, "error" | "addedAt" | "uniqueKey"> {
  readonly id: string;
  readonly addedAt: string | null;
  readonly error: StoredError | null;
  /** After that it does not run, if no worker has taken it before; null: it does not expire. */
  readonly expiresAt: string | null;
  /** The key of a job that was added with `unique`. */
  readonly uniqueKey: string | null;
  /** When it died, is due, or its lease ends; null for other states, and for a job that waits for the end of the active one of its key. */
  readonly at: string | null;
  readonly bytes: number;
}

/** One job, as `kit inspect job QUEUE ID --json` prints it. */
export interface JobReport extends JobFacts {
  readonly queue: string;
  readonly state: JobState;
  /** How far its handler has reported that the job is, see `@kit/queue/progress`; null: it has not. And when. */
  readonly progress: unknown;
  readonly progressAt: string | null;
  /** How many lines its log has, see {@link readLog}. */
  readonly logLines: number;
  /** Only with `withData`; bytes as base64. */
  readonly data?: unknown;
  /** Only with `withData`, and if there is one: the state that its handler saved for the next run. */
  readonly checkpoint?: unknown;
}

const dated = (ms: number | null): string | null =>
  ms === null || !(Math.abs(ms) <= 8.64e15) ? null : new Date(ms).toISOString();

const jobFacts = (id: string, at: number | null, blob: Buffer, bytes: number, record: string): JobFacts => {
  const { error = null, uniqueKey = null, addedAt, ...facts } = factsOf(blob, record);
  return {
    id,
    ...facts,
    error,
    uniqueKey,
    addedAt: dated(addedAt || null),
    expiresAt: dated(expiryOf(blob)),
    at: dated(at),
    bytes,
  };
};

const shown = (data: unknown): unknown => (Buffer.isBuffer(data) ? data.toString("base64") : data);

/**
 * Reads how many jobs there are in each state and of each priority, and the counters of the queue, in one call. It changes nothing and
 * reads no job.
 *
 * @throws {KitUnavailableError} no server answered in time.
 *
 * @example
 * const { waiting, prioritised, delayed, active, dead } = await inspectQueue(redis, { queue: "mail" });
 */
export const inspectQueue = async (redis: RedisLike, { queue, prefix = "kit" }: QueueAddress): Promise<Overview> =>
  await overview.run(redis, queueKeys(prefix, queue), {});

/**
 * Reads where one job is, its attempts, crashes and last error, and how far it is. With `withData` also its data (bytes as base64), and its
 * checkpoint.
 *
 * A job that is not dead, delayed or ready with a priority is searched for among the leases and the waiting jobs, in calls of at most
 * 4,000 entries, each some milliseconds of the server. A job that moves meanwhile is searched for again. `lost`: two searches did not
 * find the job; see {@link repairQueue}.
 *
 * @throws {KitUnavailableError} no server answered in time.
 */
export const inspectJob = async (
  redis: RedisLike,
  { queue, prefix = "kit" }: QueueAddress,
  id: string,
  options: { readonly withData?: boolean | undefined } = {},
): Promise<JobReport> => {
  const { withData } = resolve("options", options, reportRules);
  return await withContext(redis, async (context) => {
    const { state, at, blob, record } = await located(context, queueKeys(prefix, queue), id);
    const notes = { notes: notesKey(keyHead(prefix, queue), id) };
    const noted = await readNotes.run(context, notes, { of: stampOf(blob), after: 0, count: 0 });
    const bytes = state === "none" ? 0 : blob.length - blob.indexOf(10) - 1;
    const { checkpoint } = noted;
    return {
      ...{ queue, state, ...jobFacts(id, at, blob, bytes, record), ...progressOf(noted) },
      ...(withData && { data: shown(dataOf(blob)) }),
      ...(withData && checkpoint !== "" && { checkpoint: JSON.parse(checkpoint) as unknown }),
    };
  });
};

/** When a stored job was added, as it is written; empty if there is none. */
const stampOf = (blob: Buffer): string => blob.toString("latin1").split(" ", 1)[0] ?? "";

const progressOf = ({
  progress,
  progressAt,
  kept,
}: StoredNotes): Pick<JobReport, "progress" | "progressAt" | "logLines"> => ({
  progress: progress === "" ? null : (JSON.parse(progress) as unknown),
  progressAt: dated(progressAt || null),
  logLines: kept,
});

/** A page of the log of a job. */
export interface LogPage {
  readonly lines: readonly LogLine[];
  /** How many lines are kept, and how many before them were dropped. */
  readonly kept: number;
  readonly dropped: number;
}

/** A line that a handler has written. */
export interface LogLine {
  /** Counted from 1, through all attempts of the job. */
  readonly number: number;
  /** When the server received it, as ISO text. */
  readonly at: string;
  readonly text: string;
}

const logRules = { after: integer(0, undefined), count: integer(1, 1_000, 100) };

/**
 * Reads lines of the log of a job, the oldest first: the last ones; or with `after` those that follow the line of this number, so that a
 * front end can follow the log. If several jobs had the id, the last of them that wrote something.
 *
 * @throws {KitUnavailableError} no server answered in time.
 * @throws {TypeError | RangeError} an argument is not what it should be.
 *
 * @example
 * const { lines } = await readLog(redis, { queue: "videos" }, id, { after: last });
 */
export const readLog = async (
  redis: RedisLike,
  { queue, prefix = "kit" }: QueueAddress,
  id: string,
  options: {
    /** @default the last lines */
    readonly after?: number | undefined;
    /**
     * At most 1,000.
     *
     * @default 100
     */
    readonly count?: number | undefined;
  } = {},
): Promise<LogPage> => {
  const { after, count } = resolve("options", options, logRules);
  const notes = notesKey(keyHead(prefix, queue), textOption("id", id, 160));
  const args = { of: "", after: after ?? 0, count: after === undefined ? -count : count };
  const { lines, kept, dropped } = await readNotes.run(redis, { notes }, args);
  return {
    lines: lines.map(({ number, at, text }) => ({ number, at: dated(at) ?? "", text })),
    ...{ kept, dropped },
  };
};

/** The most ids that one call of `repair` carries. */
const maxRepaired = 100;

/**
 * Finds jobs that are stored, but in no list of work, since an entry or a lease was deleted by hand or evicted. Such a job does not run,
 * and its id cannot be added again. With `run` it goes to the end of the queue, with its attempts and crashes; a worker may still be
 * running it. Resolves with the ids.
 *
 * It reads the whole queue in calls of at most 4,000 entries, and keeps the ids of all ready and active jobs in memory. Jobs that seem
 * lost are checked again, 100 per call. Such a call reads all leases and all waiting jobs in one step: about 0.5 s of the server per
 * million.
 *
 * @throws {KitUnavailableError | KitUnknownOutcomeError} as every command. The call can be repeated safely.
 * @throws {TypeError} an option is not what it should be.
 *
 * @example
 * const lost = await repairQueue(redis, { queue: "mail" }, { run: true });
 */
export const repairQueue = async (
  redis: RedisLike,
  { queue, prefix = "kit" }: QueueAddress,
  options: {
    /** @default false */
    readonly run?: boolean | undefined;
  } = {},
): Promise<string[]> => {
  const verb = resolve("options", options, repairRules).run ? "repair" : "show";
  const keys = queueKeys(prefix, queue);
  return await withContext(redis, async (context) => {
    const missing = new Set<string>();
    for await (const page of pagesOf(context, keys, "jobs")) for (const [entry] of page) missing.add(entry);
    for (const from of ["leases", "waiting"] as const)
      for await (const page of pagesOf(context, keys, from)) for (const [entry] of page) missing.delete(entry);
    const ids = Array.from(missing, (entry) => partsOf(entry).id);
    const lost: string[] = [];
    for (let start = 0; start < ids.length; start += maxRepaired)
      lost.push(...(await repair.run(context, keys, { verb, ids: ids.slice(start, start + maxRepaired).join("\n") })));
    return lost;
  });
};

/**
 * Reads jobs of one state in their order, without their data; at most 100 per call.
 *
 * @throws {RangeError} there is no such state, or `count` is over 100.
 * @throws {KitUnavailableError} no server answered in time.
 */
export const listJobs = async (
  redis: RedisLike,
  { queue, prefix = "kit" }: QueueAddress,
  options: {
    /** @default "dead" */
    readonly state?: ListedState | undefined;
    /** @default 0 */
    readonly start?: number | undefined;
    /** @default 20 */
    readonly count?: number | undefined;
  } = {},
): Promise<JobFacts[]> => {
  const { state, start, count } = resolve("options", options, listRules);
  const keys = queueKeys(prefix, queue);
  const [key, kind] = listedIn[state];
  const page = await list.run(redis, { ...keys, listed: keys[key] }, { kind, start, count });
  // Scores of `prioritised` are not instants.
  const isDated = state !== "prioritised";
  return page.map(({ id, at, header, bytes, record }) =>
    jobFacts(id, isDated ? at : null, Buffer.from(`${header}\n`, "latin1"), bytes, record),
  );
};

/**
 * Gives a ready or delayed job another priority, behind all other jobs of that priority. Resolves with whether it did: false if the job
 * is active, dead, done or unknown. The server searches for a ready job of priority 0 from the front of the queue, in one step: about
 * 0.1 s per million jobs before it.
 *
 * @throws {KitUnavailableError | KitUnknownOutcomeError} as every command. Calling it again does no harm.
 * @throws {TypeError | RangeError} an argument is not what it should be.
 */
export const setPriority = async (
  redis: RedisLike,
  { queue, prefix = "kit" }: QueueAddress,
  id: string,
  priority: number,
): Promise<boolean> => {
  const args = { id: textOption("id", id, 160), priority: priorityRule.check("priority", priority) };
  return await prioritise.run(redis, queueKeys(prefix, queue), args);
};
