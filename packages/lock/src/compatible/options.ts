import { leaseRules, type LeaseOptions, type LeaserOptions, waitRules, type WaitOptions } from "@kit/core/leasing";
import { clientRules, type RulesOf, signal, text } from "@kit/core/toolkit";

/** The key contains only a token, without the holder's label. */
const { leaseMs, renew, maxHoldMs } = leaseRules;
const lengthRules = { leaseMs, renew, maxHoldMs };

/** Settings of a compatible lock object. Its lease options are the defaults of each acquire. */
export interface CompatibleLockOptions extends Omit<LeaserOptions, "holder" | "maxWaiters"> {
  /**
   * The text that precedes each name in its key: at most 64 characters. Leave it out for redlock. Use `mutex:` for the `Mutex` of
   * redis-semaphore.
   *
   * @default undefined
   */
  readonly keyPrefix?: string | undefined;
}

export const compatibleRules = {
  ...lengthRules,
  ...clientRules,
  keyPrefix: text(64),
} satisfies RulesOf<CompatibleLockOptions>;

/** Options of one acquire of a compatible lock. */
export type CompatibleAcquireOptions = Omit<LeaseOptions, "holder"> & WaitOptions;

export const compatibleAcquireRules = { ...lengthRules, ...waitRules } satisfies RulesOf<CompatibleAcquireOptions>;

/** Options of one try. */
export type CompatibleTryOptions = Omit<CompatibleAcquireOptions, "waitMs">;

export const compatibleTryRules = { ...lengthRules, signal } satisfies RulesOf<CompatibleTryOptions>;
