import {
  integer,
  matching,
  nullable,
  required,
  resolve,
  type Resolved,
  type RulesOf,
  signal,
  text,
} from "@kit/core/toolkit";
import {
  type LeaseOptions,
  leaseRules,
  type LeaserOptions,
  leaserRules,
  type WaitOptions,
  waitRules,
} from "@kit/core/leasing";

/** Larger limits could not be counted exactly together with weights. */
const mostPermits = 1_000_000_000;

/** Settings of a semaphore. Its lease options are the defaults of each acquire. */
export interface SemaphoreOptions extends LeaserOptions {
  /**
   * The limit: the total weight of all permits, 0 to 1,000,000,000. With 0 nothing is granted. The first acquire of a name stores the
   * limit. After that only `setPermits()` changes it. An object with another number emits `mismatch`.
   */
  readonly permits: number;
  /**
   * The limit of each tenant, by weight, 0 to 1,000,000,000. It makes the semaphore a group: each acquire needs a `tenant`, and a tenant at
   * its limit does not delay others. When `maxWaiters` callers wait, a tenant without a waiter can still add one, up to twice `maxWaiters`
   * in total.
   *
   * @default undefined
   */
  readonly permitsPerTenant?: number | undefined;
}

export const semaphoreRules = {
  ...leaserRules,
  permits: required(integer(0, mostPermits)),
  permitsPerTenant: integer(0, mostPermits),
} satisfies RulesOf<SemaphoreOptions>;

export type SemaphoreSettings = Resolved<typeof semaphoreRules>;

/** The weight to take, and the tenant. */
interface ClaimOptions {
  /**
   * How much of the limit the permit uses: 1 or more.
   *
   * @default 1
   */
  readonly weight?: number | undefined;
  /** The permit's tenant: 1 to 128 characters. Required in a group, and rejected elsewhere. */
  readonly tenant?: string | undefined;
}

const tenant = matching(text(128), /^\P{Surrogate}+$/u, "to be well-formed Unicode, got half a surrogate pair");
const claimRules = { weight: integer(1, mostPermits, 1), tenant } satisfies RulesOf<ClaimOptions>;

/** Options of one acquire. */
export interface AcquireOptions extends LeaseOptions, WaitOptions, ClaimOptions {
  /**
   * The order among waiters, -1000 to 1000. Lower numbers are served first, and equal numbers in order of arrival. While waiters with lower
   * numbers keep arriving, the others are never served.
   *
   * @default 0
   */
  readonly priority?: number | undefined;
}

export const acquireRules = {
  ...leaseRules,
  ...claimRules,
  ...waitRules,
  priority: integer(-1_000, 1_000, 0),
} satisfies RulesOf<AcquireOptions>;

export type ResolvedPermit = Resolved<typeof acquireRules>;

/** Options of one try. */
export type TryOptions = LeaseOptions & ClaimOptions & Pick<AcquireOptions, "signal">;

export const tryRules = { ...leaseRules, ...claimRules, signal } satisfies RulesOf<TryOptions>;

/** The limits that `setPermits()` changes. A limit that you leave out stays unchanged. */
export interface NewLimits {
  /** The limit: the total weight of all permits, 0 to 1,000,000,000. */
  readonly permits?: number | undefined;
  /** The limit of each tenant. Pass a number only if the object was created with one. Pass null to turn the group off. */
  readonly permitsPerTenant?: number | null | undefined;
}

export const limitRules = {
  permits: integer(0, mostPermits),
  permitsPerTenant: nullable(integer(0, mostPermits)),
} satisfies RulesOf<NewLimits>;

/** Options of `inspect()`. */
export interface InspectOptions {
  /**
   * The tenant to show.
   *
   * @default all
   */
  readonly tenant?: string | undefined;
}

export const inspectRules = { tenant } satisfies RulesOf<InspectOptions>;

/** The limits of a semaphore. */
export type Limits = Pick<SemaphoreSettings, "permits" | "permitsPerTenant">;

/**
 * Returns the options. They need a tenant in a group, and none in any other semaphore.
 *
 * @throws {TypeError} the tenant is missing, or not allowed.
 */
export const forTenant = (permit: ResolvedPermit, { permitsPerTenant }: SemaphoreSettings): ResolvedPermit => {
  if (permitsPerTenant !== undefined) tenant.check("tenant", permit.tenant as string);
  else if (permit.tenant !== undefined)
    throw new TypeError("Expected no `tenant`. This semaphore has no `permitsPerTenant`");
  return permit;
};

/** @throws {TypeError | RangeError} a limit is invalid. */
export const newLimits = (limits: number | NewLimits, settings: SemaphoreSettings): NewLimits => {
  const changed = resolve("limits", typeof limits === "number" ? { permits: limits } : limits, limitRules);
  const { permits, permitsPerTenant } = changed;
  if (permits === undefined && permitsPerTenant === undefined)
    throw new TypeError("Expected `limits` to be a number, or an object with `permits` or `permitsPerTenant`");
  if (typeof permitsPerTenant === "number" && settings.permitsPerTenant === undefined)
    throw new TypeError("Expected no `permitsPerTenant`. This semaphore was created without it");
  return changed;
};
