import type { RedisLike } from "@kit/core";
import { integerOption, optionsObject, textOption } from "@kit/core/toolkit";
import {
  type JobFacts,
  type JobReport,
  listedState,
  type ListedState,
  listJobs as listPage,
  lookAtJob,
  lookAtQueue,
} from "../descriptor/look.js";
import type { Overview } from "../descriptor/scripts.js";
import { type QueueAddress, queueKeys } from "../keys.js";
import { priorityOption } from "../options.js";
import { prioritise } from "./prioritise.js";

export type { JobFacts, JobReport, ListedState, Overview, QueueAddress };

/**
 * How many jobs a queue has in each state, how many of each priority are ready, and what it has counted so far: one call that
 * changes nothing and reads no job.
 *
 * @throws {KitUnavailableError} no server answered in time.
 *
 * @example
 * const { waiting, prioritised, delayed, active, dead } = await inspectQueue(redis, { queue: "mail" });
 */
export const inspectQueue = async (redis: RedisLike, { queue, prefix = "kit" }: QueueAddress): Promise<Overview> =>
  await lookAtQueue(redis, prefix, queue);

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
  return await lookAtJob(redis, prefix, queue, id, withData);
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
  const { state, start = 0, count = 20 } = optionsObject("options", options, ["state", "start", "count"]);
  integerOption("start", start, 0);
  integerOption("count", count, 1, 100);
  return await listPage(redis, prefix, queue, listedState(state), start, count);
};

/**
 * Gives a job another priority that is ready or delayed; it stands behind all others of that one then. Resolves with whether
 * there is such a job: false for one that is active, dead, done or unknown. A job that is ready with priority 0 is searched for
 * from the front of the queue, which holds up the server the longer the more jobs are before it.
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
