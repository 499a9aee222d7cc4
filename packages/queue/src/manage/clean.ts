import type { RedisLike } from "@kit/core";
import {
  boolean,
  choice,
  type ClientContext,
  custom,
  integer,
  required,
  resolve,
  withContext,
} from "@kit/core/toolkit";
import { encodedName } from "../job/names.js";
import { checkedAddress } from "../store/address.js";
import type { QueueAddress, QueueKeys } from "../job/keys.js";
import { clean, cleanKept, type Cleaned } from "./cleaning.js";
import type { ListedState } from "./list.js";

/** States whose jobs `cleanQueue()` can delete. */
export type CleanedState = Exclude<ListedState, "active" | "waiting-for-children">;

const states: readonly CleanedState[] = [
  "dead",
  "completed",
  "delayed",
  "waiting",
  "prioritised",
  "grouped",
  "suspended",
];

const cleanRules = {
  state: required(choice(states)),
  olderThanMs: integer(0, 1e12, 0),
  name: custom((_name, job: string) => encodedName(job), ""),
  run: boolean(false),
};

interface Page {
  readonly verb: "show" | "clean";
  readonly olderThanMs: number;
  readonly begun: string;
  readonly name: string;
  readonly cursor: string;
}

const cleanedPage = (context: ClientContext, keys: QueueKeys, state: CleanedState, page: Page): Promise<Cleaned> =>
  state === "completed"
    ? cleanKept.run(context, keys, page)
    : clean.run(context, { ...keys, listed: keys[state] }, { state, ...page });

/**
 * Deletes jobs of one state, by age and name. Without `run` it changes nothing. Resolves with the number of jobs that it deleted, or would
 * delete. It never deletes an active job.
 *
 * `state` is one of the states of {@link listJobs}:
 *
 * - `dead`: dead letters. Their age counts from their death
 * - `completed`: records of ended jobs, see `keepHistory()`. Their age counts from their end
 * - `delayed`: jobs that are not due, or wait for their next attempt. Their age counts from their add
 * - `waiting`, `prioritised`, `grouped`, `suspended`: ready jobs of priority 0, of other priorities, of groups, and of stopped names. Their
 *   age counts from their add
 *
 * A call looks at up to 500 jobs or 4 MiB, which takes the server one or two milliseconds. Producers and workers can keep running. Jobs
 * that reach the state after the start can stay. The last calls for `waiting` take up to 0.1 s per million waiting jobs. Until then the
 * deleted jobs count as `waiting`. The `unique` key of a deleted job is free, or stays taken until its `ttlMs` ends. If a deleted job was
 * called, the call rejects with a JobOutcomeLostError within 5 s.
 *
 * @throws {KitUnavailableError | KitUnknownOutcomeError} as for every command. Some of the jobs may be deleted. Call it again to continue.
 * @throws {TypeError | RangeError} an argument is invalid.
 *
 * @example
 * await cleanQueue(redis, { queue: "mail" }, { state: "dead", olderThanMs: 7 * 86_400_000, name: "newsletter", run: true });
 */
export const cleanQueue = async (
  redis: RedisLike,
  address: QueueAddress,
  options: {
    readonly state: CleanedState;
    /**
     * The minimum age of a job, in milliseconds.
     *
     * @default 0: jobs of any age
     */
    readonly olderThanMs?: number | undefined;
    /** @default jobs of all names */
    readonly name?: string | undefined;
    /** @default false */
    readonly run?: boolean | undefined;
  },
): Promise<number> => {
  const { keys } = checkedAddress(address);
  const { state, run, olderThanMs, name } = resolve("options", options, cleanRules);
  return await withContext(redis, async (context) => {
    let total = 0;
    let [cursor, begun] = ["0", ""];
    do {
      const page = { verb: run ? ("clean" as const) : ("show" as const), olderThanMs, begun, name, cursor };
      const cleaned = await cleanedPage(context, keys, state, page);
      total += cleaned.deleted;
      ({ cursor, begun } = cleaned);
    } while (cursor !== "0");
    return total;
  });
};
