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

/** The length and renewal of a lease, and its holder's label. */
export interface LeaseOptions {
  /**
   * How long the lease lasts without a renewal, in milliseconds: 10 to 86,400,000 (a day).
   *
   * With a shorter lease, a crashed holder is replaced sooner. But kit renews the lease more often, and loses it in shorter stalls.
   * Below a few hundred milliseconds, normal pauses of a busy process lose it.
   *
   * With `renew`, a lease that you waited for lasts only two seconds at first, so that a dead waiter does not block others for
   * longer. It gets its full length with its first renewal, two thirds of a second later, or with `extend()`.
   *
   * @default 10000
   */
  readonly leaseMs?: number | undefined;
  /**
   * Whether kit renews the lease, every third of `leaseMs`, until the lease is released or lost.
   *
   * @default true
   */
  readonly renew?: boolean | undefined;
  /**
   * The maximum time to hold the lease, in milliseconds: at least 10. After this time the lease ends despite renewals, and its
   * signal aborts. Use it against holders that hang while their process is alive. Undefined: no limit.
   *
   * @default undefined
   */
  readonly maxHoldMs?: number | undefined;
  /**
   * The holder's label, shown by `inspect()` and in other callers' timeout errors: up to 128 characters. Anyone who can read the
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
   * The maximum number of waiters in one queue: 0 to 1,000,000. If the queue is full, kit drops dead waiters in a sample of fifty.
   * If there are none, it rejects further acquires. Each waiter uses two small entries in Redis.
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
   * How long to wait, in milliseconds; 0 tries exactly once. Undefined: no limit. The wait continues through temporary errors, such
   * as `BUSY`, `LOADING`, `NOREPLICAS`, `READONLY` and a moving slot. Without a limit, the object emits one `error` event for them.
   * In the queue, it also continues through reconnects and outages.
   *
   * @default undefined
   */
  readonly waitMs?: number | undefined;
  /** Ends the wait: the call rejects with `signal.reason`. After the grant, the signal has no effect. */
  readonly signal?: AbortSignal | undefined;
}

/** Infinity: no limit. */
export const waitRules = { waitMs: integer(0, undefined, Infinity), signal } satisfies RulesOf<WaitOptions>;

export type ResolvedAcquire = ResolvedLease & Resolved<typeof waitRules>;
