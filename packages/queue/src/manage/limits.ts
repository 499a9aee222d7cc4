import type { RedisLike } from "@kit/core";
import { type QueueAddress, queueKeys } from "../keys.js";
import { limit } from "./scripts.js";

/**
 * Pauses a queue for all workers, until `resumeQueue()`, also across restarts of workers and server. Running jobs finish. Adds go on, and
 * delayed jobs become ready when they are due, but none begins. A worker may have taken jobs ahead, some 50 ms of its work: it begins them,
 * or hands them back, within about 200 ms. A queue can be paused before its first add. Pausing it again changes nothing.
 *
 * To pause one worker, close it.
 *
 * @throws {KitUnavailableError | KitUnknownOutcomeError} as every command. Calling it again does no harm.
 *
 * @example
 * await pauseQueue(redis, { queue: "mail" });
 */
export const pauseQueue = async (redis: RedisLike, { queue, prefix = "kit" }: QueueAddress): Promise<void> => {
  await limit.run(redis, queueKeys(prefix, queue), { paused: "1" });
};

/**
 * Lets a paused queue go on, and wakes its workers. A queue that is not paused stays as it is.
 *
 * @throws {KitUnavailableError | KitUnknownOutcomeError} as every command. Calling it again does no harm.
 */
export const resumeQueue = async (redis: RedisLike, { queue, prefix = "kit" }: QueueAddress): Promise<void> => {
  await limit.run(redis, queueKeys(prefix, queue), { paused: "0" });
};
