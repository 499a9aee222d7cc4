import type { StandardSchema } from "@kit/core/config";
import {
  booleanOption,
  choiceOption,
  clientOptionNames,
  type ClientOptions,
  clientSettings,
  type ClientSettings,
  integerOption,
  optionsObject,
  signalOption,
  textOption,
} from "@kit/core/toolkit";
import {
  type Backoff,
  type BackoffFunction,
  backoffOption,
  longestWaitMs,
  msOption,
  type ResolvedBackoff,
  type RetryPolicy,
} from "./backoff.js";
import { isMade } from "./ids.js";
import { encodedName } from "./names.js";
import { schemaMap, type SchemaMap } from "./schemas.js";

/** How many dead letters are kept; the oldest go first, and `deadDropped` counts them. */
export interface DeadLetterBounds {
  /** @default 10,000 */
  readonly maxCount?: number | undefined;
  /** In milliseconds. @default 14 days */
  readonly maxAgeMs?: number | undefined;
  /**
   * Payloads and errors together.
   *
   * @default 64 MiB
   */
  readonly maxBytes?: number | undefined;
}

/** The copies that a job must have before its add resolves; counted by core's `durable()`. */
export interface DurableOption {
  /**
   * How many replicas must have received it.
   *
   * @default 1
   */
  readonly replicas?: number | undefined;
  /**
   * The disks that must have it: none, the master's, or those of the master and of `replicas` replicas.
   *
   * @default "none"
   */
  readonly fsync?: "none" | "local" | "replicas" | undefined;
  /**
   * How long to wait for that, in milliseconds, within the deadline of the add.
   *
   * @default 1,000
   */
  readonly timeoutMs?: number | undefined;
}

/** Settings of a queue object. Those about jobs are defaults for each `add`. */
export interface QueueOptions extends ClientOptions {
  /**
   * The largest encoded data of one job, in bytes.
   *
   * @default 262,144
   */
  readonly maxPayloadBytes?: number | undefined;
  /**
   * How many adds may wait to be sent while the server is slow or away; further ones reject at once.
   *
   * @default 10,000
   */
  readonly maxPending?: number | undefined;
  /**
   * Allows a server whose `maxmemory-policy` may evict any key (`allkeys-…`), and with it jobs. One that evicts only keys with an
   * expiry (`volatile-…`) is always accepted. Either emits `evictable`.
   *
   * @default false
   */
  readonly allowEviction?: boolean | undefined;
  readonly deadLetters?: DeadLetterBounds | undefined;
  /**
   * Adds resolve once these copies have their jobs; otherwise they reject with KitUnknownOutcomeError. Each call costs three more
   * round trips, with `fsync` up to four, on a dedicated connection; adds still travel together.
   *
   * @default off: an add resolves once the master has it
   */
  readonly durable?: DurableOption | undefined;
  /**
   * How often a job runs until it is a dead letter, including the first run. A crash is no attempt.
   *
   * @default 1
   */
  readonly maxAttempts?: number | undefined;
  /** How long a failed job waits for its next attempt. */
  readonly backoff?: Backoff | undefined;
  /**
   * How long a handler may take, in milliseconds. After that its signal aborts and the attempt has failed.
   *
   * @default unlimited
   */
  readonly timeoutMs?: number | undefined;
  /**
   * Standard Schemas (Zod, Valibot, ArkType and others) by names of jobs. Each checks the data, as JSON leaves it, when a job is
   * added and again when it is taken. Data that does not fit is refused at the add; at the take the job becomes a dead letter and
   * its handler does not run. The data is stored as it was added; the handler gets the output of the schema.
   */
  readonly schemas?: Readonly<Record<string, StandardSchema | undefined>> | undefined;
}

/** One job. */
export interface AddOptions {
  /**
   * An id of your own, 1 to 128 characters. While a job with that id is waiting, delayed, active or dead, adding it again does
   * nothing and gives the same id.
   */
  readonly id?: string | undefined;
  /**
   * How long it waits before it may run, in milliseconds of the server's clock. Fractions of a millisecond are rounded up, here
   * and in the other options of time of jobs and workers.
   *
   * @default 0
   */
  readonly delayMs?: number | undefined;
  /**
   * The earliest instant at which it may run, by the server's clock: a Date, or epoch ms; the past means now. Not together with
   * `delayMs`.
   */
  readonly dueAt?: number | Date | undefined;
  /**
   * Lower runs first: -1,048,575 to 1,048,575. Jobs of equal priority run in order of arrival.
   *
   * @default 0
   */
  readonly priority?: number | undefined;
  /**
   * Puts it in front of all waiting jobs of priority 0. Not together with a delay or another priority.
   *
   * @default false
   */
  readonly lifo?: boolean | undefined;
  readonly maxAttempts?: number | undefined;
  readonly backoff?: Backoff | undefined;
  readonly timeoutMs?: number | undefined;
  /**
   * The `op` of a KitUnknownOutcomeError: settles the outcome of that call, and adds the job if that call did not. With an `id`
   * it must be that of the same job.
   */
  readonly op?: string | undefined;
  /** Cancels the add while it waits to be sent; one that was sent may still be added. */
  readonly signal?: AbortSignal | undefined;
}

/** One job that is added unless there is one of its id. */
export interface AddOnceOptions extends AddOptions {
  readonly id: string;
}

/**
 * Where the job of an id is: `ready` to be taken, `active`, `delayed`, or `dead`. `unsure` is ready or active, where more than 1,000
 * jobs are active; `inspectJob()` searches for it. `lost` is in no list of work, since its entry was deleted by hand or evicted: it
 * does not run until `repairQueue()` finds it. Of a lost job of priority 0 the answer is `ready`, or `unsure`: no list is searched.
 */
export type HeldState = "ready" | "active" | "delayed" | "dead" | "lost" | "unsure";

/** The answer of `addOnce()`. */
export type AddedOnce =
  | { readonly id: string; readonly isAdded: true; readonly state?: never }
  | { readonly id: string; readonly isAdded: false; readonly state: HeldState };

/** One job whose outcome is waited for. */
export interface CallOptions extends Omit<AddOptions, "id" | "op"> {
  /**
   * How long to wait for the outcome, in milliseconds from the call. The job stays in the queue afterwards.
   *
   * @default 30,000
   */
  readonly waitMs?: number | undefined;
}

/** Which dead letters to read. */
export interface DeadLetterOptions {
  /** The last one of the page before; it need not be there any more. */
  readonly before?: { readonly id: string; readonly diedAt: number } | undefined;
  /**
   * At most 100.
   *
   * @default 10
   */
  readonly count?: number | undefined;
  /** Only those of jobs of this name. */
  readonly job?: string | undefined;
}

/** How a worker works. */
export interface WorkOptions {
  /**
   * How many handlers run at a time.
   *
   * @default 1
   */
  readonly concurrency?: number | undefined;
  /**
   * How long the worker may be silent before its jobs go to others, in milliseconds, from 200. It sends a heartbeat every third
   * of this time.
   *
   * @default 10,000
   */
  readonly leaseMs?: number | undefined;
  /**
   * The number of crashes (its worker died or fell silent) at which a job becomes a dead letter. Use the same number for all
   * workers of a queue.
   *
   * @default 3
   */
  readonly maxCrashes?: number | undefined;
  /**
   * Takes a job only when a handler is free for it. Otherwise the worker takes up to 50 ms of work ahead while no other is idle.
   *
   * @default false
   */
  readonly strict?: boolean | undefined;
  /**
   * When a handler's slot takes the next job. `"batched"`: at once; the completion travels with the next call, and after a crash
   * the jobs in that call run again. `"each"`: once the server has the completion.
   *
   * @default "batched"
   */
  readonly ack?: "batched" | "each" | undefined;
  /** The wait before the next attempt, for jobs that were added without a back-off of their own. -1 gives the job up. */
  readonly backoff?: Backoff | BackoffFunction | undefined;
  /**
   * How many milliseconds a handler may take to end after `close()` has aborted its signal. Until then its job stays leased; after that
   * it is handed back, and may run twice at a time.
   *
   * @default 5000
   */
  readonly abortGraceMs?: number | undefined;
}

/** Checked, with every default filled in. */
export interface QueueSettings extends ClientSettings {
  readonly maxPayloadBytes: number;
  readonly maxPending: number;
  readonly allowEviction: boolean;
  /** `maxCount maxAgeMs maxBytes` */
  readonly deadLetters: string;
  readonly durable: DurableOption | undefined;
  readonly job: JobPolicy;
  readonly schemas: SchemaMap;
}

/** How one job is run. */
export interface JobPolicy extends RetryPolicy {
  readonly timeoutMs: number | undefined;
}

/** One add, checked. */
export interface ResolvedAdd {
  readonly id: string | undefined;
  readonly priority: number;
  /** The words behind the id in the plan of `add.lua`, except those for a caller's id and for `op`. */
  readonly words: string;
  readonly policy: JobPolicy;
  readonly op: string | undefined;
  readonly signal: AbortSignal | undefined;
}

export interface WorkSettings {
  concurrency: number;
  readonly leaseMs: number;
  readonly maxCrashes: number;
  readonly strict: boolean;
  readonly ackEach: boolean;
  readonly backoff: ResolvedBackoff | BackoffFunction | undefined;
  readonly abortGraceMs: number;
}

/** Beyond it the scores of two priorities would overlap. */
const maxPriority = 2 ** 20 - 1;
const maxConcurrency = 10_000;

const queueNames = [
  ...clientOptionNames,
  "maxPayloadBytes",
  "maxPending",
  "allowEviction",
  "deadLetters",
  "durable",
  "maxAttempts",
  "backoff",
  "timeoutMs",
  "schemas",
];
const addNames = ["id", "delayMs", "dueAt", "priority", "lifo", "maxAttempts", "backoff", "timeoutMs", "op", "signal"];
const callNames = [...addNames.filter((name) => name !== "id" && name !== "op"), "waitMs"];
const workNames = ["concurrency", "leaseMs", "maxCrashes", "strict", "ack", "backoff", "abortGraceMs"];

const boundsOf = (bounds: DeadLetterBounds): string => {
  const given = optionsObject("deadLetters", bounds, ["maxCount", "maxAgeMs", "maxBytes"]);
  const { maxCount = 10_000, maxAgeMs = 14 * 86_400_000, maxBytes = 64 * 1_024 * 1_024 } = given;
  return Object.entries({ maxCount, maxAgeMs, maxBytes })
    .map(([name, value]) => integerOption(`deadLetters.${name}`, value, 0))
    .join(" ");
};

const durableOption = (option: DurableOption): DurableOption => {
  const {
    replicas = 1,
    fsync = "none",
    timeoutMs = 1_000,
  } = optionsObject("durable", option, ["replicas", "fsync", "timeoutMs"]);
  choiceOption("durable.fsync", fsync, ["none", "local", "replicas"]);
  integerOption("durable.replicas", replicas, fsync === "local" ? 0 : 1, 1_000);
  return { replicas, fsync, timeoutMs: msOption("durable.timeoutMs", timeoutMs, 1, 86_400_000) };
};

const policyOf = (
  { maxAttempts, backoff, timeoutMs }: Pick<AddOptions, "maxAttempts" | "backoff" | "timeoutMs">,
  defaults: JobPolicy,
): JobPolicy => ({
  maxAttempts:
    maxAttempts === undefined ? defaults.maxAttempts : integerOption("maxAttempts", maxAttempts, 1, 1_000_000),
  backoff: backoff === undefined ? defaults.backoff : backoffOption("backoff", backoff),
  timeoutMs: timeoutMs === undefined ? defaults.timeoutMs : msOption("timeoutMs", timeoutMs, 1),
});

/** @throws {TypeError | RangeError} an option is not what it should be. */
export const queueSettings = (options: QueueOptions): QueueSettings => {
  const given = optionsObject("options", options, queueNames);
  const { maxPayloadBytes = 262_144, maxPending = 10_000, allowEviction = false } = given;
  return {
    ...clientSettings(given),
    maxPayloadBytes: integerOption("maxPayloadBytes", maxPayloadBytes, 1, 512 * 1_024 * 1_024),
    maxPending: integerOption("maxPending", maxPending, 1),
    allowEviction: booleanOption("allowEviction", allowEviction),
    deadLetters: boundsOf(given.deadLetters ?? {}),
    durable: given.durable === undefined ? undefined : durableOption(given.durable),
    job: policyOf(given, { maxAttempts: 1, backoff: undefined, timeoutMs: undefined }),
    schemas: schemaMap(given.schemas),
  };
};

const idOption = (id: string): string => {
  textOption("id", id, 128);
  if (id.startsWith("!") || isMade(id) || /[\p{Cc}\p{Surrogate}]/u.test(id))
    throw new RangeError(
      "Expected `id` without control characters and lone surrogates, without `!` in front, and unlike a made id",
    );
  return id;
};

/** @throws {TypeError | RangeError} it is not an array of ids. */
export const idsOption = (ids: readonly string[]): readonly string[] => {
  if (!Array.isArray(ids)) throw new TypeError("Expected `ids` to be an array");
  for (const id of ids)
    // It would part the list of ids.
    if (/\p{Cc}/u.test(textOption("id", id, 160))) throw new RangeError("Expected `id` without control characters");
  return ids;
};

/** @throws {TypeError | RangeError} an option is not what it should be. */
export const resolveLetters = (
  options: DeadLetterOptions,
): Required<Pick<DeadLetterOptions, "before">> & { readonly count: number; readonly name: string } => {
  const { before, count = 10, job } = optionsObject("options", options, ["before", "count", "job"]);
  if (before !== undefined) {
    integerOption("before.diedAt", before.diedAt, 0);
    textOption("before.id", before.id, 160);
  }
  return { before, count: integerOption("count", count, 1, 100), name: job === undefined ? "" : encodedName(job) };
};

/** Ten thousand years at most. */
export const delayOption = (name: string, ms: number): number => msOption(name, ms, 0, longestWaitMs);

const dueWord = (delayMs: number | undefined, dueAt: number | Date | undefined): string => {
  if (delayMs !== undefined && dueAt !== undefined) throw new TypeError("Expected `delayMs` or `dueAt`, got both");
  // A Date that is none has NaN.
  if (dueAt !== undefined) return `\t@${String(msOption("dueAt", dueAt instanceof Date ? dueAt.getTime() : dueAt, 0))}`;
  const waitMs = delayMs === undefined ? 0 : delayOption("delayMs", delayMs);
  return waitMs === 0 ? "" : `\td${String(waitMs)}`;
};

export const priorityOption = (priority: number): number =>
  integerOption("priority", priority, -maxPriority, maxPriority);

/** @throws {TypeError | RangeError} an option is not what it should be. */
export const resolveAdd = (options: AddOptions, defaults: JobPolicy): ResolvedAdd => {
  const given = optionsObject("options", options, addNames);
  const { priority = 0, lifo = false, op } = given;
  priorityOption(priority);
  const due = dueWord(given.delayMs, given.dueAt);
  if (booleanOption("lifo", lifo) && (priority !== 0 || due !== ""))
    throw new TypeError("Expected `lifo` without a delay and without another priority");
  const id = given.id === undefined ? undefined : idOption(given.id);
  if (op !== undefined) textOption("op", op, 256);
  const words = `${priority === 0 ? "" : `\tp${String(priority)}`}${lifo ? "\tl" : ""}${due}`;
  const signal = signalOption("signal", given.signal);
  return { id, priority, words, policy: policyOf(given, defaults), op, signal };
};

/** @throws {TypeError | RangeError} an option is not what it should be. */
export const resolveCall = (
  options: CallOptions,
  defaults: JobPolicy,
): { readonly waitMs: number; readonly resolved: ResolvedAdd } => {
  const { waitMs = 30_000, ...others } = optionsObject("options", options, callNames);
  return { waitMs: msOption("waitMs", waitMs, 1, 86_400_000), resolved: resolveAdd(others, defaults) };
};

export const concurrencyOption = (value: number): number => integerOption("concurrency", value, 1, maxConcurrency);

/** @throws {TypeError | RangeError} an option is not what it should be. */
export const workSettings = (options: WorkOptions): WorkSettings => {
  const given = optionsObject("options", options, workNames);
  const {
    concurrency = 1,
    leaseMs = 10_000,
    maxCrashes = 3,
    strict = false,
    ack = "batched",
    backoff,
    abortGraceMs = 5_000,
  } = given;
  return {
    concurrency: concurrencyOption(concurrency),
    leaseMs: msOption("leaseMs", leaseMs, 200, 86_400_000),
    maxCrashes: integerOption("maxCrashes", maxCrashes, 1, 1_000_000),
    strict: booleanOption("strict", strict),
    ackEach: choiceOption("ack", ack, ["batched", "each"]) === "each",
    backoff: backoff === undefined || typeof backoff === "function" ? backoff : backoffOption("backoff", backoff),
    abortGraceMs: msOption("abortGraceMs", abortGraceMs, 0, 86_400_000),
  };
};
