import { leaseRules, type LeaseOptions, type LeaserOptions, waitRules, type WaitOptions } from "@kit/core/leasing";
import { clientRules, type RulesOf, signal, text } from "@kit/core/toolkit";

/** The key has a token only: there is no label of the holder. */
const { leaseMs, renew, maxHoldMs } = leaseRules;
const lengthRules = { leaseMs, renew, maxHoldMs };

/** Settings of a compatible lock object. The lease options among them are defaults for each acquire. */
export interface CompatibleLockOptions extends Omit<LeaserOptions, "holder" | "maxWaiters"> {
  /**
   * The text in front of each name in its key: at most 64 characters. None for redlock; `mutex:` for the `Mutex` of
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

/** One acquire of a compatible lock. */
export type CompatibleAcquireOptions = Omit<LeaseOptions, "holder"> & WaitOptions;

export const compatibleAcquireRules = { ...lengthRules, ...waitRules } satisfies RulesOf<CompatibleAcquireOptions>;

/** One try. */
export type CompatibleTryOptions = Omit<CompatibleAcquireOptions, "waitMs">;

export const compatibleTryRules = { ...lengthRules, signal } satisfies RulesOf<CompatibleTryOptions>;
