import { lowerBoundMs } from "../toolkit/index.js";
import type { LossReason } from "./errors.js";
import type { Grant } from "./grant.js";

/** The length of one lease and its next renewal: only instants on the local monotonic clock, no actions. */
export class LeaseTerm {
  /** The length that each renewal gives the lease. */
  leaseMs: number;
  /** When it may have ended. */
  deadlineAt: number;
  /** When to renew it. Infinity: not at all, or a renewal is in progress. */
  renewAt: number = Infinity;
  /** Whether it is renewed until it ends. */
  isRenewing: boolean;
  /** Whether the server has confirmed that it is held. */
  isConfirmed: boolean;
  /** The latest deadline so far. The server keeps the lease that long, even after an extension to a shorter length. */
  #keptUntil: number;
  /** When `maxHoldMs` has passed. */
  readonly #holdEndsAt: number;
  /** Whether the current length is the last that `maxHoldMs` allows. */
  #isLast = false;
  #failures = 0;

  constructor({ request: { resolved }, grantedMs, deadlineAt, isConfirmed = true }: Grant) {
    const now = performance.now();
    this.isConfirmed = isConfirmed;
    this.leaseMs = resolved.leaseMs;
    this.isRenewing = resolved.renew;
    this.#holdEndsAt = resolved.maxHoldMs === undefined ? Infinity : now + resolved.maxHoldMs;
    this.deadlineAt = Math.min(deadlineAt, this.#holdEndsAt);
    this.#keptUntil = isConfirmed ? this.deadlineAt : 0;
    this.#plan(now, grantedMs);
    // A grant that arrived late has less time left than its length.
    if (this.renewAt < Infinity) this.renewAt = Math.min(this.renewAt, now + (this.deadlineAt - now) / 3);
  }

  get remainingMs(): number {
    return Math.max(0, this.deadlineAt - performance.now());
  }

  /** The rest of `maxHoldMs`, at least 10, which is the option's minimum. Undefined: no limit. */
  get holdMsLeft(): number | undefined {
    if (this.#holdEndsAt === Infinity) return undefined;
    return Math.max(10, Math.floor(this.#holdEndsAt - performance.now()));
  }

  /** Whether it only runs out, because nothing renews it any more. */
  get isUnattended(): boolean {
    return !this.isRenewing || this.#isLast;
  }

  /** Whether it ends here before it ends on the server. */
  get isShortened(): boolean {
    return this.deadlineAt < this.#keptUntil;
  }

  /** Why it ended, if it ends at its deadline. */
  get lapseReason(): LossReason {
    return this.#isLast ? "max-hold" : this.isRenewing ? "deadline" : "stopped";
  }

  /**
   * The length that a renewal or an extension requests: the full length, or the rest of `maxHoldMs`. 0 only looks the lease up.
   */
  requestedMs(extendedMs?: number): number {
    if (extendedMs === undefined && this.isUnattended) return 0;
    return Math.max(1, Math.floor(Math.min(extendedMs ?? this.leaseMs, this.#holdEndsAt - performance.now())));
  }

  /** A renewal for `termMs` that was sent at `sentAt` was confirmed. Returns whether the reply came before its new end. */
  confirmed(sentAt: number, termMs: number): boolean {
    this.#failures = 0;
    this.isConfirmed = true;
    // A shorter length may have been requested since.
    const countedMs = Math.min(termMs, this.leaseMs);
    this.deadlineAt = Math.min(sentAt + lowerBoundMs(countedMs), this.#holdEndsAt);
    this.#keptUntil = Math.max(this.#keptUntil, this.deadlineAt);
    if (this.deadlineAt <= performance.now()) return false;
    this.#plan(sentAt, countedMs);
    return true;
  }

  /** A renewal had no usable reply. It is retried with backoff until the deadline. */
  failed(): void {
    const wait = Math.min(this.leaseMs / 10, 20 * 2 ** Math.min(this.#failures++, 10));
    this.renewAt = performance.now() + wait * (0.5 + Math.random());
  }

  /** Call this before sending an extension to `leaseMs`. A shorter length counts from now on, even for renewals in flight. */
  extending(leaseMs: number): void {
    const now = performance.now();
    this.leaseMs = Math.min(this.leaseMs, leaseMs);
    if (now + lowerBoundMs(leaseMs) >= this.deadlineAt) return;
    this.deadlineAt = now + lowerBoundMs(leaseMs);
    this.#plan(now, leaseMs);
  }

  stopRenewal(): void {
    this.isRenewing = false;
    this.renewAt = Infinity;
  }

  /**
   * Plans the next renewal after a third of the length, which leaves time for two more tries. Near the end of `maxHoldMs` no
   * renewal is needed.
   */
  #plan(from: number, termMs: number): void {
    // Lengths are whole milliseconds: the end may be up to one too early.
    this.#isLast = from + termMs + 2 >= this.#holdEndsAt;
    this.renewAt = this.isRenewing && !this.#isLast ? from + termMs / 3 : Infinity;
  }
}
