import type { RedisLike } from "@kit/core";
import { integer, resolve, type RulesOf, withContext } from "@kit/core/toolkit";
import type { QueueAddress } from "../job/keys.js";
import type { JobReport } from "../manage/index.js";
import { checkedAddress, jobId } from "../store/address.js";
import { childOf, type FlowChild } from "./child.js";
import { children, type StoredChildren } from "../below/scripts.js";
import { stranded } from "./scripts/readers.js";

/** Options of `readChildren()` and `inspectFlow()`. */
export interface ChildrenOptions {
  /**
   * How many children to skip: the `next` of the previous page.
   *
   * @default 0
   */
  readonly start?: number | undefined;
  /**
   * The maximum number of children to read, 1 to 100. A page also ends after 1 MiB of results.
   *
   * @default 100
   */
  readonly count?: number | undefined;
}

export const pageRules = {
  start: integer(0, undefined, 0),
  count: integer(1, 100, 100),
} satisfies RulesOf<ChildrenOptions>;

/** Some children of a job. */
export interface ChildrenPage {
  /** In the order of `children` in the flow. */
  readonly children: readonly FlowChild[];
  /** The `start` of the next page. Undefined if this is the last page. */
  readonly next: number | undefined;
}

export const pageOf = ({ records, next }: StoredChildren): ChildrenPage => ({ children: records.map(childOf), next });

/** A job of a flow and its children. */
export interface FlowReport extends ChildrenPage {
  readonly queue: string;
  readonly id: string;
  /** `none`: the job has ended, or was never added. `completed`: it has ended and has a record; see `keepHistory()`. */
  readonly state: JobReport["state"];
  /** How many children have not ended. */
  readonly open: number;
}

/**
 * Reads the state of a job of a flow, and its children. A job that has ended has no children.
 *
 * @throws {TypeError | RangeError} an argument is invalid.
 * @throws {KitUnavailableError} no server answered in time.
 */
export const inspectFlow = async (
  redis: RedisLike,
  address: QueueAddress,
  id: string,
  options: ChildrenOptions = {},
): Promise<FlowReport> => {
  const { queue, keys } = checkedAddress(address);
  const stored = await children.run(redis, keys, { id: jobId(id), ...resolve("options", options, pageRules) });
  const { inspectJob } = await import("../manage/index.js");
  const { state } = await inspectJob(redis, address, id, { quick: true });
  return { queue, id, state, open: stored.open, ...pageOf(stored) };
};

/** How many pages of a queue's families one call reads. */
const maxPages = 1_000;

/**
 * Finds jobs that wait for children that were deleted manually or evicted. Resolves with the ids of the waiting jobs. It reads up to about
 * 50,000 children. It finds none while the queue has an unfinished flow; see `unfinishedFlows()`.
 *
 * @throws {TypeError | RangeError} `address` is invalid.
 * @throws {KitUnavailableError} no server answered in time.
 */
export const strandedParents = async (redis: RedisLike, address: QueueAddress): Promise<string[]> => {
  const { keys } = checkedAddress(address);
  return await withContext(redis, async (context) => {
    const found: string[] = [];
    for (let cursor = "0", page = 0; page < maxPages; page++) {
      const { cursor: next, ids } = await stranded.run(context, keys, { cursor });
      found.push(...ids);
      cursor = next;
      if (cursor === "0") break;
    }
    return found;
  });
};

/**
 * Counts the flows of more than 1,000 jobs that have started, but do not have all their jobs in the queue yet. If the process that adds
 * such a flow has died, `repairQueue()` with `run` adds the remaining jobs.
 *
 * @throws {TypeError | RangeError} `address` is invalid.
 * @throws {KitUnavailableError} no server answered in time.
 */
export const unfinishedFlows = async (redis: RedisLike, address: QueueAddress): Promise<number> => {
  const { keys } = checkedAddress(address);
  const { unfinished } = await import("../slices/index.js");
  return await withContext(redis, async (context) => (await unfinished(context, keys)).length);
};
