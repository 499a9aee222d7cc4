import { hostname } from "node:os";
import {
  booleanOption,
  clientOptionNames,
  clientSettings,
  type ClientOptions,
  type ClientSettings,
  integerOption,
  signalOption,
  textOption,
} from "../toolkit/index.js";

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

/** Settings of an object that leases. */
export interface LeaserOptions extends LeaseOptions, ClientOptions {
  /**
   * How many may wait in one queue, 0 to 1,000,000; further acquires are refused. Each waiter costs two small entries in Redis.
   *
   * @default 10000
   */
  readonly maxWaiters?: number | undefined;
}

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

/** Checked, with every default filled in. */
export interface ResolvedLease {
  readonly leaseMs: number;
  readonly renew: boolean;
  readonly maxHoldMs: number | undefined;
  readonly holder: string;
}

/** Checked, with every default filled in. */
export interface LeaserSettings extends ResolvedLease, ClientSettings {
  readonly maxWaiters: number;
}

/** Checked, with the object's own settings where nothing else is said. */
export interface ResolvedAcquire extends ResolvedLease {
  /** Infinity: for ever. */
  readonly waitMs: number;
  readonly signal: AbortSignal | undefined;
}

export const leaseNames: readonly string[] = ["leaseMs", "renew", "maxHoldMs", "holder"];
export const leaserNames: readonly string[] = [...leaseNames, ...clientOptionNames, "maxWaiters"];

/** A day; a lease is a sign of life, not a reservation. */
const longestMs = 86_400_000;

const resolveLease = (options: LeaseOptions, defaults: ResolvedLease): ResolvedLease => {
  const { leaseMs = defaults.leaseMs, renew = defaults.renew, holder = defaults.holder } = options;
  const { maxHoldMs = defaults.maxHoldMs } = options;
  return {
    leaseMs: leaseMsOption(leaseMs),
    renew: booleanOption("renew", renew),
    maxHoldMs: maxHoldMs === undefined ? undefined : integerOption("maxHoldMs", maxHoldMs, 10),
    holder: textOption("holder", holder, 128),
  };
};

const defaults: ResolvedLease = {
  leaseMs: 10_000,
  renew: true,
  maxHoldMs: undefined,
  holder: `${hostname().slice(0, 100)}:${String(process.pid)}`,
};

/** @throws {TypeError | RangeError} it is not an integer from 10 ms to a day. */
export const leaseMsOption = (leaseMs: number): number => integerOption("leaseMs", leaseMs, 10, longestMs);

/** @throws {TypeError | RangeError} an option is not what it should be. */
export const leaserSettings = (options: LeaserOptions): LeaserSettings => {
  const { maxWaiters = 10_000 } = options;
  return {
    ...resolveLease(options, defaults),
    ...clientSettings(options),
    maxWaiters: integerOption("maxWaiters", maxWaiters, 0, 1_000_000),
  };
};

/** @throws {TypeError | RangeError} an option is not what it should be. */
export const resolveAcquire = (options: LeaseOptions & WaitOptions, settings: ResolvedLease): ResolvedAcquire => {
  const { waitMs, signal } = options;
  return {
    waitMs: waitMs === undefined ? Infinity : integerOption("waitMs", waitMs, 0),
    signal: signalOption("signal", signal),
    // Last: V8 takes microseconds to add names to what was spread.
    ...resolveLease(options, settings),
  };
};
