import type { ExpiryScheduler } from "../kernel/index.js";
import { type Deadline, inTime, newToken } from "../toolkit/index.js";
import type { LossReason } from "./errors.js";
import type { Grant } from "./grant.js";
import { HeldLease, type LeaseHolder } from "./held.js";
import { firstTermMs } from "./kind.js";
import { heldOf, type Lease } from "./lease.js";
import type { ResolvedAcquire } from "./options.js";
import { runAndRelease } from "./run-and-release.js";
import type { SerialisedLease } from "./serialised.js";
import type { LeaseStore } from "./store.js";

/** The held lease, as events show it. */
type Held<Resolved extends ResolvedAcquire> = Pick<HeldLease<Resolved>, "request" | "fencingToken">;

/** Events of the leases that one object holds. */
export interface HeldEvents<Resolved extends ResolvedAcquire> {
  readonly acquired: (lease: Held<Resolved>, waitedMs: number) => void;
  readonly released: (lease: Held<Resolved>) => void;
  readonly lost: (lease: Held<Resolved>, reason: LossReason) => void;
  /** The lease was handed over to another handle. */
  readonly handedOver?: (lease: Held<Resolved>) => void;
}

/** The leases that one object holds, from the grant to the end. */
export class HeldLeases<Resolved extends ResolvedAcquire, L extends Lease> {
  readonly #store: LeaseStore<Resolved>;
  readonly #make: (held: HeldLease<Resolved>) => L;
  readonly #acquired: HeldEvents<Resolved>["acquired"];
  readonly #holder: LeaseHolder<Resolved>;
  readonly #held = new Set<HeldLease<Resolved>>();
  #onNoneHeld: (() => void) | undefined;

  /** `make` creates the lease that the caller gets. */
  constructor(
    store: LeaseStore<Resolved>,
    expiry: ExpiryScheduler,
    make: (held: HeldLease<Resolved>) => L,
    { acquired, released, lost, handedOver = () => undefined }: HeldEvents<Resolved>,
  ) {
    this.#store = store;
    this.#make = make;
    this.#acquired = acquired;
    this.#holder = {
      store,
      expiry,
      group: `${store.kind.id} ${String(store.settings.deadlineMs)} `,
      ended: (lease) => {
        if (this.#held.delete(lease) && this.#held.size === 0) this.#onNoneHeld?.();
      },
      released,
      lost,
      handedOver,
    };
  }

  /** Whether the lease of this token is held. */
  has(token: string): boolean {
    return [...this.#held].some((lease) => lease.request.token === token);
  }

  /**
   * The lease of a grant. It is renewed from now on.
   *
   * @throws the kind's error of a loss, or {@link KitClosedError}: the grant arrived after its end, or during `close()`. It is
   * undone.
   */
  hold(grant: Grant<Resolved>): HeldLease<Resolved> {
    const { request, fencingToken } = grant;
    const { life, kind } = this.#store;
    const isOver = grant.deadlineAt <= performance.now();
    if (isOver || life.isClosed) {
      // The reply came after its end, or during close(): the caller could not use it, and nothing would release it.
      this.#store.cancel(request);
      throw isOver ? kind.lostError(request.name, "deadline", fencingToken) : life.closedError();
    }
    return this.#hold(grant);
  }

  /** The lease for the caller. */
  given(held: HeldLease<Resolved>, startedAt: number): L {
    held.isGiven = true;
    const lease = this.#make(held);
    this.#acquired(held, performance.now() - startedAt);
    return lease;
  }

  /** The lease of a grant, for the caller. Throws as {@link hold}. */
  granted(grant: Grant<Resolved>, startedAt: number): L {
    return this.given(this.hold(grant), startedAt);
  }

  /** Continues a serialized lease. Renews it once, which confirms that it is held. */
  async resume(
    { name, token }: Pick<SerialisedLease, "name" | "token">,
    resolved: Resolved,
    fencingToken: string,
  ): Promise<L> {
    const grantedMs = firstTermMs(resolved);
    const deadlineAt = performance.now() + grantedMs;
    const request = { name, token, resolved };
    // Another object may hold and release the same token.
    const held = this.#hold({ request, fencingToken, grantedMs, deadlineAt, isConfirmed: false }, newToken());
    held.isGiven = true;
    try {
      await held.extend(held.term.leaseMs);
    } catch (error) {
      held.forget();
      throw error;
    }
    return this.#make(held);
  }

  /**
   * Runs `routine` with a lease. Then releases the lease, even after an error, unless the routine hands it over.
   *
   * @throws the error of the routine, or else of the lease's loss.
   */
  async use<T>(lease: L, routine: (lease: L) => Promise<T> | T): Promise<T> {
    const { result, outcome } = await runAndRelease(lease, routine);
    heldOf(lease).assertReleased(outcome);
    return result;
  }

  /** Waits until no lease is held. At the deadline the remaining leases are lost with `closed`, and released in the background. */
  async end(deadline: Deadline): Promise<void> {
    if (this.#held.size > 0) {
      const noneHeld = new Promise<void>((resolve) => (this.#onNoneHeld = resolve));
      await inTime(noneHeld, { deadline });
    }
    for (const lease of [...this.#held]) lease.lose("closed");
  }

  #hold(grant: Grant<Resolved>, op?: string): HeldLease<Resolved> {
    const held = new HeldLease(this.#holder, grant, op);
    this.#held.add(held);
    return held;
  }
}
