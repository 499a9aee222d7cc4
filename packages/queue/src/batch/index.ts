import type { Job } from "../work/job.js";
import { type BatchOptions, batchSettings } from "./options.js";
import { type Gathering, gather } from "./gather.js";

export type { BatchOptions } from "./options.js";

/** The outcome of one job of a batch: its result, a promise of it, or the error that a handler would have thrown. */
export type BatchOutcome<Result> = Result | PromiseLike<Result> | Error;

/**
 * Makes a handler that runs jobs of one name in batches: it calls `run` with up to `size` jobs, in the order in which the worker began them.
 * A batch starts when it is full, or `waitMs` after its first job. So give the worker a `concurrency` of at least `size`: a batch
 * never has more jobs than that, and with a lower one each batch waits for `waitMs`. With a multiple of `size` several batches run at a time.
 *
 * Each job keeps a fate of its own. `run` returns an array with one outcome for each job, in their order. An Error is a failed attempt, and
 * SnoozeError, RateLimitError and UnrecoverableError mean what they mean when a handler throws them. All else is the result of the job,
 * also an object that `Promise.allSettled` made. If `run` returns nothing, all jobs are done. If it throws, or returns an array of another
 * length, all have failed an attempt.
 *
 * A job that is cancelled, loses its lease or times out while its batch gathers leaves it. When the worker begins to close, the jobs that
 * gather are handed back, without an attempt. After the start of a batch the `signal` of a job aborts as always, and its outcome is
 * ignored then; `signal`, the second argument, aborts when those of all jobs of the batch have. The time limit of a job (`timeoutMs`)
 * includes the gathering.
 *
 * Leases are those of single jobs. If the process dies, all jobs of a batch run again, and each is charged a crash.
 *
 * @throws {TypeError | RangeError} an argument is not what it should be.
 *
 * @example
 * const rows = batched({ size: 100, waitMs: 50 }, async (jobs) => {
 *   await database.insert(jobs.map(({ data }) => data));
 * });
 * queue.work({ row: rows }, { concurrency: 100 });
 */
export function batched<Name extends string, Data, Result>(
  options: BatchOptions,
  run: (
    jobs: readonly Job<Name, Data>[],
    signal: AbortSignal,
  ) => readonly BatchOutcome<Result>[] | PromiseLike<readonly BatchOutcome<Result>[]>,
): (job: Job<Name, Data>) => Promise<Result>;
export function batched<Name extends string, Data>(
  options: BatchOptions,
  run: (jobs: readonly Job<Name, Data>[], signal: AbortSignal) => void | PromiseLike<void>,
): (job: Job<Name, Data>) => Promise<void>;
export function batched(options: BatchOptions, run: Gathering): (job: Job) => Promise<unknown> {
  const { size, waitMs } = batchSettings(options);
  if (typeof run !== "function") throw new TypeError(`Expected \`run\` to be a function, got ${typeof run}`);
  return gather(size, waitMs, run);
}
