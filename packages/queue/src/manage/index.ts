import type { RedisLike } from "@kit/core";
import { boolean, resolve, withContext } from "@kit/core/toolkit";
import { partsOf } from "../job/ids.js";
import { priority as priorityRule } from "../job/priority.js";
import { checkedAddress, jobId } from "../store/address.js";
import type { QueueAddress } from "../job/keys.js";
import { type GroupRetry, overview, type Overview, prioritise, repair } from "./scripts.js";
import { pagesOf } from "./search.js";

export type { EndOptions } from "./below.js";
export { cancelJob, promoteJob, removeJob, rescheduleJob } from "./change.js";
export { type CleanedState, cleanQueue } from "./clean.js";
export { drainQueue } from "./drain.js";
export { editJob, type JobEdit } from "./edit.js";
export { type JobPage, type ListedState, listJobs } from "./list.js";
export { type LogLine, type LogPage, readLog } from "./log.js";
export { type PurgedQueue, purgeQueue } from "./purge.js";
export { inspectJob, type JobFacts, type JobReport } from "./report.js";
export { listWorkers, type QueueWorker, type RunningWorker, type WorkerPage } from "./workers.js";
export { pauseQueue, type QueueRate, resumeQueue, setLimits } from "./limits.js";
export { cancelGroup, type GroupPage, type GroupReport, listGroups } from "./groups.js";
export type { GroupRetry, Overview, QueueAddress };

const repairRules = { run: boolean(false) };

/**
 * Reads the number of jobs in each state and of each priority, and the counters of the queue, in one call. It changes nothing and reads no
 * job.
 *
 * @throws {TypeError | RangeError} `address` is invalid.
 * @throws {KitUnavailableError} no server answered in time.
 *
 * @example
 * const { waiting, prioritised, delayed, active, dead } = await inspectQueue(redis, { queue: "mail" });
 */
export const inspectQueue = async (redis: RedisLike, address: QueueAddress): Promise<Overview> =>
  await overview.run(redis, checkedAddress(address).keys, {});

/** The maximum number of ids in one call of `repair`. */
const maxRepaired = 100;

/**
 * Finds stored jobs that cannot run, because their entry or lease was deleted manually or evicted. Their ids cannot be added again. With
 * `run` these jobs go to the end of the queue, and keep their attempts and crashes. A worker may still be running one of them. Resolves
 * with their ids. `run` also adds the remaining jobs of large flows whose process died; see `addFlow()`.
 *
 * It reads the whole queue in calls of up to 4,000 entries, and keeps the ids of all ready and active jobs in memory. Jobs that seem lost
 * are checked again, 100 per call. Each of these calls reads all leases and all waiting jobs in one step, which takes the server about 0.5
 * s per million.
 *
 * @throws {KitUnavailableError | KitUnknownOutcomeError} as for every command. You can safely repeat the call.
 * @throws {TypeError} an argument is invalid.
 *
 * @example
 * const lost = await repairQueue(redis, { queue: "mail" }, { run: true });
 */
export const repairQueue = async (
  redis: RedisLike,
  address: QueueAddress,
  options: {
    /** @default false */
    readonly run?: boolean | undefined;
  } = {},
): Promise<string[]> => {
  const verb = resolve("options", options, repairRules).run ? "repair" : "show";
  const { keys } = checkedAddress(address);
  return await withContext(redis, async (context) => {
    const missing = new Set<string>();
    for await (const page of pagesOf(context, keys, "jobs")) for (const [entry] of page) missing.add(entry);
    for (const from of ["leases", "waiting", "suspended", "grouped"] as const)
      for await (const page of pagesOf(context, keys, from)) for (const [entry] of page) missing.delete(entry);
    const ids = Array.from(missing, (entry) => partsOf(entry).id);
    const lost: string[] = [];
    for (let start = 0; start < ids.length; start += maxRepaired)
      lost.push(...(await repair.run(context, keys, { verb, ids: ids.slice(start, start + maxRepaired).join("\n") })));
    if (verb === "repair") await (await import("../slices/index.js")).finishAll(context, keys);
    return lost;
  });
};

/**
 * Gives a ready or delayed job another priority, and puts it after all other jobs of that priority. Resolves with true, or with false if
 * the job is active, dead, done or unknown. The server searches for a ready job of priority 0 from the front of the queue in one step,
 * which takes about 0.1 s per million jobs before it. If the command is sent again after a lost reply, it can overwrite a newer value.
 *
 * @throws {KitUnavailableError | KitUnknownOutcomeError} as for every command. You can safely repeat the call.
 * @throws {TypeError | RangeError} an argument is invalid.
 */
export const setPriority = async (
  redis: RedisLike,
  address: QueueAddress,
  id: string,
  priority: number,
): Promise<boolean> => {
  const { keys } = checkedAddress(address);
  const args = { id: jobId(id), priority: priorityRule.check("priority", priority) };
  return await prioritise.run(redis, keys, args);
};
