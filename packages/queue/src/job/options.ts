import { integer, nested } from "@kit/core/toolkit";
import { backoffRules, longestWaitMs, milliseconds, type RetryPolicy } from "./backoff.js";
import type { Expiry } from "./expiry.js";

/** How a job runs. */
export const jobRules = {
  maxAttempts: integer(1, 1_000_000),
  backoff: nested(backoffRules),
  timeoutMs: milliseconds(1),
  expiresMs: milliseconds(1, longestWaitMs),
};

/** The limits and retries of one job. */
export interface JobPolicy extends RetryPolicy {
  readonly timeoutMs: number | undefined;
  readonly expires: Expiry | undefined;
}
