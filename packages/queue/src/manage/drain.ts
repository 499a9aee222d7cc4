import type { RedisLike } from "@kit/core";
import { boolean, type ClientContext, resolve, withContext } from "@kit/core/toolkit";
import { checkedAddress } from "../address.js";
import type { QueueAddress, QueueKeys } from "../keys.js";
import { drain } from "./scripts.js";

const drainRules = { delayed: boolean(false) };

/** The most jobs that one call deletes. */
const maxDrained = 500;

/** Deletes as many jobs of one list of work as it had at the first call. */
const drained = async (
  context: ClientContext,
  keys: QueueKeys,
  list: "waiting" | "prioritised" | "suspended" | "delayed",
): Promise<number> => {
  const from = list === "waiting" || list === "suspended" ? list : "ranked";
  const lists = { ...keys, ranked: keys[list === "waiting" ? "prioritised" : list] };
  let total = 0;
  for (let wanted = maxDrained; wanted > 0;) {
    const { deleted, left } = await drain.run(context, lists, { from, count: Math.min(wanted, maxDrained) });
    wanted = total === 0 ? left : Math.min(wanted - deleted, left);
    total += deleted;
  }
  return total;
};

/**
 * Deletes the jobs that wait: all ready ones, with `delayed` also those that are not due yet or wait for their next attempt. Active jobs and
 * dead letters stay. Resolves with their number.
 *
 * It deletes as many jobs as there are when it begins, the first ones, in calls of at most 500 jobs and some 4 MiB, each a
 * millisecond or two of the server. Producers and workers go on meanwhile: jobs that are added stay if they come behind those. If a deleted
 * job was called, the call rejects with a JobOutcomeLostError within 5 s.
 *
 * @throws {KitUnavailableError | KitUnknownOutcomeError} as every command: some of the jobs are deleted. Calling it again goes on.
 * @throws {TypeError} an argument is not what it should be.
 *
 * @example
 * await drainQueue(redis, { queue: "mail" }, { delayed: true });
 */
export const drainQueue = async (
  redis: RedisLike,
  address: QueueAddress,
  options: {
    /** @default false */
    readonly delayed?: boolean | undefined;
  } = {},
): Promise<number> => {
  const { keys } = checkedAddress(address);
  const { delayed } = resolve("options", options, drainRules);
  return await withContext(redis, async (context) => {
    let total = 0;
    for (const list of ["waiting", "prioritised", "suspended", "delayed"] as const)
      if (list !== "delayed" || delayed) total += await drained(context, keys, list);
    return total;
  });
};
