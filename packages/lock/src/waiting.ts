import { type Deadline, type Inbox, KitClosedError, KitError, onAbort, pause, type Runtime, surely } from "@kit/core";
import { aliveMs, firstTermMs, type LockCommands } from "./commands.js";
import { LockQueueFullError, LockTimeoutError } from "./errors.js";
import type { LockKeys } from "./keys.js";
import type { Grant } from "./lease.js";
import type { AcquireTerms } from "./options.js";
import type { AcquireReply, Owner } from "./scripts/index.js";

/** A third of the time for which a waiter counts as alive. */
const beatMs = aliveMs / 3;
/** How often to ask where nothing can be pushed. */
const pollMs = 150;
/**
 * Who is not the head looks later by its position, so that a dead holder wakes the head and then, one by one, the others:
 * those before it may be dead, too.
 */
const watchStepMs = 5;
const watchStepsMs = 100;
const maxBatch = 500;
/** A grant that is nearly over when its message arrives is not worth taking: the server is asked instead. */
const leastGrantMs = 5;

/** What waiting tells the lock. */
export interface WaitingEvents {
  readonly queued: (name: string, position: number, owner: Owner | null) => void;
  readonly requeued: (name: string) => void;
  /** Nobody of this process waits for the lock any more. */
  readonly empty: (name: string) => void;
}

/** Who had the lock when the server was last asked, and what was left of the lease; -1: it has no end. */
export interface Seen {
  readonly owner: Owner | null;
  readonly msLeft: number;
}

/** The answer to an acquire that did not get the lock. */
export type NotGranted = Extract<AcquireReply, Seen>;

/** That the wait is over, with what was last seen. */
export const timeoutOf = (name: string, waitMs: number, seen?: Seen, cause?: unknown): LockTimeoutError => {
  const msLeft = seen?.owner ? (seen.msLeft === -1 ? Infinity : seen.msLeft) : undefined;
  return new LockTimeoutError(name, waitMs, seen?.owner?.holder, msLeft, cause);
};

/** Where the pushes for one acquire arrive; those that come before somebody listens are kept. */
export class Place {
  readonly token: string;
  readonly #inbox: Inbox;
  #early: string[] | undefined;
  #listener = (payload: string): void => void (this.#early ??= []).push(payload);

  constructor(inbox: Inbox, token: string) {
    this.#inbox = inbox;
    this.token = token;
    inbox.expect(token, (payload) => this.#listener(payload));
  }

  /** The channel that the server is to use; `-` while there is none. */
  get channel(): string {
    return this.#inbox.isOpen ? this.#inbox.channel : "-";
  }

  listen(listener: (payload: string) => void): void {
    this.#listener = listener;
    for (const payload of this.#early ?? []) listener(payload);
  }

  leave(): void {
    this.#inbox.forget(this.token);
  }
}

/** One acquire that stands in line. Settles once; whatever arrives later is undone. */
class Waiter {
  readonly place: Place;
  readonly terms: AcquireTerms;
  readonly granted: Promise<Grant>;
  /** Whether the server is known to have it in the queue; only then a beat's "unknown" means anything. */
  isQueued = true;
  readonly #waiters: Waiters;
  readonly #deadline: Deadline;
  #seen: Seen;
  #isSettled = false;
  #isWithdrawn = false;
  /** A grant was pushed before the server had answered, and could not be judged. */
  #hasDoubt = false;
  #timer: NodeJS.Timeout | undefined;
  #stopListening: (() => void) | undefined;
  #resolve!: (grant: Grant) => void;
  #reject!: (error: unknown) => void;

  constructor(waiters: Waiters, place: Place, terms: AcquireTerms, deadline: Deadline, seen: Seen) {
    this.#waiters = waiters;
    this.place = place;
    this.terms = terms;
    this.#deadline = deadline;
    this.#seen = seen;
    this.granted = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
  }

  get token(): string {
    return this.place.token;
  }

  start(): void {
    this.#armTimer();
    this.#stopListening = onAbort(this.terms.signal, () => this.abandon(this.terms.signal?.reason));
    this.place.listen((payload) => this.#pushed(payload));
  }

  /** Where it stands, as the server just said. */
  saw(seen: Seen): void {
    this.#seen = seen;
  }

  grant(fencingToken: string, grantedMs: number, deadlineAt: number): void {
    const { name } = this.#waiters;
    if (this.#settle()) this.#resolve({ name, token: this.token, fencingToken, grantedMs, deadlineAt });
  }

  /** Gives up: the caller hears at once, the server as soon as it can. */
  abandon(reason: unknown): void {
    if (!this.#settle()) return;
    this.#isWithdrawn = true;
    this.#waiters.withdraw(this);
    this.#reject(reason);
  }

  /** The server does not know us: it lost its data, or a grant of ours ran out unheard. */
  requeue(): void {
    if (this.#isSettled) return;
    this.isQueued = false;
    this.#waiters.events.requeued(this.#waiters.name);
    void this.#enqueue();
  }

  async #enqueue(): Promise<void> {
    for (let failures = 0; !this.#isSettled;)
      try {
        if (this.#enqueued(await this.#waiters.send(this, () => !this.#isSettled))) return;
      } catch (error) {
        if (KitError.is(error) && !error.retryable) {
          this.abandon(error);
          return;
        }
        // Once queued, a wait survives outages.
        this.#waiters.commands.onError(error);
        await pause(Math.min(1_000, 50 * 2 ** Math.min(failures++, 5)) * (0.5 + Math.random()));
      }
  }

  /** Returns whether that was an answer. */
  #enqueued({ reply, sentAt }: { reply: AcquireReply; sentAt: number }): boolean {
    if (this.#isSettled) {
      // Too late for the caller who gave up. One who was granted by push meanwhile has the lease in use.
      if (this.#isWithdrawn && (reply.state === "granted" || reply.state === "queued")) this.#waiters.withdraw(this);
      return true;
    }
    switch (reply.state) {
      case "granted": {
        const { fencingToken, msLeft = firstTermMs(this.terms) } = reply;
        this.grant(fencingToken, msLeft, sentAt + surely(msLeft));
        return true;
      }
      case "queued":
        this.isQueued = true;
        this.saw(reply);
        this.#waiters.queued(reply);
        if (this.#hasDoubt) this.#waiters.beatNow();
        return true;
      case "full":
        this.abandon(new LockQueueFullError(this.#waiters.name, this.#waiters.commands.settings.maxWaiters));
        return true;
      default:
        // Held and not queued cannot be (we asked to be queued); late: our picture of the server's clock was wrong.
        return false;
    }
  }

  #pushed(payload: string): void {
    const [kind, first = "", leaseEnd = "", grantMs = ""] = payload.split("\t");
    if (kind === "head") {
      this.#waiters.watchUntil(Number(first));
      return;
    }
    const receivedAt = performance.now();
    const earliest = this.#waiters.clock.earliest(Number(leaseEnd));
    const grantedMs = Number(grantMs);
    const deadlineAt = earliest === undefined ? 0 : Math.min(earliest, receivedAt + surely(grantedMs));
    if (deadlineAt - receivedAt >= leastGrantMs) this.grant(first, grantedMs, deadlineAt);
    // How long it is good for is not known (or not long): the state tells, once the server's answer has arrived.
    else if (this.isQueued) this.#waiters.beatNow();
    else this.#hasDoubt = true;
  }

  #armTimer(): void {
    const { at, remainingMs } = this.#deadline;
    if (at === Infinity) return;
    this.#timer = setTimeout(
      () => (this.#deadline.remainingMs > 0 ? this.#armTimer() : this.#timeOut()),
      Math.min(Math.max(0, Math.ceil(remainingMs)), 2 ** 31 - 1),
    );
  }

  #timeOut(): void {
    this.abandon(timeoutOf(this.#waiters.name, this.terms.waitMs, this.#seen));
  }

  /** Returns whether it was still open. */
  #settle(): boolean {
    if (this.#isSettled) return false;
    this.#isSettled = true;
    clearTimeout(this.#timer);
    this.#stopListening?.();
    this.place.leave();
    this.#waiters.remove(this);
    return true;
  }
}

/** The waiters of this process for one lock: one beat and one watch for all of them. */
export class Waiters {
  readonly name: string;
  readonly commands: LockCommands;
  readonly events: WaitingEvents;
  readonly #keys: LockKeys;
  readonly #waiters = new Map<string, Waiter>();
  #beatTimer: NodeJS.Timeout | undefined;
  #watchTimer: NodeJS.Timeout | undefined;
  /** When the next look is planned, on our monotonic clock. */
  #watchAt = Infinity;
  /** When the server last pushed when to look. */
  #toldAt = -Infinity;
  #beating = false;
  #beatAgain = false;
  #failures = 0;

  constructor(commands: LockCommands, events: WaitingEvents, name: string) {
    this.commands = commands;
    this.events = events;
    this.name = name;
    this.#keys = commands.keysOf(name);
  }

  /** The clock of the node that serves this lock. */
  get clock(): ReturnType<Runtime["clockOf"]> {
    return this.commands.runtime.clockOf(this.#keys.lease);
  }

  /** Waits for the lock, once queued; settles with a grant, or with the reason why not. */
  wait(place: Place, terms: AcquireTerms, deadline: Deadline, reply: NotGranted): Promise<Grant> {
    const waiter = new Waiter(this, place, terms, deadline, reply);
    this.#waiters.set(place.token, waiter);
    waiter.start();
    // It may have been granted by a push that came before, or given up.
    if (this.#waiters.has(place.token)) this.queued(reply);
    return waiter.granted;
  }

  /** Everybody asks the server, now: messages may have been lost. */
  beatNow(): void {
    this.#beatAgain = true;
    if (!this.#beating) void this.#beat();
  }

  /** Rejects everybody. */
  close(): void {
    for (const waiter of [...this.#waiters.values()]) waiter.abandon(new KitClosedError("The lock"));
  }

  // ── for Waiter ──────────────────────────────────────────────────────────────────────────────────────────────────

  async send(waiter: Waiter, isWanted: () => boolean): Promise<{ reply: AcquireReply; sentAt: number }> {
    const { deadlineMs } = this.commands.settings;
    const { token, terms, place } = waiter;
    const sentAt = performance.now();
    const reply = await this.commands.acquire(this.#keys, token, terms, place.channel, {
      sentAt,
      deadlineMs,
      isWanted,
    });
    return { reply, sentAt };
  }

  queued({ position, owner, msLeft }: NotGranted): void {
    this.#watch(msLeft, position);
    if (!this.#beatTimer) this.#scheduleBeat();
    // Last, since whoever hears of it may close the lock.
    this.events.queued(this.name, position, owner);
  }

  withdraw(waiter: Waiter): void {
    this.commands.withdraw(this.#keys, waiter.token, waiter.terms);
  }

  remove(waiter: Waiter): void {
    this.#waiters.delete(waiter.token);
    if (this.#waiters.size > 0) return;
    clearTimeout(this.#beatTimer);
    this.#unwatch();
    this.#beatTimer = undefined;
    this.events.empty(this.name);
  }

  /** One of ours is the head, and the holder's lease ends at this server instant. */
  watchUntil(leaseEnd: number): void {
    this.#toldAt = performance.now();
    const now = this.clock.serverMsAt(this.#toldAt);
    if (now === undefined) this.beatNow();
    else this.#watch(Math.max(0, leaseEnd - now), 0);
  }

  // ────────────────────────────────────────────────────────────────────────────────────────────────────────────────

  /**
   * Looks again when the holder's lease is over, unless that is planned for an earlier instant; -1: it has no end; -2:
   * nobody holds it, and nobody could be told.
   */
  #watch(msLeft: number, position: number): void {
    if (this.#waiters.size === 0 || msLeft === -1) return;
    const isPolling = msLeft < 0 || !this.commands.runtime.inbox.isOpen;
    const wait = isPolling ? Math.min(Math.max(msLeft, 0), pollMs) * (0.5 + Math.random()) : msLeft;
    const at = performance.now() + wait + 1 + Math.min(position * watchStepMs, watchStepsMs);
    if (at >= this.#watchAt) return;
    this.#unwatch();
    this.#watchAt = at;
    this.#watchTimer = setTimeout(
      () => {
        this.#watchAt = Infinity;
        this.beatNow();
      },
      Math.min(at - performance.now(), 2 ** 31 - 1),
    );
  }

  #unwatch(): void {
    clearTimeout(this.#watchTimer);
    this.#watchAt = Infinity;
  }

  #scheduleBeat(): void {
    clearTimeout(this.#beatTimer);
    const wait =
      this.#failures === 0 ? beatMs * (0.8 + 0.4 * Math.random()) : Math.min(1_000, 50 * 2 ** this.#failures);
    this.#beatTimer = setTimeout(() => this.beatNow(), wait);
  }

  async #beat(): Promise<void> {
    this.#beating = true;
    try {
      while (this.#beatAgain && this.#waiters.size > 0) {
        this.#beatAgain = false;
        const asked = [...this.#waiters.values()].filter(({ isQueued }) => isQueued);
        for (let start = 0; start < asked.length; start += maxBatch)
          await this.#ask(asked.slice(start, start + maxBatch), start === 0);
        void this.commands.runtime.inbox.check();
      }
    } finally {
      this.#beating = false;
      if (this.#waiters.size > 0) this.#scheduleBeat();
    }
  }

  async #ask(asked: readonly Waiter[], isFirst: boolean): Promise<void> {
    const sentAt = performance.now();
    try {
      const tokens = asked.map(({ token }) => token);
      const reply = await this.commands.beat(this.#keys, tokens);
      this.#failures = 0;
      const { msLeft, fencingToken } = reply;
      let first = Infinity;
      for (const [index, waiter] of asked.entries()) {
        const state = reply.states[index] ?? "unknown";
        if (state === "granted") waiter.grant(fencingToken, msLeft, sentAt + surely(msLeft));
        else if (state === "unknown") waiter.requeue();
        else {
          waiter.saw(reply);
          first = Math.min(first, state);
        }
      }
      // The newest truth about the holder, also when it moves the look to later; a push may be newer still.
      if (isFirst && this.#toldAt < sentAt) this.#unwatch();
      if (first < Infinity) this.#watch(msLeft, first);
    } catch (error) {
      this.#failures = Math.min(this.#failures + 1, 5);
      if (KitError.is(error) && !error.retryable) for (const waiter of asked) waiter.abandon(error);
      else this.commands.onError(error);
    }
  }
}
