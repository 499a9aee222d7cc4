import { inspect, type InspectOptions } from "node:util";
import type { HeldLease, ReleaseOutcome } from "./held.js";
import { leaseRules } from "./options.js";
import type { SerialisedLease } from "./serialised.js";

/** The internal state of a lease. Only this function gives access to it, so a logged lease does not show it. */
export let heldOf: (lease: Lease) => HeldLease;

/**
 * The right to hold a resource for a limited time. kit renews it until you call `release()`.
 *
 * If the lease ends early (the server is silent or lost data, or this process stalled), `signal` aborts: at the latest when, by
 * this process's clock, the lease may have ended. No signal can stop a process that is not running.
 *
 * A held lease becomes released (`release()`), handed over (`handOver()`) or lost (with a reason). These three states are final.
 */
export abstract class Lease implements AsyncDisposable {
  /** The name of the held resource. */
  readonly name: string;
  readonly #held: HeldLease;

  static {
    heldOf = (lease) => lease.#held;
    // In a log: the caller's fields, without the token.
    Object.defineProperty(this.prototype, inspect.custom, {
      value(this: Lease, _depth: number, options: InspectOptions) {
        const { name, holder, leaseMs, remainingMs } = this;
        const facts = { name, ...this.particulars(), holder, state: this.#held.state, leaseMs, remainingMs };
        return `${this.constructor.name} ${inspect(facts, options)}`;
      },
    });
  }

  protected constructor(held: HeldLease) {
    this.#held = held;
    this.name = held.request.name;
  }

  /** The random token of this lease. A release needs it. A logged lease does not show it. */
  get token(): string {
    return this.#held.request.token;
  }

  /** The length that each renewal gives the lease, in milliseconds. */
  get leaseMs(): number {
    return this.#held.term.leaseMs;
  }

  /** The holder's label, which others see. */
  get holder(): string {
    return this.#held.request.resolved.holder;
  }

  /** How long the lease is certainly held, in milliseconds by this process's clock; 0 after it is lost or released. */
  get remainingMs(): number {
    return this.#held.remainingMs;
  }

  /** Whether `remainingMs` is above 0. Compares local clocks and sends no command. */
  get isHeld(): boolean {
    return this.remainingMs > 0;
  }

  /** Aborts when the lease is lost, with the error of the loss as its reason. A release does not abort it. */
  get signal(): AbortSignal {
    return this.#held.signal;
  }

  /**
   * Throws if, by this process's clock, the lease may have ended. Call it right before an action that must not happen twice, and
   * after a possible stall of the process.
   *
   * @throws {LockLostError | PermitLostError} the lease is lost, or was released or handed over.
   */
  assertHeld(): void {
    this.#held.assertHeld();
  }

  /**
   * Makes the lease last `leaseMs` from now, and sets the length for later renewals. It never revives a lease that has ended. It
   * costs one round trip. `maxHoldMs` still ends the lease.
   *
   * In this process, a shorter length applies immediately, even without a reply. The server keeps the previous end: otherwise a
   * late copy of this command could shorten a lease that you have extended since. When the shorter length ends, this process
   * releases the lease. If the process dies before that, other callers wait until the previous end.
   *
   * @throws {LockLostError | PermitLostError} the lease is lost, released or handed over.
   * @throws {KitError} no reply in time. The lease then counts as held until its previous end or for `leaseMs`, whichever is
   * shorter.
   * @throws {TypeError | RangeError} `leaseMs` is not an integer from 10 ms to a day.
   */
  async extend(leaseMs: number = this.leaseMs): Promise<void> {
    leaseRules.leaseMs.check("leaseMs", leaseMs);
    await this.#held.extend(leaseMs);
  }

  /**
   * Releases the lease, and grants it to the first waiter. It costs one round trip. kit sends it again if the reply is lost.
   *
   * Resolves with `released`, or with `not-held` if the lease had already ended and another holder may have had it since. If the
   * connection breaks during the call, a lease that cannot have expired yet counts as `released`, even if someone else released it
   * by force. A second call changes nothing and resolves with the same result.
   *
   * @throws {KitError} no reply in time. kit retries the release in the background until the lease is over. You can also call
   * `release()` again.
   */
  release(): Promise<ReleaseOutcome> {
    return this.#held.release();
  }

  /**
   * Stops renewal: the lease ends after `remainingMs`, and its signal aborts. A lease that you just waited for has only two
   * seconds; call `extend()` first to give it its full length.
   */
  stopRenewal(): void {
    this.#held.stopRenewal();
  }

  /**
   * Hands the lease over to the process that calls `resume(text)` with the returned text. After that, this object no longer renews
   * the lease, `release()` and `close()` don't affect it, and `signal` does not abort.
   *
   * If no process resumes the lease, it ends after `remainingMs`. A lease that you just waited for has only two seconds, so call
   * `extend()` first. Anyone who has the text can release the lease.
   *
   * @throws {LockLostError | PermitLostError} the lease is no longer held.
   */
  handOver(): string {
    this.assertHeld();
    const text = this.serialise();
    this.#held.handOver();
    return text;
  }

  /**
   * Returns a text from which `resume(text)` creates a second lease object for this lease, here or in another process. Store it,
   * for example, in case this process dies. If one object ends the lease (`release()`, `close()`, `maxHoldMs` or a shorter length),
   * it ends for all objects. The others notice at their next renewal. To pass a lease on, use {@link handOver}. Anyone who has the
   * text can release the lease.
   *
   * The text contains the time that is left of `maxHoldMs` now. The time until `resume()` does not count.
   */
  serialise(): string {
    const { name, token, holder } = this;
    const { what, term } = this.#held;
    const { leaseMs, isRenewing: renew, holdMsLeft: maxHoldMs } = term;
    const facts = this.particulars();
    const lease: SerialisedLease = { kit: what, layout: 1, name, token, ...facts, leaseMs, renew, maxHoldMs, holder };
    return JSON.stringify(lease);
  }

  /** Same as `release()`, but an outage emits an `error` event instead of throwing. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.release().catch(() => undefined);
  }

  /** The fields that only this kind of lease has, for its texts. */
  protected abstract particulars(): object;
}
