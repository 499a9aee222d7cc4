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
import { longestWaitMs, milliseconds } from "../add/backoff.js";
import { encodedName } from "../add/names.js";
import { type AddOptions, addRules, type QueueOptions, queueRules } from "../options.js";
import type { JobData, JobName } from "../work/handlers.js";

/** Settings of the schedules of a queue. Those about jobs are defaults for each schedule. */
export interface SchedulesOptions
  extends
    ClientOptions,
    Pick<QueueOptions, "maxPayloadBytes" | "allowEviction" | "maxAttempts" | "backoff" | "timeoutMs" | "expiresMs"> {
  /**
   * How long `run()` waits at most until it looks for schedules that other processes have added or changed, in milliseconds, 100 to
   * 60,000. Each look is one command, however many schedules there are.
   *
   * @default 5000
   */
  readonly lookEveryMs?: number | undefined;
}

const { maxPayloadBytes, allowEviction, prefix, deadlineMs, isolate } = queueRules;
const { maxAttempts, backoff, timeoutMs, expiresMs } = queueRules;

/** The rules of the settings that a queue has, too. */
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

/** The fate of runs whose instants passed while no process could add their jobs. */
export type MissedRuns = "skip" | "last" | "all";

/** Whether a run adds a job while the job of the last run is still in the queue. */
export type OverlapPolicy = "allow" | "skip";

/** When a schedule runs, by `everyMs` or `cron`, and the job that each run adds. */
export interface ScheduleOptions {
  /** The name of its jobs. */
  readonly name: string;
  /** The data of its jobs, as in `queue.add()`. */
  readonly data?: unknown;
  /**
   * Runs at this distance, in milliseconds: at `startAt` plus a multiple of it; without `startAt` at the multiples since 1970, in UTC. So
   * the instants are the same in every process, and neither a deploy nor a late run moves them.
   */
  readonly everyMs?: number | undefined;
  /**
   * A cron expression of five fields, or six with seconds in front, as croner reads it. Needs the package `croner`. When summer time begins
   * or ends, an expression that names hours (`30 2,14 * * *`) runs each of its times once: those that the change leaves out have one run, at
   * the end of the gap, and one that occurs twice runs the first time. An expression that names every hour (`0,30 * * * *`) runs
   * whenever the clock shows one of its times.
   */
  readonly cron?: string | undefined;
  /** The time zone of `cron`, by its IANA name. Without it UTC, so that all processes agree. */
  readonly timezone?: string | undefined;
  /** No run before this instant: a Date, or epoch ms. */
  readonly startAt?: number | Date | undefined;
  /** No run after this instant: a Date, or epoch ms. */
  readonly endAt?: number | Date | undefined;
  /** The schedule ends after so many jobs. */
  readonly count?: number | undefined;
  /**
   * The fate of runs that could not begin in time, since no process ran schedules or the server was away. `"last"`: the
   * latest one adds its job. `"all"`: each does. `"skip"`: the latest one does, if it is late by at most a minute.
   *
   * @default "last"
   */
  readonly missed?: MissedRuns | undefined;
  /**
   * Whether a run adds its job while the job of the last run waits, runs, or waits for its next attempt. With `"skip"` it adds none, and
   * the event `missed` reports it; a dead letter counts as ended. A job that runs again after a crash can still overlap with its
   * first handler: use a lock if that must never happen.
   *
   * @default "allow"
   */
  readonly overlap?: OverlapPolicy | undefined;
  /**
   * Delays each job by a random time of up to this many milliseconds, so that schedules of the same instant don't start together. The
   * instant in the id of the job stays that of the run.
   *
   * @default 0
   */
  readonly jitterMs?: number | undefined;
  /**
   * Which of two definitions holds. While old and new processes of a deploy run side by side, an `upsert` of a lower version than the
   * stored one changes nothing. Of equal versions the last one holds.
   *
   * @default 0
   */
  readonly version?: number | undefined;
  /** How its jobs run. */
  readonly options?: ScheduledJobOptions | undefined;
}

/** A schedule for jobs of these types. Data that may be undefined may be left out. */
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

/** Which page of the schedules to read. */
export interface ListOptions {
  /**
   * How many to leave out.
   *
   * @default 0
   */
  readonly start?: number | undefined;
  /**
   * How many, at most 100.
   *
   * @default 20
   */
  readonly count?: number | undefined;
}

export const listRules = { start: integer(0, undefined, 0), count: integer(1, 100, 20) } satisfies RulesOf<ListOptions>;

export type ResolvedSchedule = Resolved<typeof scheduleRules>;

/** The ids of its jobs also have `@` and an instant. */
const maxIdLength = 100;

/** @throws {TypeError | RangeError} it is not what an id of a schedule should be. */
export const scheduleId = (id: string): void => {
  textOption("id", id, maxIdLength);
  addRules.id.check("id", id);
};
