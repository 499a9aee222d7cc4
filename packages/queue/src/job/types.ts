import type { KitError } from "@kit/core";
import type { StandardSchema } from "@kit/core/config";
import type { RateLimitError, SnoozeError, UnrecoverableError } from "./errors.js";
import type { Job } from "./job.js";

/**
 * The jobs of a queue: for each name a function type from the job's data to its result.
 *
 * @example
 * type Jobs = { email: (data: { to: string }) => void; resize: (data: { url: string }) => Uint8Array };
 */
export type JobTypes<Jobs> = { readonly [Name in keyof Jobs]: (data: never) => unknown };

/** The default: any name, with data of any kind. */
export type AnyJobs = Record<string, (data: unknown) => unknown>;

export type JobName<Jobs> = keyof Jobs & string;

/** The data of a job. */
export type JobData<Jobs, Name extends keyof Jobs> = Jobs[Name] extends (...data: infer Data) => unknown
  ? Data extends readonly []
    ? undefined
    : Data[0]
  : never;

/** The result of a job, as its handler returns it. */
export type JobResult<Jobs, Name extends keyof Jobs> = Jobs[Name] extends (...data: never) => infer Result
  ? Awaited<Result>
  : never;

/**
 * A value after a JSON round trip. A value with `toJSON`, such as a Date, becomes the result of that method. Functions and symbols in
 * objects are dropped. A bigint cannot be sent.
 */
export type Jsonified<Value> = unknown extends Value
  ? Value
  : Value extends string | number | boolean | null | undefined | void
    ? Value
    : Value extends { toJSON(): infer Text }
      ? Jsonified<Text>
      : Value extends bigint | symbol | ((...args: never) => unknown)
        ? never
        : Value extends readonly unknown[]
          ? { [Index in keyof Value]: Jsonified<Value[Index]> }
          : {
              [
                Name in keyof Value as Value[Name] extends symbol | ((...args: never) => unknown)
                  ? never
                  : Name & string
              ]: Jsonified<Value[Name]>;
            };

/** Data or a result from the server: bytes as a Buffer, everything else after a JSON round trip. */
type Sent<Value> = Value extends Uint8Array ? Buffer : Jsonified<Value>;

/** The result of a job for its caller: bytes as a Buffer, everything else after a JSON round trip. */
export type CalledResult<Jobs, Name extends keyof Jobs> = Sent<JobResult<Jobs, Name>>;

/**
 * The jobs of a queue as handlers receive them: bytes as a Buffer, all other data after a JSON round trip. With schemas, handlers receive
 * the data as you declared it, because a schema can turn a string into a Date.
 */
export type Received<Jobs> = {
  readonly [Name in keyof Jobs]: Jobs[Name] extends (...data: never) => infer Result
    ? (data: Sent<JobData<Jobs, Name>>) => Result
    : never;
};

/** A job of any name. */
export type AnyJob<Jobs> = { readonly [Name in JobName<Jobs>]: Job<Name, JobData<Jobs, Name>> }[JobName<Jobs>];

/** A `WaitForChildren` of `@kit/queue/flows`. */
type Waiting = KitError & { readonly code: "KIT_JOB_WAITING" };

/** Errors that a handler can return instead of throwing. */
type Wish = SnoozeError | RateLimitError | UnrecoverableError | Waiting;

/** The return type of a handler. Any type if no result was declared. */
type Returned<Result> = [Result] extends [void] ? unknown : Result | Wish | PromiseLike<Result | Wish>;

/**
 * Runs jobs of one name. An exception or a rejection is a failed attempt. The returned value goes to the caller of the job (`queue.call`);
 * without a caller it is dropped. You can throw or return a SnoozeError, RateLimitError, UnrecoverableError or WaitForChildren (of
 * `@kit/queue/flows`); both mean the same. Any other returned error is a result.
 */
export type Handler<Jobs, Name extends JobName<Jobs>> = (
  job: Job<Name, JobData<Jobs, Name>>,
) => Returned<JobResult<Jobs, Name>>;

/** Runs all jobs whose names have no handler. `job.name` narrows `job.data`. */
export type AnyHandler<Jobs> = (
  job: AnyJob<Jobs>,
) => { readonly [Name in JobName<Jobs>]: Returned<JobResult<Jobs, Name>> }[JobName<Jobs>];

type NamedHandlers<Jobs> = { readonly [Name in JobName<Jobs>]: Handler<Jobs, Name> };

/** A handler for every name. The handler `*` runs all jobs whose names have no handler. */
export type Handlers<Jobs> = NamedHandlers<Jobs> | (Partial<NamedHandlers<Jobs>> & { readonly "*": AnyHandler<Jobs> });

/**
 * Returns how long a job waits before its next attempt, in milliseconds. -1 makes the job a dead letter. Fractions are rounded up, and a
 * wait is at most ten thousand years. If the function throws, or returns anything else, the worker emits `error` with a JobBackoffError,
 * and the job uses the default backoff.
 */
export type BackoffFunction = (failure: {
  /** The number of the failed attempt, from 1. */
  readonly attempt: number;
  readonly error: unknown;
  readonly job: Job;
}) => number | Promise<number>;

/** Standard Schemas for some or all names. The handler receives the schema's output. */
export type JobSchemas<Jobs> = {
  readonly [Name in JobName<Jobs>]?: StandardSchema<unknown, JobData<Jobs, Name>> | undefined;
};
