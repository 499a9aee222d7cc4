import { KitError, KitUnavailableError } from "../index.js";
import {
  addressOf,
  type Deadline,
  type Inbox,
  onAbort,
  pause,
  type ServerClock,
  lowerBoundMs,
} from "../toolkit/index.js";
import {
  type AcquireReply,
  aliveMs,
  firstTermMs,
  type LeasingCommands,
  type NotGranted,
  type Seen,
} from "./commands.js";
import type { Grant, Lease } from "./lease.js";
import type { ResolvedAcquire } from "./options.js";

/** A third of the time for which a waiter counts as alive. */
const heartbeatMs = aliveMs / 3;
/** How often to poll where nothing can be pushed. */
const pollMs = 150;
/** The same while the inbox is being opened; every waiter sends a heartbeat when it is. */
const openingPollMs = 500;
/**
 * A waiter behind the head looks later by its position, so that a dead holder wakes the head and then, one by one, the others:
 * those before it may be dead, too.
 */
const watchStepMs = 5;
const watchStepsMs = 100;
const maxBatch = 500;
/** A wait without an end emits one event after so long: nothing else would show the standstill. */
const stillWaitingMs = 30_000;
/** A grant that is nearly over when its message arrives is not taken: a heartbeat asks for the state instead. */
const leastGrantMs = 5;

/** Callbacks of waiting. */
export interface WaitingEvents<Resolved, S extends Seen> {
  readonly queued: (name: string, reply: NotGranted<S>) => void;
  readonly requeued: (name: string) => void;
  /** One that has no end of its own has waited for {@link stillWaitingMs}, and is behind `position` others. */
  readonly stillWaiting: (name: string, position: number, seen: S, waitedMs: number) => void;
  /** Its waiter has what it wanted, or gave up. */
  readonly left: (name: string, place: Place, resolved: Resolved) => void;
  /** Nobody of this process waits for it any more. */
  readonly empty: (name: string) => void;
}

/** Receives the pushes for one acquire, and keeps those that come before its listener. */
export class Place {
  readonly token: string;
  /** The channel that the acquire sent when it was queued. */
  inbox: string;
  readonly #pushes: Inbox;
  #early: string[] | undefined;

  constructor(pushes: Inbox, token: string, inbox: string) {
    this.#pushes = pushes;
    this.token = token;
    this.inbox = inbox;
    // A server that has `-` or `+` for this waiter does not push until a heartbeat names the channel.
    if (inbox === pushes.channel) pushes.expect(token, (payload) => void (this.#early ??= []).push(payload));
  }

  listen(listener: (payload: string) => void): void {
    this.#pushes.expect(this.token, listener);
    const early = this.#early;
    this.#early = undefined;
    for (const payload of early ?? []) listener(payload);
  }

  leave(): void {
    this.#pushes.forget(this.token);
  }
}

/** One acquire that stands in the queue. Settles once; whatever arrives later is undone. */
class Waiter<Resolved extends ResolvedAcquire, S extends Seen, L extends Lease<Resolved>> {
  readonly place: Place;
  readonly resolved: Resolved;
  readonly granted: Promise<Grant>;
  /** Whether the server is known to have it in the queue; only then a heartbeat's "unknown" means anything. */
  isQueued = true;
  readonly #waiters: Waiters<Resolved, S, L>;
  readonly #deadline: Deadline;
  readonly #startedAt = performance.now();
  #isToldOf = false;
  #seen: S;
  #isSettled = false;
  #isCancelled = false;
  /** A grant was pushed before the server had answered, and could not be judged. */
  #hasDoubt = false;
  #timer: NodeJS.Timeout | undefined;
  #stopListening: (() => void) | undefined;
  #resolve!: (grant: Grant) => void;
  #reject!: (error: unknown) => void;

  constructor(waiters: Waiters<Resolved, S, L>, place: Place, resolved: Resolved, deadline: Deadline, seen: S) {
    this.#waiters = waiters;
    this.place = place;
    this.resolved = resolved;
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
    this.#stopListening = onAbort(this.resolved.signal, () => this.abandon(this.resolved.signal?.reason));
    // If it has given up already, the listener of its former place stays: that one gives back grants.
    if (!this.#isSettled) this.place.listen((payload) => this.#pushed(payload));
  }

  /** The server's latest reply about this waiter. */
  saw(seen: S): void {
    this.#seen = seen;
  }

  /** The same in a heartbeat, which may emit `stillWaiting`. */
  sawAgain(position: number, seen: S): void {
    this.saw(seen);
    const waitedMs = performance.now() - this.#startedAt;
    if (this.#isToldOf || this.#deadline.at < Infinity || waitedMs < stillWaitingMs) return;
    this.#isToldOf = true;
    this.#waiters.events.stillWaiting(this.#waiters.name, position, seen, waitedMs);
  }

  /** Returns whether the grant could be used: one that is over when its message arrives is requested again. */
  grant(proof: string, grantedMs: number, deadlineAt: number): boolean {
    if (deadlineAt <= performance.now()) return false;
    const { name } = this.#waiters;
    if (this.#settle()) this.#resolve({ name, token: this.token, proof, grantedMs, deadlineAt });
    return true;
  }

  /** Gives up: the caller's promise rejects at once, the cancel is sent as soon as possible. */
  abandon(reason: unknown): void {
    if (!this.#settle()) return;
    this.#isCancelled = true;
    this.#waiters.cancel(this);
    this.#reject(reason);
  }

  /** The server has no record of this waiter: it lost its data, or a grant expired before its message arrived. */
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
  #enqueued({ reply, sentAt }: { reply: AcquireReply<S>; sentAt: number }): boolean {
    if (this.#isSettled) {
      // Too late for the caller who gave up. One who was granted by push meanwhile has the lease in use.
      if (this.#isCancelled && (reply.state === "granted" || reply.state === "queued")) this.#waiters.cancel(this);
      return true;
    }
    switch (reply.state) {
      case "granted": {
        const { proof, msLeft = firstTermMs(this.resolved) } = reply;
        return this.grant(proof, msLeft, sentAt + lowerBoundMs(msLeft));
      }
      case "queued":
        this.isQueued = true;
        this.saw(reply);
        this.#waiters.queued(this, reply);
        if (this.#hasDoubt) this.#waiters.heartbeatNow();
        return true;
      case "full":
        this.abandon(this.#waiters.commands.queueFullError(this.#waiters.name));
        return true;
      default:
        // Held and not queued cannot be (we asked to be queued); late: our picture of the server's clock was wrong.
        return false;
    }
  }

  #pushed(payload: string): void {
    const [kind, leaseEnd = "", grantMs = "", proof = ""] = payload.split("\t");
    if (kind === "head") {
      this.#waiters.watchUntil(Number(leaseEnd));
      return;
    }
    const receivedAt = performance.now();
    const earliest = this.#waiters.clock.earliest(Number(leaseEnd));
    const grantedMs = Number(grantMs);
    const deadlineAt = earliest === undefined ? 0 : Math.min(earliest, receivedAt + lowerBoundMs(grantedMs));
    if (deadlineAt - receivedAt >= leastGrantMs) this.grant(proof, grantedMs, deadlineAt);
    // The rest of the lease is unknown, or short: a heartbeat finds the state, once the server has replied to the acquire.
    else if (this.isQueued) this.#waiters.heartbeatNow();
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
    const { commands, name, outage } = this.#waiters;
    this.abandon(commands.timeoutError(name, this.resolved, this.#seen, outage));
  }

  /** Returns whether it was still open. */
  #settle(): boolean {
    if (this.#isSettled) return false;
    this.#isSettled = true;
    clearTimeout(this.#timer);
    this.#stopListening?.();
    this.#waiters.events.left(this.#waiters.name, this.place, this.resolved);
    this.#waiters.remove(this);
    return true;
  }
}

/** The waiters of this process for one name: one heartbeat and one watch for all of them. */
export class Waiters<Resolved extends ResolvedAcquire, S extends Seen, L extends Lease<Resolved>> {
  readonly name: string;
  readonly commands: LeasingCommands<Resolved, S, L>;
  readonly events: WaitingEvents<Resolved, S>;
  readonly #waiters = new Map<string, Waiter<Resolved, S, L>>();
  #heartbeatTimer: NodeJS.Timeout | undefined;
  #watchTimer: NodeJS.Timeout | undefined;
  /** When the next look is planned, on our monotonic clock. */
  #watchAt = Infinity;
  /** When the server last pushed when to look. */
  #toldAt = -Infinity;
  #isHeartbeatUnderWay = false;
  #isHeartbeatWanted = false;
  #failures = 0;
  /** The last heartbeat's error; undefined: it was answered. */
  #lastFailure: unknown;

  constructor(commands: LeasingCommands<Resolved, S, L>, events: WaitingEvents<Resolved, S>, name: string) {
    this.commands = commands;
    this.events = events;
    this.name = name;
  }

  /** The clock of the node that serves this name. */
  get clock(): ServerClock {
    return this.commands.clockOf(this.name);
  }

  /** Why the server is unreachable now; undefined: nothing says that it is. */
  get outage(): unknown {
    const { client } = this.commands.context;
    if (this.#lastFailure !== undefined || client.status === "ready") return this.#lastFailure;
    const address = addressOf(client);
    return new KitUnavailableError(`There is no connection to Redis at ${address}`, address);
  }

  /** Waits, once queued; settles with a grant, or with the reason why not. */
  wait(place: Place, resolved: Resolved, deadline: Deadline, reply: NotGranted<S>): Promise<Grant> {
    const waiter = new Waiter(this, place, resolved, deadline, reply);
    this.#waiters.set(place.token, waiter);
    waiter.start();
    // It may have been granted by a push that came before, or given up.
    if (this.#waiters.has(place.token)) this.queued(waiter, reply);
    return waiter.granted;
  }

  /** Sends a heartbeat for all waiters now: messages may have been lost. */
  heartbeatNow(): void {
    this.#isHeartbeatWanted = true;
    if (!this.#isHeartbeatUnderWay) void this.#heartbeat();
  }

  /** Rejects everybody. */
  reject(error: KitError): void {
    for (const waiter of [...this.#waiters.values()]) waiter.abandon(error);
  }

  // ── for Waiter ──────────────────────────────────────────────────────────────────────────────────────────────────

  async send(
    waiter: Waiter<Resolved, S, L>,
    isWanted: () => boolean,
  ): Promise<{ reply: AcquireReply<S>; sentAt: number }> {
    const { deadlineMs } = this.commands.settings;
    const { token, resolved, place } = waiter;
    const sentAt = performance.now();
    place.inbox = this.commands.inbox;
    const reply = await this.commands.acquire(this.name, token, resolved, place.inbox, {
      sentAt,
      deadlineMs,
      isWanted,
    });
    return { reply, sentAt };
  }

  queued(waiter: Waiter<Resolved, S, L>, reply: NotGranted<S>): void {
    // Before the first wait no second connection is needed.
    this.commands.context.inbox.start();
    this.#watch(reply.msLeft, reply.position);
    if (!this.#heartbeatTimer) this.#scheduleHeartbeat();
    // The inbox opened or closed while the command was under way: only a heartbeat sends the change to the server.
    if (waiter.place.inbox !== this.commands.inbox) this.heartbeatNow();
    // Last, since a listener may close the object.
    this.events.queued(this.name, reply);
  }

  cancel(waiter: Waiter<Resolved, S, L>): void {
    this.commands.cancel(this.name, waiter.token, waiter.resolved);
  }

  remove(waiter: Waiter<Resolved, S, L>): void {
    this.#waiters.delete(waiter.token);
    if (this.#waiters.size > 0) return;
    clearTimeout(this.#heartbeatTimer);
    this.#unwatch();
    this.#heartbeatTimer = undefined;
    this.events.empty(this.name);
  }

  /** One of ours is the head, and the holder's lease ends at this server instant. */
  watchUntil(leaseEnd: number): void {
    this.#toldAt = performance.now();
    const now = this.clock.serverMsAt(this.#toldAt);
    if (now === undefined) this.heartbeatNow();
    else this.#watch(Math.max(0, leaseEnd - now), 0);
  }

  // ────────────────────────────────────────────────────────────────────────────────────────────────────────────────

  /**
   * Looks again when the holder's lease is over, unless that is planned for an earlier instant; -1: it has no end; -2:
   * nobody holds it, and no waiter could be notified.
   */
  #watch(msLeft: number, position: number): void {
    if (this.#waiters.size === 0 || msLeft === -1) return;
    const { inbox } = this.commands.context;
    const isPolling = msLeft < 0 || !inbox.isOpen;
    const everyMs = inbox.isOpening ? openingPollMs : pollMs;
    const wait = isPolling ? Math.min(Math.max(msLeft, 0), everyMs) * (0.5 + Math.random()) : msLeft;
    const at = performance.now() + wait + 1 + Math.min(position * watchStepMs, watchStepsMs);
    if (at >= this.#watchAt) return;
    this.#unwatch();
    this.#watchAt = at;
    this.#watchTimer = setTimeout(
      () => {
        this.#watchAt = Infinity;
        this.heartbeatNow();
      },
      Math.min(at - performance.now(), 2 ** 31 - 1),
    );
  }

  #unwatch(): void {
    clearTimeout(this.#watchTimer);
    this.#watchAt = Infinity;
  }

  #scheduleHeartbeat(): void {
    clearTimeout(this.#heartbeatTimer);
    const wait =
      this.#failures === 0 ? heartbeatMs * (0.8 + 0.4 * Math.random()) : Math.min(1_000, 50 * 2 ** this.#failures);
    this.#heartbeatTimer = setTimeout(() => this.heartbeatNow(), wait);
  }

  async #heartbeat(): Promise<void> {
    this.#isHeartbeatUnderWay = true;
    try {
      while (this.#isHeartbeatWanted && this.#waiters.size > 0) {
        this.#isHeartbeatWanted = false;
        const asked = [...this.#waiters.values()].filter(({ isQueued }) => isQueued);
        for (let start = 0; start < asked.length; start += maxBatch)
          await this.#ask(asked.slice(start, start + maxBatch), start === 0);
        void this.commands.context.inbox.check();
      }
    } finally {
      this.#isHeartbeatUnderWay = false;
      if (this.#waiters.size > 0) this.#scheduleHeartbeat();
    }
  }

  async #ask(asked: readonly Waiter<Resolved, S, L>[], isFirst: boolean): Promise<void> {
    const sentAt = performance.now();
    try {
      const reply = await this.commands.heartbeat(this.name, asked);
      this.#failures = 0;
      this.#lastFailure = undefined;
      let first = Infinity;
      for (const [index, waiter] of asked.entries()) {
        const state = reply.states[index] ?? "unknown";
        if (state === "unknown") waiter.requeue();
        else if (typeof state === "number") {
          waiter.sawAgain(state, reply);
          first = Math.min(first, state);
        } else if (!waiter.grant(state.proof, state.msLeft, sentAt + lowerBoundMs(state.msLeft))) waiter.requeue();
      }
      // The newest truth about the holder, also when it moves the look to later; a push may be newer still.
      if (isFirst && this.#toldAt < sentAt) this.#unwatch();
      if (first < Infinity) this.#watch(reply.msLeft, first);
    } catch (error) {
      this.#failures = Math.min(this.#failures + 1, 5);
      this.#lastFailure = error;
      if (KitError.is(error) && !error.retryable) for (const waiter of asked) waiter.abandon(error);
      else this.commands.onError(error);
    }
  }
}
