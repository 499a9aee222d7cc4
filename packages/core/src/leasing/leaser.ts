import { KitClosedError, KitError } from "../index.js";
import { Deadline, isSlotMoving, newToken, lowerBoundMs, traced, withCaller } from "../toolkit/index.js";
import { firstTermMs, type LeasingCommands, type NotGranted, type Seen } from "./commands.js";
import { DepartedWaiters } from "./departed.js";
import { Holding, type HoldingEvents, type LeaseMaker } from "./holding.js";
import type { Grant, Lease, SerialisedLease } from "./lease.js";
import type { ResolvedAcquire } from "./options.js";
import { Subscription } from "./subscription.js";
import { Waiters, type WaitingEvents } from "./waiting.js";

/** Events of the leases of one object. */
export interface LeaserEvents<S extends Seen, L>
  extends Omit<HoldingEvents<L>, "handedOver">, Omit<WaitingEvents<never, S>, "left" | "empty"> {
  readonly acquired: (lease: L, waitedMs: number) => void;
}

/**
 * Takes leases by name: at once, or in the queue. The package's commands say what is leased.
 *
 * Nothing polls: a waiter stands in the queue on the server, and a message notifies it when it is granted.
 */
export class Leaser<Resolved extends ResolvedAcquire, S extends Seen, L extends Lease<Resolved>> {
  readonly #commands: LeasingCommands<Resolved, S, L>;
  readonly #holding: Holding<Resolved, S, L>;
  readonly #events: LeaserEvents<S, L>;
  readonly #waiters = new Map<string, Waiters<Resolved, S, L>>();
  readonly #departed = new DepartedWaiters();
  readonly #stopListening: readonly (() => void)[];
  #closing: Promise<void> | undefined;

  constructor(commands: LeasingCommands<Resolved, S, L>, make: LeaseMaker<Resolved, L>, events: LeaserEvents<S, L>) {
    this.#commands = commands;
    this.#holding = new Holding(commands, make, {
      ...events,
      handedOver: ({ token }) => this.#departed.forget(token),
    });
    this.#events = events;
    const { executor, inbox } = commands.context;
    const askAgain = (): void => {
      for (const waiters of this.#waiters.values()) waiters.heartbeatNow();
    };
    this.#stopListening = [
      inbox.onResubscribed(askAgain),
      executor.onReady(askAgain),
      executor.onDrop(() => executor.isEnded && this.#rejectAll(new KitClosedError("The client"))),
    ];
  }

  /** Runs `routine` with a lease, and gives it back whatever happens, unless the routine hands it over. */
  async using<T>(name: string, resolved: Resolved, routine: (lease: L) => Promise<T> | T): Promise<T> {
    const lease = await this.acquire(name, resolved);
    let result: T;
    try {
      result = await routine(lease);
    } catch (error) {
      await lease.release().catch(() => undefined);
      throw error;
    }
    const outcome = await lease.release().catch(() => undefined);
    if (outcome === "not-held" && !lease.isHandedOver)
      throw withCaller(lease.loss ?? this.#holding.lossOf(lease, "expired"));
    return result;
  }

  acquire(name: string, resolved: Resolved): Promise<L> {
    return traced(
      `${this.#commands.what}.acquire`,
      () => ({ name, waitMs: resolved.waitMs }),
      () => this.#acquire(name, resolved),
    );
  }

  /** One try; `resolved.waitMs` is 0. */
  try(name: string, resolved: Resolved): Promise<L | null> {
    return traced(
      `${this.#commands.what}.acquire`,
      () => ({ name, waitMs: 0 }),
      () => this.#try(name, resolved),
    );
  }

  /** Goes on with a lease that was serialised: it is renewed once, which proves that it is held. */
  async resume(saved: Pick<SerialisedLease, "name" | "token">, resolved: Resolved, proof: string): Promise<L> {
    this.assertOpen();
    const { name, token } = saved;
    const grantedMs = firstTermMs(resolved);
    const deadlineAt = performance.now() + grantedMs;
    const lease = this.#holding.resume(resolved, { name, token, proof, grantedMs, deadlineAt });
    try {
      await lease.extend();
    } catch (error) {
      this.#holding.remove(lease);
      throw error;
    }
    return lease;
  }

  async close(timeoutMs: number): Promise<void> {
    this.#closing ??= this.#close(Deadline.in(timeoutMs));
    await this.#closing;
  }

  assertOpen(): void {
    if (this.#closing) throw this.#closed();
  }

  async #try(name: string, resolved: Resolved): Promise<L | null> {
    const startedAt = performance.now();
    const reply = await this.#ask(name, newToken(), resolved, "", new Deadline(startedAt));
    return "deadlineAt" in reply ? this.#granted(resolved, startedAt, reply) : null;
  }

  async #acquire(name: string, resolved: Resolved): Promise<L> {
    const startedAt = performance.now();
    const deadline = new Deadline(startedAt + resolved.waitMs);
    if (resolved.waitMs === 0) {
      const reply = await this.#ask(name, newToken(), resolved, "", deadline);
      if ("deadlineAt" in reply) return this.#granted(resolved, startedAt, reply);
      throw this.#commands.timeoutError(name, resolved, reply);
    }
    const subscription = new Subscription(this.#commands.context.inbox, newToken(), this.#commands.inbox);
    let isQueued = false;
    try {
      const reply = await this.#ask(name, subscription.token, resolved, subscription.channel, deadline);
      if ("deadlineAt" in reply) return this.#granted(resolved, startedAt, reply);
      if (reply.state === "full") throw this.#commands.queueFullError(name);
      if (this.#closing || this.#commands.context.executor.isEnded) {
        // The waiters have rejected already: nothing would end a new one.
        this.#commands.cancel(name, subscription.token, resolved);
        throw this.#closing ? this.#closed() : new KitClosedError("The client");
      }
      let waiters = this.#waiters.get(name);
      if (!waiters) this.#waiters.set(name, (waiters = new Waiters(this.#commands, this.#waitingEvents, name)));
      isQueued = true;
      return this.#granted(resolved, startedAt, await waiters.wait(subscription, resolved, deadline, reply));
    } finally {
      if (!isQueued) subscription.end();
    }
  }

  /** One command: a grant, or what stands in the way. If it fails, it is undone. */
  async #ask(
    name: string,
    token: string,
    resolved: Resolved,
    inbox: string,
    deadline: Deadline,
  ): Promise<Grant | NotGranted<S>> {
    this.assertOpen();
    const { signal, waitMs } = resolved;
    signal?.throwIfAborted();
    // Throws for a name that cannot be a key: nothing was sent that would have to be undone.
    this.#commands.keyOf(name);
    for (;;)
      try {
        const sentAt = performance.now();
        // A single try takes what time a command takes.
        const patienceMs = waitMs === 0 ? Infinity : Math.max(1, deadline.at - sentAt);
        const deadlineMs = Math.min(this.#commands.settings.deadlineMs, patienceMs);
        const reply = await this.#commands.acquire(name, token, resolved, inbox, { sentAt, deadlineMs, signal });
        // Our picture of the server's clock was wrong.
        if (reply.state === "late") continue;
        if (reply.state !== "granted") return reply;
        const { proof, msLeft: grantedMs = firstTermMs(resolved) } = reply;
        return { name, token, proof, grantedMs, deadlineAt: sentAt + lowerBoundMs(grantedMs) };
      } catch (error) {
        // Timers of Node may fire a moment early.
        const isLate = deadline.remainingMs <= 2;
        // A slot moves for as long as its largest key does, which may be longer than a command may take.
        if (waitMs > 0 && !isLate && !this.#closing && !signal?.aborted && isSlotMoving(error)) continue;
        // It may have been granted, or stand in the queue, and nobody waits for it.
        const isUnsent = KitError.is(error) && error.code === "KIT_UNAVAILABLE";
        if (!isUnsent) this.#commands.cancel(name, token, resolved);
        const isOver = waitMs > 0 && isLate && KitError.is(error) && error.retryable;
        // Without any reply and without a connection we cannot say that it is taken.
        const isCutOff = isUnsent && this.#commands.context.client.status !== "ready";
        if (isOver && !isCutOff) throw this.#commands.timeoutError(name, resolved, undefined, error);
        throw error;
      }
  }

  #granted(resolved: Resolved, startedAt: number, grant: Grant): L {
    const { name, token, proof } = grant;
    const isOver = grant.deadlineAt <= performance.now();
    if (isOver || this.#closing) {
      // Its answer came after its end, or in the very moment of close(): nobody could use it, or would end it.
      this.#commands.cancel(name, token, resolved);
      throw isOver ? this.#commands.lostError(name, "deadline", proof) : this.#closed();
    }
    const lease = this.#holding.lease(resolved, grant);
    this.#events.acquired(lease, performance.now() - startedAt);
    return lease;
  }

  readonly #waitingEvents: WaitingEvents<Resolved, S> = {
    queued: (name, reply) => this.#events.queued(name, reply),
    requeued: (name) => this.#events.requeued(name),
    stillWaiting: (name, position, seen, waitedMs) => this.#events.stillWaiting(name, position, seen, waitedMs),
    left: (name, subscription, resolved) => {
      subscription.listen((payload) => {
        const isGrant = payload.startsWith("granted\t");
        if (isGrant && !this.#holding.has(subscription.token))
          this.#commands.cancel(name, subscription.token, resolved);
      });
      this.#departed.add(subscription);
    },
    empty: (name) => this.#waiters.delete(name),
  };

  #rejectAll(error: KitClosedError): void {
    for (const waiters of [...this.#waiters.values()]) waiters.reject(error);
  }

  #closed(): KitClosedError {
    return new KitClosedError(`The ${this.#commands.what}`);
  }

  async #close(deadline: Deadline): Promise<void> {
    this.#rejectAll(this.#closed());
    await this.#holding.close(deadline);
    this.#departed.close();
    // A cancel that has just begun gets one command's time, also when the deadline is over.
    const { deadlineMs } = this.#commands.settings;
    await this.#commands.close(new Deadline(Math.max(deadline.at, performance.now() + deadlineMs)));
    for (const stop of this.#stopListening) stop();
  }
}

/** The serialised form of a lease, with the fields of its kind. */
export type SavedLease<Particulars> = SerialisedLease & Particulars;

/**
 * Reads what a lease of this kind serialised. `isWhole`: whether its particulars are there.
 *
 * @throws {TypeError} it did not come from one.
 */
export const parseLease = <Particulars extends object>(
  what: string,
  text: string,
  isWhole: (saved: Partial<Record<keyof Particulars, unknown>>) => boolean,
): SavedLease<Particulars> => {
  let saved: Partial<SerialisedLease> | null;
  try {
    saved = JSON.parse(text) as Partial<SerialisedLease> | null;
  } catch {
    // Said below, without the text: it may hold a token.
    saved = null;
  }
  if (
    saved?.kit !== what ||
    saved.layout !== 1 ||
    typeof saved.name !== "string" ||
    typeof saved.token !== "string" ||
    !isWhole(saved as Partial<Record<keyof Particulars, unknown>>)
  )
    throw new TypeError(`Expected the text of \`serialise()\` or \`handOver()\`, of a ${what} of this version`);
  // A field that the text lacks must not be found on a prototype either.
  return Object.assign(Object.create(null) as SavedLease<Particulars>, saved);
};
