import { optionsObject } from "@kit/core/toolkit";
import {
  resolveAcquire as resolveBase,
  type ResolvedAcquire,
  leaseNames,
  type LeaseOptions,
  leaserNames,
  type LeaserOptions,
  leaserSettings,
  type LeaserSettings,
  type ResolvedLease,
  type WaitOptions,
} from "@kit/core/leasing";

/** Settings of a lock object. The lease options among them are defaults for each acquire. */
export type LockOptions = LeaserOptions;

/** One acquire. */
export type AcquireOptions = LeaseOptions & WaitOptions;

/** One try. */
export type TryOptions = LeaseOptions & Pick<AcquireOptions, "signal">;

const acquireNames = [...leaseNames, "waitMs", "signal"];
const tryNames = [...leaseNames, "signal"];

/** @throws {TypeError | RangeError} an option is not what it should be. */
export const lockSettings = (options: LockOptions): LeaserSettings =>
  leaserSettings(optionsObject("options", options, leaserNames));

/** @throws {TypeError | RangeError} an option is not what it should be. */
export const resolveAcquire = (options: AcquireOptions, settings: ResolvedLease): ResolvedAcquire =>
  resolveBase(optionsObject("options", options, acquireNames), settings);

/** @throws {TypeError | RangeError} an option is not what it should be. */
export const resolveTry = (options: TryOptions, settings: ResolvedLease): ResolvedAcquire =>
  // Onto the copy, which has no prototype.
  resolveBase(Object.assign(optionsObject<AcquireOptions>("options", options, tryNames), { waitMs: 0 }), settings);
