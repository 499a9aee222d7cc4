// What every implementation of a lock is opened with, and what it offers to the jobs.
import type { Definition as AnyDefinition } from "../../implementation.js";
import type { Caller } from "../../loops/caller.js";

/** The arguments with which every implementation of a case is opened. */
export interface LockSetup {
  readonly leaseMs: number;
  /** Whether the holder renews the lease, if the library can do that by itself. */
  readonly renew: boolean;
  /** Renewed every third of the lease, like ours, if the library can be configured; otherwise at its own instants. */
  readonly renewEachThird?: boolean;
  /** redlock's renewals share their retries with the acquire, which must be unbounded in every other case. */
  readonly defaultRetries?: boolean;
  /** Of a lock on several servers: the last one falls silent as soon as all are connected. */
  readonly isLastSilent?: boolean;
}

/** A held lock. */
export interface Held {
  /** Calls `listener` when the library reports that the lock is lost. */
  onLost(listener: () => void): void;
}

export type Routine = (held: Held) => Promise<void> | void;

export interface LockCaller extends Caller {
  /** `isReader`: for an implementation with two modes. */
  using(name: string, routine: Routine, isReader?: boolean): Promise<void>;
  /** Takes all names. */
  usingAll?(names: readonly string[], routine: Routine): Promise<void>;
}

/** A library in this process. */
export interface LockImplementation {
  caller(): LockCaller;
  /** Whether it can keep a lock by itself for longer than a lease. */
  readonly renews: boolean;
  /** The key whose time to live is the lease. */
  leaseKey(name: string): string;
}

export type Definition = AnyDefinition<LockImplementation, LockSetup>;

export const neverTold: Held = { onLost: () => undefined };
export const toldBy = (signal: AbortSignal): Held => ({
  onLost: (listener) => signal.addEventListener("abort", () => listener(), { once: true }),
});

/** Deletes a key that still holds this token. */
export const compareAndDelete = `if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("DEL", KEYS[1]) end return 0`;
