import { inspect, type InspectOptions } from "node:util";
import type { HeldLease, ReleaseOutcome } from "./held.js";
import { leaseRules } from "./options.js";
import type { SerialisedLease } from "./serialised.js";

/** The internal state of a lease. Only this function gives access to it, so a logged lease does not show it. */
export let heldOf: (lease: Lease) => HeldLease;

/**
 * A right that you hold for a limited time. kit renews it until you call `release()`.
 *
 * If the lease ends early (a silent server, lost data, a long stall of this process), `signal` aborts. It aborts no later than when
 * the lease may have ended on this process's clock. No signal can stop a process that is not running.
 *
 * The states: held → released (by `release()`), held → handed over (by `handOver()`), or held → lost (once, with a reason). There
 * is no way back.
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

  /** The random token of this lease, which is needed to release it. A logged lease does not show it. */
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

  /** How long the lease is certainly still held on this process's clock, in milliseconds; 0 once it is lost or released. */
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
   * Throws unless the lease is held right now, on this process's clock. Call it right before an action that must not happen twice,
   * and after anything that may have stalled the process.
   *
   * @throws {LockLostError | PermitLostError} the lease is lost, or was released or handed over.
   */
  assertHeld(): void {
    this.#held.assertHeld();
  }

  /**
   * Makes the lease last `leaseMs` from now, and sets the length for later renewals. It never recreates a lease that has ended. One
   * round trip. `maxHoldMs` still ends the lease.
   *
   * In this process, a shorter length counts from the moment it is sent, even without a reply. The server keeps the previous end,
   * so that a late copy of a command cannot end a lease that was made longer since. When the lease ends here, this process releases
   * it. If the process dies before that, others wait until the previous end.
   *
   * @throws {LockLostError | PermitLostError} the lease is lost, released or handed over.
   * @throws {KitError} no reply in time: the lease then counts as held until its previous end or for `leaseMs`, whichever is
   * shorter.
   * @throws {TypeError | RangeError} `leaseMs` is not an integer from 10 ms to a day.
   */
  async extend(leaseMs: number = this.leaseMs): Promise<void> {
    leaseRules.leaseMs.check("leaseMs", leaseMs);
    await this.#held.extend(leaseMs);
  }

  /**
   * Releases the lease, which grants it to the first waiter. One round trip; sent again if the reply is lost.
   *
   * Resolves with `released`, or with `not-held` if the lease had already ended and another holder may have had it since. If the
   * connection broke during the call and the lease cannot have expired yet, a missing lease counts as `released`. A forced release
   * at that moment goes unnoticed. Calling it again changes nothing and resolves with the same result.
   *
   * @throws {KitError} no reply in time. kit retries the release in the background until the lease is over. You can also call
   * `release()` again.
   */
  release(): Promise<ReleaseOutcome> {
    return this.#held.release();
  }

  /**
   * Stops renewal: the lease ends `remainingMs` from now, and its signal aborts then. A lease that you just waited for has two
   * seconds; call `extend()` to give it its full length.
   */
  stopRenewal(): void {
    this.#held.stopRenewal();
  }

  /**
   * Hands the lease over to the process that calls `resume(text)` with the returned text. This handle no longer renews the lease,
   * `release()` and `close()` no longer affect it, and `signal` does not abort.
   *
   * Unless it is resumed, the lease ends `remainingMs` from now. A lease that you just waited for has two seconds, so call
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
   * The text from which `resume(text)` makes another handle of this lease, here or in another process. For example, keep it as a
   * record in case this process dies. A release, a `close()`, the end of `maxHoldMs` or of a shorter length applies to all handles.
   * The other handles notice at their next renewal. To pass a lease on, use {@link handOver}. Anyone who has the text can release
   * the lease.
   *
   * The text contains the rest of `maxHoldMs` as of now. The time until it is resumed does not count.
   */
  serialise(): string {
    const { name, token, holder } = this;
    const { what, term } = this.#held;
    const { leaseMs, isRenewing: renew, holdMsLeft: maxHoldMs } = term;
    const facts = this.particulars();
    const lease: SerialisedLease = { kit: what, layout: 1, name, token, ...facts, leaseMs, renew, maxHoldMs, holder };
    return JSON.stringify(lease);
  }

  /** The same as `release()`, but an outage emits an `error` event and does not throw. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.release().catch(() => undefined);
  }

  /** The fields that only this kind of lease has, for its texts. */
  protected abstract particulars(): object;
}
