import { integer, integerOption, resolve, type RulesOf } from "@kit/core/toolkit";
import { milliseconds } from "../job/backoff.js";

const dayMs = 86_400_000;

/** When a batch starts. */
export interface BatchOptions {
  /** The maximum number of jobs in a batch, 1 to 10,000. */
  readonly size: number;
  /**
   * How long the first job of a batch waits for others, in milliseconds: 0 to 86,400,000 (a day).
   *
   * @default 10
   */
  readonly waitMs?: number | undefined;
}

const mostJobs = 10_000;
const batchRules = {
  size: integer(1, mostJobs),
  waitMs: milliseconds(0, dayMs, 10),
} satisfies RulesOf<BatchOptions>;

/** @throws {TypeError | RangeError} an option is invalid. */
export const batchSettings = (options: BatchOptions): Required<BatchOptions> & { readonly waitMs: number } => {
  const { size, waitMs } = resolve("options", options, batchRules);
  return { size: integerOption("size", size, 1, mostJobs), waitMs };
};
