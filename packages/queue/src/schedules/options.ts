import {
  type ClientOptions,
  choice,
  custom,
  integer,
  nested,
  required,
  type Resolved,
  type RulesOf,
  text,
  textOption,
} from "@kit/core/toolkit";
import { longestWaitMs, milliseconds } from "../job/backoff.js";
import { encodedName } from "../job/names.js";
import { type AddOptions, addRules } from "../add/options.js";
import { type QueueOptions, queueRules } from "../store/options.js";
import type { JobData, JobName } from "../job/types.js";

/** Options of `createSchedules()`. The options about jobs are the defaults of each schedule. */
export interface SchedulesOptions
  extends
    ClientOptions,
    Pick<QueueOptions, "maxPayloadBytes" | "allowEviction" | "maxAttempts" | "backoff" | "timeoutMs" | "expiresMs"> {
  /**
   * The maximum time between two checks of `run()` for schedules that other processes have added or changed, in milliseconds, 100 to
   * 60,000. Each check is one command, for any number of schedules.
   *
   * @default 5000
   */
  readonly lookEveryMs?: number | undefined;
}

const { maxPayloadBytes, allowEviction, prefix, deadlineMs, isolate } = queueRules;
const { maxAttempts, backoff, timeoutMs, expiresMs } = queueRules;

/** The rules of the settings that a queue has as well. */
const sharedRules = {
  ...{ prefix, deadlineMs, isolate, maxPayloadBytes, allowEviction },
  ...{ maxAttempts, backoff, timeoutMs, expiresMs },
};

export const schedulesRules = {
  ...sharedRules,
  lookEveryMs: milliseconds(100, 60_000, 5_000),
} satisfies RulesOf<SchedulesOptions>;

const dayMs = 86_400_000;

/** How the jobs of a schedule run, as in `queue.add()`. */
export interface ScheduledJobOptions extends Pick<
  AddOptions,
  "priority" | "maxAttempts" | "backoff" | "timeoutMs" | "expiresMs"
> {}

const jobRules = {
  priority: addRules.priority,
  maxAttempts: addRules.maxAttempts,
  backoff: addRules.backoff,
  timeoutMs: addRules.timeoutMs,
  expiresMs: addRules.expiresMs,
} satisfies RulesOf<ScheduledJobOptions>;

/** What happens to runs whose time passed while no process could add their jobs. */
export type MissedRuns = "skip" | "last" | "all";

/** Whether a run adds a job while the job of the previous run is still in the queue. */
export type OverlapPolicy = "allow" | "skip";

/** When a schedule runs, by `everyMs` or `cron`, and the job that each run adds. */
export interface ScheduleOptions {
  /** The name of its jobs. */
  readonly name: string;
  /** The data of its jobs, as in `queue.add()`. */
  readonly data?: unknown;
  /**
   * The interval between runs, in milliseconds. Run times are `startAt` plus multiples of the interval; without `startAt`, the multiples
   * count from 1970 in UTC. So run times are the same in every process, and neither a deploy nor a late run shifts them.
   */
  readonly everyMs?: number | undefined;
  /**
   * A cron expression in croner's syntax: five fields, or six with seconds first. Needs the package `croner`.
   *
   * When daylight saving time starts or ends, an expression that names hours (`30 2,14 * * *`) runs each of its times once. Times that the
   * clock skips have one run, at the end of the gap. If a time occurs twice, the schedule runs the first time only. An expression that
   * names every hour (`0,30 * * * *`) runs whenever the clock shows one of its times.
   */
  readonly cron?: string | undefined;
  /** The time zone of `cron`, as an IANA name. Without it kit uses UTC, so that all processes agree. */
  readonly timezone?: string | undefined;
  /** No run before this time: a Date, or epoch ms. */
  readonly startAt?: number | Date | undefined;
  /** No run after this time: a Date, or epoch ms. */
  readonly endAt?: number | Date | undefined;
  /** The schedule ends after this many jobs. */
  readonly count?: number | undefined;
  /**
   * What happens to runs that could not start in time, because no process ran schedules or the server was unreachable.
   *
   * - `"last"`: the latest run adds its job.
   * - `"all"`: every run adds its job.
   * - `"skip"`: the latest run adds its job if it is at most one minute late.
   *
   * @default "last"
   */
  readonly missed?: MissedRuns | undefined;
  /**
   * Whether a run adds its job while the job of the previous run has not ended. With `"skip"` it adds no job, and the event `missed`
   * reports the run. A dead letter has ended; a job that waits for its next attempt has not. After a crash, a job can still overlap with
   * its own first handler: use a lock if that must never happen.
   *
   * @default "allow"
   */
  readonly overlap?: OverlapPolicy | undefined;
  /**
   * Delays each job by a random time up to this many milliseconds, so that schedules with the same time don't start together. The time in
   * the job's id is still the run's time.
   *
   * @default 0
   */
  readonly jitterMs?: number | undefined;
  /**
   * Decides which of two definitions wins. While old and new processes of a deploy run together, an `upsert` with a lower version than the
   * stored one changes nothing. With equal versions the last `upsert` wins.
   *
   * @default 0
   */
  readonly version?: number | undefined;
  /** How its jobs run. */
  readonly options?: ScheduledJobOptions | undefined;
}

/** A schedule for jobs of these types. You can omit data that may be undefined. */
export type Schedule<Jobs> = {
  readonly [Name in JobName<Jobs>]: Omit<ScheduleOptions, "name" | "data"> & {
    readonly name: Name;
  } & (undefined extends JobData<Jobs, Name>
      ? { readonly data?: JobData<Jobs, Name> }
      : { readonly data: JobData<Jobs, Name> });
}[JobName<Jobs>];

export const scheduleRules = {
  name: required(
    custom((_name, name: string) => {
      encodedName(name);
      return name;
    }),
  ),
  data: custom((_name, data: unknown) => data),
  options: nested(jobRules),
  everyMs: milliseconds(1, longestWaitMs),
  cron: text(256),
  timezone: text(64),
  startAt: addRules.dueAt,
  endAt: addRules.dueAt,
  count: integer(1),
  missed: choice(["skip", "last", "all"], "last"),
  overlap: choice(["allow", "skip"], "allow"),
  jitterMs: milliseconds(0, dayMs, 0),
  version: integer(0, undefined, 0),
} satisfies RulesOf<ScheduleOptions>;

/** The page of schedules to read. */
export interface ListOptions {
  /**
   * How many schedules to skip.
   *
   * @default 0
   */
  readonly start?: number | undefined;
  /**
   * How many schedules to read, up to 100.
   *
   * @default 20
   */
  readonly count?: number | undefined;
}

export const listRules = { start: integer(0, undefined, 0), count: integer(1, 100, 20) } satisfies RulesOf<ListOptions>;

export type ResolvedSchedule = Resolved<typeof scheduleRules>;

/** The ids of its jobs add `@` and a time. */
const maxIdLength = 100;

/** @throws {TypeError | RangeError} `id` is not a valid schedule id. */
export const scheduleId = (id: string): void => {
  textOption("id", id, maxIdLength);
  addRules.id.check("id", id);
};
