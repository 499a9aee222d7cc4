import type { RedisLike } from "@kit/core";
import { custom, integer, integerOption, resolve, type RulesOf } from "@kit/core/toolkit";
import { encodedName } from "../add/names.js";
import { checkedAddress } from "../address.js";
import type { QueueAddress } from "../keys.js";
import { limit } from "./scripts.js";

/** How often jobs may begin, by the server's clock. */
export interface QueueRate {
  /** So many jobs per `perMs`, 1 to 1,000,000, evenly spread. */
  readonly count: number;
  /** In milliseconds, 1 to 86,400,000 (a day). */
  readonly perMs: number;
  /**
   * How many jobs may begin at once after a time in which fewer began than the rate allows, 1 to 1,000,000. So at most `count` + `burst` jobs
   * begin within `perMs`. With 1, a job that begins some milliseconds late delays all others, and the rate stays a little below the limit.
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

/** Bounds on the jobs of one name. */
interface NameLimits {
  /**
   * How many of them may be active at a time, 1 to 1,000.
   *
   * @default as it is; at first unlimited
   */
  readonly concurrency?: number | null | undefined;
}

/** Bounds on the jobs of a queue, of all workers together. A limit that is left out stays as it is; null removes it. */
interface QueueLimits {
  /**
   * How many jobs may be active at a time, 1 to 1,000,000. A lease that has ended counts until a worker has taken the job back.
   *
   * @default as it is; at first unlimited
   */
  readonly concurrency?: number | null | undefined;
  /**
   * How often jobs may begin. A job counts when its handler begins: one that expired, cannot run or goes back before does not. The first
   * rate begins with a full burst. Another one goes on with what is left of the burst, so that changes let no further job begin. Null also
   * ends the wait that a handler requested by a RateLimitError.
   *
   * @default as it is; at first unlimited
   */
  readonly rate?: QueueRate | null | undefined;
  /**
   * Limits for jobs of single names, beside those of the queue; null removes those of a name. A name that is left out keeps its own. Jobs of a
   * name at its limit let all others pass, and keep their order. At most 100 names of a queue can be limited or paused. Jobs that are
   * active when their name gets its first concurrency do not count. A pause of the name stays as it is.
   *
   * @default as they are; at first none
   */
  readonly names?: Readonly<Record<string, NameLimits | null>> | undefined;
}

const nameRules = {
  concurrency: custom(
    (name, value: number | null) => (value === null ? "0" : String(integerOption(name, value, 1, 1_000))),
    "-",
  ),
} satisfies RulesOf<NameLimits>;

const maxNames = 100;

const nameLines = (option: string, names: Readonly<Record<string, NameLimits | null>>): string => {
  // An array or text would have numbers as its names.
  if (typeof names !== "object" || (names as unknown) === null || Array.isArray(names))
    throw new TypeError(`Expected \`${option}\` to be an object`);
  const lines = Object.entries(names).map(([name, limits]) => {
    const path = `${option}.${name}`;
    const { concurrency } =
      limits === null ? { concurrency: "0" } : resolve(path, limits, nameRules, undefined, `${path}.`);
    return `${encodedName(name)} ${concurrency} -`;
  });
  if (lines.length > maxNames) throw tooManyNames();
  return lines.join("\n");
};

const tooManyNames = (): RangeError =>
  new RangeError(`Expected at most ${String(maxNames)} names of jobs with limits in one queue`);

/** The form of an operand: empty, nothing changes; 0, the limit is removed. */
const limitRules = {
  concurrency: custom(
    (name, value: number | null) => (value === null ? "0" : String(integerOption(name, value, 1, 1_000_000))),
    "",
  ),
  rate: custom((name, rate: QueueRate | null) => (rate === null ? "0" : rateText(name, rate)), ""),
  names: custom(nameLines, ""),
};

/** Leaves all limits as they are. */
const asBefore = { paused: "", concurrency: "", rate: "", names: "" };

const changeLimits = async (
  redis: RedisLike,
  address: QueueAddress,
  change: Partial<typeof asBefore>,
): Promise<void> => {
  const { keys } = checkedAddress(address);
  let reply;
  do {
    // By the server's clock, so that a repeat of this change does not undo one that was requested later.
    const askedAt = await limit.run(redis, keys, { ...asBefore, askedAt: "" });
    reply = await limit.run(redis, keys, { ...asBefore, ...change, askedAt });
  } while (reply === "late");
  if (reply === "0") throw tooManyNames();
};

const pauseRules = { name: custom((_name, name: string) => encodedName(name)) } satisfies RulesOf<PauseOptions>;

/** The jobs to pause or to resume. */
interface PauseOptions {
  /**
   * Only jobs of this name. Others pass them; they keep their order.
   *
   * @default all jobs of the queue
   */
  readonly name?: string | undefined;
}

const changePause = async (
  redis: RedisLike,
  address: QueueAddress,
  options: PauseOptions,
  paused: "0" | "1",
): Promise<void> => {
  const { name } = resolve("options", options, pauseRules);
  await changeLimits(redis, address, name === undefined ? { paused } : { names: `${name} - ${paused}` });
};

/**
 * Changes limits of a queue, for all workers, at any time. Running jobs continue: after a limit was lowered, none begins until enough have
 * ended. Workers take nothing ahead under a limit, keep the order of the jobs, and are woken when the next one may begin.
 *
 * A repeat of the command changes nothing that was changed by a later call.
 *
 * @throws {KitUnavailableError | KitUnknownOutcomeError} as every command. Calling it again does no harm.
 * @throws {TypeError | RangeError} an argument is not what it should be, or more than 100 names would have limits: nothing was changed.
 *
 * @example
 * await setLimits(redis, { queue: "mail" }, { concurrency: 10, rate: { count: 100, perMs: 60_000 } });
 * await setLimits(redis, { queue: "mail" }, { names: { newsletter: { concurrency: 2 } } });
 */
export const setLimits = async (redis: RedisLike, address: QueueAddress, limits: QueueLimits): Promise<void> => {
  await changeLimits(redis, address, resolve("limits", limits, limitRules));
};

/**
 * Pauses a queue for all workers, until `resumeQueue()`, also across restarts of workers and server. Running jobs finish. Adds go on, and
 * delayed jobs become ready when they are due, but none begins. A worker may have taken jobs ahead: it hands them back when its next job ends,
 * or after about 200 ms. Until then a free handler may begin one. A queue can be paused before its first add. Pausing it again changes nothing.
 *
 * With `name` only the jobs of that name are paused, and their `concurrency` stays. Others pass them. A pause of the queue and one of a name do
 * not know each other: each has an end of its own.
 *
 * To pause one worker, call its `pause()`.
 *
 * @throws {KitUnavailableError | KitUnknownOutcomeError} as every command. Calling it again does no harm.
 * @throws {TypeError | RangeError} an argument is not what it should be, or 100 other names have limits.
 *
 * @example
 * await pauseQueue(redis, { queue: "mail" });
 * await pauseQueue(redis, { queue: "mail" }, { name: "newsletter" });
 */
export const pauseQueue = async (
  redis: RedisLike,
  address: QueueAddress,
  options: PauseOptions = {},
): Promise<void> => {
  await changePause(redis, address, options, "1");
};

/**
 * Lets a paused queue go on, or with `name` the jobs of that name, and wakes the workers. What is not paused stays as it is.
 *
 * @throws {KitUnavailableError | KitUnknownOutcomeError} as every command. Calling it again does no harm.
 * @throws {TypeError | RangeError} an argument is not what it should be.
 */
export const resumeQueue = async (
  redis: RedisLike,
  address: QueueAddress,
  options: PauseOptions = {},
): Promise<void> => {
  await changePause(redis, address, options, "0");
};
