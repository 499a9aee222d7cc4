import { KitError } from "@kit/core";
import { lastWords, type LossReason, lossWords, shown } from "@kit/core/leasing";

/** Codes of the lock's own errors. */
export type LockErrorCode =
  "KIT_LOCK_TIMEOUT" | "KIT_LOCK_LOST" | "KIT_LOCK_QUEUE_FULL" | "KIT_LOCK_NOT_DURABLE" | "KIT_LOCK_SELF_DEADLOCK";

declare module "@kit/core" {
  interface KitErrorCodes {
    lock: LockErrorCode;
  }
}

/**
 * The lock was not granted within `waitMs`. `holder` and `msLeft` describe the lease at the last reply. If `cause` is set, Redis was
 * unreachable when the wait ended, or the slot was moving. kit undoes the attempt in the background. Retryable. `tryAcquire` resolves with
 * null instead.
 *
 * kit notices a lost connection immediately. It notices a silent server at the next heartbeat, within six seconds plus `deadlineMs`.
 */
export class LockTimeoutError extends KitError {
  /** @internal */
  static override readonly brand: string = "LockTimeoutError";
  /** The lock's name. */
  readonly resource: string;
  /** The holder's label at the last reply, or undefined if there was no reply. */
  readonly holder: string | undefined;
  /** The time that the holder's lease had left at that reply, in milliseconds; Infinity if its expiry was removed (PERSIST). */
  readonly msLeft: number | undefined;

  constructor(
    resource: string,
    waitMs: number,
    holder: string | undefined,
    msLeft: number | undefined,
    cause?: unknown,
  ) {
    const left = msLeft === Infinity ? "without an expiry" : `${String(msLeft)} ms left`;
    const by = holder === undefined ? undefined : `held by ${shown(holder)}, ${left} at the last reply`;
    const words = lastWords(by, cause);
    super("KIT_LOCK_TIMEOUT", `Lock ${shown(resource)} was not granted within ${String(waitMs)} ms${words}`, {
      cause,
      retryable: true,
    });
    this.resource = resource;
    this.holder = holder;
    this.msLeft = msLeft;
  }
}

/**
 * A lease ended before its release; `reason` gives the cause. Work done since then may overlap with the next holder's work. This error is
 * the reason of `lease.signal`, and `assertHeld()` throws it.
 */
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

/** `maxWaiters` callers already wait for this lock. Try again later, or raise `maxWaiters`. Retryable. */
export class LockQueueFullError extends KitError {
  /** @internal */
  static override readonly brand: string = "LockQueueFullError";
  /** The lock's name. */
  readonly resource: string;
  readonly maxWaiters: number;

  constructor(resource: string, maxWaiters: number) {
    super(
      "KIT_LOCK_QUEUE_FULL",
      `Lock ${shown(resource)} already has ${String(maxWaiters)} waiters. Try again later, or raise maxWaiters`,
      {
        retryable: true,
      },
    );
    this.resource = resource;
    this.maxWaiters = maxWaiters;
  }
}

/**
 * The lock was granted, but the replicas or disks that `durable` requires did not confirm the grant in time. The message gives the reason.
 * kit undoes the grant in the background. Retryable. If the error persists, check the replicas.
 */
export class LockNotDurableError extends KitError {
  /** @internal */
  static override readonly brand: string = "LockNotDurableError";
  /** The lock's name. */
  readonly resource: string;

  constructor(resource: string, why: string) {
    super("KIT_LOCK_NOT_DURABLE", `Lock ${shown(resource)} was granted, but not durably: ${why}`, { retryable: true });
    this.resource = resource;
  }
}

/**
 * The caller is inside a `using` call that holds this lock, and would wait for itself. Thrown only with the option `reentrant`. Use the
 * lease of the outer call, or call `using` inside it. Not retryable.
 */
export class LockSelfDeadlockError extends KitError {
  /** @internal */
  static override readonly brand: string = "LockSelfDeadlockError";
  /** The lock's name. */
  readonly resource: string;

  constructor(resource: string) {
    super(
      "KIT_LOCK_SELF_DEADLOCK",
      `Lock ${shown(resource)} is already held by this section, which would wait for itself. Use the section's lease, or call using()`,
    );
    this.resource = resource;
  }
}
