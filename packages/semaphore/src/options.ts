import { integerOption, optionsObject, textOption } from "@kit/core/toolkit";
import {
  resolveAcquire as resolveBase,
  type ResolvedAcquire,
  leaseNames,
  type LeaseOptions,
  leaserNames,
  type LeaserOptions,
  leaserSettings,
  type LeaserSettings,
  type WaitOptions,
} from "@kit/core/leasing";

/** Settings of a semaphore. The lease options among them are defaults for each acquire. */
export interface SemaphoreOptions extends LeaserOptions {
  /**
   * The limit: how many permits there are, by weight, 0 to 1,000,000,000; 0 grants nothing. The first acquire under a name
   * stores it. From then on only `setPermits()` changes it, and an object that was made with another number emits `mismatch`.
   */
  readonly permits: number;
  /**
   * Makes it a group: each tenant has at most this many of the permits, 0 to 1,000,000,000, and a full tenant does not hold up
   * others. Each acquire names its `tenant` then.
   *
   * @default undefined
   */
  readonly permitsPerTenant?: number | undefined;
}

/** What to take, and for which tenant. */
interface ClaimOptions {
  /**
   * How many units of the limit to use, from 1.
   *
   * @default 1
   */
  readonly weight?: number | undefined;
  /** The account of the permit, in a group: 1 to 128 characters. Required there, and refused elsewhere. */
  readonly tenant?: string | undefined;
}

/** One acquire. */
export interface AcquireOptions extends LeaseOptions, WaitOptions, ClaimOptions {
  /**
   * The order of service among waiters: -1000 to 1000, lower is sooner; equals in order of arrival. While a more urgent waiter
   * is always there, the others are never served.
   *
   * @default 0
   */
  readonly priority?: number | undefined;
}

/** One try. */
export type TryOptions = LeaseOptions & ClaimOptions & Pick<AcquireOptions, "signal">;

/** The limits that `setPermits()` changes. A limit that is left out stays as it is. */
export interface NewLimits {
  readonly permits?: number | undefined;
  /** The limit of each tenant: only for an object that was made with one. null: it is no longer a group. */
  readonly permitsPerTenant?: number | null | undefined;
}

/** The options of `inspect()`. */
export interface InspectOptions {
  /**
   * The tenant to show.
   *
   * @default all
   */
  readonly tenant?: string | undefined;
}

/** The limits of a semaphore. */
export interface Limits {
  readonly permits: number;
  readonly permitsPerTenant: number | undefined;
}

/** Checked, with every default filled in. */
export type SemaphoreSettings = LeaserSettings & Limits;

/** Checked, with the semaphore's own settings where nothing else is said. */
export interface ResolvedPermit extends ResolvedAcquire {
  readonly weight: number;
  readonly priority: number;
  readonly tenant: string | undefined;
}

const claimNames = ["weight", "tenant"];
const acquireNames = [...leaseNames, ...claimNames, "waitMs", "signal", "priority"];
const tryNames = [...leaseNames, ...claimNames, "signal"];

/** More would not be counted exactly together with weights. */
const mostPermits = 1_000_000_000;

const permitsOption = (permits: number): number => integerOption("permits", permits, 0, mostPermits);
const perTenantOption = (permits: number | undefined): number | undefined =>
  permits === undefined ? undefined : integerOption("permitsPerTenant", permits, 0, mostPermits);

/** @throws {TypeError | RangeError} an option is not what it should be. */
export const semaphoreSettings = (options: SemaphoreOptions): SemaphoreSettings => {
  const own = optionsObject<SemaphoreOptions>("options", options, [...leaserNames, "permits", "permitsPerTenant"]);
  const { permits, permitsPerTenant } = own;
  return {
    ...leaserSettings(own),
    permits: permitsOption(permits),
    permitsPerTenant: perTenantOption(permitsPerTenant),
  };
};

const encodable = (tenant: string): string => {
  try {
    encodeURIComponent(tenant);
  } catch {
    throw new RangeError("Expected `tenant` to be well-formed text, got half a surrogate pair");
  }
  return tenant;
};

const tenantOption = (tenant: string | undefined, isGroup: boolean): string | undefined => {
  if (isGroup) return encodable(textOption("tenant", tenant, 128));
  if (tenant !== undefined) throw new TypeError("Expected no `tenant`: this semaphore has no `permitsPerTenant`");
  return undefined;
};

const resolvePermit = (options: AcquireOptions, settings: SemaphoreSettings): ResolvedPermit => {
  const { weight = 1, priority = 0, tenant } = options;
  return {
    weight: integerOption("weight", weight, 1, mostPermits),
    priority: integerOption("priority", priority, -1_000, 1_000),
    tenant: tenantOption(tenant, settings.permitsPerTenant !== undefined),
    // Last: V8 takes microseconds to add names to what was spread.
    ...resolveBase(options, settings),
  };
};

/** @throws {TypeError | RangeError} an option is not what it should be. */
export const resolveAcquire = (options: AcquireOptions, settings: SemaphoreSettings): ResolvedPermit =>
  resolvePermit(optionsObject<AcquireOptions>("options", options, acquireNames), settings);

/** @throws {TypeError | RangeError} an option is not what it should be. */
export const resolveTry = (options: TryOptions, settings: SemaphoreSettings): ResolvedPermit =>
  // Onto the copy, which has no prototype.
  resolvePermit(Object.assign(optionsObject<AcquireOptions>("options", options, tryNames), { waitMs: 0 }), settings);

/** @throws {TypeError | RangeError} an option is not what it should be. */
export const inspectedTenant = (options: InspectOptions): string | undefined => {
  const { tenant } = optionsObject<InspectOptions>("options", options, ["tenant"]);
  return tenant === undefined ? undefined : tenantOption(tenant, true);
};

/** @throws {TypeError | RangeError} a limit is not what it should be. */
export const newLimits = (limits: number | NewLimits, settings: SemaphoreSettings): NewLimits => {
  if (typeof limits === "number") return { permits: permitsOption(limits) };
  const { permits, permitsPerTenant } = optionsObject<NewLimits>("limits", limits, ["permits", "permitsPerTenant"]);
  if (permits === undefined && permitsPerTenant === undefined)
    throw new TypeError("Expected `limits` to be a number, or an object with `permits` or `permitsPerTenant`");
  if (typeof permitsPerTenant === "number" && settings.permitsPerTenant === undefined)
    throw new TypeError("Expected no `permitsPerTenant`: this semaphore was made without");
  return {
    permits: permits === undefined ? undefined : permitsOption(permits),
    permitsPerTenant: permitsPerTenant === null ? null : perTenantOption(permitsPerTenant),
  };
};
