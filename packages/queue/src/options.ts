import type { StandardSchema } from "@kit/core/config";
import {
  boolean,
  choice,
  clientRules,
  type ClientOptions,
  custom,
  defaultsOf,
  integer,
  integerOption,
  matching,
  nested,
  resolve,
  type Resolved,
  type RulesOf,
  signal,
  text,
  textOption,
} from "@kit/core/toolkit";
import {
  type Backoff,
  backoffRules,
  longestWaitMs,
  milliseconds,
  msOption,
  type ResolvedBackoff,
  type RetryPolicy,
} from "./add/backoff.js";
import type { Expiry } from "./add/expiry.js";
import { ownId } from "./add/ids.js";
import { encodedName } from "./add/names.js";
import { priority } from "./add/priority.js";
import { schemaMap } from "./add/schemas.js";
import { type ResolvedUnique, type Unique, uniqueOption, uniqueWords } from "./add/unique.js";
import type { BackoffFunction } from "./work/handlers.js";

const dayMs = 86_400_000;

/** How many dead letters the queue keeps. It drops the oldest first; `deadDropped` counts them. */
export interface DeadLetterBounds {
  /**
   * The maximum number of dead letters.
   *
   * @default 10000
   */
  readonly maxCount?: number | undefined;
  /**
   * How long each dead letter is kept, in milliseconds.
   *
   * @default 1209600000 (14 days)
   */
  readonly maxAgeMs?: number | undefined;
  /**
   * The maximum memory for their payloads and errors, in bytes.
   *
   * @default 67108864 (64 MiB)
   */
  readonly maxBytes?: number | undefined;
}

const deadLetterRules = {
  maxCount: integer(0, undefined, 10_000),
  maxAgeMs: integer(0, undefined, 14 * dayMs),
  maxBytes: integer(0, undefined, 64 * 1_024 * 1_024),
} satisfies RulesOf<DeadLetterBounds>;

const boundsText = (bounds: Resolved<typeof deadLetterRules>): string => Object.values(bounds).join(" ");

/** Records finished jobs. Create it with `keepHistory()` of `@kit/queue/history`. */
export interface History {
  readonly bounds: object;
}

/** How a job must be replicated before its add resolves. Works like `durable()` of `@kit/core`. */
export interface DurableOption {
  /**
   * How many replicas must have received the job; 0 only with `fsync: "local"`.
   *
   * @default 1
   */
  readonly replicas?: number | undefined;
  /**
   * The disks that must have the job: none, the master's, or the master's and those on `replicas` replicas.
   *
   * @default "none"
   */
  readonly fsync?: "none" | "local" | "replicas" | undefined;
  /**
   * How long an add waits for replicas and disks, in milliseconds: 1 to 86,400,000 (a day). The add's deadline can end the wait earlier.
   *
   * @default 1000
   */
  readonly timeoutMs?: number | undefined;
}

const durableRules = {
  replicas: integer(0, 1_000, 1),
  fsync: choice(["none", "local", "replicas"], "none"),
  timeoutMs: milliseconds(1, dayMs, 1_000),
} satisfies RulesOf<DurableOption>;

const durableOption = (name: string, given: DurableOption): Resolved<typeof durableRules> => {
  const durable = resolve(name, given, durableRules, undefined, `${name}.`);
  integerOption(`${name}.replicas`, durable.replicas, durable.fsync === "local" ? 0 : 1, 1_000);
  return durable;
};

/** How a job runs. */
const jobRules = {
  maxAttempts: integer(1, 1_000_000),
  backoff: nested(backoffRules),
  timeoutMs: milliseconds(1),
  expiresMs: milliseconds(1, longestWaitMs),
};

/** Options of `createQueue()`. The options about jobs are the defaults of each `add`. */
export interface QueueOptions extends ClientOptions {
  /**
   * The maximum size of one job's encoded data, in bytes.
   *
   * @default 262144
   */
  readonly maxPayloadBytes?: number | undefined;
  /**
   * How many adds can wait to be sent while the server is slow or unreachable. Further adds reject immediately.
   *
   * @default 10000
   */
  readonly maxPending?: number | undefined;
  /**
   * Set to true to accept a server whose `maxmemory-policy` can evict any key (`allkeys-…`), and so jobs. A server that evicts only keys
   * with an expiry (`volatile-…`) is always accepted. Both policies emit `evictable`.
   *
   * @default false
   */
  readonly allowEviction?: boolean | undefined;
  /**
   * How many dead letters the queue keeps, for how long, and in how much memory.
   *
   * @default the defaults of `DeadLetterBounds`
   */
  readonly deadLetters?: DeadLetterBounds | undefined;
  /**
   * Workers of this object record jobs that are done or expired. Jobs that finish together share one extra call. See `@kit/queue/history`.
   *
   * @default none: a job that is done leaves nothing
   */
  readonly history?: History | undefined;
  /**
   * Adds resolve once their jobs are replicated as this option requires. If replication is not confirmed, they reject with
   * KitUnknownOutcomeError. Each call costs three extra round trips, or up to four with `fsync`, on a dedicated connection. Adds still
   * share calls.
   *
   * @default off: an add resolves once the master has the job
   */
  readonly durable?: DurableOption | undefined;
  /**
   * How many attempts a job has, including the first. When the last attempt fails, the job becomes a dead letter. A crash is not an
   * attempt.
   *
   * @default 1
   */
  readonly maxAttempts?: number | undefined;
  /**
   * How long a failed job waits before its next attempt.
   *
   * @default `firstMs` 1000, and the defaults of `Backoff`
   */
  readonly backoff?: Backoff | undefined;
  /**
   * How long a handler can run, in milliseconds. After that its signal aborts and the attempt has failed.
   *
   * @default unlimited
   */
  readonly timeoutMs?: number | undefined;
  /**
   * How long a job can wait for a worker, in milliseconds. A job that no worker took within this time does not run.
   *
   * @default unlimited
   */
  readonly expiresMs?: number | undefined;
  /**
   * Standard Schemas (Zod, Valibot, ArkType and others), by job name. Each schema checks the data twice: when you add a job, and before the
   * job runs. It sees the data after a JSON round trip. An add whose data does not fit rejects. If stored data does not fit, the worker
   * passes the job on, like a job without a handler. The queue stores the data as you added it; the handler receives the schema's output.
   */
  readonly schemas?: Readonly<Record<string, StandardSchema | undefined>> | undefined;
}

export const queueRules = {
  ...clientRules,
  maxPayloadBytes: integer(1, 512 * 1_024 * 1_024, 262_144),
  maxPending: integer(1, undefined, 10_000),
  allowEviction: boolean(false),
  deadLetters: custom(
    // The form that scripts read: `maxCount maxAgeMs maxBytes`.
    (name, bounds: DeadLetterBounds) => boundsText(resolve(name, bounds, deadLetterRules, undefined, `${name}.`)),
    boundsText(defaultsOf(deadLetterRules)),
  ),
  history: custom((name, history: History) => {
    if (!("record" in Object(history))) throw new TypeError(`Expected \`${name}\` to be the result of keepHistory()`);
    return history;
  }),
  durable: custom(durableOption),
  ...jobRules,
  maxAttempts: integer(1, 1_000_000, 1),
  schemas: custom((_name, schemas: NonNullable<QueueOptions["schemas"]>) => schemaMap(schemas), new Map()),
} satisfies RulesOf<QueueOptions>;

/** Options of one job. */
export interface AddOptions {
  /**
   * Your id for the job, 1 to 128 characters. While a job with this id is ready, delayed, active or dead, adding it again does nothing and
   * resolves with the same id. An expired job that no worker has is replaced.
   */
  readonly id?: string | undefined;
  /**
   * Allows one job of a key at a time. The job gets a generated id. If a job already has the key, the add resolves with that job's id.
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
   * Puts the job ahead of all ready jobs of priority 0. Can't be combined with a delay or another priority.
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
   * due. If no worker took the job by then, it does not run, and no longer blocks its `id` or key. A job that has run before does not
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
  // An invalid Date has NaN.
  dueAt: custom((name, at: number | Date) => msOption(name, at instanceof Date ? at.getTime() : at, 0, latestDue)),
  priority,
  lifo: boolean(false),
  ...jobRules,
  traceparent: matching(text(55), /^00-[\da-f]{32}-[\da-f]{16}-[\da-f]{2}$/, "to be a W3C traceparent of version 00"),
  op: text(256),
  signal,
} satisfies RulesOf<AddOptions>;

/** Options of `addOnce()`. Either `id` or `unique` is required. */
export type AddOnceOptions = AddOptions & ({ readonly id: string } | { readonly unique: Unique });

/**
 * Where the job of an id or a key is.
 *
 * - `ready`, `active`, `delayed` or `dead`: the state of the job.
 * - `unsure`: the job is ready or active. This is the answer while more than 1,000 jobs are active; `inspectJob()` searches for the job.
 * - `lost`: the job is in no list of work, because its entry was deleted manually or evicted. It does not run until `repairQueue()` finds
 *   it. For a lost job of priority 0 the answer is `ready` or `unsure`, because lists are not searched.
 * - `ended`: the job is done or removed, but its `ttlMs` is not over.
 */
export type HeldState = "ready" | "active" | "delayed" | "dead" | "lost" | "unsure" | "ended";

/**
 * The result of `addOnce()`. `id` is the added job, or the job that already has the id or key. `isReplaced`: the existing job now has the
 * data of this add.
 */
export type AddedOnce =
  | { readonly id: string; readonly isAdded: true; readonly state?: never; readonly isReplaced?: never }
  | { readonly id: string; readonly isAdded: false; readonly state: HeldState; readonly isReplaced?: true };

/** Options of `call()`. */
export interface CallOptions extends Omit<AddOptions, "id" | "unique" | "op"> {
  /**
   * How long the call waits for the outcome, in milliseconds: 1 to 86,400,000 (a day). After that the job stays in the queue.
   *
   * @default 30000
   */
  readonly waitMs?: number | undefined;
}

const { id: _id, unique: _unique, op: _op, ...callable } = addRules;
export const callRules = { ...callable, waitMs: milliseconds(1, dayMs, 30_000) } satisfies RulesOf<CallOptions>;

/** Which dead letters to read. */
export interface DeadLetterOptions {
  /** The last letter of the previous page. It may have been deleted since. */
  readonly before?: { readonly id: string; readonly diedAt: number } | undefined;
  /**
   * How many letters to read, up to 100.
   *
   * @default 10
   */
  readonly count?: number | undefined;
  /** Reads only letters of jobs with this name. */
  readonly job?: string | undefined;
}

export const letterRules = {
  // A dead letter, with all its fields.
  before: custom((name, before: { readonly id: string; readonly diedAt: number }) => {
    integerOption(`${name}.diedAt`, before.diedAt, 0);
    textOption(`${name}.id`, before.id, 160);
    return before;
  }),
  count: integer(1, 100, 10),
  job: custom((_name, job: string) => encodedName(job), ""),
} satisfies RulesOf<DeadLetterOptions>;

/** How dead letters return to the queue. */
export interface RedriveOptions {
  /**
   * The jobs become due at random times within this period, in milliseconds.
   *
   * @default 0
   */
  readonly spreadMs?: number | undefined;
}

export const redriveRules = { spreadMs: milliseconds(0, longestWaitMs, 0) } satisfies RulesOf<RedriveOptions>;

/** Options of a worker. */
export interface WorkOptions {
  /**
   * How many handlers run at a time.
   *
   * @default 1
   */
  readonly concurrency?: number | undefined;
  /**
   * How long the worker can be silent before its jobs go to other workers, in milliseconds: 200 to 86,400,000 (a day). The worker sends a
   * heartbeat every 0.3 of this time.
   *
   * @default 10000
   */
  readonly leaseMs?: number | undefined;
  /**
   * Which thread renews the leases.
   *
   * - `"loop"`: the main loop. If a handler blocks the loop for longer than `leaseMs`, the worker loses its jobs.
   * - `"thread"`: the main loop, and a heartbeat thread while the loop is blocked, for up to `maxBlockedMs`. All workers of the process
   *   share one thread. Workers with the same client share one connection, or with a Cluster one per node.
   * - `"auto"`: as `"thread"` if the thread can connect as the client does, otherwise as `"loop"`.
   *
   * @default "loop"
   */
  readonly heartbeat?: "auto" | "thread" | "loop" | undefined;
  /**
   * With a heartbeat thread: how long the main loop can be blocked, in milliseconds, 200 to 86,400,000 (a day). After that its jobs go to
   * other workers.
   *
   * @default 300000
   */
  readonly maxBlockedMs?: number | undefined;
  /**
   * How the handler of a cancelled job is notified.
   *
   * - `"heartbeat"`: with the worker's next heartbeat, within 0.6 of `leaseMs`.
   * - `"push"`: by a message, within a few milliseconds. This takes one more connection, which all objects with the same client and prefix
   *   share. A message can be lost, with the connection or in a Cluster; the next heartbeat then notifies the handler.
   *
   * @default "heartbeat"
   */
  readonly cancelBy?: "heartbeat" | "push" | undefined;
  /**
   * The number of crashes after which a job becomes a dead letter. A crash means that the job's worker died or did not renew the lease. Use
   * the same number for all workers of a queue.
   *
   * @default 3
   */
  readonly maxCrashes?: number | undefined;
  /**
   * Takes a job only when a handler is free for it. By default the worker takes up to 50 ms of work ahead while no other worker is idle.
   *
   * @default false
   */
  readonly strict?: boolean | undefined;
  /**
   * When a handler that has finished a job can start the next one.
   *
   * - `"batched"`: immediately. The result travels with the worker's next call. If the worker crashes before that call, the jobs in it run
   *   again.
   * - `"each"`: once the server has recorded the result. While a `backoff` function decides about a failed job, the next one can start.
   *
   * @default "batched"
   */
  readonly ack?: "batched" | "each" | undefined;
  /**
   * How long a failed job waits for its next attempt, if it was added without `backoff`. A function can return -1 to make the job a dead
   * letter.
   */
  readonly backoff?: Backoff | BackoffFunction | undefined;
  /**
   * How often handlers can snooze a job with a SnoozeError, counted over all its attempts. Each further snooze is a failed attempt, so a
   * job that is always snoozed ends after `maxAttempts`. With 0 every snooze is a failed attempt.
   *
   * @default 100
   */
  readonly maxSnoozes?: number | undefined;
  /**
   * How long a handler can keep running after `close()` has aborted its signal, in milliseconds: 0 to 86,400,000 (a day). Until then its
   * job stays leased. After that the worker hands the job back, and the job may run twice at the same time.
   *
   * @default 5000
   */
  readonly abortGraceMs?: number | undefined;
}

export const workRules = {
  concurrency: integer(1, 10_000, 1),
  leaseMs: milliseconds(200, dayMs, 10_000),
  heartbeat: choice(["auto", "thread", "loop"], "loop"),
  maxBlockedMs: milliseconds(200, dayMs, 300_000),
  cancelBy: choice(["heartbeat", "push"], "heartbeat"),
  maxCrashes: integer(1, 1_000_000, 3),
  strict: boolean(false),
  ack: choice(["batched", "each"], "batched"),
  backoff: custom((name, backoff: Backoff | BackoffFunction): ResolvedBackoff | BackoffFunction | undefined =>
    typeof backoff === "function" ? backoff : jobRules.backoff.check(name, backoff),
  ),
  maxSnoozes: integer(0, 1_000_000, 100),
  abortGraceMs: milliseconds(0, dayMs, 5_000),
} satisfies RulesOf<WorkOptions>;

/** The limits and retries of one job. */
export interface JobPolicy extends RetryPolicy {
  readonly timeoutMs: number | undefined;
  readonly expires: Expiry | undefined;
}

/** The checked options of one add. */
export interface ResolvedAdd {
  readonly id: string | undefined;
  readonly unique: ResolvedUnique | undefined;
  readonly priority: number;
  /** The words after the id in `plan` of `add.lua`, without the words for a caller's id and for `op`. */
  readonly words: string;
  readonly policy: JobPolicy;
  readonly traceparent: string | undefined;
  readonly op: string | undefined;
  readonly signal: AbortSignal | undefined;
}

/** Checked options, with all defaults. `add` and `call` hold the defaults of an add and of a call. */
export interface QueueSettings extends Resolved<typeof queueRules> {
  readonly add: Resolved<typeof addRules>;
  readonly call: Resolved<typeof callRules>;
}

export interface WorkSettings extends Omit<Resolved<typeof workRules>, "concurrency" | "ack"> {
  concurrency: number;
  readonly ackEach: boolean;
}

/** @throws {TypeError | RangeError} an option is invalid. */
export const queueSettings = (options: QueueOptions): QueueSettings => {
  const own = resolve("options", options, queueRules);
  return { ...own, add: defaultsOf(addRules, own), call: defaultsOf(callRules, own) };
};

/** @throws {TypeError | RangeError} `ids` is not an array of ids. */
export const idsOption = (ids: readonly string[]): readonly string[] => {
  if (!Array.isArray(ids)) throw new TypeError("Expected `ids` to be an array");
  for (const id of ids)
    // A control character would split the list of ids.
    if (/\p{Cc}/u.test(textOption("id", id, 160))) throw new RangeError("Expected `id` to have no control characters");
  return ids;
};

/** @throws {TypeError | RangeError} an option is invalid. */
export const resolveAdd = (options: AddOptions, { add }: QueueSettings, isOnce = false): ResolvedAdd => {
  const settings = resolve("options", options, addRules, add);
  const { id, unique } = settings;
  if (id === undefined ? isOnce && !unique : unique) throw new TypeError("Expected either `id` or `unique`");
  return addOf(settings);
};

/** @throws {TypeError | RangeError} an option is invalid. */
export const resolveCall = (
  options: CallOptions,
  { call }: QueueSettings,
): { readonly waitMs: number; readonly resolved: ResolvedAdd } => {
  const { waitMs, ...others } = resolve("options", options, callRules, call);
  return { waitMs, resolved: addOf({ ...others, id: undefined, unique: undefined, op: undefined }) };
};

const addOf = (add: Resolved<typeof addRules>): ResolvedAdd => {
  const {
    id,
    unique,
    delayMs,
    dueAt,
    priority: rank,
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
  const due = dueAt !== undefined ? `\t@${String(dueAt)}` : delayMs ? `\td${String(delayMs)}` : "";
  if (lifo && (rank !== 0 || due !== ""))
    throw new TypeError("Expected no `delayMs`, `dueAt` or `priority` with `lifo`");
  const words = `${rank === 0 ? "" : `\tp${String(rank)}`}${lifo ? "\tl" : ""}${due}${unique ? uniqueWords(unique) : ""}`;
  const expires = expiresMs === undefined ? undefined : { afterMs: expiresMs + (delayMs ?? 0), from: dueAt ?? 0 };
  return {
    id,
    unique,
    traceparent,
    priority: rank,
    words,
    policy: { maxAttempts: maxAttempts ?? 1, backoff, timeoutMs, expires },
    op,
    signal: ended,
  };
};

/** @throws {TypeError | RangeError} an option is invalid. */
export const workSettings = (options: WorkOptions): WorkSettings => {
  const { ack, ...settings } = resolve("options", options, workRules);
  return { ...settings, ackEach: ack === "each" };
};
