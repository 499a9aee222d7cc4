import type { ReleaseOutcome } from "@kit/core/leasing";
import { onAbort, OwnAbortController, withCaller } from "@kit/core/toolkit";
import { LockLostError } from "./errors.js";
import type { Lease } from "./lease.js";

/** Releases each lease in the background, in one round trip. In an outage it retries, with an `error` event. */
export const releaseAll = (leases: readonly (Lease | null)[]): void => {
  for (const lease of leases) void lease?.release().catch(() => undefined);
};

/**
 * Several held locks as one. kit renews them automatically until `release()`. If one lock is lost, the set is lost. Returned by
 * {@link Lock.acquireAll}.
 *
 * When one lock is lost, `signal` aborts with its LockLostError, and the others are released.
 *
 * A held set becomes released (`release()`) or lost. Both states are final.
 */
export class LeaseSet implements AsyncDisposable {
  /** The names without duplicates, in the order in which they are taken. */
  readonly names: readonly string[];
  /** The fencing token of each name. Pass each resource the token of its name. See {@link Lease.fencingToken}. */
  readonly fencingTokens: ReadonlyMap<string, string>;
  readonly #leases: readonly Lease[];
  readonly #controller = new OwnAbortController();
  #loss: unknown;

  /** @internal */
  constructor(leases: readonly Lease[]) {
    this.#leases = leases;
    this.names = leases.map(({ name }) => name);
    this.fencingTokens = new Map(leases.map(({ name, fencingToken }) => [name, fencingToken]));
    for (const { signal } of leases) onAbort(signal, () => this.#lose(signal.reason));
  }

  /** How long all locks are certainly held, in milliseconds by this process's clock; 0 after one is lost or released. */
  get remainingMs(): number {
    return Math.min(...this.#leases.map(({ remainingMs }) => remainingMs));
  }

  /** Whether `remainingMs` is above 0. It compares local clocks and sends no command. */
  get isHeld(): boolean {
    return this.remainingMs > 0;
  }

  /** Aborts when one of the locks is lost, with a LockLostError as its reason. A release does not abort it. */
  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /**
   * Throws if, by this process's clock, one of the locks may have ended. Call it right before an action that must not happen twice, and
   * after a possible stall of the process.
   *
   * @throws {LockLostError} one of the locks is lost, or they have been released; `resource` is the lock's name.
   */
  assertHeld(): void {
    // A lease that is over ends here, and with it the set.
    if (this.#loss === undefined) for (const lease of this.#leases) lease.assertHeld();
    else throw withCaller(this.#loss);
  }

  /**
   * Makes each lease last `leaseMs` from now, and sets the length for later renewals. Without `leaseMs`, each lease keeps its length. It
   * costs one round trip. `maxHoldMs` still ends each lease.
   *
   * @throws {LockLostError} one of the locks is lost, or they have been released.
   * @throws {KitError} one lease got no reply in time. It counts as held until its previous end or for `leaseMs`, whichever is shorter.
   * @throws {TypeError | RangeError} `leaseMs` is not an integer from 10 ms to a day.
   */
  async extend(leaseMs?: number): Promise<void> {
    this.assertHeld();
    const extended = await Promise.allSettled(this.#leases.map((lease) => lease.extend(leaseMs)));
    // A loss has released the others, so the loss is their error.
    if (this.#loss !== undefined) throw withCaller(this.#loss);
    for (const one of extended) if (one.status === "rejected") throw withCaller(one.reason);
  }

  /**
   * Releases all locks, and grants each to its first waiter. It costs one round trip. kit sends it again if a reply is lost.
   *
   * Resolves with `released`, or with `not-held` if one lock had ended before: another caller may have held it meanwhile. If one release
   * fails, the other locks are still released. A second call changes nothing and resolves with the same value.
   *
   * @throws {KitError} one release got no reply in time. kit retries it in the background until its lease has ended. You can call
   * `release()` again.
   */
  async release(): Promise<ReleaseOutcome> {
    const released = await Promise.allSettled(this.#leases.map((lease) => lease.release()));
    for (const one of released) if (one.status === "rejected") throw withCaller(one.reason);
    const gone = this.#leases[released.findIndex((one) => one.status === "fulfilled" && one.value === "not-held")];
    if (!gone) return "released";
    this.#loss ??= new LockLostError(gone.name, "expired", gone.fencingToken);
    return "not-held";
  }

  /** Same as `release()`, but an outage emits an `error` event instead of throwing. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.release().catch(() => undefined);
  }

  #lose(loss: unknown): void {
    if (this.#loss !== undefined) return;
    this.#loss = loss;
    this.#controller.abort(loss);
    releaseAll(this.#leases);
  }
}
