import { KitError } from "@kit/core";
import { lastWords, type LossReason, lossWords, shown } from "@kit/core/leasing";

/**
 * Codes of the semaphore's own errors.
 *
 * - `KIT_SEMAPHORE_TIMEOUT`: no permit could be had in time: it was full
 * - `KIT_SEMAPHORE_QUEUE_FULL`: too many wait
 * - `KIT_SEMAPHORE_WEIGHT`: more was asked for than the limits ever allow
 * - `KIT_PERMIT_LOST`: a permit ended while its holder still needed it
 */
export type SemaphoreErrorCode =
  "KIT_SEMAPHORE_TIMEOUT" | "KIT_SEMAPHORE_QUEUE_FULL" | "KIT_SEMAPHORE_WEIGHT" | "KIT_PERMIT_LOST";

/**
 * The semaphore was full for all of `waitMs`, as far as is known: with a `cause`, Redis could not be asked at the end. Nothing
 * of the attempt is left behind.
 */
export class SemaphoreTimeoutError extends KitError {
  override name = "SemaphoreTimeoutError";
  /** The semaphore's name. */
  readonly resource: string;
  /** The limit when the server was last asked; undefined: it never answered. */
  readonly permits: number | undefined;
  /** What was in use then, by weight. */
  readonly used: number | undefined;
  /** When the first of those permits would have ended, unless it was renewed: milliseconds from then. */
  readonly msLeft: number | undefined;

  constructor(
    resource: string,
    waitMs: number,
    seen?: { readonly permits: number; readonly used: number; readonly msLeft: number },
    cause?: unknown,
  ) {
    const use = seen && `${String(seen.used)} of ${String(seen.permits)} permits in use when last seen`;
    const words = lastWords(use, cause);
    super("KIT_SEMAPHORE_TIMEOUT", `Semaphore ${shown(resource)} had no room within ${String(waitMs)} ms${words}`, {
      cause,
      retryable: true,
    });
    this.resource = resource;
    this.permits = seen?.permits;
    this.used = seen?.used;
    this.msLeft = seen && seen.msLeft >= 0 ? seen.msLeft : undefined;
  }
}

/** `maxWaiters` already wait for this semaphore. */
export class SemaphoreQueueFullError extends KitError {
  override name = "SemaphoreQueueFullError";
  /** The semaphore's name. */
  readonly resource: string;
  readonly maxWaiters: number;

  constructor(resource: string, maxWaiters: number) {
    super("KIT_SEMAPHORE_QUEUE_FULL", `Semaphore ${shown(resource)} already has ${String(maxWaiters)} waiters`, {
      retryable: true,
    });
    this.resource = resource;
    this.maxWaiters = maxWaiters;
  }
}

/** An acquire asked for more than the limits allow even when nothing is in use: it would wait for ever. */
export class SemaphoreWeightError extends KitError {
  override name = "SemaphoreWeightError";
  /** The semaphore's name. */
  readonly resource: string;
  readonly weight: number;
  /** The most that one may have now. */
  readonly most: number;

  constructor(resource: string, weight: number, most: number) {
    super(
      "KIT_SEMAPHORE_WEIGHT",
      `Semaphore ${shown(resource)} never has room for a weight of ${String(weight)}: it has ${String(most)} in all`,
    );
    this.resource = resource;
    this.weight = weight;
    this.most = most;
  }
}

/** A permit ended while its holder still needed it. Work done since may go beyond the limit. */
export class PermitLostError extends KitError {
  override name = "PermitLostError";
  /** The semaphore's name. */
  readonly resource: string;
  readonly reason: LossReason;

  constructor(resource: string, reason: LossReason) {
    super("KIT_PERMIT_LOST", `A permit of semaphore ${shown(resource)} was lost: ${lossWords[reason]}`);
    this.resource = resource;
    this.reason = reason;
  }
}
