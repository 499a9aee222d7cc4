import type { RedisLike } from "@kit/core";
import { custom, dated, integer, resolve } from "@kit/core/toolkit";
import { encodedGroup } from "../job/names.js";
import { checkedAddress } from "../store/address.js";
import type { QueueAddress } from "../job/keys.js";
import { cancelJob } from "./change.js";
import { drainQueue } from "./drain.js";
import { groupPlaces, type ListedGroup, listGroups as listed } from "./scripts.js";

/** A group that has ready or active jobs. Times are ISO text. */
export interface GroupReport extends Omit<ListedGroup, "pausedAt" | "retryAt" | "haltedUntil" | "addedAt"> {
  /** Jobs that can start when it is their turn. */
  readonly ready: number;
  /** Jobs that count toward `concurrency`: they are active, or wait for their next attempt or for a limit of their name. */
  readonly active: number;
  /** The maximum of `active`. */
  readonly concurrency: number;
  readonly weight: number;
  readonly pausedAt: string | null;
  /** When the first `active` job that waits for its next attempt is due. */
  readonly retryAt: string | null;
  /** When its next job can start, if its rate or a RateLimitError delays that job. */
  readonly haltedUntil: string | null;
  /** When its next job was added. Null if it has no ready job. */
  readonly nextAddedAt: string | null;
  /**
   * Whether the next job can start. `paused`: the group is paused. `full`: `active` has reached `concurrency`. `retrying`: the same, and
   * one of these jobs waits for its next attempt. `halted`: see `haltedUntil`. `idle`: it has no ready job.
   */
  readonly state: "ready" | "paused" | "full" | "retrying" | "halted" | "idle";
}

/** Groups by name. */
export interface GroupPage {
  readonly groups: readonly GroupReport[];
  /** The `after` of the next page. Undefined if this is the last page. */
  readonly next: string | undefined;
}

const pageRules = {
  after: custom(encodedGroup, ""),
  from: custom(encodedGroup, ""),
  count: integer(1, 100, 100),
};

const stateOf = (
  { ready, active, concurrency, pausedAt, retryAt, haltedUntil }: ListedGroup,
  now: number,
): GroupReport["state"] => {
  if (ready === 0) return "idle";
  if (pausedAt !== null) return "paused";
  if (haltedUntil !== null && haltedUntil > now) return "halted";
  return active < concurrency ? "ready" : retryAt === null ? "full" : "retrying";
};

/**
 * Reads a page of the groups that have ready or active jobs, sorted by their encoded names: how many jobs they have, and what keeps the next
 * job from starting. It takes the server about 10 µs a group. A group whose jobs are all delayed or dead is not listed.
 *
 * @throws {TypeError | RangeError} an argument is invalid.
 * @throws {KitUnavailableError} no server answered in time.
 *
 * @example
 * const { groups } = await listGroups(redis, { queue: "webhooks" });
 * const halted = groups.filter(({ state }) => state === "paused" || state === "retrying");
 */
export const listGroups = async (
  redis: RedisLike,
  address: QueueAddress,
  options: {
    /** The `next` of the previous page. */
    readonly after?: string | undefined;
    /**
     * The first group to read, if it has jobs. Ignored with `after`.
     *
     * @default the first group of all
     */
    readonly from?: string | undefined;
    /**
     * The maximum number of groups, up to 100.
     *
     * @default 100
     */
    readonly count?: number | undefined;
  } = {},
): Promise<GroupPage> => {
  const { keys } = checkedAddress(address);
  const { after, from, count } = resolve("options", options, pageRules);
  const first = after === "" ? from && `${from} ` : `${after}!`;
  const { now, groups } = await listed.run(redis, keys, { from: first, count });
  return {
    groups: groups.map((one) => {
      const { addedAt, pausedAt, retryAt, haltedUntil, ...facts } = one;
      return {
        ...facts,
        pausedAt: dated(pausedAt),
        retryAt: dated(retryAt),
        haltedUntil: dated(haltedUntil),
        nextAddedAt: dated(addedAt),
        state: stateOf(one, now),
      };
    }),
    next: groups.length < count ? undefined : groups.at(-1)?.group,
  };
};

/**
 * Ends the ready and the active jobs of a group: it drains the group, then cancels its active jobs as `cancelJob()` does, including jobs
 * that wait for their next attempt. Delayed jobs that have not started stay. Resolves with the number of jobs that it ended. Jobs that are
 * added during the call can stay.
 *
 * @throws {KitUnavailableError | KitUnknownOutcomeError} as for every command. Some of the jobs may have ended. Call it again to continue.
 * @throws {TypeError | RangeError} an argument is invalid.
 *
 * @example
 * await cancelGroup(redis, { queue: "webhooks" }, "tenant-7");
 */
export const cancelGroup = async (redis: RedisLike, address: QueueAddress, group: string): Promise<number> => {
  const { keys } = checkedAddress(address);
  const name = encodedGroup("group", group);
  let total = await drainQueue(redis, address, { group });
  for (const id of await groupPlaces.run(redis, keys, { group: name })) {
    const outcome = await cancelJob(redis, address, id);
    if (outcome === "cancelled" || outcome === "removed") total++;
  }
  return total;
};
