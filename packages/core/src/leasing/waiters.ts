import { KitError, KitUnavailableError } from "../index.js";
import { addressOf, type Deadline, lowerBoundMs, pause } from "../toolkit/index.js";
import type { LeaseCommands } from "./commands.js";
import { type Grant, grantOf, heldMs } from "./grant.js";
import { HeartbeatTimer } from "./heartbeat.js";
import type { LeaseRequest, NotGranted, Seen } from "./kind.js";
import type { ResolvedAcquire } from "./options.js";
import type { Subscription } from "./subscription.js";
import { Waiter } from "./waiter.js";

const maxBatch = 500;
/**
 * The minimum remaining time of a usable grant, in milliseconds. If less is left when its message arrives, a heartbeat requests the
 * state.
 */
const leastGrantMs = 5;

/** Callbacks of waiting. */
export interface WaitingEvents<Resolved extends ResolvedAcquire, S extends Seen> {
  readonly queued: (name: string, reply: NotGranted<S>) => void;
  readonly requeued: (name: string) => void;
  /** A waiter without a limit has waited for half a minute. `position` waiters are ahead of it. */
  readonly stillWaiting: (name: string, position: number, seen: S, waitedMs: number) => void;
  /** A waiter was granted the lease, or gave up. */
  readonly left: (request: LeaseRequest<Resolved>, subscription: Subscription) => void;
  /** This process has no more waiters for the name. */
  readonly empty: (name: string) => void;
}

/** This process's waiters for one name. They share one heartbeat and one watch. */
export class Waiters<Resolved extends ResolvedAcquire, S extends Seen> {
  readonly #commands: LeaseCommands<Resolved, S>;
  readonly #events: WaitingEvents<Resolved, S>;
  readonly #name: string;
  readonly #loop: string;
  readonly #waiters = new Map<string, Waiter<Resolved, S>>();
  readonly #timer: HeartbeatTimer;
  /** When the server last pushed the end of the holder's lease. */
  #leaseEndPushedAt = -Infinity;
  #isHeartbeatUnderWay = false;
  #isHeartbeatWanted = false;
  /** The last heartbeat's error. Undefined if it had a reply. */
  #lastFailure: unknown;

  constructor(commands: LeaseCommands<Resolved, S>, events: WaitingEvents<Resolved, S>, name: string) {
    this.#commands = commands;
    this.#events = events;
    this.#name = name;
    this.#loop = `waiting for ${name}`;
    this.#timer = new HeartbeatTimer(commands.context.inbox, () => this.heartbeatNow());
  }

  /** Waits in the queue. Resolves with a grant, or rejects with the reason. */
  wait(
    request: LeaseRequest<Resolved>,
    subscription: Subscription,
    deadline: Deadline,
    reply: NotGranted<S>,
  ): Promise<Grant<Resolved>> {
    const waiter = new Waiter<Resolved, S>(subscription, request, deadline, reply);
    this.#waiters.set(request.token, waiter);
    waiter.start({
      pushed: (payload) => this.#pushed(waiter, payload),
      timedOut: () => this.#abandon(waiter, this.#commands.kind.timeoutError(request, waiter.seen, this.#outage)),
      aborted: () => this.#abandon(waiter, request.resolved.signal?.reason),
    });
    // An earlier push may have granted it, or it may have given up.
    if (!waiter.isSettled) this.#queued(waiter, reply);
    return waiter.granted;
  }

  /** Sends a heartbeat for all waiters now, because messages may have been lost. */
  heartbeatNow(): void {
    this.#isHeartbeatWanted = true;
    if (!this.#isHeartbeatUnderWay) void this.#heartbeat();
  }

  /** Rejects all waiters. */
  reject(error: unknown): void {
    for (const waiter of [...this.#waiters.values()]) this.#abandon(waiter, error);
  }

  // ── one waiter ──────────────────────────────────────────────────────────────────────────────────────────────────

  #queued({ subscription }: Waiter<Resolved, S>, reply: NotGranted<S>): void {
    // Before the first wait no second connection is needed, and none is checked.
    this.#commands.context.inbox.start();
    this.#commands.context.inbox.checkSoon();
    this.#watch(reply.msLeft, reply.position);
    this.#timer.start();
    // The inbox opened or closed while the command was under way: only a heartbeat sends the change to the server.
    if (subscription.channel !== this.#commands.inbox) this.heartbeatNow();
    // This comes last, because a listener may close the object.
    this.#events.queued(this.#name, reply);
  }

  #pushed(waiter: Waiter<Resolved, S>, payload: string): void {
    const [message, leaseEnd = "", grantMs = "", fencingToken = ""] = payload.split("\t");
    if (message === "head") {
      this.#watchUntil(Number(leaseEnd));
      return;
    }
    const { request } = waiter;
    const receivedAt = performance.now();
    const earliest = this.#commands.clockOf(this.#name).earliest(heldMs(request.resolved, Number(leaseEnd)));
    const grantedMs = heldMs(request.resolved, Number(grantMs));
    const deadlineAt = earliest === undefined ? 0 : Math.min(earliest, receivedAt + lowerBoundMs(grantedMs));
    if (deadlineAt - receivedAt >= leastGrantMs) this.#grant(waiter, { request, fencingToken, grantedMs, deadlineAt });
    // The rest of the lease is unknown, or short: a heartbeat finds the state, once the server has replied to the acquire.
    else if (waiter.isQueued) this.heartbeatNow();
    else waiter.hasDoubt = true;
  }

  /** Returns whether the grant was usable. If it is over when its message arrives, a heartbeat requests the state. */
  #grant(waiter: Waiter<Resolved, S>, grant: Grant<Resolved>): boolean {
    if (grant.deadlineAt <= performance.now()) return false;
    if (waiter.grant(grant)) this.#remove(waiter);
    return true;
  }

  /** Rejects the caller's promise immediately, and sends the cancel as soon as possible. */
  #abandon(waiter: Waiter<Resolved, S>, reason: unknown): void {
    if (!waiter.abandon(reason)) return;
    this.#remove(waiter);
    this.#commands.cancel(waiter.request);
  }

  #remove({ request, subscription }: Waiter<Resolved, S>): void {
    this.#events.left(request, subscription);
    this.#waiters.delete(request.token);
    this.#commands.outage.ended(request.token);
    if (this.#waiters.size > 0) return;
    this.#commands.outage.ended(this.#loop);
    this.#timer.stop();
    this.#events.empty(this.#name);
  }

  /** Queues a waiter again. The server has no record of it: it lost its data, or a grant expired before its message arrived. */
  async #requeue(waiter: Waiter<Resolved, S>): Promise<void> {
    if (waiter.isSettled) return;
    const { token } = waiter.request;
    waiter.isQueued = false;
    this.#events.requeued(this.#name);
    for (let failures = 0; !waiter.isSettled;)
      try {
        if (await this.#commands.life.track(this.#enqueue(waiter))) {
          this.#commands.outage.worked(token);
          return;
        }
      } catch (error) {
        if (KitError.is(error) && !error.retryable) {
          this.#abandon(waiter, error);
          return;
        }
        // Once queued, a wait survives outages.
        if (!waiter.isSettled) this.#commands.outage.failed(token, this.#commands.errorOf(error));
        await pause(Math.min(1_000, 50 * 2 ** Math.min(failures++, 5)) * (0.5 + Math.random()));
      }
  }

  /** Returns whether the reply was usable. */
  async #enqueue(waiter: Waiter<Resolved, S>): Promise<boolean> {
    const { request, subscription } = waiter;
    const { kind, settings } = this.#commands;
    subscription.channel = this.#commands.inbox;
    const isWanted = (): boolean => !waiter.isSettled;
    const attempt = this.#commands.attempt(request, subscription.channel, settings.deadlineMs, { isWanted });
    const reply = await this.#commands.settle(request, attempt, kind.acquire(request, attempt));
    if (waiter.isSettled) {
      // The caller gave up before. A waiter that was granted by push meanwhile already uses the lease.
      if (waiter.isAbandoned && (reply.state === "granted" || reply.state === "queued")) this.#commands.cancel(request);
      return true;
    }
    switch (reply.state) {
      case "granted":
        return this.#grant(waiter, grantOf(request, reply, attempt.sentAt));
      case "queued":
        waiter.isQueued = true;
        waiter.seen = reply;
        this.#queued(waiter, reply);
        if (waiter.hasDoubt) this.heartbeatNow();
        return true;
      case "full":
        this.#abandon(waiter, kind.queueFullError(this.#name));
        return true;
      default:
        // `held` without a place in the queue cannot occur, since the attempt has an inbox; `late`: the server's clock differs
        // from our estimate.
        return false;
    }
  }

  // ── all of them ─────────────────────────────────────────────────────────────────────────────────────────────────

  /** Why the server is unreachable now. Undefined if it seems reachable. */
  get #outage(): unknown {
    const { client } = this.#commands.context;
    if (this.#lastFailure !== undefined || client.status === "ready") return this.#lastFailure;
    const address = addressOf(client);
    return new KitUnavailableError(`Not connected to Redis at ${address}`, address);
  }

  /** The head of the queue is a waiter of this process, and the holder's lease ends at this server instant. */
  #watchUntil(leaseEnd: number): void {
    this.#leaseEndPushedAt = performance.now();
    const now = this.#commands.clockOf(this.#name).serverMsAt(this.#leaseEndPushedAt);
    if (now === undefined) this.heartbeatNow();
    else this.#watch(Math.max(0, leaseEnd - now), 0);
  }

  #watch(msLeft: number, position: number): void {
    if (this.#waiters.size > 0) this.#timer.watch(msLeft, position);
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
      if (this.#waiters.size > 0) this.#timer.restart();
    }
  }

  async #sendHeartbeat(waiters: readonly Waiter<Resolved, S>[], isFirst: boolean): Promise<void> {
    const sentAt = performance.now();
    try {
      const requests = waiters.map(({ request }) => request);
      const reply = await this.#commands.heartbeat(this.#name, requests);
      this.#timer.answered(true);
      this.#lastFailure = undefined;
      this.#commands.outage.worked(this.#loop);
      let first = Infinity;
      for (const [index, waiter] of waiters.entries()) {
        const state = reply.states[index] ?? "unknown";
        if (typeof state === "number") {
          waiter.seen = reply;
          const waitedMs = waiter.longWaitMs();
          if (waitedMs !== undefined) this.#events.stillWaiting(this.#name, state, reply, waitedMs);
          first = Math.min(first, state);
        } else if (state === "unknown" || !this.#grant(waiter, grantOf(waiter.request, state, sentAt)))
          void this.#requeue(waiter);
      }
      // The newest state of the holder counts, even if it makes the heartbeat later. A push may be newer still.
      if (isFirst && this.#leaseEndPushedAt < sentAt) this.#timer.unwatch();
      if (first < Infinity) this.#watch(reply.msLeft, first);
    } catch (error) {
      this.#timer.answered(false);
      this.#lastFailure = error;
      if (KitError.is(error) && !error.retryable) for (const waiter of waiters) this.#abandon(waiter, error);
      else if (this.#waiters.size > 0) this.#commands.outage.failed(this.#loop, this.#commands.errorOf(error));
    }
  }
}
