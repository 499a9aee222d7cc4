import type { RedisLike } from "@kit/core";
import { type ClientContext, resolve, type RulesOf, withContext } from "@kit/core/toolkit";
import { isMade } from "../add/ids.js";
import { parseBlob } from "../add/payload.js";
import { type CheckedAddress, checkedAddress, jobId } from "../address.js";
import { addresseeOf } from "../call/outcomes.js";
import { cancelledChannel, type QueueAddress, type QueueKeys, repliesKey } from "../keys.js";
import { addRules } from "../options.js";
import { cancel, find, type Found, type JobState, remove, reschedule } from "./scripts.js";
import { located } from "./search.js";

/** How often a job is looked for that moves between the leases and the lists of work. */
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
  return await withContext(redis, async (context) => {
    for (let looks = 1; ; looks++) {
      const outcome = await change(context, keys);
      if (outcome !== "elsewhere") return outcome;
      const { state } = await located(context, keys, id);
      if (state === "lost") return state;
      // Otherwise its lease ended meanwhile.
      if (state === "active" || looks === maxLooks) return "active";
    }
  });
};

/**
 * Deletes a job that is ready or delayed, whatever its priority. Resolves with `removed`, or with why it was not:
 *
 * - `active`: a worker has the job
 * - `dead`: it is a dead letter, see `queue.dropDeadLetters()`
 * - `none`: there is no job of this id: it is done, was deleted, or was never added. A call whose reply was lost, and which is made
 *   again, resolves with this, too
 * - `lost`: it is in no list of work, see `repairQueue()`
 *
 * If the job was called, the call rejects with a JobOutcomeLostError within 5 s. The server searches for a ready job of priority 0 as for
 * `setPriority()`.
 *
 * @throws {KitUnavailableError | KitUnknownOutcomeError} as every command. Calling it again does no harm.
 * @throws {TypeError | RangeError} an argument is not what it should be.
 *
 * @example
 * const isTooLate = (await removeJob(redis, { queue: "mail" }, id)) === "active";
 */
export const removeJob = async (
  redis: RedisLike,
  address: QueueAddress,
  id: string,
): Promise<"removed" | "active" | "dead" | "none" | "lost"> =>
  await changed(redis, address, id, (context, keys) => remove.run(context, keys, { id }));

/** The caller that waits for the outcome of a stored job; undefined: nobody does. */
const callerOf = (blob: Buffer, prefix: string): ReturnType<typeof addresseeOf> | undefined => {
  try {
    const { replyTo } = parseBlob(blob).header;
    return replyTo === undefined ? undefined : addresseeOf(replyTo, prefix);
  } catch {
    return undefined;
  }
};

/** Cancels the job that was found, if it still is the same one. Searches the leases page by page. */
const cancelFound = async (
  context: ClientContext,
  { prefix, head, keys: queueKeys }: CheckedAddress,
  id: string,
  { blob }: Found,
): Promise<Awaited<ReturnType<typeof cancel.run>>["outcome"]> => {
  const to = callerOf(blob, prefix);
  const keys = { ...queueKeys, replies: to ? [repliesKey(head, to.caller)] : [] };
  // A made id is never used again.
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
 * Ends a job wherever it is, from any process. Resolves with what it did:
 *
 * - `removed`: the job was ready or delayed, and is deleted. It never runs
 * - `cancelled`: a worker had the job. The job is deleted and does not run again. The handler's `signal` aborts with a JobCancelledError: at
 *   once if its worker has `cancelBy: "push"`, else at the worker's next heartbeat: after 0.3 of its `leaseMs`, within 0.6 of it if the job has
 *   just been taken. The worker then emits `cancelled`. A job that it had taken ahead may begin until then. What the handler returns or
 *   throws is ignored
 * - `dead`, `none`, `lost`: nothing was done, as `removeJob()`. `none` is also the answer to a call that is made again
 *
 * If the job was called, the call rejects with a JobCancelledError at once. An id of your own, a `unique` key and a slot of the queue's
 * `concurrency` are free at once, too: another job may run while the handler of this one ends. With more than 2,000 active jobs the leases
 * are searched in several calls.
 *
 * @throws {KitUnavailableError | KitUnknownOutcomeError} as every command. Calling it again does no harm.
 * @throws {TypeError | RangeError} an argument is not what it should be.
 *
 * @example
 * await cancelJob(redis, { queue: "mail" }, id);
 */
export const cancelJob = async (
  redis: RedisLike,
  address: QueueAddress,
  id: string,
): Promise<"removed" | "cancelled" | "dead" | "none" | "lost"> => {
  const checked = checkedAddress(address);
  const { keys } = checked;
  jobId(id);
  return await withContext(redis, async (context) => {
    for (let looks = 1; ; looks++) {
      const found = await find.run(context, keys, { id });
      const { state } = found;
      if (state === "none" || state === "dead") return state;
      const outcome = await cancelFound(context, checked, id, found);
      if (outcome !== "elsewhere") return outcome;
      // It moves between the leases and the lists of work, or was added again under this id.
      if (looks === maxLooks) return "lost";
    }
  });
};

/** When a job is due. One of the two. */
interface NewDue {
  /** In so many milliseconds from now, by the server's clock. */
  readonly delayMs?: number | undefined;
  /** At this instant by the server's clock: a Date, or epoch ms. */
  readonly dueAt?: number | Date | undefined;
}

const dueRules = { delayMs: addRules.delayMs, dueAt: addRules.dueAt } satisfies RulesOf<NewDue>;

/**
 * Gives a ready or delayed job another due time. An instant in the past means now: a delayed job then goes to the end of its priority, and a
 * ready one keeps its place. Resolves with what the job is from now on, `ready` or `delayed`; or with why nothing was changed: `active`,
 * `dead`, `none` or `lost`, as `removeJob()`. A job that waits for its next attempt is delayed, too.
 * A copy of the command, sent again after a lost reply, sets its value also after a newer one.
 *
 * @throws {KitUnavailableError | KitUnknownOutcomeError} as every command. Calling it again does no harm.
 * @throws {TypeError | RangeError} an argument is not what it should be, or there are both `delayMs` and `dueAt`, or none.
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
  const args = { id, due: dueAt === undefined ? `d${String(delayMs)}` : `@${String(dueAt)}` };
  return await changed(redis, address, id, (context, keys) => reschedule.run(context, keys, args));
};

/**
 * Makes a delayed job ready now, also one that waits for its next attempt. As `rescheduleJob()` with `delayMs: 0`: `ready` if it is. One
 * that waits for the end of another of its `unique` key stays `delayed`, and begins right after that.
 *
 * @throws {KitUnavailableError | KitUnknownOutcomeError} as every command. Calling it again does no harm.
 * @throws {TypeError | RangeError} an argument is not what it should be.
 */
export const promoteJob = (redis: RedisLike, address: QueueAddress, id: string): Promise<JobState> =>
  rescheduleJob(redis, address, id, { delayMs: 0 });
