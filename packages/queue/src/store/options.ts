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
  resolve,
  type Resolved,
  type RulesOf,
} from "@kit/core/toolkit";
import { type Backoff, milliseconds } from "../job/backoff.js";
import { jobRules } from "../job/options.js";
import { schemaMap } from "../job/schemas.js";

const dayMs = 86_400_000;

/** How many dead letters the queue keeps. It drops the oldest first, and counts the dropped letters in `deadDropped`. */
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
   * The disks that must have the job: none, the master's, or the disks of the master and of `replicas` replicas.
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
   * KitUnknownOutcomeError. Each call costs three extra round trips, or up to four with `fsync`, on a dedicated connection. Several adds
   * can share a call.
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
   * How long a job can wait for a worker, in milliseconds. If no worker takes the job in this time, it does not run.
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
    // Scripts read this form: `maxCount maxAgeMs maxBytes`.
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

/** Checked options, with all defaults. */
export type QueueSettings = Resolved<typeof queueRules>;

/** @throws {TypeError | RangeError} an option is invalid. */
export const queueSettings = (options: QueueOptions): QueueSettings => resolve("options", options, queueRules);
