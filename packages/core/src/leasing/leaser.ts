import { KitClosedError, KitError } from "../index.js";
import { passes } from "../kernel/index.js";
import { Deadline, expiryOf, newToken, type ObjectLife, onAbort } from "../toolkit/index.js";
import { CancelledWaiters } from "./cancelled.js";
import { LeaseCommands } from "./commands.js";
import { type Grant, grantOf } from "./grant.js";
import type { HeldLease } from "./held.js";
import { type HeldEvents, HeldLeases } from "./held-leases.js";
import type { LeaseKind, LeaseRequest, NotGranted, Seen } from "./kind.js";
import type { Lease } from "./lease.js";
import type { LeaserSettings, ResolvedAcquire } from "./options.js";
import type { SerialisedLease } from "./serialised.js";
import { Subscription } from "./subscription.js";
import { Waiters, type WaitingEvents } from "./waiters.js";

/** Events of one object's leases, and of the waits for them. */
interface LeaserEvents<Resolved extends ResolvedAcquire, S extends Seen>
  extends
    Omit<HeldEvents<Resolved>, "handedOver">,
    Pick<WaitingEvents<Resolved, S>, "queued" | "requeued" | "stillWaiting"> {
  /** A failure in the background. */
  readonly error: (error: KitError) => void;
  /** The key of an acquire or a renewal. */
  readonly used: (key: string) => void;
}

/**
 * Acquires leases by name, immediately or in the queue. The package's kind has the scripts.
 *
 * Nothing polls: a waiter is in the queue on the server, and a message notifies it of its grant.
 */
export class Leaser<Resolved extends ResolvedAcquire, S extends Seen, L extends Lease> {
  readonly commands: LeaseCommands<Resolved, S>;
  readonly #waitingEvents: WaitingEvents<Resolved, S>;
  readonly #held: HeldLeases<Resolved, L>;
  readonly #waiters = new Map<string, Waiters<Resolved, S>>();
  readonly #cancelled = new CancelledWaiters();

  /** `make` creates the lease that the caller gets. */
  constructor(
    life: ObjectLife,
    kind: LeaseKind<Resolved, S>,
    settings: LeaserSettings,
    make: (held: HeldLease<Resolved>) => L,
    events: LeaserEvents<Resolved, S>,
  ) {
    this.commands = new LeaseCommands(life, kind, settings, events.error, events.used);
    this.#held = new HeldLeases(this.commands, expiryOf(life.context), make, {
      ...events,
      handedOver: ({ request }) => this.#cancelled.forget(request.token),
    });
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

  /** Runs `routine` with a lease. Then releases the lease, even after an error, unless the routine hands it over. */
  async using<T>(name: string, resolved: Resolved, routine: (lease: L) => Promise<T> | T): Promise<T> {
    return await this.#held.use(await this.acquire(name, resolved), routine);
  }

  /**
   * Acquires a lease, and waits in the queue if `waitMs` is above 0. If the lease is not free and the call does not wait, it
   * rejects with a timeout error. With `refused`, it never waits in the queue, and resolves with the result of `refused`. `waitMs`
   * counts from `startedAt`, an instant on the local monotonic clock.
   *
   * A command whose outcome is unknown is undone in the background. Once queued, the wait survives outages.
   *
   * @throws the kind's errors (a timeout, a full queue, a grant that arrived after its end), `signal.reason`, or as a script.
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
            // A single try lasts as long as one command may take.
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
            if (reply.state === "late") {
              // The server's clock differs from our estimate.
              if (!mayWait || deadline.remainingMs > 0) continue;
              // Or the command arrived when the wait was over. Another command could outlast one more stall of the event loop. An earlier
              // copy may have been granted.
              commands.cancel(request);
              throw kind.timeoutError(request, undefined);
            }
            if (reply.state === "granted") {
              const grant = grantOf(request, reply, attempt.sentAt);
              return kind.confirm
                ? await this.#confirmed(grant, startedAt, deadline)
                : this.#held.granted(grant, startedAt);
            }
            if (refused) return refused(request, reply);
            if (!subscription) throw kind.timeoutError(request, reply);
            if (reply.state === "full") throw kind.queueFullError(name);
            const waiters = this.#waitersOf(request);
            isQueued = true;
            const grant = await waiters.wait(request, subscription, deadline, reply);
            return kind.confirm
              ? await this.#confirmed(grant, startedAt, deadline)
              : this.#held.granted(grant, startedAt);
          }
        } finally {
          if (!isQueued) subscription?.end();
        }
      },
    );
  }

  /** Continues a serialized lease. Renews it once, which confirms that it is held. */
  resume(saved: Pick<SerialisedLease, "name" | "token">, resolved: Resolved, fencingToken: string): Promise<L> {
    return this.#held.resume(saved, resolved, fencingToken);
  }

  /**
   * Ends the object's work for `close()`. Waiters reject immediately. Leases that are still held at the deadline are lost and
   * released. Resolves when no work is left, up to `deadlineMs` after the deadline. Never rejects.
   */
  async end(deadline: Deadline): Promise<void> {
    const { life, settings } = this.commands;
    this.#rejectAll(life.closedError());
    await this.#held.end(deadline);
    this.#cancelled.close();
    // A cancel that has just started gets the time of one command, even if the deadline is over.
    await life.untilIdle(new Deadline(Math.max(deadline.at, performance.now() + settings.deadlineMs)));
  }

  /**
   * Handles a failed acquire command: undoes it if it may have been granted, or may be in the queue. Returns if the command must be
   * sent again.
   *
   * @throws the error, or a timeout error.
   */
  #failed(request: LeaseRequest<Resolved>, deadline: Deadline, error: unknown): void {
    const { waitMs, signal } = request.resolved;
    // Timers of Node may fire a moment early.
    const isLate = deadline.remainingMs <= 2;
    // It may last longer than the deadline of a command: a slot moves as long as its largest key.
    if (waitMs > 0 && !isLate && !this.commands.life.isClosed && !signal?.aborted && passes(error)) {
      // A wait without a limit would otherwise hide that it makes no progress, for example at the address of a replica.
      if (waitMs === Infinity) this.commands.outage.failed(request.token, this.commands.errorOf(error));
      return;
    }
    this.commands.outage.ended(request.token);
    const isUnsent = KitError.is(error) && error.code === "KIT_UNAVAILABLE";
    if (!isUnsent) this.commands.cancel(request);
    const isOver = waitMs > 0 && isLate && KitError.is(error) && error.retryable;
    // Without a reply and without a connection it is unknown whether another caller holds it.
    const isCutOff = isUnsent && this.commands.context.client.status !== "ready";
    throw isOver && !isCutOff ? this.commands.kind.timeoutError(request, undefined, error) : error;
  }

  /** The lease for the caller, once it is confirmed. Otherwise it is undone. */
  async #confirmed(grant: Grant<Resolved>, startedAt: number, deadline: Deadline): Promise<L> {
    const { kind, life } = this.commands;
    const { waitMs, signal } = grant.request.resolved;
    const held = this.#held.hold(grant);
    const giveUp = new AbortController();
    const stops = [signal, held.signal].map((each) => onAbort(each, () => giveUp.abort(each?.reason)));
    try {
      const withinMs = waitMs > 0 ? Math.max(1, deadline.remainingMs) : Infinity;
      await kind.confirm?.(held.request, withinMs, giveUp.signal);
      held.assertHeld();
    } catch (error) {
      held.forget();
      this.commands.cancel(held.request);
      throw life.isClosed ? life.closedError() : error;
    } finally {
      for (const stop of stops) stop();
    }
    return this.#held.given(held, startedAt);
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

  /** Watches a waiter that left. A message in flight, or a server that lost its last writes, may still grant it the lease. */
  #left(request: LeaseRequest<Resolved>, subscription: Subscription): void {
    subscription.listen((payload) => {
      if (!payload.startsWith("granted\t")) return;
      if (!this.#held.has(request.token)) this.commands.cancel(request);
    });
    this.#cancelled.add(subscription);
  }

  #rejectAll(error: KitClosedError): void {
    for (const waiters of [...this.#waiters.values()]) waiters.reject(error);
  }
}
