/** A read/write lock without Redis: every rule in its plainest form, and nothing else. */

export type Mode = "read" | "write";

interface Waiter {
  readonly who: string;
  readonly mode: Mode;
  /** Messages to it reach nobody. */
  isUnreachable: boolean;
  /** It was asked for a heartbeat, and has sent none. */
  isSilent: boolean;
  /** It has not sent a heartbeat for long. */
  isDead: boolean;
}

interface Held {
  mode: Mode;
  isOver: boolean;
}

export class Model {
  readonly held: Map<string, Held> = new Map();
  waiters: Waiter[] = [];

  acquire(who: string, mode: Mode, isUnreachable: boolean, isTry: boolean): "granted" | "queued" | "held" {
    if (this.isHeldBy(who)) return "granted";
    const isBlocked = this.#walk([who]);
    if (this.isHeldBy(who)) return "granted";
    const known = this.waiters.find((waiter) => waiter.who === who);
    if (!isBlocked && this.#permits(mode)) {
      this.#hold(who, mode);
      return "granted";
    }
    if (isTry) return "held";
    const state = { isUnreachable, isSilent: false, isDead: false };
    if (known) Object.assign(known, state);
    else this.waiters.push({ who, mode, ...state });
    return "queued";
  }

  release(who: string): "released" | "left" | "not-held" {
    const wasHeld = this.isHeldBy(who);
    const wasThere = this.held.delete(who);
    const waits = !wasThere && this.leave(who);
    if (wasThere || waits) this.#walk([]);
    return wasHeld ? "released" : waits ? "left" : "not-held";
  }

  heartbeat(whom: readonly string[], isUnreachable: boolean): (number | "granted" | "unknown")[] {
    this.#walk(whom);
    for (const waiter of this.waiters)
      if (whom.includes(waiter.who)) Object.assign(waiter, { isUnreachable, isSilent: false, isDead: false });
    return whom.map((who) => {
      const position = this.waiters.findIndex((waiter) => waiter.who === who);
      return this.isHeldBy(who) ? "granted" : position >= 0 ? position : "unknown";
    });
  }

  downgrade(who: string): boolean {
    const held = this.held.get(who);
    if (!held || held.isOver) return false;
    if (held.mode === "read") return true;
    held.mode = "read";
    this.#walk([]);
    return true;
  }

  upgrade(who: string): "upgraded" | "shared" | "gone" {
    const held = this.held.get(who);
    if (!held || held.isOver) return "gone";
    if (held.mode === "read" && this.living.length > 1) return "shared";
    held.mode = "write";
    return "upgraded";
  }

  isHeldBy(who: string): boolean {
    return this.held.get(who)?.isOver === false;
  }

  /** Those whose leases have not ended. */
  get living(): string[] {
    return [...this.held].flatMap(([who, { isOver }]) => (isOver ? [] : [who]));
  }

  leave(who: string): boolean {
    const before = this.waiters.length;
    this.waiters = this.waiters.filter((waiter) => waiter.who !== who);
    return this.waiters.length < before;
  }

  #permits(mode: Mode): boolean {
    const modes = this.living.map((who) => this.held.get(who)?.mode);
    return modes.length === 0 || (mode === "read" && !modes.includes("write"));
  }

  #hold(who: string, mode: Mode): void {
    this.leave(who);
    this.held.set(who, { mode, isOver: false });
  }

  /** Grants in order; returns whether a living waiter must wait. */
  #walk(present: readonly string[]): boolean {
    for (const { who, mode, isUnreachable, isSilent, isDead } of [...this.waiters]) {
      const isPresent = present.includes(who);
      if (isDead && !isPresent) this.leave(who);
      else if (isSilent && !isPresent) continue;
      else if (!this.#permits(mode)) return true;
      else if (isPresent || !isUnreachable) this.#hold(who, mode);
    }
    return false;
  }
}
