import type { Lock, LockInspection } from "@kit/lock";

const shown = 12;
const recentMs = 4_000;

export interface HeldLock {
  readonly name: string;
  readonly state: LockInspection;
}

/**
 * The locks that this process acquired lately. A sale holds one for milliseconds, so each is shown for another 4 s.
 */
export class HeldLocks {
  readonly #lock: Lock;
  /** Name → when it was released, or null while it is held. */
  readonly #names = new Map<string, number | null>();

  constructor(lock: Lock) {
    this.#lock = lock;
    lock.on("acquired", ({ name }) => {
      this.#names.delete(name);
      this.#names.set(name, null);
      if (this.#names.size > 200) this.#forget();
    });
    const over = ({ name }: { name: string }): void => void this.#names.set(name, performance.now());
    lock.on("released", over);
    lock.on("lost", over);
  }

  /** The state of each, read from the server, most recently acquired first. */
  async look(): Promise<HeldLock[]> {
    this.#forget();
    const names = [...this.#names.keys()].reverse().slice(0, shown);
    return await Promise.all(names.map(async (name) => ({ name, state: await this.#lock.inspect(name) })));
  }

  #forget(): void {
    const now = performance.now();
    for (const [name, endedAt] of this.#names)
      if (endedAt !== null && now - endedAt > recentMs) this.#names.delete(name);
  }
}
