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

/** How many dead letters are kept. The oldest are dropped first; `deadDropped` counts them. */
export interface DeadLetterBounds {
  /**
   * The most dead letters.
   *
   * @default 10000
   */
  readonly maxCount?: number | undefined;
  /**
   * How long each is kept, in milliseconds.
   *
   * @default 1209600000 (14 days)
   */
  readonly maxAgeMs?: number | undefined;
  /**
   * The most memory of their payloads and errors, in bytes.
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

/** Remembers jobs that have ended; made by `keepHistory()` of `@kit/queue/history`. */
export interface History {
  readonly bounds: object;
}

/** How a job must be replicated before its add resolves, as core's `durable()` confirms it. */
export interface DurableOption {
  /**
   * How many replicas must have received the job; 0 only with `fsync: "local"`.
   *
   * @default 1
   */
  readonly replicas?: number | undefined;
  /**
   * The disks that must have the job: none, the master's, or those of the master and of `replicas` replicas.
   *
   * @default "none"
   */
  readonly fsync?: "none" | "local" | "replicas" | undefined;
  /**
   * How long an add waits for replicas and disks, in milliseconds, 1 to 86,400,000 (a day), within its deadline.
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

/** Settings of a queue object. Those about jobs are defaults for each `add`. */
export interface QueueOptions extends ClientOptions {
  /**
   * The largest encoded data of one job, in bytes.
   *
   * @default 262144
   */
  readonly maxPayloadBytes?: number | undefined;
  /**
   * How many adds may wait to be sent while the server is slow or away; further ones reject at once.
   *
   * @default 10000
   */
  readonly maxPending?: number | undefined;
  /**
   * Allows a server whose `maxmemory-policy` may evict any key (`allkeys-…`), and so jobs. A server that evicts only keys with an
   * expiry (`volatile-…`) is always accepted. Both emit `evictable`.
   *
   * @default false
   */
  readonly allowEviction?: boolean | undefined;
  /**
   * How many dead letters are kept, for how long, and in how much memory.
   *
   * @default the defaults of `DeadLetterBounds`
   */
  readonly deadLetters?: DeadLetterBounds | undefined;
  /**
   * Workers of this object record jobs that are done or expired, in one further call for all that end together; see `@kit/queue/history`.
   *
   * @default none: a job that is done leaves nothing
   */
  readonly history?: History | undefined;
  /**
   * Adds resolve once their jobs are replicated like this; otherwise they reject with KitUnknownOutcomeError. Each call costs three more
   * round trips, with `fsync` up to four, on a dedicated connection. Adds still travel together.
   *
   * @default off: an add resolves once the master has the job
   */
  readonly durable?: DurableOption | undefined;
  /**
   * How often a job runs until it is a dead letter, including the first run. A crash is not an attempt.
   *
   * @default 1
   */
  readonly maxAttempts?: number | undefined;
  /**
   * How long a failed job waits for its next attempt.
   *
   * @default `firstMs` 1000, and the defaults of `Backoff`
   */
  readonly backoff?: Backoff | undefined;
  /**
   * How long a handler may take, in milliseconds. After that its signal aborts and the attempt has failed.
   *
   * @default unlimited
   */
  readonly timeoutMs?: number | undefined;
  /**
   * How long a job may wait to be taken, in milliseconds. A job that no worker has taken by then does not run.
   *
   * @default unlimited
   */
  readonly expiresMs?: number | undefined;
  /**
   * Standard Schemas (Zod, Valibot, ArkType and others) by names of jobs. Each checks the data, as JSON leaves it, when a job is
   * added and again before it runs. An add with data that does not fit rejects. A worker passes on a stored job whose data does
   * not fit, like a job without a handler. The data is stored as it was added; the handler gets the output of the schema.
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
    if (!("record" in Object(history))) throw new TypeError(`Expected \`${name}\` to be made by keepHistory()`);
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
   * An id of your own, 1 to 128 characters. While a job with that id is ready, delayed, active or dead, adding it again does
   * nothing and gives the same id. A job that has expired, and that no worker has, is replaced.
   */
  readonly id?: string | undefined;
  /**
   * At most one job of a key at a time. The job gets a made id. An add that adds no job resolves with the id of the one that has the key.
   * Not together with an `id`.
   */
  readonly unique?: Unique | undefined;
  /**
   * How long the job waits before it may run, in milliseconds of the server's clock. Fractions of a millisecond are rounded up, here
   * and in all other times of jobs and workers.
   *
   * @default none
   */
  readonly delayMs?: number | undefined;
  /**
   * The earliest instant at which the job may run, by the server's clock: a Date, or epoch ms. An instant in the past means now. Not
   * together with `delayMs`.
   */
  readonly dueAt?: number | Date | undefined;
  /**
   * Jobs of a lower number run first: -1,048,575 to 1,048,575. Jobs of equal priority run in order of arrival.
   *
   * @default 0
   */
  readonly priority?: number | undefined;
  /**
   * Puts the job in front of all ready jobs of priority 0. Not together with a delay or another priority.
   *
   * @default false
   */
  readonly lifo?: boolean | undefined;
  /**
   * How often the job runs until it is a dead letter, including the first run.
   *
   * @default that of the queue
   */
  readonly maxAttempts?: number | undefined;
  /**
   * How long the job waits for its next attempt after it failed.
   *
   * @default that of the queue
   */
  readonly backoff?: Backoff | undefined;
  /**
   * How long its handler may take, in milliseconds. After that its signal aborts and the attempt has failed.
   *
   * @default that of the queue
   */
  readonly timeoutMs?: number | undefined;
  /**
   * How long the job may wait to be taken, in milliseconds of the server's clock, from its add, or from the instant at which it is due. If no
   * worker has taken it by then, it does not run, and makes way for a new job of its `id` or key. A job that has run before does not
   * expire.
   *
   * @default that of the queue
   */
  readonly expiresMs?: number | undefined;
  /**
   * The span that adds the job, as a W3C traceparent of version 00. The handler reads it as `job.traceparent`.
   *
   * @default the active span, while `traceKit()` of `@kit/core/otel` traces this process
   */
  readonly traceparent?: string | undefined;
  /**
   * The `op` of a KitUnknownOutcomeError. The add then settles the outcome of that call: it adds the job only if that call did not.
   * Together with an `id`, `op` must come from an add of that id.
   */
  readonly op?: string | undefined;
  /** Cancels the add while it waits to be sent. A job that was sent may still be added. */
  readonly signal?: AbortSignal | undefined;
}

export const addRules = {
  id: custom(ownId),
  unique: custom(uniqueOption),
  delayMs: milliseconds(0, longestWaitMs),
  // An invalid Date has NaN.
  dueAt: custom((name, at: number | Date) => msOption(name, at instanceof Date ? at.getTime() : at, 0)),
  priority,
  lifo: boolean(false),
  ...jobRules,
  traceparent: matching(text(55), /^00-[\da-f]{32}-[\da-f]{16}-[\da-f]{2}$/, "to be a W3C traceparent of version 00"),
  op: text(256),
  signal,
} satisfies RulesOf<AddOptions>;

/** Options of a job that is added unless there is one of its `id`, or of the key of `unique`. One of the two is required. */
export type AddOnceOptions = AddOptions & ({ readonly id: string } | { readonly unique: Unique });

/**
 * Where the job of an id or a key is: `ready` to be taken, `active`, `delayed`, or `dead`. `unsure`: it is ready or active; the answer while more
 * than 1,000 jobs are active, and `inspectJob()` searches for it. `lost`: it is in no list of work, since its entry was deleted by hand or
 * evicted, and does not run until `repairQueue()` finds it. For a lost job of priority 0 the answer is `ready` or `unsure`, since no list
 * is searched. `ended`: it is done or removed, and its `ttlMs` is not over.
 */
export type HeldState = "ready" | "active" | "delayed" | "dead" | "lost" | "unsure" | "ended";

/**
 * The answer of `addOnce()`. `id`: the job that was added, or else the one that has the id or key. `isReplaced`: that one has the data of
 * this add from now on.
 */
export type AddedOnce =
  | { readonly id: string; readonly isAdded: true; readonly state?: never; readonly isReplaced?: never }
  | { readonly id: string; readonly isAdded: false; readonly state: HeldState; readonly isReplaced?: true };

/** Options of a job whose caller waits for the outcome. */
export interface CallOptions extends Omit<AddOptions, "id" | "unique" | "op"> {
  /**
   * How long the call waits for the outcome, in milliseconds, 1 to 86,400,000 (a day). After that the job stays in the queue.
   *
   * @default 30000
   */
  readonly waitMs?: number | undefined;
}

const { id: _id, unique: _unique, op: _op, ...callable } = addRules;
export const callRules = { ...callable, waitMs: milliseconds(1, dayMs, 30_000) } satisfies RulesOf<CallOptions>;

/** Which dead letters to read. */
export interface DeadLetterOptions {
  /** The last letter of the page before. It may have been deleted since. */
  readonly before?: { readonly id: string; readonly diedAt: number } | undefined;
  /**
   * How many, at most 100.
   *
   * @default 10
   */
  readonly count?: number | undefined;
  /** Only letters of jobs of this name. */
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

/** How dead letters go back to the queue. */
export interface RedriveOptions {
  /**
   * The jobs become due at random instants within this time, in milliseconds.
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
   * How long the worker may be silent before its jobs go to other workers, in milliseconds, 200 to 86,400,000 (a day). It sends a
   * heartbeat after each 0.3 of this time.
   *
   * @default 10000
   */
  readonly leaseMs?: number | undefined;
  /**
   * Which thread renews the leases. `"loop"`: the main loop. A handler that blocks it for longer than `leaseMs` loses the jobs of the worker. `"thread"`:
   * also a thread, while the main loop is blocked, for at most `maxBlockedMs`. All workers of the process share one thread, and those of one
   * client its one connection; with a Cluster that is one to each node. `"auto"`: the thread if it can connect as the client does, else the loop.
   *
   * @default "loop"
   */
  readonly heartbeat?: "auto" | "thread" | "loop" | undefined;
  /**
   * With a thread: how long the main loop may be blocked, in milliseconds, 200 to 86,400,000 (a day). After that its jobs go to other workers.
   *
   * @default 300000
   */
  readonly maxBlockedMs?: number | undefined;
  /**
   * When the handler of a cancelled job learns it. `"heartbeat"`: at the next one, so after up to 0.6 of `leaseMs`. `"push"`: at once, within a few
   * milliseconds; for that the process has one more connection, which all objects of its client and prefix share. A push may be lost,
   * with that connection or in a Cluster: then the heartbeat decides.
   *
   * @default "heartbeat"
   */
  readonly cancelBy?: "heartbeat" | "push" | undefined;
  /**
   * The number of crashes at which a job becomes a dead letter. A crash: its worker died, or did not renew the lease. Use the same number
   * for all workers of a queue.
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
   * When the next job may begin in place of one that has ended. `"batched"`: at once. The end travels with the next call; after a crash
   * the jobs in that call run again. `"each"`: once the server has recorded the end; the
   * next one may begin while a `backoff` function decides.
   *
   * @default "batched"
   */
  readonly ack?: "batched" | "each" | undefined;
  /**
   * How long a failed job waits for its next attempt, if it was added without a back-off of its own. A function may return -1: then the
   * job is a dead letter.
   */
  readonly backoff?: Backoff | BackoffFunction | undefined;
  /**
   * How often handlers may snooze a job by a SnoozeError, in all its attempts together. Each further snooze is a failed attempt, so that
   * `maxAttempts` ends a job that is snoozed for ever. With 0 every snooze is a failed attempt.
   *
   * @default 100
   */
  readonly maxSnoozes?: number | undefined;
  /**
   * How long a handler may take to end after `close()` has aborted its signal, in milliseconds, 0 to 86,400,000 (a day). Until then its
   * job stays leased. After that the job is handed back, and may run twice at the same time.
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

/** How one job runs. */
export interface JobPolicy extends RetryPolicy {
  readonly timeoutMs: number | undefined;
  readonly expires: Expiry | undefined;
}

/** The checked options of one add. */
export interface ResolvedAdd {
  readonly id: string | undefined;
  readonly unique: ResolvedUnique | undefined;
  readonly priority: number;
  /** The words behind the id in `plan` of `add.lua`, without those for a caller's id and for `op`. */
  readonly words: string;
  readonly policy: JobPolicy;
  readonly traceparent: string | undefined;
  readonly op: string | undefined;
  readonly signal: AbortSignal | undefined;
}

/** Checked options, with every default filled in. `add` and `call`: those of an add and of a call without options. */
export interface QueueSettings extends Resolved<typeof queueRules> {
  readonly add: Resolved<typeof addRules>;
  readonly call: Resolved<typeof callRules>;
}

export interface WorkSettings extends Omit<Resolved<typeof workRules>, "concurrency" | "ack"> {
  concurrency: number;
  readonly ackEach: boolean;
}

/** @throws {TypeError | RangeError} an option is not what it should be. */
export const queueSettings = (options: QueueOptions): QueueSettings => {
  const own = resolve("options", options, queueRules);
  return { ...own, add: defaultsOf(addRules, own), call: defaultsOf(callRules, own) };
};

/** @throws {TypeError | RangeError} it is not an array of ids. */
export const idsOption = (ids: readonly string[]): readonly string[] => {
  if (!Array.isArray(ids)) throw new TypeError("Expected `ids` to be an array");
  for (const id of ids)
    // A control character would split the list of ids.
    if (/\p{Cc}/u.test(textOption("id", id, 160))) throw new RangeError("Expected `id` without control characters");
  return ids;
};

/** @throws {TypeError | RangeError} an option is not what it should be. */
export const resolveAdd = (options: AddOptions, { add }: QueueSettings, isOnce = false): ResolvedAdd => {
  const settings = resolve("options", options, addRules, add);
  const { id, unique } = settings;
  if (id === undefined ? isOnce && !unique : unique) throw new TypeError("Expected either `id` or `unique`");
  return addOf(settings);
};

/** @throws {TypeError | RangeError} an option is not what it should be. */
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
  if (lifo && (rank !== 0 || due !== "")) throw new TypeError("Expected no delay and no priority with `lifo`");
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

/** @throws {TypeError | RangeError} an option is not what it should be. */
export const workSettings = (options: WorkOptions): WorkSettings => {
  const { ack, ...settings } = resolve("options", options, workRules);
  return { ...settings, ackEach: ack === "each" };
};
