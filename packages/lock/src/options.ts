import { integer, type Resolved, type RulesOf, signal } from "@kit/core/toolkit";
import {
  type LeaseOptions,
  leaseRules,
  type LeaserOptions,
  leaserRules,
  type WaitOptions,
  waitRules,
} from "@kit/core/leasing";

/** A week. */
const longestKeepMs = 604_800_000;

/** Settings of a lock object. The lease options among them are defaults for each acquire. */
export interface LockOptions extends LeaserOptions {
  /**
   * How long the last fencing token of a name is stored after a release that leaves nobody holding it or waiting, in milliseconds:
   * 60,000 to 604,800,000 (a week). Of a name that is not used again, this is all that stays.
   *
   * With many names that are used once, as one for each order, a short time saves memory. Tokens never begin anew: after that time
   * they continue from the server's clock. So the next one is smaller than an earlier one only where that clock is behind by more
   * than `keepMs`: it was set back, or a failover led to a server whose clock differs. A lease that ends without a release leaves
   * its token for a week after the grant.
   *
   * @default 604800000
   */
  readonly keepMs?: number | undefined;
}

export const lockRules = {
  ...leaserRules,
  keepMs: integer(60_000, longestKeepMs, longestKeepMs),
} satisfies RulesOf<LockOptions>;

export type LockSettings = Resolved<typeof lockRules>;

/** `keepMs` as the scripts have it: empty for the week that each grant stores the token for. */
export const keepTerm = ({ keepMs }: LockSettings): number | "" => (keepMs === longestKeepMs ? "" : keepMs);

/** One acquire. */
export type AcquireOptions = LeaseOptions & WaitOptions;

export const acquireRules = { ...leaseRules, ...waitRules } satisfies RulesOf<AcquireOptions>;

/** One try. */
export type TryOptions = LeaseOptions & Pick<AcquireOptions, "signal">;

export const tryRules = { ...leaseRules, signal } satisfies RulesOf<TryOptions>;
