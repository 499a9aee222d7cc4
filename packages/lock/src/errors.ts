import { KitError } from "@kit/core";
import { lastWords, type LossReason, lossWords, shown } from "@kit/core/leasing";

/**
 * Codes of the lock's own errors.
 *
 * - `KIT_LOCK_TIMEOUT`: the lock could not be had in time
 * - `KIT_LOCK_LOST`: a lease ended while its holder still needed it
 * - `KIT_LOCK_QUEUE_FULL`: too many wait for one lock
 */
export type LockErrorCode = "KIT_LOCK_TIMEOUT" | "KIT_LOCK_LOST" | "KIT_LOCK_QUEUE_FULL";

declare module "@kit/core" {
  interface KitErrorCodes {
    lock: LockErrorCode;
  }
}

/**
 * The lock was not granted within `waitMs`: another caller held it at the last reply. With a `cause`, Redis was unreachable at
 * the end; a lost connection is noticed at once, a silent server by the next heartbeat, within eight seconds. Nothing of the
 * attempt is left behind.
 */
export class LockTimeoutError extends KitError {
  /** @internal */
  static override readonly brand: string = "LockTimeoutError";
  /** The lock's name. */
  readonly resource: string;
  /** The holder when the server was last asked. */
  readonly holder: string | undefined;
  /** Time left of that lease then, in milliseconds; Infinity when somebody took its end away. */
  readonly msLeft: number | undefined;

  constructor(
    resource: string,
    waitMs: number,
    holder: string | undefined,
    msLeft: number | undefined,
    cause?: unknown,
  ) {
    const left = msLeft === Infinity ? "without an end" : `${String(msLeft)} ms left`;
    const by = holder === undefined ? undefined : `held by ${shown(holder)}, ${left} when last seen`;
    const words = lastWords(by, cause);
    super("KIT_LOCK_TIMEOUT", `Lock ${shown(resource)} was not free within ${String(waitMs)} ms${words}`, {
      cause,
      retryable: true,
    });
    this.resource = resource;
    this.holder = holder;
    this.msLeft = msLeft;
  }
}

/** A lease ended while its holder still needed it. Work done since may overlap with the next holder's. */
export class LockLostError extends KitError {
  /** @internal */
  static override readonly brand: string = "LockLostError";
  /** The lock's name. */
  readonly resource: string;
  readonly reason: LossReason;
  readonly fencingToken: string;

  constructor(resource: string, reason: LossReason, fencingToken: string) {
    super("KIT_LOCK_LOST", `Lock ${shown(resource)} was lost: ${lossWords[reason]}`);
    this.resource = resource;
    this.reason = reason;
    this.fencingToken = fencingToken;
  }
}

/** `maxWaiters` already wait for this lock. */
export class LockQueueFullError extends KitError {
  /** @internal */
  static override readonly brand: string = "LockQueueFullError";
  /** The lock's name. */
  readonly resource: string;
  readonly maxWaiters: number;

  constructor(resource: string, maxWaiters: number) {
    super("KIT_LOCK_QUEUE_FULL", `Lock ${shown(resource)} already has ${String(maxWaiters)} waiters`, {
      retryable: true,
    });
    this.resource = resource;
    this.maxWaiters = maxWaiters;
  }
}
