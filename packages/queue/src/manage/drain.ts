import type { RedisLike } from "@kit/core";
import { boolean, type ClientContext, custom, resolve, withContext } from "@kit/core/toolkit";
import { encodedGroup } from "../job/names.js";
import { checkedAddress } from "../store/address.js";
import type { QueueAddress, QueueKeys } from "../job/keys.js";
import { drain } from "./scripts.js";

const drainRules = { delayed: boolean(false), group: custom(encodedGroup, "") };

/** The maximum number of jobs that one call deletes. */
const maxDrained = 500;

/** Deletes the number of jobs that a list of work had at the first call. */
const drained = async (
  context: ClientContext,
  keys: QueueKeys,
  list: "waiting" | "prioritised" | "suspended" | "grouped" | "delayed",
  group = "",
): Promise<number> => {
  const from = list === "prioritised" || list === "delayed" ? "ranked" : list;
  const lists = { ...keys, ranked: keys[list === "waiting" ? "prioritised" : list] };
  let total = 0;
  for (let wanted = maxDrained; wanted > 0;) {
    const { deleted, left } = await drain.run(context, lists, {
      from,
      count: Math.min(wanted, maxDrained),
      group,
    });
    wanted = total === 0 ? left : Math.min(wanted - deleted, left);
    total += deleted;
  }
  return total;
};

/**
 * Deletes all ready jobs, or with `group` the ready jobs of one group. With `delayed` it also deletes jobs that are not due yet, or wait for
 * their next attempt or their children. Active jobs and dead letters stay. Resolves with the number of deleted jobs.
 *
 * It counts the jobs when it starts, and deletes this number from the front. Each call deletes up to 500 jobs and about 4 MiB, and takes
 * the server one or two milliseconds. Producers and workers can keep running. Jobs that are added after the start stay if they are placed
 * after the existing ones. If a deleted job was called, the call rejects with a JobOutcomeLostError within 5 s.
 *
 * @throws {KitUnavailableError | KitUnknownOutcomeError} as for every command. Some of the jobs may be deleted. Call it again to continue.
 * @throws {TypeError} an argument is invalid.
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
    /**
     * Deletes only ready jobs of this group. Can't be combined with `delayed`.
     *
     * @default all ready jobs
     */
    readonly group?: string | undefined;
  } = {},
): Promise<number> => {
  const { keys } = checkedAddress(address);
  const { delayed, group } = resolve("options", options, drainRules);
  if (delayed && group !== "") throw new TypeError("Expected no `delayed` with `group`");
  return await withContext(redis, async (context) => {
    if (group !== "") return await drained(context, keys, "grouped", group);
    let total = 0;
    for (const list of ["waiting", "prioritised", "suspended", "grouped", "delayed"] as const)
      if (list !== "delayed" || delayed) total += await drained(context, keys, list);
    return total;
  });
};
