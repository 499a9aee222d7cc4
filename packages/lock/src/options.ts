import { hostname } from "node:os";
import { booleanOption, integerOption, optionsObject, signalOption, textOption } from "@kit/core";

/** How long a lease is, and who shows up as its holder. Given to `createLock` they are defaults for each acquire. */
export interface LeaseOptions {
  /**
   * How long the lock stays held after the last sign of life of its holder, in milliseconds.
   *
   * Shorter: a crashed holder is replaced sooner; more renewals, and a shorter stall loses the lock. Below a few hundred
   * milliseconds ordinary pauses of a busy process lose leases.
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
   * Renewal ends so that nobody holds the lock longer than this many milliseconds; the signal aborts then. Against
   * holders that hang while their process lives. Undefined: no such end.
   *
   * @default undefined
   */
  readonly maxHoldMs?: number | undefined;
  /**
   * Who this is, for people who inspect the lock and for others' LockTimeoutError: at most 128 characters. Anybody who
   * can read the lock's keys can read it.
   *
   * @default host name and process id, as in "web-3:4711"
   */
  readonly holder?: string | undefined;
}

/** Settings of a lock object. */
export interface LockOptions extends LeaseOptions {
  /**
   * What all keys begin with. Locks under different prefixes have nothing to do with each other.
   *
   * @default "kit"
   */
  readonly prefix?: string | undefined;
  /**
   * Works on a duplicate of the client: costs a connection, and one that goes silent is then replaced.
   *
   * @default false
   */
  readonly isolate?: boolean | undefined;
  /**
   * Every single command settles within this many milliseconds, whatever the network does.
   *
   * @default 2000
   */
  readonly deadlineMs?: number | undefined;
  /**
   * How many may wait for one lock; more are refused with LockQueueFullError. Each costs two small entries in Redis.
   *
   * @default 10000
   */
  readonly maxWaiters?: number | undefined;
}

/** One acquire. */
export interface AcquireOptions extends LeaseOptions {
  /**
   * How long to wait for the lock, in milliseconds; 0 tries exactly once. Once queued, the wait survives reconnects and
   * outages within it. Undefined: for ever.
   *
   * @default undefined
   */
  readonly waitMs?: number | undefined;
  /** Ends the wait, with `signal.reason`. It has no influence on a lease once it is held. */
  readonly signal?: AbortSignal | undefined;
}

/** One try. */
export type TryOptions = LeaseOptions & Pick<AcquireOptions, "signal">;

/** How `close()` behaves. */
export interface CloseOptions {
  /**
   * How long to wait for leases that are still held, in milliseconds. Then their signals abort and they are released.
   *
   * @default 10000
   */
  readonly timeoutMs?: number | undefined;
}

/** Checked, with every default filled in. */
export interface LeaseTerms {
  readonly leaseMs: number;
  readonly renew: boolean;
  readonly maxHoldMs: number | undefined;
  readonly holder: string;
}

/** Checked, with every default filled in. */
export interface LockSettings extends LeaseTerms {
  readonly prefix: string | undefined;
  readonly isolate: boolean;
  readonly deadlineMs: number;
  readonly maxWaiters: number;
}

const leaseNames = ["leaseMs", "renew", "maxHoldMs", "holder"];
const lockNames = [...leaseNames, "prefix", "isolate", "deadlineMs", "maxWaiters"];
const acquireNames = [...leaseNames, "waitMs", "signal"];
const tryNames = [...leaseNames, "signal"];

/** A day; a lease is a sign of life, not a reservation. */
const longestMs = 86_400_000;

const defaultHolder = `${hostname().slice(0, 100)}:${String(process.pid)}`;

const leaseTerms = (options: LeaseOptions, defaults: LeaseTerms): LeaseTerms => {
  const { leaseMs = defaults.leaseMs, renew = defaults.renew, holder = defaults.holder } = options;
  const { maxHoldMs = defaults.maxHoldMs } = options;
  return {
    leaseMs: integerOption("leaseMs", leaseMs, 10, longestMs),
    renew: booleanOption("renew", renew),
    maxHoldMs: maxHoldMs === undefined ? undefined : integerOption("maxHoldMs", maxHoldMs, 10),
    holder: textOption("holder", holder, 128),
  };
};

/** @throws {TypeError | RangeError} an option is not what it should be. */
export const lockSettings = (options: LockOptions): LockSettings => {
  const own = optionsObject("options", options, lockNames);
  const { prefix, isolate = false, deadlineMs = 2_000, maxWaiters = 10_000 } = own;
  return {
    ...leaseTerms(own, { leaseMs: 10_000, renew: true, maxHoldMs: undefined, holder: defaultHolder }),
    prefix,
    isolate: booleanOption("isolate", isolate),
    deadlineMs: integerOption("deadlineMs", deadlineMs, 1, longestMs),
    maxWaiters: integerOption("maxWaiters", maxWaiters, 0, 1_000_000),
  };
};

/** Checked, with the lock's own settings where nothing else is said. */
export interface AcquireTerms extends LeaseTerms {
  /** Infinity: for ever. */
  readonly waitMs: number;
  readonly signal: AbortSignal | undefined;
}

/** @throws {TypeError | RangeError} an option is not what it should be. */
export const acquireTerms = (options: AcquireOptions, settings: LeaseTerms): AcquireTerms => {
  const own = optionsObject("options", options, acquireNames);
  const { waitMs, signal } = own;
  return {
    ...leaseTerms(own, settings),
    waitMs: waitMs === undefined ? Infinity : integerOption("waitMs", waitMs, 0),
    signal: signalOption("signal", signal),
  };
};

/** @throws {TypeError | RangeError} an option is not what it should be. */
export const tryTerms = (options: TryOptions, settings: LeaseTerms): AcquireTerms =>
  acquireTerms({ ...optionsObject("options", options, tryNames), waitMs: 0 }, settings);

/** @throws {TypeError | RangeError} an option is not what it should be. */
export const closeTimeoutMs = (options: CloseOptions): number => {
  const { timeoutMs = 10_000 } = optionsObject("options", options, ["timeoutMs"]);
  return integerOption("timeoutMs", timeoutMs, 0, longestMs);
};
