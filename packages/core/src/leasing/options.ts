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

/** A day: a lease shows that its holder lives, and is not a reservation. */
const longestMs = 86_400_000;

/** The length of a lease, its renewal, and the label of its holder. */
export interface LeaseOptions {
  /**
   * How long the lease lasts after its last renewal, in milliseconds: 10 to 86,400,000 (a day).
   *
   * With a shorter lease a crashed holder is replaced sooner, renewals are more frequent, and a shorter stall loses the lease.
   * Below a few hundred milliseconds ordinary pauses of a busy process lose leases.
   *
   * A lease that was waited for, and that is renewed, lasts two seconds at first, so that a waiter that died costs no more. It
   * has its full length after its first renewal, two thirds of a second later, or after `extend()`.
   *
   * @default 10000
   */
  readonly leaseMs?: number | undefined;
  /**
   * Whether the lease is renewed by itself, each third of its length, until it is released or lost.
   *
   * @default true
   */
  readonly renew?: boolean | undefined;
  /**
   * The lease ends this many milliseconds after its grant, whatever is renewed, and the signal aborts then: at least 10. It
   * limits holders that hang while their process lives. Undefined: no limit.
   *
   * @default undefined
   */
  readonly maxHoldMs?: number | undefined;
  /**
   * The holder's label, for `inspect()` and for others' timeout errors: at most 128 characters. Everyone who may read the keys
   * can read it.
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

/** `lockDelayMs`: how much longer the server keeps a lease than its holder counts on, so that one that was lost still excludes others. */
export type ResolvedLease = Resolved<typeof leaseRules> & { readonly lockDelayMs?: number };

/** Settings of an object that leases. */
export interface LeaserOptions extends LeaseOptions, ClientOptions {
  /**
   * How many may wait in one queue, 0 to 1,000,000; further acquires are refused. Before that, dead waiters in a sample of fifty
   * are dropped. Each waiter costs two small entries in Redis.
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
   * How long to wait, in milliseconds; 0 tries exactly once. Once queued, the wait survives reconnects and outages.
   * Undefined: without an end.
   *
   * @default undefined
   */
  readonly waitMs?: number | undefined;
  /** Ends the wait, with `signal.reason`. It has no effect on a lease that is held. */
  readonly signal?: AbortSignal | undefined;
}

/** Infinity: without an end. */
export const waitRules = { waitMs: integer(0, undefined, Infinity), signal } satisfies RulesOf<WaitOptions>;

export type ResolvedAcquire = ResolvedLease & Resolved<typeof waitRules>;
