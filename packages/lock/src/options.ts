import { type RulesOf, signal } from "@kit/core/toolkit";
import {
  type LeaseOptions,
  leaseRules,
  type LeaserOptions,
  leaserRules,
  type WaitOptions,
  waitRules,
} from "@kit/core/leasing";

/** Settings of a lock object. The lease options among them are defaults for each acquire. */
export type LockOptions = LeaserOptions;

export const lockRules = leaserRules satisfies RulesOf<LockOptions>;

/** One acquire. */
export type AcquireOptions = LeaseOptions & WaitOptions;

export const acquireRules = { ...leaseRules, ...waitRules } satisfies RulesOf<AcquireOptions>;

/** One try. */
export type TryOptions = LeaseOptions & Pick<AcquireOptions, "signal">;

export const tryRules = { ...leaseRules, signal } satisfies RulesOf<TryOptions>;
