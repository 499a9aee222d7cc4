import type { RedisLike } from "@kit/core";
import { custom, integer, integerOption, resolve, type RulesOf } from "@kit/core/toolkit";
import { type QueueAddress, queueKeys } from "../keys.js";
import { limit } from "./scripts.js";

/** How often jobs may begin, by the server's clock. */
export interface QueueRate {
  /** So many jobs per `perMs`, 1 to 1,000,000, evenly spread. */
  readonly count: number;
  /** In milliseconds, 1 to 86,400,000 (a day). */
  readonly perMs: number;
  /**
   * How many may begin at once after a while without any, 1 to 1,000,000: in a time of `perMs` that is `count` and these at most. With 1, each
   * job that begins some ms late delays all others, and the rate is a little lower than wanted.
   *
   * @default a tenth of `count`, at least 1
   */
  readonly burst?: number | undefined;
}

const rateRules = {
  count: integer(1, 1_000_000),
  perMs: integer(1, 86_400_000),
  burst: integer(1, 1_000_000),
} satisfies RulesOf<QueueRate>;

const rateText = (name: string, rate: QueueRate): string => {
  const { count, perMs, burst } = resolve(name, rate, rateRules, undefined, `${name}.`);
  if (count === undefined || perMs === undefined)
    throw new TypeError(`Expected \`${name}\` to have \`count\` and \`perMs\``);
  return [count, perMs, burst ?? Math.ceil(count / 10)].join(" ");
};

/** Bounds on the jobs of a queue, of all workers together. A limit that is left out stays as it is; null removes it. */
interface QueueLimits {
  /**
   * How many jobs may be active at a time, 1 to 1,000,000. A lease that has ended counts until a worker has taken the job back.
   *
   * @default as it is; at first unlimited
   */
  readonly concurrency?: number | null | undefined;
  /**
   * How often jobs may begin. A job counts when a worker takes it, unless it goes back before its handler began. Null also ends the wait that a
   * handler requested by a RateLimitError. Another rate than before begins with a full burst.
   *
   * @default as it is; at first unlimited
   */
  readonly rate?: QueueRate | null | undefined;
}

/** The form of an operand: empty, nothing changes; 0, the limit is removed. */
const limitRules = {
  concurrency: custom(
    (name, value: number | null) => (value === null ? "0" : String(integerOption(name, value, 1, 1_000_000))),
    "",
  ),
  rate: custom((name, rate: QueueRate | null) => (rate === null ? "0" : rateText(name, rate)), ""),
};

/** Leaves all limits as they are. */
const asBefore = { paused: "", concurrency: "", rate: "" };

/**
 * Changes limits of a queue, for all workers, at any time. Running jobs continue: after a limit was lowered, none begins until enough have
 * ended. Workers take nothing ahead under a limit, keep the order of the jobs, and are woken when the next one may begin.
 *
 * @throws {KitUnavailableError | KitUnknownOutcomeError} as every command. Calling it again does no harm.
 * @throws {TypeError | RangeError} an argument is not what it should be.
 *
 * @example
 * await setLimits(redis, { queue: "mail" }, { concurrency: 10, rate: { count: 100, perMs: 60_000 } });
 */
export const setLimits = async (
  redis: RedisLike,
  { queue, prefix = "kit" }: QueueAddress,
  limits: QueueLimits,
): Promise<void> => {
  await limit.run(redis, queueKeys(prefix, queue), { ...asBefore, ...resolve("limits", limits, limitRules) });
};

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
  await limit.run(redis, queueKeys(prefix, queue), { ...asBefore, paused: "1" });
};

/**
 * Lets a paused queue go on, and wakes its workers. A queue that is not paused stays as it is.
 *
 * @throws {KitUnavailableError | KitUnknownOutcomeError} as every command. Calling it again does no harm.
 */
export const resumeQueue = async (redis: RedisLike, { queue, prefix = "kit" }: QueueAddress): Promise<void> => {
  await limit.run(redis, queueKeys(prefix, queue), { ...asBefore, paused: "0" });
};
