import { inspect, type InspectOptions } from "node:util";
import type { HeldLease, ReleaseOutcome } from "./held.js";
import { leaseRules } from "./options.js";
import type { SerialisedLease } from "./serialised.js";

/** The internal state of a lease. Nothing else leads to it, so a logged lease does not show it. */
export let heldOf: (lease: Lease) => HeldLease;

/**
 * A right held for a bounded time, which is renewed by itself until `release()`.
 *
 * An early end (a silent server, lost data, a long stall of this process) aborts `signal`, at the latest when
 * the lease may have ended by our own clock. No signal can stop a process that is not running.
 *
 * The states: held → released (by `release()`), held → handed over (by `handOver()`), or held → lost (once, with a
 * reason). There is no way back.
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

  /** The random token of this lease: it is needed to release it. A lease that is logged does not show it. */
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

  /** The time for which it is certainly still held, in milliseconds, by this process's clock; 0 once it is lost or released. */
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
   * Throws unless the lease is held at this instant, by this process's clock. Call it right before an action that must not be
   * done twice, and after anything that may have stalled the process.
   *
   * @throws {LockLostError | PermitLostError} it is lost, or has been released or handed over.
   */
  assertHeld(): void {
    this.#held.assertHeld();
  }

  /**
   * Makes the lease last `leaseMs` from now, and sets the length for later renewals. It never creates a lease that is gone. One
   * round trip. `maxHoldMs` still ends the lease.
   *
   * A shorter length counts here from the moment it is sent, whether or not a reply comes. The server keeps the former end, so that
   * no late copy of a command can end a lease that was made longer since; when the lease ends here, this process releases it. If the
   * process ends before, others wait until the former end.
   *
   * @throws {LockLostError | PermitLostError} it is lost, released or handed over.
   * @throws {KitError} no reply in time: then the lease counts as held until its former end or for `leaseMs`, whichever is
   * shorter.
   * @throws {TypeError | RangeError} `leaseMs` is not an integer from 10 ms to a day.
   */
  async extend(leaseMs: number = this.leaseMs): Promise<void> {
    leaseRules.leaseMs.check("leaseMs", leaseMs);
    await this.#held.extend(leaseMs);
  }

  /**
   * Releases the lease, which grants it to the first waiter. One round trip, sent again if its reply is lost.
   *
   * Resolves with `released`; or with `not-held` when the lease had ended before, so that another may have held it meanwhile.
   * When the connection broke during the call, and the lease cannot have run out by then, a lease that is gone counts as
   * `released`: a forced release at that moment goes unnoticed. A second call changes nothing and resolves with the same.
   *
   * @throws {KitError} no reply in time. Releasing is retried in the background until the lease is over; a further call tries
   * again, too.
   */
  release(): Promise<ReleaseOutcome> {
    return this.#held.release();
  }

  /**
   * Stops renewal: the lease ends `remainingMs` from now, and its signal aborts then. A lease that was just waited for has two
   * seconds; `extend()` gives it its full length.
   */
  stopRenewal(): void {
    this.#held.stopRenewal();
  }

  /**
   * Hands the lease over to the process that calls `resume(text)` with the returned text. This handle no longer renews it,
   * `release()` and `close()` no longer affect it, and `signal` does not abort. Unless it is resumed, the lease ends
   * `remainingMs` from now. A lease that was just waited for has two seconds, so call `extend()` first. With the text anyone
   * can release the lease.
   *
   * @throws {LockLostError | PermitLostError} it is no longer held.
   */
  handOver(): string {
    this.assertHeld();
    const text = this.serialise();
    this.#held.handOver();
    return text;
  }

  /**
   * The text from which `resume(text)` makes another handle of this lease, here or in another process: for example a record
   * in case this process is lost. A release, a `close()`, the end of `maxHoldMs` or of a shorter length by one handle holds for
   * all of them; the other handles notice at their next renewal. To pass a lease on use {@link handOver}. With the text anyone
   * can release the lease.
   *
   * The text has the rest of `maxHoldMs` as of now; the time until it is resumed does not count.
   */
  serialise(): string {
    const { name, token, holder } = this;
    const { what, term } = this.#held;
    const { leaseMs, isRenewing: renew, holdMsLeft: maxHoldMs } = term;
    const facts = this.particulars();
    const lease: SerialisedLease = { kit: what, layout: 1, name, token, ...facts, leaseMs, renew, maxHoldMs, holder };
    return JSON.stringify(lease);
  }

  /** `release()`; an outage emits an `error` event and does not throw. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.release().catch(() => undefined);
  }

  /** The fields that only leases of its kind have, for its texts. */
  protected abstract particulars(): object;
}
