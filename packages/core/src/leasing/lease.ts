import type { KitError } from "../index.js";
import { type ExpiryScheduler, lowerBoundMs, type OutageReporter, withCaller } from "../toolkit/index.js";
import type { LossReason } from "./errors.js";
import { leaseMsOption, type ResolvedLease } from "./options.js";

/** The state of one lease after a renewal: extended, gone, taken by another, or its key holds something else. */
export type RenewState = "extended" | "gone" | "taken" | "corrupt";

/** The outcome of a release: given back by this call, or no longer ours to give back. */
export type ReleaseOutcome = "released" | "not-held";

/** The services that a lease uses of the object that made it. */
export interface LeaseKeeper<L> {
  /** The leased thing, as in traces: "lock". */
  readonly what: string;
  /** Receives each change of `renewAt` and `deadlineAt`. */
  readonly expiry: ExpiryScheduler;
  /** Reports whether leases are renewed, each by its token. */
  readonly outage: OutageReporter;
  /** Puts the lease on the clock, takes it off. */
  add(lease: L): void;
  remove(lease: L): void;
  /** Renews leases of this keeper, and of others of its kind on the same client. */
  renew(leases: readonly L[]): void;
  /** Renews one lease now, with a length of its own. The lease itself receives the outcome. */
  extend(lease: L, leaseMs: number): Promise<void>;
  release(lease: L): Promise<ReleaseOutcome>;
  lossOf(lease: L, reason: LossReason): KitError;
  /** The lease ended without a release. */
  lost(lease: L, reason: LossReason): void;
  /** Takes off a lease that was handed over: its later grants and losses belong to another handle. */
  handedOver(lease: L): void;
}

/** A grant, as the server and our clock see it. */
export interface Grant {
  readonly name: string;
  readonly token: string;
  /** Its proof to others: a lock's fencing token; empty where there is none. */
  readonly proof: string;
  /** For how long the server granted it. */
  readonly grantedMs: number;
  /** When it may have ended, on our monotonic clock. */
  readonly deadlineAt: number;
}

/** A lease that travels between processes. */
export interface SerialisedLease extends ResolvedLease {
  readonly kit: string;
  readonly layout: 1;
  readonly name: string;
  readonly token: string;
}

/**
 * A right held for a bounded time, which is renewed by itself until `release()`.
 *
 * An early end (a silent server, lost data, a long stall of this process) aborts `signal`, at the latest when
 * the lease may have ended by our own clock. No signal can stop a process that is not running.
 *
 * The states: held → released (by `release()`), held → handed over (by `handOver()`), or held → lost (once, with a
 * reason). There is no way back.
 */
export abstract class Lease<Resolved extends ResolvedLease = ResolvedLease> implements AsyncDisposable {
  /** The name of what is held. */
  readonly name: string;

  /** @internal For the scheduler of core, as the three that follow. */
  readonly group: string;
  /** @internal */
  heapIndex: number = -1;
  /** @internal */
  renewAt: number = Infinity;
  /** @internal */
  deadlineAt: number;

  /** @internal The key that says who holds it. */
  readonly key: string;
  /** @internal What the grant proves to others. */
  readonly proof: string;
  /** @internal */
  readonly resolved: Resolved;
  /** @internal Whether a shorter length was asked for that the server may not know of. */
  isShortening: boolean = false;
  // Private, since a lease may be logged.
  readonly #token: string;
  readonly #keeper: LeaseKeeper<Lease<Resolved>>;
  /** When maxHoldMs is over. */
  readonly #holdEndsAt: number;
  #leaseMs: number;
  #renewing: boolean;
  /** Whether the present term is the last that maxHoldMs allows. */
  #lastTerm = false;
  #failures = 0;
  #state: "held" | "released" | "handed-over" | "lost" = "held";
  #controller: AbortController | undefined;
  #loss: KitError | undefined;
  #releasing: Promise<ReleaseOutcome> | undefined;

  protected constructor(
    keeper: LeaseKeeper<Lease<Resolved>>,
    group: string,
    key: string,
    resolved: Resolved,
    grant: Grant,
  ) {
    const now = performance.now();
    this.#keeper = keeper;
    this.resolved = resolved;
    this.group = group;
    this.key = key;
    this.name = grant.name;
    this.#token = grant.token;
    this.proof = grant.proof;
    this.#leaseMs = resolved.leaseMs;
    this.#renewing = resolved.renew;
    this.#holdEndsAt = resolved.maxHoldMs === undefined ? Infinity : now + resolved.maxHoldMs;
    this.deadlineAt = Math.min(grant.deadlineAt, this.#holdEndsAt);
    this.#planRenewal(now, grant.grantedMs);
    keeper.add(this);
  }

  /** Random proof of holding: with it the lease can be released. A lease that is logged does not show it. */
  get token(): string {
    return this.#token;
  }

  /** The length that each renewal gives the lease, in milliseconds. */
  get leaseMs(): number {
    return this.#leaseMs;
  }

  /** The label under which others see the holder. */
  get holder(): string {
    return this.resolved.holder;
  }

  /** Milliseconds for which it is held at least, by this process's clock; 0 once it is lost or released. */
  get remainingMs(): number {
    return this.#state === "held" ? Math.max(0, this.deadlineAt - performance.now()) : 0;
  }

  /** Whether `remainingMs` is above 0. Compares local clocks and sends no command. */
  get isHeld(): boolean {
    return this.remainingMs > 0;
  }

  /** Aborts when the lease is lost, with the error of the loss as its reason. A release does not abort it. */
  get signal(): AbortSignal {
    if (!this.#controller) {
      this.#controller = new AbortController();
      if (this.#loss) this.#controller.abort(this.#loss);
    }
    return this.#controller.signal;
  }

  /**
   * Throws unless the lease is held at this instant, by this process's clock. Call it right before an action that must not be
   * done twice, and after anything that may have stalled the process.
   *
   * @throws {LockLostError | PermitLostError} it is lost, or has been released or handed over.
   */
  assertHeld(): void {
    if (this.#state === "held" && performance.now() >= this.deadlineAt) this.lapse();
    if (this.#state === "held") return;
    throw withCaller(this.#loss ?? this.#keeper.lossOf(this, this.#state === "lost" ? "expired" : this.#state));
  }

  /**
   * Makes the lease last `leaseMs` from now, and sets the length for later renewals. It never creates a lease that is gone. One
   * round trip. `maxHoldMs` still ends the lease.
   *
   * A shorter length counts locally from the moment it is sent, whether or not a reply comes. Waiters were notified of the
   * former end; they may notice the new one up to six seconds late.
   *
   * @throws {LockLostError | PermitLostError} it is lost, released or handed over.
   * @throws {KitError} no reply in time: then the lease counts as held until its former end or for `leaseMs`, whichever is
   * shorter.
   * @throws {TypeError | RangeError} `leaseMs` is not an integer from 10 ms to a day.
   */
  async extend(leaseMs: number = this.#leaseMs): Promise<void> {
    leaseMsOption(leaseMs);
    this.assertHeld();
    const now = performance.now();
    this.isShortening ||= leaseMs < this.#leaseMs;
    // Also renewals that are under way with the old length promise no more than the new one from here on.
    this.#leaseMs = Math.min(this.#leaseMs, leaseMs);
    if (now + lowerBoundMs(leaseMs) < this.deadlineAt) {
      this.deadlineAt = now + lowerBoundMs(leaseMs);
      this.#planRenewal(now, leaseMs);
      this.#keeper.expiry.changed(this);
    }
    await this.#keeper.extend(this, leaseMs);
    this.isShortening = false;
    this.assertHeld();
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
    if (this.#state === "lost" || this.#state === "handed-over") return Promise.resolve("not-held");
    if (this.#state === "held") {
      this.#state = "released";
      this.#keeper.remove(this);
    }
    this.#releasing ??= this.#keeper.release(this);
    return this.#releasing;
  }

  /**
   * Stops renewal: the lease ends `remainingMs` from now, and its signal aborts then. A lease that was just waited for has two
   * seconds; `extend()` gives it its full length.
   */
  stopRenewal(): void {
    this.#renewing = false;
    this.renewAt = Infinity;
    this.#keeper.expiry.changed(this);
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
    this.#state = "handed-over";
    this.#keeper.handedOver(this);
    return text;
  }

  /**
   * The text from which `resume(text)` makes another handle of this lease, here or in another process: for example a record
   * in case this process is lost. A release, a `close()`, the end of `maxHoldMs` or a shorter length by one handle holds for
   * all of them; the other handles notice at their next renewal. To pass a lease on use {@link handOver}. With the text anyone
   * can release the lease.
   *
   * The text has the rest of `maxHoldMs` as of now; the time until it is resumed does not count.
   */
  serialise(): string {
    const lease: SerialisedLease = {
      kit: this.#keeper.what,
      layout: 1,
      name: this.name,
      token: this.token,
      ...this.particulars(),
      leaseMs: this.#leaseMs,
      renew: this.#renewing,
      maxHoldMs:
        this.#holdEndsAt === Infinity ? undefined : Math.max(10, Math.floor(this.#holdEndsAt - performance.now())),
      holder: this.resolved.holder,
    };
    return JSON.stringify(lease);
  }

  /** `release()`; an outage emits an `error` event and does not throw. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.release().catch(() => undefined);
  }

  /** Fields of the serialised form besides those of every lease. */
  protected abstract particulars(): object;

  // ── for its maker and the scheduler ──────────────────────────────────────────────────────────────────────────────

  /** @internal */
  get keeper(): LeaseKeeper<Lease<Resolved>> {
    return this.#keeper;
  }

  /** @internal */
  get renewSlackMs(): number {
    return this.#leaseMs / 10;
  }

  /** @internal Whether it only runs out: nothing renews it any more. */
  get isUnattended(): boolean {
    return !this.#renewing || this.#lastTerm;
  }

  /**
   * @internal What a renewal, or an extension, may ask for: the whole length, or what maxHoldMs leaves of it; 0 if the server is
   * only to say whether the lease is still there.
   */
  termMs(extendedMs?: number): number {
    if (extendedMs === undefined && this.isUnattended) return 0;
    return Math.max(1, Math.floor(Math.min(extendedMs ?? this.#leaseMs, this.#holdEndsAt - performance.now())));
  }

  /** @internal */
  renewAll(leases: readonly this[]): void {
    this.#keeper.renew(leases);
  }

  /** @internal The server's word on a renewal that was sent at `sentAt` for `termMs`; an extension changes the length. */
  renewed(state: RenewState, sentAt: number, termMs: number, extendedMs?: number): void {
    if (this.#state !== "held") return;
    if (state === "extended" && extendedMs !== undefined) this.#leaseMs = extendedMs;
    if (state === "gone") this.lose("expired");
    else if (state === "taken") this.lose("taken");
    else if (state === "corrupt") this.renewFailed();
    else if (termMs > 0) {
      this.#failures = 0;
      // A shorter length was asked for since: it may count already.
      const sureMs = Math.min(termMs, this.#leaseMs);
      this.deadlineAt = Math.min(sentAt + lowerBoundMs(sureMs), this.#holdEndsAt);
      // The answer itself may have come too late to be good for anything.
      if (this.deadlineAt <= performance.now()) {
        this.lapse();
        return;
      }
      this.#planRenewal(sentAt, sureMs);
      this.#keeper.expiry.changed(this);
    }
  }

  /** @internal No word: nothing is known, so it is asked again, ever less often, until the deadline decides. */
  renewFailed(): void {
    if (this.#state !== "held") return;
    const wait = Math.min(this.#leaseMs / 10, 20 * 2 ** Math.min(this.#failures++, 10));
    this.renewAt = performance.now() + wait * (0.5 + Math.random());
    this.#keeper.expiry.changed(this);
  }

  /** @internal The server could not be asked: a further call tries again. */
  releaseFailed(): void {
    this.#releasing = undefined;
  }

  /** @internal The deadline has passed. */
  lapse(): void {
    this.lose(this.#lastTerm ? "max-hold" : this.#renewing ? "deadline" : "stopped");
  }

  /** @internal */
  lose(reason: LossReason): void {
    if (this.#state !== "held") return;
    this.#state = "lost";
    this.#keeper.remove(this);
    this.#loss = this.#keeper.lossOf(this, reason);
    this.#controller?.abort(this.#loss);
    this.#keeper.lost(this, reason);
  }

  /** @internal */
  get isHandedOver(): boolean {
    return this.#state === "handed-over";
  }

  /** @internal Why it was lost, if it was. */
  get loss(): KitError | undefined {
    return this.#loss;
  }

  /** A third of the lease leaves room for two more tries; near the end of maxHoldMs there is nothing left to renew. */
  #planRenewal(from: number, termMs: number): void {
    // Lengths are whole milliseconds: up to one of them is missing from the end.
    this.#lastTerm = from + termMs + 2 >= this.#holdEndsAt;
    this.renewAt = this.#renewing && !this.#lastTerm ? from + termMs / 3 : Infinity;
  }
}
