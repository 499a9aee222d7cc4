import { KitClosedError, KitError } from "../index.js";
import { Deadline, expiryOf, inTime, isSlotMoving, newToken, type ObjectLife } from "../toolkit/index.js";
import { CancelledWaiters } from "./cancelled.js";
import { LeaseCommands } from "./commands.js";
import type { LossReason } from "./errors.js";
import { type Grant, grantOf } from "./grant.js";
import { HeldLease, type LeaseHolder } from "./held.js";
import { firstTermMs, type LeaseKind, type LeaseRequest, type NotGranted, type Seen } from "./kind.js";
import { heldOf, type Lease } from "./lease.js";
import type { LeaserSettings, ResolvedAcquire } from "./options.js";
import { runAndRelease } from "./run-and-release.js";
import type { SerialisedLease } from "./serialised.js";
import { Subscription } from "./subscription.js";
import { Waiters, type WaitingEvents } from "./waiters.js";

/** The granted lease, as events show it. */
type Held<Resolved extends ResolvedAcquire> = Pick<HeldLease<Resolved>, "request" | "fencingToken">;

/** Events of the leases of one object. */
interface LeaserEvents<Resolved extends ResolvedAcquire, S extends Seen> extends Pick<
  WaitingEvents<Resolved, S>,
  "queued" | "requeued" | "stillWaiting"
> {
  readonly acquired: (lease: Held<Resolved>, waitedMs: number) => void;
  readonly released: (lease: Held<Resolved>) => void;
  readonly lost: (lease: Held<Resolved>, reason: LossReason) => void;
  /** A failure in the background. */
  readonly error: (error: KitError) => void;
  /** The key of an acquire or a renewal. */
  readonly used: (key: string) => void;
}

/**
 * Takes leases by name: at once, or in the queue. The package's kind has the scripts.
 *
 * Nothing polls: a waiter is in the queue on the server, and a message notifies it of its grant.
 */
export class Leaser<Resolved extends ResolvedAcquire, S extends Seen, L extends Lease> {
  readonly commands: LeaseCommands<Resolved, S>;
  readonly #make: (held: HeldLease<Resolved>) => L;
  readonly #events: LeaserEvents<Resolved, S>;
  readonly #waitingEvents: WaitingEvents<Resolved, S>;
  readonly #held = new Set<HeldLease<Resolved>>();
  readonly #holder: LeaseHolder<Resolved>;
  readonly #waiters = new Map<string, Waiters<Resolved, S>>();
  readonly #cancelled = new CancelledWaiters();
  #onNoneHeld: (() => void) | undefined;

  /** `make` creates the lease that the caller gets. */
  constructor(
    life: ObjectLife,
    kind: LeaseKind<Resolved, S>,
    settings: LeaserSettings,
    make: (held: HeldLease<Resolved>) => L,
    events: LeaserEvents<Resolved, S>,
  ) {
    this.commands = new LeaseCommands(life, kind, settings, events.error, events.used);
    this.#make = make;
    this.#events = events;
    this.#holder = {
      commands: this.commands,
      expiry: expiryOf(life.context),
      group: `${kind.id} ${String(settings.deadlineMs)} `,
      ended: (lease) => {
        if (this.#held.delete(lease) && this.#held.size === 0) this.#onNoneHeld?.();
      },
      released: events.released,
      lost: events.lost,
      handedOver: ({ request }) => this.#cancelled.forget(request.token),
    };
    this.#waitingEvents = {
      ...events,
      left: (request, subscription) => this.#left(request, subscription),
      empty: (name) => this.#waiters.delete(name),
    };
    const { executor, inbox } = life.context;
    const heartbeatNow = (): void => {
      for (const waiters of this.#waiters.values()) waiters.heartbeatNow();
    };
    life.onClosed(
      inbox.onResubscribed(heartbeatNow),
      executor.onReady(heartbeatNow),
      executor.onDrop(() => executor.isEnded && this.#rejectAll(new KitClosedError("The client"))),
    );
  }

  /** Runs `routine` with a lease, and releases it also after an error, unless the routine hands it over. */
  async using<T>(name: string, resolved: Resolved, routine: (lease: L) => Promise<T> | T): Promise<T> {
    const lease = await this.acquire(name, resolved);
    const { result, outcome } = await runAndRelease(lease, routine);
    heldOf(lease).assertReleased(outcome);
    return result;
  }

  /**
   * Takes a lease; waits in the queue if `waitMs` is above 0. If the lease is not free and the call does not wait, it rejects with
   * the error of a timeout. With `refused`, it never waits in the queue, and resolves with what `refused` returns. `waitMs` counts
   * from `startedAt`, an instant of our monotonic clock.
   *
   * A command whose outcome is unknown is undone in the background. Once queued, the wait survives outages.
   *
   * @throws the kind's errors (a timeout, a full queue, a grant that came after its end), `signal.reason`, or as a script.
   * @throws {KitClosedError} the object or the client was closed.
   */
  acquire<Refused = never>(
    name: string,
    resolved: Resolved,
    refused?: (request: LeaseRequest<Resolved>, reply: NotGranted<S>) => Refused,
    startedAt: number = performance.now(),
  ): Promise<L | Refused> {
    const { commands } = this;
    const { kind } = commands;
    const { waitMs, signal } = resolved;
    return commands.life.call(
      `${kind.what}.acquire`,
      () => ({ name, waitMs }),
      async () => {
        const deadline = new Deadline(startedAt + waitMs);
        const mayWait = waitMs > 0;
        const mayQueue = mayWait && !refused;
        signal?.throwIfAborted();
        // Throws for a name that cannot be a key: nothing was sent, so nothing must be undone.
        kind.keyOf(name);
        const request = { name, token: newToken(), resolved };
        const inbox = mayQueue ? commands.inbox : "";
        const subscription = mayQueue ? new Subscription(commands.context.inbox, request.token, inbox) : undefined;
        let isQueued = false;
        try {
          for (;;) {
            // A single try has the time of one command.
            const patienceMs = mayWait ? Math.max(1, deadline.remainingMs) : Infinity;
            const deadlineMs = Math.min(commands.settings.deadlineMs, patienceMs);
            const attempt = commands.attempt(request, inbox, deadlineMs, resolved);
            let reply;
            try {
              reply = await commands.settle(request, attempt, kind.acquire(request, attempt));
            } catch (error) {
              this.#failed(request, deadline, error);
              continue;
            }
            // The server's clock differs from our estimate.
            if (reply.state === "late") continue;
            if (reply.state === "granted") return this.#granted(grantOf(request, reply, attempt.sentAt), startedAt);
            if (refused) return refused(request, reply);
            if (!subscription) throw kind.timeoutError(request, reply);
            if (reply.state === "full") throw kind.queueFullError(name);
            const waiters = this.#waitersOf(request);
            isQueued = true;
            return this.#granted(await waiters.wait(request, subscription, deadline, reply), startedAt);
          }
        } finally {
          if (!isQueued) subscription?.end();
        }
      },
    );
  }

  /** Continues a lease that was serialised: it is renewed once, which shows that it is held. */
  async resume(
    { name, token }: Pick<SerialisedLease, "name" | "token">,
    resolved: Resolved,
    fencingToken: string,
  ): Promise<L> {
    const grantedMs = firstTermMs(resolved);
    const deadlineAt = performance.now() + grantedMs;
    const request = { name, token, resolved };
    // Another object may hold and release the same token.
    const held = this.#hold({ request, fencingToken, grantedMs, deadlineAt }, newToken());
    try {
      await held.extend(held.term.leaseMs);
    } catch (error) {
      held.forget();
      throw error;
    }
    return this.#make(held);
  }

  /**
   * Ends the work of the object for `close()`: waiters reject at once, and leases that are still held at the deadline are lost
   * and released. Resolves when nothing is under way, at the latest `deadlineMs` after the deadline. Never rejects.
   */
  async end(deadline: Deadline): Promise<void> {
    const { life, settings } = this.commands;
    this.#rejectAll(life.closedError());
    if (this.#held.size > 0) {
      const noneHeld = new Promise<void>((resolve) => (this.#onNoneHeld = resolve));
      await inTime(noneHeld, { deadline });
    }
    for (const lease of [...this.#held]) lease.lose("closed");
    this.#cancelled.close();
    // A cancel that has just begun gets one command's time, also when the deadline is over.
    await life.untilIdle(new Deadline(Math.max(deadline.at, performance.now() + settings.deadlineMs)));
  }

  /**
   * An acquire command failed: undoes it if it may have been granted, or be in the queue. Returns if it is to be sent again.
   *
   * @throws the error, or that of a timeout.
   */
  #failed(request: LeaseRequest<Resolved>, deadline: Deadline, error: unknown): void {
    const { waitMs, signal } = request.resolved;
    // Timers of Node may fire a moment early.
    const isLate = deadline.remainingMs <= 2;
    // A slot moves as long as its largest key, which may take longer than the deadline of a command.
    if (waitMs > 0 && !isLate && !this.commands.life.isClosed && !signal?.aborted && isSlotMoving(error)) return;
    const isUnsent = KitError.is(error) && error.code === "KIT_UNAVAILABLE";
    if (!isUnsent) this.commands.cancel(request);
    const isOver = waitMs > 0 && isLate && KitError.is(error) && error.retryable;
    // Without a reply and without a connection it is unknown whether another caller holds it.
    const isCutOff = isUnsent && this.commands.context.client.status !== "ready";
    throw isOver && !isCutOff ? this.commands.kind.timeoutError(request, undefined, error) : error;
  }

  /** The lease for the caller. */
  #granted(grant: Grant<Resolved>, startedAt: number): L {
    const { request, fencingToken } = grant;
    const { life } = this.commands;
    const isOver = grant.deadlineAt <= performance.now();
    if (isOver || life.isClosed) {
      // The reply came after its end, or during close(): the caller could not use it, and nothing would release it.
      this.commands.cancel(request);
      throw isOver ? this.commands.kind.lostError(request.name, "deadline", fencingToken) : life.closedError();
    }
    const held = this.#hold(grant);
    const lease = this.#make(held);
    this.#events.acquired(held, performance.now() - startedAt);
    return lease;
  }

  #hold(grant: Grant<Resolved>, op?: string): HeldLease<Resolved> {
    const held = new HeldLease(this.#holder, grant, op);
    this.#held.add(held);
    return held;
  }

  /** The waiters of a request's name. */
  #waitersOf(request: LeaseRequest<Resolved>): Waiters<Resolved, S> {
    const { name } = request;
    const { life, context } = this.commands;
    if (life.isClosed || context.executor.isEnded) {
      // All waiters have rejected already, and nothing would end a new one.
      this.commands.cancel(request);
      throw life.isClosed ? life.closedError() : new KitClosedError("The client");
    }
    let waiters = this.#waiters.get(name);
    if (!waiters) this.#waiters.set(name, (waiters = new Waiters(this.commands, this.#waitingEvents, name)));
    return waiters;
  }

  /** A waiter that left may still be granted the lease: by a message under way, or by a server that lost its last writes. */
  #left(request: LeaseRequest<Resolved>, subscription: Subscription): void {
    subscription.listen((payload) => {
      if (!payload.startsWith("granted\t")) return;
      const isHeld = [...this.#held].some((lease) => lease.request.token === request.token);
      if (!isHeld) this.commands.cancel(request);
    });
    this.#cancelled.add(subscription);
  }

  #rejectAll(error: KitClosedError): void {
    for (const waiters of [...this.#waiters.values()]) waiters.reject(error);
  }
}
