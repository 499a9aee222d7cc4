import { type KitError, KitKeyTypeError } from "../index.js";
import type { ExpiryScheduler, ScheduledLease } from "../kernel/index.js";
import { OwnAbortController, traced, withCaller } from "../toolkit/index.js";
import type { LossReason } from "./errors.js";
import type { Grant } from "./grant.js";
import type { LeaseRequest, RenewState } from "./kind.js";
import type { ResolvedAcquire } from "./options.js";
import type { LeaseStore } from "./store.js";
import { LeaseTerm } from "./term.js";

/** The outcome of a release: this call released the lease, or it had ended before. */
export type ReleaseOutcome = "released" | "not-held";

/** What an object's leases share. */
export interface LeaseHolder<Resolved extends ResolvedAcquire = ResolvedAcquire> {
  readonly store: LeaseStore<Resolved>;
  readonly expiry: ExpiryScheduler;
  /** The leases of all objects of a package on one client are renewed together; on a Cluster, per slot. */
  readonly group: string;
  /** The lease is no longer held, for any reason. Called before the other callbacks. */
  readonly ended: (lease: HeldLease<Resolved>) => void;
  readonly released: (lease: HeldLease<Resolved>) => void;
  readonly lost: (lease: HeldLease<Resolved>, reason: LossReason) => void;
  /** The lease was handed over to another handle. */
  readonly handedOver: (lease: HeldLease<Resolved>) => void;
}

/**
 * One lease that the server has granted: its state, its renewals and its release. The caller has a {@link Lease}, which hides this
 * object.
 *
 * The states: held → released, handed over or lost, once. Later events change nothing.
 */
export class HeldLease<Resolved extends ResolvedAcquire = ResolvedAcquire> implements ScheduledLease {
  request: LeaseRequest<Resolved>;
  fencingToken: string;
  readonly term: LeaseTerm;
  readonly group: string;
  heapIndex: number = -1;
  /** Whether a caller has it. Only then is its loss an event. */
  isGiven: boolean = false;
  readonly #holder: LeaseHolder<Resolved>;
  /** The key that stores the holder. */
  readonly #key: string;
  /** The operation id of its releases. */
  readonly #op: string;
  #state: "held" | "released" | "handed-over" | "lost" = "held";
  #loss: KitError | undefined;
  #controller: AbortController | undefined;
  #releasing: Promise<ReleaseOutcome> | undefined;
  /** Whether a release had no reply. It may have succeeded. */
  #mayBeReleased = false;

  /** `op`: a separate id if another object may hold and release the same token. */
  constructor(holder: LeaseHolder<Resolved>, grant: Grant<Resolved>, op: string = grant.request.token) {
    const { store, expiry, group } = holder;
    this.request = grant.request;
    this.fencingToken = grant.fencingToken;
    this.#key = store.kind.keyOf(grant.request.name);
    this.group = group + store.groupOf(this.#key);
    this.#holder = holder;
    this.#op = op;
    this.term = new LeaseTerm(grant);
    expiry.add(this);
  }

  get what(): string {
    return this.#holder.store.kind.what;
  }

  get state(): "held" | "released" | "handed-over" | "lost" {
    return this.#state;
  }

  get remainingMs(): number {
    return this.#state === "held" ? this.term.remainingMs : 0;
  }

  /**
   * Aborts when the lease is lost, with the error of the loss as its reason. Aborts in the async context of the first read of this
   * property.
   */
  get signal(): AbortSignal {
    if (!this.#controller) {
      this.#controller = new OwnAbortController();
      if (this.#loss) this.#controller.abort(this.#loss);
    }
    return this.#controller.signal;
  }

  /** @throws the error of its loss, or of its end. */
  assertHeld(): void {
    if (this.#state === "held" && performance.now() >= this.term.deadlineAt) this.lapse();
    if (this.#state === "held") return;
    throw withCaller(this.#loss ?? this.#error(this.#state === "lost" ? "expired" : this.#state));
  }

  /**
   * Makes the lease last `leaseMs` from now, and sets the length for later renewals.
   *
   * @throws as `assertHeld`, or as a script: then the lease counts as held until its previous end or for `leaseMs`, whichever is
   * shorter.
   */
  async extend(leaseMs: number): Promise<void> {
    this.assertHeld();
    this.term.extending(leaseMs);
    this.#holder.expiry.changed(this);
    const [state] = await this.#renew([this], this.#holder.store.settings.deadlineMs, leaseMs);
    if (state === "corrupt") throw this.#corrupt();
    this.assertHeld();
  }

  /** Call this when the package has changed the lease on the server: its settings or its fencing token. */
  change(resolved: Resolved, fencingToken: string): void {
    this.request = { ...this.request, resolved };
    this.fencingToken = fencingToken;
  }

  stopRenewal(): void {
    this.term.stopRenewal();
    this.#holder.expiry.changed(this);
  }

  /** Leaves the lease to another handle. */
  handOver(): void {
    this.#end("handed-over");
    this.#holder.handedOver(this);
  }

  /**
   * Releases the lease. Each call resolves with the same result.
   *
   * @throws as a script. The release is retried in the background until the lease is over. Calling this again also retries.
   */
  release(): Promise<ReleaseOutcome> {
    if (this.#state === "lost" || this.#state === "handed-over") return Promise.resolve("not-held");
    if (this.#state === "held") this.#end("released");
    const { name } = this.request;
    const { fencingToken } = this;
    this.#releasing ??= traced(
      `${this.what}.release`,
      () => (fencingToken === "" ? { name } : { name, fencingToken }),
      () => this.#holder.store.life.track(this.#release()),
    );
    return this.#releasing;
  }

  /** @throws the error of its loss, if its release had the outcome `not-held` and it was not handed over. */
  assertReleased(outcome: ReleaseOutcome | undefined): void {
    if (outcome !== "not-held" || this.#state === "handed-over") return;
    throw withCaller(this.#loss ?? this.#error("expired"));
  }

  /** Ends the lease without a release: the server no longer has it, or it must not be used here any more. */
  lose(reason: LossReason): void {
    if (this.#state !== "held") return;
    this.#end("lost");
    this.#loss = this.#error(reason);
    this.#controller?.abort(this.#loss);
    const { lockDelayMs = 0 } = this.request.resolved;
    const mayBeKept = reason === "deadline" || reason === "max-hold" || (reason === "stopped" && this.term.isShortened);
    // A record that stays on the server would only delay the next holder, which is what `lockDelayMs` is for.
    if (reason === "closed" || (lockDelayMs === 0 && mayBeKept))
      this.#holder.store.cancel(this.request, this.term.leaseMs);
    if (this.isGiven) this.#holder.lost(this, reason);
  }

  /** Removes the lease from the scheduler, without an event. For a lease that no caller has received. */
  forget(): void {
    this.#holder.expiry.remove(this);
    this.#holder.store.outage.ended(this.request.token);
    this.#holder.ended(this);
  }

  // ── for the scheduler ───────────────────────────────────────────────────────────────────────────────────────────

  get deadlineAt(): number {
    return this.term.deadlineAt;
  }

  get renewAt(): number {
    return this.term.renewAt;
  }

  set renewAt(at: number) {
    this.term.renewAt = at;
  }

  get renewSlackMs(): number {
    return this.term.leaseMs / 10;
  }

  get isUnattended(): boolean {
    return this.term.isUnattended;
  }

  lapse(): void {
    this.lose(this.term.lapseReason);
  }

  /** Renews leases of one group, including leases of other objects. Without a reply, each is retried until its own deadline. */
  renewAll(leases: readonly this[]): void {
    const { store } = this.#holder;
    const patience = Math.max(50, Math.ceil(Math.min(...leases.map(({ remainingMs }) => remainingMs))));
    this.#renew(leases, Math.min(store.settings.deadlineMs, patience)).then(
      (states) => {
        for (const [index, lease] of leases.entries()) {
          const { outage } = lease.#holder.store;
          if (states[index] === "corrupt") outage.failed(lease.request.token, lease.#corrupt());
          else outage.worked(lease.request.token);
        }
      },
      (reason: unknown) => {
        const error = store.errorOf(reason);
        for (const lease of leases) {
          lease.#renewFailed();
          if (lease.remainingMs > 0) lease.#holder.store.outage.failed(lease.request.token, error);
        }
      },
    );
  }

  async #renew(
    leases: readonly HeldLease<Resolved>[],
    deadlineMs: number,
    extendedMs?: number,
  ): Promise<readonly RenewState[]> {
    const renewals = leases.map((lease) => ({
      request: lease.request,
      key: lease.#key,
      termMs: lease.term.requestedMs(extendedMs),
      heldUntil: lease.term.isConfirmed ? lease.deadlineAt : 0,
    }));
    const sentAt = performance.now();
    const states = await this.#holder.store.renew(renewals, deadlineMs);
    for (const [index, lease] of leases.entries())
      lease.#renewed(states[index] ?? "corrupt", sentAt, renewals[index]?.termMs ?? 0, extendedMs);
    return states;
  }

  /** Applies the reply to a renewal that was sent at `sentAt` for `termMs`. An extension changes the length. */
  #renewed(state: RenewState, sentAt: number, termMs: number, extendedMs: number | undefined): void {
    if (this.#state !== "held") return;
    if (state === "extended" && extendedMs !== undefined) this.term.leaseMs = extendedMs;
    if (state === "gone") this.lose("expired");
    else if (state === "taken") this.lose("taken");
    else if (state === "corrupt") this.#renewFailed();
    else if (termMs > 0) {
      // The reply may have arrived after the end that it confirms.
      if (this.term.confirmed(sentAt, termMs)) this.#holder.expiry.changed(this);
      else this.lapse();
    }
  }

  #renewFailed(): void {
    if (this.#state !== "held") return;
    this.term.failed();
    this.#holder.expiry.changed(this);
  }

  async #release(): Promise<ReleaseOutcome> {
    const { store } = this.#holder;
    const { connectionEpoch } = store;
    try {
      const { fencingToken } = this;
      const state = await store.release(this.request, { fencingToken, op: this.#op });
      // If a reply may have been lost, and the lease cannot have expired yet, an earlier release by this lease counts as its
      // end.
      const isEarly = performance.now() < this.term.deadlineAt;
      const mayBeOwn = isEarly && (this.#mayBeReleased || store.connectionEpoch > connectionEpoch);
      const isReleased = state === "released" || (mayBeOwn && (state === "unaccepted" || state === "not-held"));
      if (!isReleased) return "not-held";
      this.#holder.released(this);
      return "released";
    } catch (error) {
      this.#releasing = undefined;
      this.#mayBeReleased = true;
      store.cancel(this.request, this.term.leaseMs);
      store.onError(error);
      throw error;
    }
  }

  #end(state: "released" | "handed-over" | "lost"): void {
    this.#state = state;
    this.forget();
  }

  #error(reason: LossReason): KitError {
    return this.#holder.store.kind.lostError(this.request.name, reason, this.fencingToken);
  }

  #corrupt(): KitKeyTypeError {
    return new KitKeyTypeError(
      `${this.what}.renew failed: key ${this.#key} holds another type of data`,
      this.#key,
      undefined,
    );
  }
}
