import type { RedisLike } from "@kit/core";
import { choiceOption, integerOption, optionsObject, textOption } from "@kit/core/toolkit";
import type { StoredError } from "../failure.js";
import { type QueueAddress, type QueueKeys, queueKeys } from "../keys.js";
import { dataOf, factsOf, type StoredFacts } from "../letters.js";
import { priorityOption } from "../options.js";
import { find, type Found, list, overview, type Overview, prioritise } from "./scripts.js";

export type { Overview, QueueAddress };

/** States that can be listed. */
export type ListedState = "dead" | "waiting" | "prioritised" | "delayed" | "active";

/** The key that holds the jobs of a state, and its form. */
const places: Readonly<Record<ListedState, readonly [place: keyof QueueKeys, kind: string]>> = {
  dead: ["dead", "ids"],
  waiting: ["waiting", "list"],
  prioritised: ["prioritised", "ids"],
  delayed: ["delayed", "entries"],
  active: ["leases", "leases"],
};

/** A job without its data; instants as ISO text. */
export interface JobFacts extends Omit<StoredFacts, "error" | "addedAt"> {
  readonly id: string;
  readonly addedAt: string | null;
  readonly error: StoredError | null;
  /** When it died, is due, or its lease ends. */
  readonly at: string | null;
  readonly bytes: number;
}

/** One job, as `kit inspect job QUEUE ID --json` prints it. */
export interface JobReport extends JobFacts {
  readonly queue: string;
  readonly state: Found["state"];
  /** Only on request; bytes as base64. */
  readonly data?: unknown;
}

const dated = (ms: number | null): string | null =>
  ms === null || !(Math.abs(ms) <= 8.64e15) ? null : new Date(ms).toISOString();

const jobFacts = (id: string, at: number | null, blob: Buffer, bytes: number, record: string): JobFacts => {
  const { error = null, addedAt, ...facts } = factsOf(blob, record);
  return { id, ...facts, error, addedAt: dated(addedAt || null), at: dated(at), bytes };
};

const shown = (data: unknown): unknown => (Buffer.isBuffer(data) ? data.toString("base64") : data);

/**
 * The number of jobs in each state, the number of ready jobs of each priority, and the queue's counters: one call that changes
 * nothing and reads no job.
 *
 * @throws {KitUnavailableError} no server answered in time.
 *
 * @example
 * const { waiting, prioritised, delayed, active, dead } = await inspectQueue(redis, { queue: "mail" });
 */
export const inspectQueue = async (redis: RedisLike, { queue, prefix = "kit" }: QueueAddress): Promise<Overview> =>
  await overview.run(redis, queueKeys(prefix, queue), {});

/**
 * Where one job is, its attempts, crashes and last error. Its data only with `withData`; bytes come as base64.
 *
 * @throws {KitUnavailableError} no server answered in time.
 */
export const inspectJob = async (
  redis: RedisLike,
  { queue, prefix = "kit" }: QueueAddress,
  id: string,
  options: { readonly withData?: boolean | undefined } = {},
): Promise<JobReport> => {
  const { withData = false } = optionsObject("options", options, ["withData"]);
  const { state, at, blob, record } = await find.run(redis, queueKeys(prefix, queue), { id });
  const bytes = state === "none" ? 0 : blob.length - blob.indexOf(10) - 1;
  return { queue, state, ...jobFacts(id, at, blob, bytes, record), ...(withData ? { data: shown(dataOf(blob)) } : {}) };
};

/**
 * Jobs of one state in their order, without their data: at most 100 at a time.
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
  const { state = "dead", start = 0, count = 20 } = optionsObject("options", options, ["state", "start", "count"]);
  choiceOption("state", state, Object.keys(places) as ListedState[]);
  integerOption("start", start, 0);
  integerOption("count", count, 1, 100);
  const keys = queueKeys(prefix, queue);
  const [place, kind] = places[state];
  const page = await list.run(redis, { ...keys, place: keys[place] }, { kind, start, count });
  // The score of a priority is no instant.
  const isDated = state !== "prioritised";
  return page.map(({ id, at, header, bytes, record }) =>
    jobFacts(id, isDated ? at : null, Buffer.from(`${header}\n`, "latin1"), bytes, record),
  );
};

/**
 * Gives a ready or delayed job another priority; it then stands behind all others of that priority. Resolves with whether there
 * is such a job: false for one that is active, dead, done or unknown. The server searches for a ready job of priority 0 from the
 * front of the queue: the more jobs are before it, the longer that takes.
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
  const args = { id: textOption("id", id, 160), priority: priorityOption(priority) };
  return await prioritise.run(redis, queueKeys(prefix, queue), args);
};
