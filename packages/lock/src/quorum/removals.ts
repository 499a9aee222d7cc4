import { KitError } from "@kit/core";
import { backoffMs, type ObjectLife, pause } from "@kit/core/toolkit";
import type { LeaseRequest, ResolvedAcquire } from "@kit/core/leasing";
import type { QuorumServer } from "./server.js";

type Request = LeaseRequest<ResolvedAcquire>;

interface Left {
  readonly request: Request;
  /** When the lease there expires, on our monotonic clock. */
  readonly endsAt: number;
}

/** The maximum number of leases left on a server. Beyond it, the oldest are left to expire. */
const mostLeft = 1_000;
/** How many leases are removed together, after one removal shows that the server answers. */
const batchSize = 100;
const basePauseMs = 50;
const longestPauseMs = 1_000;

/** The leases without a holder that one server may still have. They are removed in the background until it answers, or they have ended. */
export class Removals {
  readonly #server: QuorumServer;
  readonly #life: ObjectLife;
  readonly #deadlineMs: number;
  /** The leases whose removal has failed, or must wait for the server. By token, the oldest first. */
  readonly #left = new Map<string, Left>();

  constructor(server: QuorumServer, life: ObjectLife, deadlineMs: number) {
    this.#server = server;
    this.#life = life;
    this.#deadlineMs = deadlineMs;
  }

  /** Removes a lease that lasts at most `leaseMs` more. Never rejects: on a server without an answer the lease expires. */
  add(request: Request, leaseMs: number): void {
    if (this.#server.context.executor.isEnded) return;
    const one = { request, endsAt: performance.now() + leaseMs };
    if (this.#left.size > 0 || this.#server.isAway) this.#keep(one);
    else void this.#life.track(this.#remove(one).then((isDone) => void (isDone || this.#keep(one))));
  }

  #keep(one: Left): void {
    const isIdle = this.#left.size === 0;
    this.#left.set(one.request.token, one);
    const [oldest] = this.#left.keys();
    if (this.#left.size > mostLeft && oldest !== undefined) this.#left.delete(oldest);
    if (isIdle) void this.#life.track(this.#removeLeft());
  }

  async #removeLeft(): Promise<void> {
    const { signal } = this.#life;
    for (let failures = 1; this.#left.size > 0;) {
      const batch = [...this.#left.values()].slice(0, failures > 0 ? 1 : batchSize);
      const done = await Promise.all(batch.map((one) => this.#remove(one)));
      for (const [index, { request }] of batch.entries()) if (done[index]) this.#left.delete(request.token);
      failures = done.includes(false) ? failures + 1 : 0;
      if (failures > 0) await pause(backoffMs(failures, basePauseMs, longestPauseMs), signal).catch(() => undefined);
    }
  }

  /** Whether there is nothing more to do for the lease. */
  async #remove({ request, endsAt }: Left): Promise<boolean> {
    const { signal } = this.#life;
    if (performance.now() >= endsAt || signal.aborted) return true;
    try {
      await this.#server.remove(request, this.#deadlineMs, signal);
      return true;
    } catch (error) {
      return !(KitError.is(error) && error.retryable);
    }
  }
}
