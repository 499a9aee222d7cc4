import type { Job } from "../job/job.js";
import { type BatchOptions, batchSettings } from "./options.js";
import { type Gathering, gather } from "./gather.js";

export type { BatchOptions } from "./options.js";

/** The outcome of one job of a batch: its result, a promise of the result, or the error that a handler would have thrown. */
export type BatchOutcome<Result> = Result | PromiseLike<Result> | Error;

/**
 * Creates a handler that runs jobs of one name in batches. It calls `run` with up to `size` jobs, in the order in which the worker started
 * them. A batch starts when it is full, or `waitMs` after its first job. Give the worker a `concurrency` of at least `size`: a batch never
 * has more jobs than `concurrency`, and with a lower value each batch waits for `waitMs`. With a multiple of `size` several batches run at
 * a time.
 *
 * `run` returns an array with one outcome per job, in the same order. An Error is a failed attempt. SnoozeError, RateLimitError,
 * UnrecoverableError and WaitForChildren mean the same as when a handler throws them. Any other value is the job's result, including an object from
 * `Promise.allSettled`. If `run` returns nothing, all jobs are done. If it throws, or returns an array of another length, each job has
 * failed an attempt.
 *
 * A job leaves a batch that is still filling when it is cancelled, loses its lease or times out. When the worker starts to close, it hands
 * the waiting jobs back without counting an attempt. After a batch has started, the `signal` of a job aborts as usual, and the job's
 * outcome is then ignored. The second argument of `run`, `signal`, aborts when the signals of all jobs of the batch have aborted. The time
 * limit of a job (`timeoutMs`) includes its wait for the batch.
 *
 * Each job has its own lease. If the process dies, all jobs of a batch run again, and each of them counts a crash.
 *
 * @throws {TypeError | RangeError} an argument is invalid.
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
