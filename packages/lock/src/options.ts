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

/** The replication that a grant needs before its acquire resolves. kit confirms it like core's `durable()`. */
export interface DurableOption {
  /**
   * The number of replicas that must have received the grant; 0 only with `fsync: "local"`. If this is the number of all replicas, a
   * failover loses no confirmed grant.
   *
   * @default 1
   */
  readonly replicas?: number | undefined;
  /**
   * The disks that must have the grant: none, the master's, or the disks of the master and of `replicas` replicas.
   *
   * @default "none"
   */
  readonly fsync?: "none" | "local" | "replicas" | undefined;
  /**
   * How long an acquire waits for replicas and disks after its grant, in milliseconds: 1 to 86,400,000 (a day). `waitMs` still limits it.
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

/** Settings of a lock object. Its lease options are the defaults of each acquire. */
export interface LockOptions extends LeaserOptions {
  /**
   * How long the server stores a name's last fencing token, in milliseconds: 60,000 to 604,800,000 (a week). The time starts with a release
   * that leaves no holder and no waiter. Nothing else is stored for an unused name.
   *
   * A short time saves memory if you use many names only once, such as one per order. Tokens never restart: after `keepMs` they continue
   * from the server's clock. A new token is smaller than an earlier one only if this clock went back by more than `keepMs`: it was set
   * back, or a failover led to a server with a different clock. If a lease ends without a release, its token stays for a week after the
   * grant.
   *
   * @default 604800000
   */
  readonly keepMs?: number | undefined;
  /**
   * How much longer a lock stays taken after its lease was lost, in milliseconds: 0 to 86,400,000 (a day). A holder that was cut off or
   * stalled has this time to notice the loss and stop, before another caller can hold the lock. A release skips this delay, and so does
   * `close()`.
   *
   * The delay also applies if a holder crashed, or a waiter died between its grant and its first renewal. Other callers see it as part of
   * the lease.
   *
   * @default 0
   */
  readonly lockDelayMs?: number | undefined;
  /**
   * An acquire resolves only after replicas and disks have confirmed its grant as this option requires. Otherwise kit undoes the grant, and
   * the acquire rejects with LockNotDurableError. Each acquire costs three more round trips (with `fsync`, up to four) on one of the
   * client's eight dedicated connections. The same applies to `tryUpgrade()` of a read/write lock. Renewals are not confirmed.
   *
   * @default off: an acquire resolves once the master has granted it
   */
  readonly durable?: DurableOption | undefined;
  /**
   * The minimum time from a grant until another caller can hold the lock, in milliseconds by the server's clock: 0 to 86,400,000 (a day).
   * If the holder releases the lock earlier, it stays taken until then, under the holder's label. Use it to run a short job only once if
   * many servers start it at about the same time. It does not apply to `acquireAll()`.
   *
   * @default 0
   */
  readonly minHoldMs?: number | undefined;
  /**
   * Allows nested `using` calls of the same name on this object: the inner call runs immediately, with the lease of the outer call. The
   * outer call finishes when all inner calls have finished. An `acquire` of a name that the routine holds would wait for itself, so it
   * rejects with LockSelfDeadlockError. kit tracks the calls with an AsyncLocalStorage, which costs some speed.
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

/** The settings of one acquire, and its object's settings that the lease needs. */
export type ResolvedLock = ResolvedAcquire & Pick<LockSettings, "lockDelayMs" | "minHoldMs">;

/** `keepMs` for the scripts. Empty means the week for which each grant stores the token. */
export const keepTerm = ({ keepMs }: Pick<LockSettings, "keepMs">): number | "" =>
  keepMs === longestKeepMs ? "" : keepMs;

/** Options of one acquire. */
export type AcquireOptions = LeaseOptions & WaitOptions;

export const acquireRules = { ...leaseRules, ...waitRules } satisfies RulesOf<AcquireOptions>;

/** Options of one try. */
export type TryOptions = LeaseOptions & Pick<AcquireOptions, "signal">;

export const tryRules = { ...leaseRules, signal } satisfies RulesOf<TryOptions>;
