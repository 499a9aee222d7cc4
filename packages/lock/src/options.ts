import {
  boolean,
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
  type ResolvedAcquire,
  type WaitOptions,
  waitRules,
} from "@kit/core/leasing";

const dayMs = 86_400_000;
const longestKeepMs = 7 * dayMs;

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
  timeoutMs: integer(1, dayMs, 1_000),
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
   * How much longer a lock stays taken after its lease was lost, in milliseconds: 0 to 86,400,000 (a day). A holder that was cut
   * off or stalled has this time to notice, and to stop, before another can hold the lock. A release ends it at once, and so does
   * `close()`.
   *
   * A holder that crashed costs this much more, and so does a waiter that died between its grant and its first renewal. In the
   * replies of others it counts as a part of the lease.
   *
   * @default 0
   */
  readonly lockDelayMs?: number | undefined;
  /**
   * An acquire resolves once its grant is replicated like this; otherwise the grant is undone, and the acquire rejects with
   * LockNotDurableError. Each acquire costs three more round trips, with `fsync` up to four, on a dedicated connection, of
   * which a client has eight. The same holds for `tryUpgrade()` of a read/write lock. Renewals are not confirmed.
   *
   * @default off: an acquire resolves once the master has granted it
   */
  readonly durable?: DurableOption | undefined;
  /**
   * The least time from a grant until another can hold the lock, in milliseconds: 0 to 86,400,000 (a day). A release before that
   * leaves the lock taken until then, under the holder's label. So a short job that many servers begin at about the same time
   * runs once. It counts from the instant of the grant by the server's clock. Not for several names at once.
   *
   * @default 0
   */
  readonly minHoldMs?: number | undefined;
  /**
   * Whether `using` inside the routine of a `using` of the same name, on this object, runs at once in the same lease. The
   * outer one ends when all inside have ended. An `acquire` of a name that the routine holds would wait for itself: it rejects
   * with LockSelfDeadlockError. What is inside is known by an AsyncLocalStorage, which costs some speed.
   *
   * @default false
   */
  readonly reentrant?: boolean | undefined;
}

export const lockRules = {
  ...leaserRules,
  keepMs: integer(60_000, longestKeepMs, longestKeepMs),
  lockDelayMs: integer(0, dayMs, 0),
  durable: custom(durableOption),
  minHoldMs: integer(0, dayMs, 0),
  reentrant: boolean(false),
} satisfies RulesOf<LockOptions>;

export type LockSettings = Resolved<typeof lockRules>;

/** Settings of a read/write lock object. */
export type ReadWriteLockOptions = Omit<LockOptions, "minHoldMs" | "reentrant">;

const { minHoldMs: _minHoldMs, reentrant: _reentrant, ...ownReadWriteRules } = lockRules;
export const readWriteLockRules = ownReadWriteRules satisfies RulesOf<ReadWriteLockOptions>;

export type ReadWriteLockSettings = Resolved<typeof readWriteLockRules>;

/** The settings of one acquire, and those of its object that its lease needs. */
export type ResolvedLock = ResolvedAcquire & Pick<LockSettings, "lockDelayMs" | "minHoldMs">;

/** `keepMs` as the scripts have it: empty for the week that each grant stores the token for. */
export const keepTerm = ({ keepMs }: Pick<LockSettings, "keepMs">): number | "" =>
  keepMs === longestKeepMs ? "" : keepMs;

/** One acquire. */
export type AcquireOptions = LeaseOptions & WaitOptions;

export const acquireRules = { ...leaseRules, ...waitRules } satisfies RulesOf<AcquireOptions>;

/** One try. */
export type TryOptions = LeaseOptions & Pick<AcquireOptions, "signal">;

export const tryRules = { ...leaseRules, signal } satisfies RulesOf<TryOptions>;
