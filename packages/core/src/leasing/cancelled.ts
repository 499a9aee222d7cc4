import { aliveMs } from "./kind.js";
import type { Subscription } from "./subscription.js";

/** The limit at which old entries are dropped early, if many waiters leave in a short time. */
const mostRecent = 10_000;

/**
 * Waiters that left recently, which a failover may bring back. A server that has lost its last writes grants to such waiters one
 * after another, and a grant that is not released lasts its full length.
 */
export class CancelledWaiters {
  #recent = new Map<string, Subscription>();
  #older = new Map<string, Subscription>();
  #timer: NodeJS.Timeout | undefined;

  add(subscription: Subscription): void {
    this.#recent.set(subscription.token, subscription);
    if (this.#recent.size >= mostRecent) this.#age();
    this.#timer ??= this.#arm();
  }

  /** The token now belongs to another object. A grant to it must not be released here. */
  forget(token: string): void {
    for (const subscriptions of [this.#recent, this.#older]) {
      subscriptions.get(token)?.end();
      subscriptions.delete(token);
    }
  }

  close(): void {
    clearTimeout(this.#timer);
    this.#age();
    this.#age();
  }

  #arm(): NodeJS.Timeout {
    const timer = setTimeout(() => {
      this.#age();
      this.#timer = this.#older.size === 0 ? undefined : this.#arm();
    }, aliveMs);
    return timer.unref();
  }

  #age(): void {
    for (const subscription of this.#older.values()) subscription.end();
    this.#older = this.#recent;
    this.#recent = new Map();
  }
}
