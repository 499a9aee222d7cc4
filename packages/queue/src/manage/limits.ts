import type { RedisLike } from "@kit/core";
import { choice, custom, integer, integerOption, resolve, type RulesOf } from "@kit/core/toolkit";
import { encodedGroup, encodedName } from "../job/names.js";
import { checkedAddress } from "../store/address.js";
import type { QueueAddress } from "../job/keys.js";
import { type GroupRetry, limit } from "./scripts.js";

/** How often jobs can start, by the server's clock. */
export interface QueueRate {
  /** The number of jobs per `perMs`, 1 to 1,000,000, evenly spread. */
  readonly count: number;
  /** The period in milliseconds, 1 to 86,400,000 (a day). */
  readonly perMs: number;
  /**
   * How many jobs can start together after a period with fewer starts than the rate allows, 1 to 1,000,000. So at most `count` + `burst`
   * jobs start within `perMs`. With 1, a job that starts a few milliseconds late delays all later jobs, and the actual rate stays slightly
   * below the limit.
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

const groupRateText = (name: string, rate: GroupRate): string => {
  const rules = { count: rateRules.count, perMs: rateRules.perMs };
  const { count, perMs } = resolve(name, rate, rules, undefined, `${name}.`);
  if (count === undefined || perMs === undefined)
    throw new TypeError(`Expected \`${name}\` to have \`count\` and \`perMs\``);
  if (count > perMs) throw new RangeError(`Expected \`${name}\` to be at most one job per millisecond`);
  return `${String(count)}/${String(perMs)}`;
};

/** Limits for the jobs of one name. */
interface NameLimits {
  /**
   * How many of them can be active at a time, 1 to 1,000.
   *
   * @default unchanged; initially unlimited
   */
  readonly concurrency?: number | null | undefined;
}

/** How often jobs of each group can start, by the server's clock. */
interface GroupRate {
  /** The number of jobs per `perMs`, 1 to 1,000,000, at most `perMs`. */
  readonly count: number;
  /** The period in milliseconds, 1 to 86,400,000 (a day). */
  readonly perMs: number;
}

/** Limits and weight of one group. */
interface GroupLimits {
  /**
   * How many of its jobs can be active at a time, 1 to 1,000. Null: the queue's `groupConcurrency`.
   *
   * @default unchanged; initially the queue's `groupConcurrency`
   */
  readonly concurrency?: number | null | undefined;
  /**
   * Its share of the turns, 1 to 100: a group of weight 2 starts twice as many jobs as a group of weight 1, while both can start jobs.
   * Null: 1.
   *
   * @default unchanged; initially 1
   */
  readonly weight?: number | null | undefined;
}

/** Limits for the jobs of a queue, for all workers together. A limit that you omit stays unchanged. Null removes it. */
interface QueueLimits {
  /**
   * How many jobs can be active at a time, 1 to 1,000,000. An expired lease counts until a worker has taken the job back.
   *
   * @default unchanged; initially unlimited
   */
  readonly concurrency?: number | null | undefined;
  /**
   * How often jobs can start. A job counts when its handler starts. Jobs that expire, cannot run, or go back before that don't count. The
   * first rate starts with a full burst. A changed rate continues with the remaining burst, so the change itself lets no extra job start.
   * Null also ends a wait that a handler requested with a RateLimitError.
   *
   * @default unchanged; initially unlimited
   */
  readonly rate?: QueueRate | null | undefined;
  /**
   * Limits for single job names, in addition to the queue's limits. Null removes the limits of a name. Names that you omit keep their
   * limits. When a name is at its limit, jobs of other names pass its jobs, which keep their order. Up to 100 names of a queue can be
   * limited or paused. Jobs that are active when their name first gets a `concurrency` don't count. A pause of the name stays unchanged.
   *
   * @default unchanged; a new queue has none
   */
  readonly names?: Readonly<Record<string, NameLimits | null>> | undefined;
  /**
   * How many jobs of each group can be active at a time, 1 to 1,000. A higher value applies immediately to the first 1,000 groups that have
   * active jobs, and to others when one of their jobs ends. Null: 1.
   *
   * @default unchanged; initially 1
   */
  readonly groupConcurrency?: number | null | undefined;
  /**
   * The behavior of a group while one of its jobs waits for its next attempt, after a failure or a SnoozeError.
   *
   * - `"wait"`: the job still counts toward the group's concurrency, and runs again before the other jobs of its group and priority. With a
   *   `groupConcurrency` of 1 the order of the group is kept, and the group stops until the job has ended.
   * - `"pass"`: the next job of the group starts. The failed job goes after the others when it is due.
   *
   * @default unchanged; initially "wait"
   */
  readonly groupRetry?: GroupRetry | undefined;
  /**
   * How often jobs of each group can start: `count` per `perMs`, evenly spread. A start that is up to 100 ms late does not delay the next
   * one. A job counts when a worker takes it, even if it goes back. Null: unlimited.
   *
   * @default unchanged; initially unlimited
   */
  readonly groupRate?: GroupRate | null | undefined;
  /**
   * Limits for up to 100 single groups in a call. Null removes the limits of a group. Groups that you omit keep their limits. A pause of
   * the group stays unchanged.
   *
   * @default unchanged; a new queue has none
   */
  readonly groups?: Readonly<Record<string, GroupLimits | null>> | undefined;
}

/** The form of a number. 0: none. */
const numberOrNone = (most: number) =>
  custom(
    (name: string, value: number | null) => (value === null ? "0" : String(integerOption(name, value, 1, most))),
    "-",
  );

const nameRules = { concurrency: numberOrNone(1_000) } satisfies RulesOf<NameLimits>;

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
  new RangeError(`Expected limits for at most ${String(maxNames)} job names in a queue`);

const groupRules = { concurrency: numberOrNone(1_000), weight: numberOrNone(100) } satisfies RulesOf<GroupLimits>;

const groupLines = (option: string, groups: Readonly<Record<string, GroupLimits | null>>): string => {
  if (typeof groups !== "object" || (groups as unknown) === null || Array.isArray(groups))
    throw new TypeError(`Expected \`${option}\` to be an object`);
  const all = Object.entries(groups);
  if (all.length > maxNames) throw new RangeError(`Expected limits for at most ${String(maxNames)} groups in a call`);
  return all
    .map(([group, limits]) => {
      const path = `${option}.${group}`;
      const { concurrency, weight } =
        limits === null ? { concurrency: "0", weight: "0" } : resolve(path, limits, groupRules, undefined, `${path}.`);
      return `\n${encodedGroup(path, group)} ${concurrency} ${weight} -`;
    })
    .join("");
};

/** The form of an operand. Empty: nothing changes. 0: the limit is removed. */
const limitRules = {
  concurrency: custom(
    (name, value: number | null) => (value === null ? "0" : String(integerOption(name, value, 1, 1_000_000))),
    "",
  ),
  rate: custom((name, rate: QueueRate | null) => (rate === null ? "0" : rateText(name, rate)), ""),
  names: custom(nameLines, ""),
  groupConcurrency: numberOrNone(1_000),
  groupRetry: choice<GroupRetry>(["wait", "pass"]),
  groupRate: custom((name, rate: GroupRate | null) => (rate === null ? "0/0" : groupRateText(name, rate)), "-"),
  groups: custom(groupLines, ""),
};

/** Leaves all limits unchanged. */
const asBefore = { paused: "", concurrency: "", rate: "", names: "", ofGroups: "" };

const changeLimits = async (
  redis: RedisLike,
  address: QueueAddress,
  change: Partial<typeof asBefore>,
): Promise<void> => {
  const { keys } = checkedAddress(address);
  let reply;
  do {
    // Uses the server's clock, so that a repeat of this change does not undo a later change.
    const askedAt = await limit.run(redis, keys, { ...asBefore, askedAt: "" });
    reply = await limit.run(redis, keys, { ...asBefore, ...change, askedAt });
  } while (reply === "late");
  if (reply === "0") throw tooManyNames();
};

const pauseRules = {
  name: custom((_name, name: string) => encodedName(name)),
  group: custom(encodedGroup),
} satisfies RulesOf<PauseOptions>;

/** The jobs to pause or to resume. */
interface PauseOptions {
  /**
   * Only jobs of this name. Jobs of other names pass them. The paused jobs keep their order.
   *
   * @default all jobs of the queue
   */
  readonly name?: string | undefined;
  /**
   * Only jobs of this group. Other groups keep their turns. Can't be combined with `name`.
   *
   * @default all jobs of the queue
   */
  readonly group?: string | undefined;
}

const changePause = async (
  redis: RedisLike,
  address: QueueAddress,
  options: PauseOptions,
  paused: "0" | "1",
): Promise<void> => {
  const { name, group } = resolve("options", options, pauseRules);
  if (name !== undefined && group !== undefined) throw new TypeError("Expected `name` or `group`, got both");
  const ofOne = name === undefined ? { ofGroups: `${group ?? ""} - - ${paused}` } : { names: `${name} - ${paused}` };
  await changeLimits(redis, address, (name ?? group) === undefined ? { paused } : ofOne);
};

/**
 * Changes the limits of a queue, for all workers, at any time. Running jobs continue: after a limit was lowered, no job starts until enough
 * jobs have ended. Under a limit, workers take no jobs ahead, keep the order of the jobs, and are woken when the next job can start.
 *
 * Limits of groups apply in addition to limits of the queue and of names. A repeated command does not undo a later change.
 *
 * @throws {KitUnavailableError | KitUnknownOutcomeError} as for every command. You can safely repeat the call.
 * @throws {TypeError | RangeError} an argument is invalid, or more than 100 names would have limits. Nothing was changed.
 *
 * @example
 * await setLimits(redis, { queue: "mail" }, { concurrency: 10, rate: { count: 100, perMs: 60_000 } });
 * await setLimits(redis, { queue: "mail" }, { names: { newsletter: { concurrency: 2 } } });
 */
export const setLimits = async (redis: RedisLike, address: QueueAddress, limits: QueueLimits): Promise<void> => {
  const { groupConcurrency, groupRetry = "-", groupRate, groups, ...others } = resolve("limits", limits, limitRules);
  const all = `${groupConcurrency} ${groupRetry} ${groupRate}`;
  const ofAll = all === "- - -" ? "" : ` ${all}`;
  await changeLimits(redis, address, { ...others, ofGroups: ofAll + groups });
};

/**
 * Pauses a queue for all workers, until `resumeQueue()`. The pause survives restarts of workers and server. Running jobs finish. Producers
 * can still add jobs, and delayed jobs become ready when they are due, but no job starts. A worker that took jobs ahead hands them back
 * when its next job ends, or after about 200 ms; until then a free handler can start one of them. You can pause a queue before its first
 * add. Pausing it again changes nothing.
 *
 * With `name` only the jobs of that name are paused; their `concurrency` stays, and other jobs pass them. With `group` only the jobs of that
 * group are paused. The pauses of a queue, of a name and of a group are independent: resume each of them.
 *
 * To pause one worker, call its `pause()`.
 *
 * @throws {KitUnavailableError | KitUnknownOutcomeError} as for every command. You can safely repeat the call.
 * @throws {TypeError | RangeError} an argument is invalid, or 100 other names have limits.
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
 * Resumes a paused queue, or with `name` or `group` the jobs of that name or group, and wakes the workers. Has no effect without a pause.
 *
 * @throws {KitUnavailableError | KitUnknownOutcomeError} as for every command. You can safely repeat the call.
 * @throws {TypeError | RangeError} an argument is invalid.
 */
export const resumeQueue = async (
  redis: RedisLike,
  address: QueueAddress,
  options: PauseOptions = {},
): Promise<void> => {
  await changePause(redis, address, options, "0");
};
