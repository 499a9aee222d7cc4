import { KitError, KitUnavailableError } from "../index.js";
import { addressOf, type Deadline, pause, lowerBoundMs } from "../toolkit/index.js";
import { aliveMs, firstTermMs, type LeasingCommands, type NotGranted, type Seen } from "./commands.js";
import type { Grant, Lease } from "./lease.js";
import type { ResolvedAcquire } from "./options.js";
import type { Subscription } from "./subscription.js";
import { Waiter } from "./waiter.js";

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
/** A grant that is nearly over when its message arrives is not taken: a heartbeat asks for the state instead. */
const leastGrantMs = 5;

/** Callbacks of waiting. */
export interface WaitingEvents<Resolved, S extends Seen> {
  readonly queued: (name: string, reply: NotGranted<S>) => void;
  readonly requeued: (name: string) => void;
  /** One that has no end of its own has waited for half a minute, and is behind `position` others. */
  readonly stillWaiting: (name: string, position: number, seen: S, waitedMs: number) => void;
  /** Its waiter has what it wanted, or gave up. */
  readonly left: (name: string, subscription: Subscription, resolved: Resolved) => void;
  /** Nobody of this process waits for it any more. */
  readonly empty: (name: string) => void;
}

/** The waiters of this process for one name: one heartbeat and one watch for all of them. */
export class Waiters<Resolved extends ResolvedAcquire, S extends Seen, L extends Lease<Resolved>> {
  readonly #commands: LeasingCommands<Resolved, S, L>;
  readonly #events: WaitingEvents<Resolved, S>;
  readonly #name: string;
  readonly #loop: string;
  readonly #waiters = new Map<string, Waiter<Resolved, S>>();
  #heartbeatTimer: NodeJS.Timeout | undefined;
  #watchTimer: NodeJS.Timeout | undefined;
  /** When the next look is planned, on our monotonic clock. */
  #watchAt = Infinity;
  /** When the server last pushed the end of the holder's lease. */
  #leaseEndPushedAt = -Infinity;
  #isHeartbeatUnderWay = false;
  #isHeartbeatWanted = false;
  #failures = 0;
  /** The last heartbeat's error; undefined: it was answered. */
  #lastFailure: unknown;

  constructor(commands: LeasingCommands<Resolved, S, L>, events: WaitingEvents<Resolved, S>, name: string) {
    this.#commands = commands;
    this.#events = events;
    this.#name = name;
    this.#loop = `waiting for ${name}`;
  }

  /** Waits, once queued; settles with a grant, or with the reason why not. */
  wait(subscription: Subscription, resolved: Resolved, deadline: Deadline, reply: NotGranted<S>): Promise<Grant> {
    const waiter = new Waiter<Resolved, S>(subscription, resolved, deadline, reply);
    this.#waiters.set(waiter.token, waiter);
    waiter.start({
      pushed: (payload) => this.#pushed(waiter, payload),
      timedOut: () => this.#timedOut(waiter),
      aborted: () => this.#abandon(waiter, resolved.signal?.reason),
    });
    // It may have been granted by a push that came before, or given up.
    if (!waiter.isSettled) this.#queued(waiter, reply);
    return waiter.granted;
  }

  /** Sends a heartbeat for all waiters now: messages may have been lost. */
  heartbeatNow(): void {
    this.#isHeartbeatWanted = true;
    if (!this.#isHeartbeatUnderWay) void this.#heartbeat();
  }

  /** Rejects everybody. */
  reject(error: KitError): void {
    for (const waiter of [...this.#waiters.values()]) this.#abandon(waiter, error);
  }

  // ── one waiter ──────────────────────────────────────────────────────────────────────────────────────────────────

  #queued({ subscription }: Waiter<Resolved, S>, reply: NotGranted<S>): void {
    // Before the first wait no second connection is needed, and nobody misses one that went silent.
    this.#commands.context.inbox.start();
    this.#commands.context.inbox.checkSoon();
    this.#watch(reply.msLeft, reply.position);
    if (!this.#heartbeatTimer) this.#scheduleHeartbeat();
    // The inbox opened or closed while the command was under way: only a heartbeat sends the change to the server.
    if (subscription.channel !== this.#commands.inbox) this.heartbeatNow();
    // Last, since a listener may close the object.
    this.#events.queued(this.#name, reply);
  }

  #pushed(waiter: Waiter<Resolved, S>, payload: string): void {
    const [kind, leaseEnd = "", grantMs = "", proof = ""] = payload.split("\t");
    if (kind === "head") {
      this.#watchUntil(Number(leaseEnd));
      return;
    }
    const receivedAt = performance.now();
    const earliest = this.#commands.clockOf(this.#name).earliest(Number(leaseEnd));
    const grantedMs = Number(grantMs);
    const deadlineAt = earliest === undefined ? 0 : Math.min(earliest, receivedAt + lowerBoundMs(grantedMs));
    if (deadlineAt - receivedAt >= leastGrantMs) this.#grant(waiter, proof, grantedMs, deadlineAt);
    // The rest of the lease is unknown, or short: a heartbeat finds the state, once the server has replied to the acquire.
    else if (waiter.isQueued) this.heartbeatNow();
    else waiter.hasDoubt = true;
  }

  /** Returns whether the grant could be used: one that is over when its message arrives is requested again. */
  #grant(waiter: Waiter<Resolved, S>, proof: string, grantedMs: number, deadlineAt: number): boolean {
    if (deadlineAt <= performance.now()) return false;
    const { token } = waiter;
    if (waiter.grant({ name: this.#name, token, proof, grantedMs, deadlineAt })) this.#remove(waiter);
    return true;
  }

  /** The caller's promise rejects at once, the cancel is sent as soon as possible. */
  #abandon(waiter: Waiter<Resolved, S>, reason: unknown): void {
    if (!waiter.abandon(reason)) return;
    this.#remove(waiter);
    this.#cancel(waiter);
  }

  #timedOut(waiter: Waiter<Resolved, S>): void {
    const { resolved, seen } = waiter;
    this.#abandon(waiter, this.#commands.timeoutError(this.#name, resolved, seen, this.#outage));
  }

  #cancel({ token, resolved }: Waiter<Resolved, S>): void {
    this.#commands.cancel(this.#name, token, resolved);
  }

  #remove({ token, subscription, resolved }: Waiter<Resolved, S>): void {
    this.#events.left(this.#name, subscription, resolved);
    this.#waiters.delete(token);
    this.#commands.outage.ended(token);
    if (this.#waiters.size > 0) return;
    this.#commands.outage.ended(this.#loop);
    clearTimeout(this.#heartbeatTimer);
    this.#unwatch();
    this.#heartbeatTimer = undefined;
    this.#events.empty(this.#name);
  }

  /** The server has no record of this waiter: it lost its data, or a grant expired before its message arrived. */
  async #requeue(waiter: Waiter<Resolved, S>): Promise<void> {
    if (waiter.isSettled) return;
    waiter.isQueued = false;
    this.#events.requeued(this.#name);
    for (let failures = 0; !waiter.isSettled;)
      try {
        if (await this.#enqueue(waiter)) {
          this.#commands.outage.worked(waiter.token);
          return;
        }
      } catch (error) {
        if (KitError.is(error) && !error.retryable) {
          this.#abandon(waiter, error);
          return;
        }
        // Once queued, a wait survives outages.
        if (!waiter.isSettled) this.#commands.outage.failed(waiter.token, this.#commands.errorOf(error));
        await pause(Math.min(1_000, 50 * 2 ** Math.min(failures++, 5)) * (0.5 + Math.random()));
      }
  }

  /** Returns whether that was an answer. */
  async #enqueue(waiter: Waiter<Resolved, S>): Promise<boolean> {
    const { token, resolved, subscription } = waiter;
    const { deadlineMs } = this.#commands.settings;
    const sentAt = performance.now();
    const isWanted = (): boolean => !waiter.isSettled;
    subscription.channel = this.#commands.inbox;
    const attempt = { sentAt, deadlineMs, isWanted };
    const reply = await this.#commands.acquire(this.#name, token, resolved, subscription.channel, attempt);
    if (waiter.isSettled) {
      // Too late for the caller who gave up. One who was granted by push meanwhile has the lease in use.
      if (waiter.isAbandoned && (reply.state === "granted" || reply.state === "queued")) this.#cancel(waiter);
      return true;
    }
    switch (reply.state) {
      case "granted": {
        const { proof, msLeft = firstTermMs(resolved) } = reply;
        return this.#grant(waiter, proof, msLeft, sentAt + lowerBoundMs(msLeft));
      }
      case "queued":
        waiter.isQueued = true;
        waiter.seen = reply;
        this.#queued(waiter, reply);
        if (waiter.hasDoubt) this.heartbeatNow();
        return true;
      case "full":
        this.#abandon(waiter, this.#commands.queueFullError(this.#name));
        return true;
      default:
        // Held and not queued cannot be (we asked to be queued); late: our picture of the server's clock was wrong.
        return false;
    }
  }

  // ── all of them ─────────────────────────────────────────────────────────────────────────────────────────────────

  /** Why the server is unreachable now; undefined: nothing says that it is. */
  get #outage(): unknown {
    const { client } = this.#commands.context;
    if (this.#lastFailure !== undefined || client.status === "ready") return this.#lastFailure;
    const address = addressOf(client);
    return new KitUnavailableError(`There is no connection to Redis at ${address}`, address);
  }

  /** One of ours is the head, and the holder's lease ends at this server instant. */
  #watchUntil(leaseEnd: number): void {
    this.#leaseEndPushedAt = performance.now();
    const now = this.#commands.clockOf(this.#name).serverMsAt(this.#leaseEndPushedAt);
    if (now === undefined) this.heartbeatNow();
    else this.#watch(Math.max(0, leaseEnd - now), 0);
  }

  /**
   * Looks again when the holder's lease is over, unless that is planned for an earlier instant; -1: it has no end; -2:
   * nobody holds it, and no waiter could be notified.
   */
  #watch(msLeft: number, position: number): void {
    if (this.#waiters.size === 0 || msLeft === -1) return;
    const { inbox } = this.#commands.context;
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
        const queued = [...this.#waiters.values()].filter(({ isQueued }) => isQueued);
        for (let start = 0; start < queued.length; start += maxBatch)
          await this.#sendHeartbeat(queued.slice(start, start + maxBatch), start === 0);
        void this.#commands.context.inbox.check();
      }
    } finally {
      this.#isHeartbeatUnderWay = false;
      if (this.#waiters.size > 0) this.#scheduleHeartbeat();
    }
  }

  async #sendHeartbeat(asked: readonly Waiter<Resolved, S>[], isFirst: boolean): Promise<void> {
    const sentAt = performance.now();
    try {
      const reply = await this.#commands.heartbeat(this.#name, asked);
      this.#failures = 0;
      this.#lastFailure = undefined;
      this.#commands.outage.worked(this.#loop);
      let first = Infinity;
      for (const [index, waiter] of asked.entries()) {
        const state = reply.states[index] ?? "unknown";
        if (state === "unknown") void this.#requeue(waiter);
        else if (typeof state === "number") {
          waiter.seen = reply;
          const waitedMs = waiter.longWaitMs();
          if (waitedMs !== undefined) this.#events.stillWaiting(this.#name, state, reply, waitedMs);
          first = Math.min(first, state);
        } else {
          const { proof, msLeft } = state;
          if (!this.#grant(waiter, proof, msLeft, sentAt + lowerBoundMs(msLeft))) void this.#requeue(waiter);
        }
      }
      // The newest truth about the holder, also when it moves the look to later; a push may be newer still.
      if (isFirst && this.#leaseEndPushedAt < sentAt) this.#unwatch();
      if (first < Infinity) this.#watch(reply.msLeft, first);
    } catch (error) {
      this.#failures = Math.min(this.#failures + 1, 5);
      this.#lastFailure = error;
      if (KitError.is(error) && !error.retryable) for (const waiter of asked) this.#abandon(waiter, error);
      else if (this.#waiters.size > 0) this.#commands.outage.failed(this.#loop, this.#commands.errorOf(error));
    }
  }
}
