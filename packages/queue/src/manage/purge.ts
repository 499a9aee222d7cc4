import type { RedisLike } from "@kit/core";
import { boolean, type ClientContext, resolve, withContext } from "@kit/core/toolkit";
import { checkedAddress } from "../store/address.js";
import type { QueueAddress } from "../job/keys.js";
import { findKeys, purge, unlink } from "./cleaning.js";

const purgeRules = { run: boolean(false) };

/** A copy of the call that arrives later than this deletes nothing: it could delete the next queue. */
const lateMs = 10_000;

/** What a purge has deleted, or would delete. */
export interface PurgedQueue {
  /** Jobs in all states, including dead letters. */
  readonly jobs: number;
  /** How many of these jobs a worker had. */
  readonly active: number;
  readonly schedules: number;
  /** The keys of the queue in Redis. */
  readonly keys: number;
}

/** The parts of keys whose names are not fixed: takes, answers, outcomes and notes. A page can be empty. */
async function* recordsOf(
  context: ClientContext,
  meta: string,
  fixed: ReadonlySet<string>,
): AsyncGenerator<readonly string[]> {
  const head = meta.slice(0, -"meta".length);
  let cursor = "0";
  do {
    const page = await findKeys.run(context, { meta }, { cursor });
    ({ cursor } = page);
    yield page.ends.map((end) => head + end).filter((key) => !fixed.has(key));
  } while (cursor !== "0");
}

/**
 * Deletes a queue with all its jobs, dead letters, history, limits, pauses and schedules. Without `run` it changes nothing. Resolves with
 * what it deleted, or would delete.
 *
 * First it deletes separate keys, such as outcomes and notes. To find them, it scans all keys of the queue's node, 1,000 in each call. Then
 * it deletes the queue in one step, which takes the server less than a millisecond, even with millions of jobs.
 *
 * Close producers, workers and schedules first. If some still run, they start a new, empty queue, without the old limits and pauses:
 *
 * - An add after the purge adds its job to the new queue. So does an add that is repeated after a lost reply
 * - A worker loses the jobs that it has. It emits `lost` at its next heartbeat, and the handler's `signal` aborts. What the handler
 *   returns or throws changes nothing
 * - A caller of a deleted job gets a JobOutcomeLostError within 5 s
 * - A process that starts later creates its schedules again
 *
 * Don't purge a queue while `adoptBullQueue()` moves jobs to it.
 *
 * @throws {KitUnavailableError | KitUnknownOutcomeError} as for every command. Call it again to continue.
 * @throws {TypeError | RangeError} an argument is invalid.
 *
 * @example
 * const { jobs } = await purgeQueue(redis, { queue: "old" }, { run: true });
 */
export const purgeQueue = async (
  redis: RedisLike,
  address: QueueAddress,
  options: {
    /** @default false */
    readonly run?: boolean | undefined;
  } = {},
): Promise<PurgedQueue> => {
  const { keys } = checkedAddress(address);
  const { run } = resolve("options", options, purgeRules);
  return await withContext(redis, async (context) => {
    const all = Object.values(keys);
    let records = 0;
    for await (const others of recordsOf(context, keys.meta, new Set(all)))
      if (others.length > 0) records += run ? await unlink.run(context, { others }, {}) : others.length;
    const { jobs, leases, schedules } = keys;
    const others = all.filter((key) => key !== jobs && key !== leases && key !== schedules);
    const purged = async (latest: number | "") =>
      await purge.run(context, { jobs, leases, schedules, others }, { latest });
    let found = await purged("");
    while (run && !found.isDone) found = await purged(found.now + lateMs);
    return { ...found.counts, keys: found.counts.keys + records };
  });
};
