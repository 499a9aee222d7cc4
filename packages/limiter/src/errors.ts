import { KitError } from "@kit/core";

/** Codes of the limiter's own errors. */
export type LimiterErrorCode = "KIT_LIMITER_TIMEOUT" | "KIT_LIMITER_TOKENS" | "KIT_LIMITER_WAIT" | "KIT_LIMITER_BUSY";

declare module "@kit/core" {
  interface KitErrorCodes {
    limiter: LimiterErrorCode;
  }
}

/**
 * A `wait()` would have been longer than `waitMs`. It used no tokens. `retryAfterMs` is the time until the call would have started.
 * Retryable.
 */
export class LimiterTimeoutError extends KitError {
  /** @internal */
  static override readonly brand: string = "LimiterTimeoutError";
  /** The limiter's name. */
  readonly resource: string;
  readonly retryAfterMs: number;
  /** The name of the limit, or `"block"`. */
  readonly refusedBy: string | null;

  constructor(resource: string, waitMs: number, retryAfterMs: number, refusedBy: string | null) {
    super(
      "KIT_LIMITER_TIMEOUT",
      `Limiter ${JSON.stringify(resource)} has no room within ${String(waitMs)} ms: the next is free in ${String(retryAfterMs)} ms`,
      { retryable: true },
    );
    this.resource = resource;
    this.retryAfterMs = retryAfterMs;
    this.refusedBy = refusedBy;
  }
}

/** A call asked for more tokens than a limit ever has at one time. Lower `tokens`, or raise `burst` or `count`. */
export class LimiterTokensError extends KitError {
  /** @internal */
  static override readonly brand: string = "LimiterTokensError";
  /** The limiter's name. */
  readonly resource: string;
  readonly tokens: number;

  constructor(resource: string, tokens: number) {
    super(
      "KIT_LIMITER_TOKENS",
      `Limiter ${JSON.stringify(resource)} can never allow ${String(tokens)} tokens in one call. Lower \`tokens\`, or raise the limits`,
    );
    this.resource = resource;
    this.tokens = tokens;
  }
}

/**
 * A `wait()` found no room, and this limiter cannot reserve a later instant. To reserve one, all limits must be `"gcra"`, and all or
 * none of them shared. The call used no tokens. To wait for shared and unshared limits, use two limiters, one after the other.
 */
export class LimiterWaitError extends KitError {
  /** @internal */
  static override readonly brand: string = "LimiterWaitError";
  /** The limiter's name. */
  readonly resource: string;

  constructor(resource: string) {
    super(
      "KIT_LIMITER_WAIT",
      `Limiter ${JSON.stringify(resource)} cannot make a call wait. Use the algorithm "gcra" for all limits, and share all or none of them`,
    );
    this.resource = resource;
  }
}

/** 10,000 calls of this object already wait for the server. No tokens were used. Shed load before it reaches the limiter. Retryable. */
export class LimiterBusyError extends KitError {
  /** @internal */
  static override readonly brand: string = "LimiterBusyError";
  /** The limiter's name. */
  readonly resource: string;

  constructor(resource: string) {
    super(
      "KIT_LIMITER_BUSY",
      `Limiter ${JSON.stringify(resource)} did not send the call: 10,000 calls already wait. Try again later`,
      { retryable: true },
    );
    this.resource = resource;
  }
}
