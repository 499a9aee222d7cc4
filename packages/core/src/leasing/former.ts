import { aliveMs } from "./commands.js";
import type { Place } from "./waiting.js";

/** The oldest are forgotten early where so many are left at once. */
const mostRecent = 10_000;

/**
 * Places that were left, for as long as they may be in the queue again: a server that comes back without its last writes grants
 * to them, one after another, and each grant that nobody takes would last its full length.
 */
export class FormerPlaces {
  #recent = new Map<string, Place>();
  #older = new Map<string, Place>();
  #timer: NodeJS.Timeout | undefined;

  add(place: Place): void {
    this.#recent.set(place.token, place);
    if (this.#recent.size >= mostRecent) this.#age();
    this.#timer ??= this.#arm();
  }

  /** Somebody else has it now. */
  forget(token: string): void {
    for (const places of [this.#recent, this.#older]) {
      places.get(token)?.leave();
      places.delete(token);
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
    for (const place of this.#older.values()) place.leave();
    this.#older = this.#recent;
    this.#recent = new Map();
  }
}
