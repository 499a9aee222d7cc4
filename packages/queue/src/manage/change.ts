import type { RedisLike } from "@kit/core";
import { type ClientContext, resolve, type RulesOf, withContext } from "@kit/core/toolkit";
import { isMade } from "../job/ids.js";
import { parseBlob } from "../job/payload.js";
import { type CheckedAddress, checkedAddress, jobId } from "../store/address.js";
import { addresseeOf } from "../job/outcomes.js";
import { planWord } from "../job/words.js";
import { cancelledChannel, type QueueAddress, type QueueKeys, repliesKey } from "../job/keys.js";
import { addRules } from "../add/options.js";
import { type EndOptions, endWithBelow } from "./below.js";
import { cancel, find, type Found, type JobState, remove, reschedule } from "./scripts.js";
import { located } from "./search.js";

/** How often to look for a job that moves between the leases and the lists of work. */
const maxLooks = 3;

/** Runs a script that changes a job unless it is active. If the script finds the job in no list of work, the leases are searched. */
export const changed = async <Outcome extends string>(
  redis: RedisLike,
  address: QueueAddress,
  id: string,
  change: (context: ClientContext, keys: QueueKeys) => Promise<Outcome | "elsewhere">,
): Promise<Outcome | "active" | "lost"> => {
  const { keys } = checkedAddress(address);
  jobId(id);
  return await withContext(redis, (context) => changedIn(context, keys, id, () => change(context, keys)));
};

const changedIn = async <Outcome extends string>(
  context: ClientContext,
  keys: QueueKeys,
  id: string,
  change: () => Promise<Outcome | "elsewhere">,
): Promise<Outcome | "active" | "lost"> => {
  for (let looks = 1; ; looks++) {
    const outcome = await change();
    if (outcome !== "elsewhere") return outcome;
    const { state } = await located(context, keys, id);
    if (state === "lost") return state;
    // Otherwise its lease ended in the meantime.
    if (state === "active" || looks === maxLooks) return "active";
  }
};

/**
 * Deletes a ready or delayed job of any priority. Resolves with `removed`, or with the reason why nothing was removed:
 *
 * - `active`: a worker has the job
 * - `dead`: the job is a dead letter, see `queue.dropDeadLetters()`
 * - `none`: there is no job of this id. It is done, was deleted, or was never added. A call that is repeated after a lost reply can also
 *   resolve with `none`
 * - `lost`: the job is stored, but cannot run; see `repairQueue()`
 *
 * With `children: true`, the open jobs below it in its flow are removed as well, except active ones.
 *
 * If the job was called, the call rejects with a JobOutcomeLostError within 5 s. The server searches for a ready job of priority 0 as
 * `setPriority()` does.
 *
 * @throws {KitUnavailableError | KitUnknownOutcomeError} as for every command. You can safely repeat the call.
 * @throws {TypeError | RangeError} an argument is invalid.
 *
 * @example
 * const isTooLate = (await removeJob(redis, { queue: "mail" }, id)) === "active";
 */
export const removeJob = async (
  redis: RedisLike,
  address: QueueAddress,
  id: string,
  options: EndOptions = {},
): Promise<"removed" | "active" | "dead" | "none" | "lost"> => {
  const { keys } = checkedAddress(address);
  jobId(id);
  return await withContext(redis, (context) =>
    endWithBelow(context, keys, id, options, (one) =>
      changedIn(context, keys, one, () => remove.run(context, keys, { id: one })),
    ),
  );
};

/** The caller that waits for the outcome of a stored job. Undefined if there is none. */
const callerOf = (blob: Buffer, prefix: string): ReturnType<typeof addresseeOf> | undefined => {
  try {
    const { replyTo } = parseBlob(blob).header;
    return replyTo === undefined ? undefined : addresseeOf(replyTo, prefix);
  } catch {
    return undefined;
  }
};

/** Cancels the job that was found, if it is still the same job. Searches the leases page by page. */
const cancelFound = async (
  context: ClientContext,
  { prefix, head, keys: queueKeys }: CheckedAddress,
  id: string,
  { blob }: Found,
): Promise<Awaited<ReturnType<typeof cancel.run>>["outcome"]> => {
  const to = callerOf(blob, prefix);
  const keys = { ...queueKeys, replies: to ? [repliesKey(head, to.caller)] : [] };
  // A generated id is never used again.
  const [header = ""] = isMade(id) ? [] : blob.toString("latin1").split("\n", 1);
  for (let cursor = "0"; ;) {
    const args = {
      id,
      header: Buffer.from(header, "latin1"),
      cursor,
      channel: to?.channel ?? "",
      caller: to?.caller ?? "",
      pushes: cancelledChannel(head),
    };
    const reply = await cancel.run(context, keys, args);
    ({ cursor } = reply);
    if (cursor === "0") return reply.outcome;
  }
};

/**
 * Ends a ready, delayed or active job, from any process. Resolves with what it did:
 *
 * - `removed`: the job was ready or delayed, and is deleted. It never runs
 * - `cancelled`: a worker had the job. The job is deleted and does not run again. The handler's `signal` aborts with a JobCancelledError,
 *   see below
 * - `dead`, `none`, `lost`: nothing was changed, as for `removeJob()`. A repeated call can also resolve with `none`
 *
 * With `cancelBy: "push"` in its worker, the handler's `signal` aborts immediately. Otherwise it aborts at the worker's next heartbeat:
 * after 0.3 of `leaseMs`, or within 0.6 if the worker has just taken the job. The worker then emits `cancelled`. Until then the worker may
 * start a job that it has taken ahead. It ignores what the handler returns or throws.
 *
 * With `children: true`, the open jobs below it in its flow are cancelled as well.
 *
 * If the job was called, the call rejects with a JobCancelledError immediately. The job's `id`, its `unique` key and its slot of the
 * queue's `concurrency` are free immediately, so another job may run while the cancelled handler finishes. With more than 2,000 active
 * jobs, the leases are searched in several calls.
 *
 * @throws {KitUnavailableError | KitUnknownOutcomeError} as for every command. You can safely repeat the call.
 * @throws {TypeError | RangeError} an argument is invalid.
 *
 * @example
 * await cancelJob(redis, { queue: "mail" }, id);
 */
export const cancelJob = async (
  redis: RedisLike,
  address: QueueAddress,
  id: string,
  options: EndOptions = {},
): Promise<"removed" | "cancelled" | "dead" | "none" | "lost"> => {
  const checked = checkedAddress(address);
  const { keys } = checked;
  jobId(id);
  return await withContext(redis, (context) =>
    endWithBelow(context, keys, id, options, async (one) => {
      for (let looks = 1; ; looks++) {
        const found = await find.run(context, keys, { id: one });
        const { state } = found;
        if (state === "none" || state === "dead") return state;
        const outcome = await cancelFound(context, checked, one, found);
        if (outcome !== "elsewhere") return outcome;
        // It moves between the leases and the lists of work, or was added again under this id.
        if (looks === maxLooks) return "lost";
      }
    }),
  );
};

/** When a job is due. Pass one of the two options. */
interface NewDue {
  /** The delay from now in milliseconds, by the server's clock. */
  readonly delayMs?: number | undefined;
  /** The due time by the server's clock: a Date, or epoch ms. */
  readonly dueAt?: number | Date | undefined;
}

const dueRules = { delayMs: addRules.delayMs, dueAt: addRules.dueAt } satisfies RulesOf<NewDue>;

/**
 * Gives a ready or delayed job another due time. A time in the past means now: a delayed job then goes to the end of its priority, and a
 * ready job keeps its place. Resolves with the job's new state, `ready` or `delayed`, or with the reason why nothing was changed: `active`,
 * `dead`, `none` or `lost`, as for `removeJob()`. A job that waits for its next attempt counts as delayed. If the command is sent again
 * after a lost reply, it can overwrite a newer value.
 *
 * @throws {KitUnavailableError | KitUnknownOutcomeError} as for every command. You can safely repeat the call.
 * @throws {TypeError | RangeError} an argument is invalid, or `delayMs` and `dueAt` are both given or both missing.
 *
 * @example
 * await rescheduleJob(redis, { queue: "mail" }, id, { dueAt: new Date("2030-01-01T09:00:00Z") });
 */
export const rescheduleJob = async (
  redis: RedisLike,
  address: QueueAddress,
  id: string,
  due: NewDue,
): Promise<JobState> => {
  const { delayMs, dueAt } = resolve("due", due, dueRules);
  if ((delayMs === undefined) === (dueAt === undefined)) throw new TypeError("Expected either `delayMs` or `dueAt`");
  const args = { id, due: dueAt === undefined ? planWord("delay", delayMs) : planWord("due", dueAt) };
  return await changed(redis, address, id, (context, keys) => reschedule.run(context, keys, args));
};

/**
 * Makes a delayed job ready now, including a job that waits for its next attempt. Same as `rescheduleJob()` with `delayMs: 0`, and resolves
 * with `ready` on success. A job that waits for another job of its `unique` key stays `delayed`, and starts right after the other job has
 * ended.
 *
 * @throws {KitUnavailableError | KitUnknownOutcomeError} as for every command. You can safely repeat the call.
 * @throws {TypeError | RangeError} an argument is invalid.
 */
export const promoteJob = (redis: RedisLike, address: QueueAddress, id: string): Promise<JobState> =>
  rescheduleJob(redis, address, id, { delayMs: 0 });
