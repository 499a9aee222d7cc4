import {
  boolean,
  custom,
  defaultsOf,
  matching,
  resolve,
  type Resolved,
  type RulesOf,
  signal,
  text,
} from "@kit/core/toolkit";
import { type Backoff, longestWaitMs, milliseconds, msOption } from "../job/backoff.js";
import { ownId } from "../job/ids.js";
import { encodedGroup } from "../job/names.js";
import { type JobPolicy, jobRules } from "../job/options.js";
import { priority } from "../job/priority.js";
import { planned } from "../job/words.js";
import { type ResolvedUnique, type Unique, uniqueOption, uniqueWords } from "../job/unique.js";
import type { QueueSettings } from "../store/options.js";

/** Options of one job. */
export interface AddOptions {
  /**
   * Your id for the job, 1 to 128 characters. While a job with this id is ready, delayed, active or dead, adding it again does nothing and
   * resolves with the same id. If that job has expired and no worker has it, the new job replaces it.
   */
  readonly id?: string | undefined;
  /**
   * Allows only one job per key at a time. The job gets a generated id. If a job already has the key, the add resolves with that job's id.
   * Can't be combined with `id`.
   */
  readonly unique?: Unique | undefined;
  /**
   * How long the job waits before it can run, in milliseconds of the server's clock. Fractions of a millisecond are rounded up, here and in
   * all other times of jobs and workers.
   *
   * @default none
   */
  readonly delayMs?: number | undefined;
  /**
   * The earliest time at which the job can run, by the server's clock: a Date, or epoch ms below 1e15. A time in the past means now. Can't
   * be combined with `delayMs`.
   */
  readonly dueAt?: number | Date | undefined;
  /**
   * Jobs with a lower number run first: -1,048,575 to 1,048,575. Jobs of equal priority run in order of arrival.
   *
   * @default 0
   */
  readonly priority?: number | undefined;
  /**
   * The group of the job, 1 to 128 characters. Jobs of a group start in the order in which they became ready, and by default one at a time:
   * see `groupConcurrency` of `setLimits()`. Groups take turns, so a group with many jobs does not delay the others. A job with a lower
   * `priority` goes ahead within its group only.
   *
   * @default none
   */
  readonly group?: string | undefined;
  /**
   * Puts the job ahead of all ready jobs of priority 0, or of all ready jobs of its `group`. Can't be combined with a delay or another
   * priority.
   *
   * @default false
   */
  readonly lifo?: boolean | undefined;
  /**
   * How many attempts the job has, including the first. When the last attempt fails, the job becomes a dead letter.
   *
   * @default the queue's `maxAttempts`
   */
  readonly maxAttempts?: number | undefined;
  /**
   * How long the job waits after a failure before its next attempt.
   *
   * @default the queue's `backoff`
   */
  readonly backoff?: Backoff | undefined;
  /**
   * How long the job's handler can run, in milliseconds. After that its signal aborts and the attempt has failed.
   *
   * @default the queue's `timeoutMs`
   */
  readonly timeoutMs?: number | undefined;
  /**
   * How long the job can wait for a worker, in milliseconds of the server's clock. The time starts at the add, or when a delayed job is
   * due. If no worker takes the job in this time, it does not run, and no longer blocks its `id` or key. A job that has run before does not
   * expire.
   *
   * @default the queue's `expiresMs`
   */
  readonly expiresMs?: number | undefined;
  /**
   * The span that adds the job, as a W3C traceparent of version 00. The handler reads it as `job.traceparent`.
   *
   * @default the active span, while `traceKit()` of `@kit/core/otel` traces this process
   */
  readonly traceparent?: string | undefined;
  /**
   * The `op` of a KitUnknownOutcomeError from an earlier add. This add then settles the earlier one: it adds the job only if the earlier
   * call did not. With an `id`, `op` must come from an add of the same id.
   */
  readonly op?: string | undefined;
  /** Cancels the add while it waits to be sent. A job that was already sent can still be added. */
  readonly signal?: AbortSignal | undefined;
}

/** A later score in `delayed` means that the job waits for another job. */
const latestDue = 1e15 - 1;

export const addRules = {
  id: custom(ownId),
  unique: custom(uniqueOption),
  delayMs: milliseconds(0, longestWaitMs),
  // The time of an invalid Date is NaN.
  dueAt: custom((name, at: number | Date) => msOption(name, at instanceof Date ? at.getTime() : at, 0, latestDue)),
  priority,
  group: custom(encodedGroup),
  lifo: boolean(false),
  ...jobRules,
  traceparent: matching(text(55), /^00-[\da-f]{32}-[\da-f]{16}-[\da-f]{2}$/, "to be a W3C traceparent of version 00"),
  op: text(256),
  signal,
} satisfies RulesOf<AddOptions>;

/** Options of `addOnce()`. Either `id` or `unique` is required. */
export type AddOnceOptions = AddOptions & ({ readonly id: string } | { readonly unique: Unique });

/** The checked options of one add. */
export interface ResolvedAdd {
  readonly id: string | undefined;
  readonly unique: ResolvedUnique | undefined;
  readonly priority: number;
  /** Encoded. */
  readonly group: string | undefined;
  /** The words after the id in `plan` of `add.lua`, without the words for a caller's id and for `op`. */
  readonly words: string;
  readonly policy: JobPolicy;
  readonly traceparent: string | undefined;
  readonly op: string | undefined;
  readonly signal: AbortSignal | undefined;
}

/** The options of an add that has none. */
export type AddDefaults = Resolved<typeof addRules>;

export const addDefaults = (settings: QueueSettings): AddDefaults => defaultsOf(addRules, settings);

/** @throws {TypeError | RangeError} an option is invalid. */
export const resolveAdd = (options: AddOptions, defaults: AddDefaults, isOnce = false): ResolvedAdd => {
  const settings = resolve("options", options, addRules, defaults);
  const { id, unique } = settings;
  if (id === undefined ? isOnce && !unique : unique) throw new TypeError("Expected either `id` or `unique`");
  return addOf(settings);
};

export const addOf = (add: Resolved<typeof addRules>): ResolvedAdd => {
  const {
    id,
    unique,
    delayMs,
    dueAt,
    priority: rank,
    group,
    lifo,
    maxAttempts,
    backoff,
    timeoutMs,
    expiresMs,
    traceparent,
    op,
    signal: ended,
  } = add;
  if (delayMs !== undefined && dueAt !== undefined) throw new TypeError("Expected `delayMs` or `dueAt`, got both");
  const due = dueAt !== undefined ? planned("due", dueAt) : delayMs ? planned("delay", delayMs) : "";
  if (lifo && (rank !== 0 || due !== ""))
    throw new TypeError("Expected no `delayMs`, `dueAt` or `priority` with `lifo`");
  const words =
    (rank === 0 ? "" : planned("priority", rank)) +
    (group === undefined ? "" : planned("group", group)) +
    (lifo ? planned("front") : "") +
    due +
    (unique ? uniqueWords(unique) : "");
  const expires = expiresMs === undefined ? undefined : { afterMs: expiresMs + (delayMs ?? 0), from: dueAt ?? 0 };
  return {
    id,
    unique,
    traceparent,
    priority: rank,
    group,
    words,
    policy: { maxAttempts: maxAttempts ?? 1, backoff, timeoutMs, expires },
    op,
    signal: ended,
  };
};
