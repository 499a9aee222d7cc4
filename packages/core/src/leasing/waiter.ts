import { atDeadline, type Deadline, onAbort } from "../toolkit/index.js";
import type { Grant } from "./grant.js";
import type { LeaseRequest, Seen } from "./kind.js";
import type { ResolvedAcquire } from "./options.js";
import type { Subscription } from "./subscription.js";

/** A wait without a limit emits one event after this long, in milliseconds. Nothing else would show that it makes no progress. */
const stillWaitingMs = 30_000;

/** Callbacks of one waiter. None of them settles it by itself. */
export interface WaiterEvents {
  readonly pushed: (payload: string) => void;
  readonly timedOut: () => void;
  readonly aborted: () => void;
}

/** One acquire in the queue. It settles once. */
export class Waiter<Resolved extends ResolvedAcquire, S extends Seen> {
  readonly subscription: Subscription;
  readonly request: LeaseRequest<Resolved>;
  readonly granted: Promise<Grant<Resolved>>;
  /** Whether the server is known to have it in the queue. Only then is a heartbeat's "unknown" meaningful. */
  isQueued = true;
  /** Whether a grant was pushed before the reply to the acquire, while the server's clock was unknown. */
  hasDoubt = false;
  /** The server's latest reply about it. */
  seen: S;
  readonly #deadline: Deadline;
  readonly #startedAt = performance.now();
  #state: "waiting" | "granted" | "abandoned" = "waiting";
  #hasReportedWait = false;
  #stopTimer: (() => void) | undefined;
  #stopListening: (() => void) | undefined;
  #resolve!: (grant: Grant<Resolved>) => void;
  #reject!: (error: unknown) => void;

  constructor(subscription: Subscription, request: LeaseRequest<Resolved>, deadline: Deadline, seen: S) {
    this.subscription = subscription;
    this.request = request;
    this.#deadline = deadline;
    this.seen = seen;
    this.granted = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
  }

  get isSettled(): boolean {
    return this.#state !== "waiting";
  }

  get isAbandoned(): boolean {
    return this.#state === "abandoned";
  }

  /** May call back synchronously: for a signal that has already aborted, and for pushes that arrived before. */
  start({ pushed, timedOut, aborted }: WaiterEvents): void {
    // A grant that is already in the socket is read before it times out.
    if (this.#deadline.at < Infinity) this.#stopTimer = atDeadline(this.#deadline, timedOut);
    this.#stopListening = onAbort(this.request.resolved.signal, aborted);
    // If it has given up already, the subscription has another listener, which releases grants.
    if (!this.isSettled) this.subscription.listen(pushed);
  }

  /** Returns whether it was still waiting. */
  grant(grant: Grant<Resolved>): boolean {
    if (!this.#settle("granted")) return false;
    this.#resolve(grant);
    return true;
  }

  /** Returns whether it was still waiting. */
  abandon(reason: unknown): boolean {
    if (!this.#settle("abandoned")) return false;
    this.#reject(reason);
    return true;
  }

  /**
   * How long it has waited, in milliseconds. Returned once, after {@link stillWaitingMs} of a wait without a limit; otherwise
   * undefined.
   */
  longWaitMs(): number | undefined {
    const waitedMs = performance.now() - this.#startedAt;
    if (this.#hasReportedWait || this.#deadline.at < Infinity || waitedMs < stillWaitingMs) return undefined;
    this.#hasReportedWait = true;
    return waitedMs;
  }

  #settle(state: "granted" | "abandoned"): boolean {
    if (this.isSettled) return false;
    this.#state = state;
    this.#stopTimer?.();
    this.#stopListening?.();
    return true;
  }
}
