import { KitError } from "@kit/core";
import { lastWords, type LossReason, lossWords, shown } from "@kit/core/leasing";

/** Codes of the semaphore's own errors. */
export type SemaphoreErrorCode =
  "KIT_SEMAPHORE_TIMEOUT" | "KIT_SEMAPHORE_QUEUE_FULL" | "KIT_SEMAPHORE_WEIGHT" | "KIT_PERMIT_LOST";

declare module "@kit/core" {
  interface KitErrorCodes {
    semaphore: SemaphoreErrorCode;
  }
}

/** The state of a semaphore in a reply. */
interface SeenUse {
  readonly permits: number;
  readonly permitsPerTenant?: number | undefined;
  readonly used: number;
  readonly msLeft: number;
}

/**
 * No permit was granted within `waitMs`. `permits`, `used` and `msLeft` describe the semaphore at the last reply. In a group, `tenant` and
 * `permitsPerTenant` are set as well. If `cause` is set, Redis was unreachable when the wait ended, or the slot was moving. kit undoes the
 * attempt in the background. Retryable. `tryAcquire` resolves with null instead.
 *
 * kit notices a lost connection immediately. It notices a silent server at the next heartbeat, within six seconds plus `deadlineMs`.
 */
export class SemaphoreTimeoutError extends KitError {
  /** @internal */
  static override readonly brand: string = "SemaphoreTimeoutError";
  /** The semaphore's name. */
  readonly resource: string;
  /** The tenant of the acquire, or undefined outside of groups. */
  readonly tenant: string | undefined;
  /** The limit at the last reply, or undefined if there was no reply. */
  readonly permits: number | undefined;
  /** The limit of each tenant at the last reply. Undefined without a reply, or outside of groups. */
  readonly permitsPerTenant: number | undefined;
  /** The weight in use at the last reply, for all tenants. */
  readonly used: number | undefined;
  /** How long after the last reply the first permit ends if it is not renewed, in milliseconds. Undefined if unknown. */
  readonly msLeft: number | undefined;

  constructor(
    resource: string,
    { waitMs, tenant }: { readonly waitMs: number; readonly tenant?: string | undefined },
    seen?: SeenUse,
    cause?: unknown,
  ) {
    const { permits, permitsPerTenant, used, msLeft = -1 } = seen ?? {};
    const each = permitsPerTenant === undefined ? "" : ` and at most ${String(permitsPerTenant)} for each tenant`;
    const use = seen && `${String(used)} of ${String(permits)} permits in use${each} at the last reply`;
    const whose = tenant === undefined ? "" : ` for tenant ${shown(tenant)}`;
    super(
      "KIT_SEMAPHORE_TIMEOUT",
      `Semaphore ${shown(resource)} granted no permit${whose} within ${String(waitMs)} ms${lastWords(use, cause)}`,
      { cause, retryable: true },
    );
    this.resource = resource;
    this.tenant = tenant;
    this.permits = permits;
    this.permitsPerTenant = permitsPerTenant;
    this.used = used;
    this.msLeft = msLeft >= 0 ? msLeft : undefined;
  }
}

/** `maxWaiters` callers already wait for this semaphore. Try again later, or raise `maxWaiters`. Retryable. */
export class SemaphoreQueueFullError extends KitError {
  /** @internal */
  static override readonly brand: string = "SemaphoreQueueFullError";
  /** The semaphore's name. */
  readonly resource: string;
  readonly maxWaiters: number;

  constructor(resource: string, maxWaiters: number) {
    super(
      "KIT_SEMAPHORE_QUEUE_FULL",
      `Semaphore ${shown(resource)} already has ${String(maxWaiters)} waiters. Try again later, or raise maxWaiters`,
      {
        retryable: true,
      },
    );
    this.resource = resource;
    this.maxWaiters = maxWaiters;
  }
}

/** The weight of an acquire is above the limits, so it could never be granted. `most` is the largest weight that the limits allow now. */
export class SemaphoreWeightError extends KitError {
  /** @internal */
  static override readonly brand: string = "SemaphoreWeightError";
  /** The semaphore's name. */
  readonly resource: string;
  readonly weight: number;
  /** The largest weight that the limits allow now. */
  readonly most: number;

  constructor(resource: string, weight: number, most: number) {
    super(
      "KIT_SEMAPHORE_WEIGHT",
      `Semaphore ${shown(resource)} cannot grant a weight of ${String(weight)}: its maximum is ${String(most)}. Lower the weight, or raise the limits`,
    );
    this.resource = resource;
    this.weight = weight;
    this.most = most;
  }
}

/**
 * A permit ended before its release; `reason` gives the cause. Work done since then may exceed the limit. This error is the reason of
 * `permit.signal`, and `assertHeld()` throws it.
 */
export class PermitLostError extends KitError {
  /** @internal */
  static override readonly brand: string = "PermitLostError";
  /** The semaphore's name. */
  readonly resource: string;
  readonly reason: LossReason;

  constructor(resource: string, reason: LossReason) {
    super("KIT_PERMIT_LOST", `A permit of semaphore ${shown(resource)} was lost: ${lossWords[reason]}`);
    this.resource = resource;
    this.reason = reason;
  }
}
