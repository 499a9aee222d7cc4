import { hostname } from "node:os";
import {
  boolean,
  clientRules,
  type ClientOptions,
  integer,
  type Resolved,
  type RulesOf,
  signal,
  text,
} from "../toolkit/index.js";

/** A day. A lease shows that its holder is alive; it is not a reservation. */
const longestMs = 86_400_000;

/** The length of a lease, its renewal, and its holder's label. */
export interface LeaseOptions {
  /**
   * How long the lease lasts after its last renewal, in milliseconds: 10 to 86,400,000 (a day).
   *
   * With a shorter lease a crashed holder is replaced sooner. In return, renewals are more frequent, and a shorter stall loses the
   * lease. Below a few hundred milliseconds, normal pauses of a busy process lose leases.
   *
   * If you waited for a lease that is renewed, it lasts two seconds at first, so that a dead waiter does not block others for
   * longer. It gets its full length after its first renewal, two thirds of a second later, or after `extend()`.
   *
   * @default 10000
   */
  readonly leaseMs?: number | undefined;
  /**
   * Whether kit renews the lease, every third of its length, until it is released or lost.
   *
   * @default true
   */
  readonly renew?: boolean | undefined;
  /**
   * The maximum time to hold the lease, in milliseconds: at least 10. The lease ends this long after its grant, whatever is
   * renewed, and the signal aborts. Use it against holders that hang while their process is alive. Undefined: no limit.
   *
   * @default undefined
   */
  readonly maxHoldMs?: number | undefined;
  /**
   * The holder's label, shown by `inspect()` and in other callers' timeout errors: up to 128 characters. Anyone who may read the
   * keys can read it.
   *
   * @default host name and process id, as in "web-3:4711"
   */
  readonly holder?: string | undefined;
}

export const leaseRules = {
  leaseMs: integer(10, longestMs, 10_000),
  renew: boolean(true),
  maxHoldMs: integer(10),
  holder: text(128, `${hostname().slice(0, 100)}:${String(process.pid)}`),
} satisfies RulesOf<LeaseOptions>;

/**
 * `lockDelayMs`: how much longer the server keeps a lease than its holder relies on it. A lost lease still excludes others for this
 * long.
 */
export type ResolvedLease = Resolved<typeof leaseRules> & { readonly lockDelayMs?: number };

/** Options of an object that leases. */
export interface LeaserOptions extends LeaseOptions, ClientOptions {
  /**
   * The maximum number of waiters in one queue: 0 to 1,000,000. Further acquires are rejected. Before that, dead waiters in a
   * sample of fifty are dropped. Each waiter uses two small entries in Redis.
   *
   * @default 10000
   */
  readonly maxWaiters?: number | undefined;
}

export const leaserRules = {
  ...leaseRules,
  ...clientRules,
  maxWaiters: integer(0, 1_000_000, 10_000),
} satisfies RulesOf<LeaserOptions>;

export type LeaserSettings = Resolved<typeof leaserRules>;

/** How long to wait. */
export interface WaitOptions {
  /**
   * How long to wait, in milliseconds; 0 tries exactly once. Undefined: no limit. The wait survives refusals that pass by themselves,
   * such as `BUSY`, `LOADING`, `NOREPLICAS`, `READONLY` and a moving slot. Without a limit the object emits them as one `error`. Once
   * queued, the wait also survives reconnects and outages.
   *
   * @default undefined
   */
  readonly waitMs?: number | undefined;
  /** Ends the wait, with `signal.reason`. It has no effect on a lease that is held. */
  readonly signal?: AbortSignal | undefined;
}

/** Infinity: no limit. */
export const waitRules = { waitMs: integer(0, undefined, Infinity), signal } satisfies RulesOf<WaitOptions>;

export type ResolvedAcquire = ResolvedLease & Resolved<typeof waitRules>;
