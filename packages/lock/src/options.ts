import {
  choice,
  custom,
  integer,
  integerOption,
  resolve,
  type Resolved,
  type RulesOf,
  signal,
} from "@kit/core/toolkit";
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

/** How a grant must be replicated before an acquire resolves, as core's `durable()` confirms it. */
export interface DurableOption {
  /**
   * How many replicas must have received the grant; 0 only with `fsync: "local"`. When this is the number of all replicas, a
   * failover loses no confirmed grant.
   *
   * @default 1
   */
  readonly replicas?: number | undefined;
  /**
   * The disks that must have the grant: none, the master's, or those of the master and of `replicas` replicas.
   *
   * @default "none"
   */
  readonly fsync?: "none" | "local" | "replicas" | undefined;
  /**
   * How long an acquire waits for replicas and disks once it is granted, in milliseconds, 1 to 86,400,000 (a day); within its
   * `waitMs`.
   *
   * @default 1000
   */
  readonly timeoutMs?: number | undefined;
}

const durableRules = {
  replicas: integer(0, 1_000, 1),
  fsync: choice(["none", "local", "replicas"], "none"),
  timeoutMs: integer(1, 86_400_000, 1_000),
} satisfies RulesOf<DurableOption>;

type ResolvedDurable = Resolved<typeof durableRules>;

const durableOption = (name: string, given: DurableOption): ResolvedDurable => {
  const durable = resolve(name, given, durableRules, undefined, `${name}.`);
  integerOption(`${name}.replicas`, durable.replicas, durable.fsync === "local" ? 0 : 1, 1_000);
  return durable;
};

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
  /**
   * An acquire resolves once its grant is replicated like this; otherwise the grant is undone, and the acquire rejects with
   * LockNotDurableError. Each acquire costs three more round trips, with `fsync` up to four, on a dedicated connection, of
   * which a client has eight. Renewals are not confirmed.
   *
   * @default off: an acquire resolves once the master has granted it
   */
  readonly durable?: DurableOption | undefined;
}

export const lockRules = {
  ...leaserRules,
  keepMs: integer(60_000, longestKeepMs, longestKeepMs),
  durable: custom(durableOption),
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
