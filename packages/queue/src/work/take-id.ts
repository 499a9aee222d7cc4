import { counted, randomText } from "../add/ids.js";

/** The length of a take id, in front of each member of `leases`: seven characters of its worker, and its number in five. */
export const takeIdWidth = 12;
export const workerWidth = 7;
const mostNumbers = 36 ** (takeIdWidth - workerWidth);

/** How many takes of a worker the server can record: two calls may be under way, and one wait. */
const slots = 3;

/** The slot under which a take is recorded. */
export const slotOf = (takeId: string): number => Number.parseInt(takeId.slice(workerWidth), 36) % slots;

/**
 * Makes the ids of one worker's takes. The server keeps the last take of each slot. So a slot is used again only when the worker has
 * the reply, or the server has undone the take.
 */
export class TakeIdSource {
  #worker = randomText(workerWidth);
  #count = 0;
  /** The ids of takes that are not settled, by slot. */
  readonly #used: (string | undefined)[] = Array.from({ length: slots }, () => undefined);

  get hasFree(): boolean {
    return this.#used.includes(undefined);
  }

  /** A take id in a free slot; if no slot is free, an id for a call that takes nothing. */
  take(): string {
    const slot = this.#used.indexOf(undefined);
    if (slot < 0) return this.#idOf(0);
    // In one slot numbers must grow, so that the server recognises a late repeat of an earlier take.
    if ((++this.#count + 1) * slots > mostNumbers) {
      this.#worker = randomText(workerWidth);
      this.#count = 1;
    }
    const takeId = this.#idOf(this.#count * slots + slot);
    this.#used[slot] = takeId;
    return takeId;
  }

  free(takeId: string): void {
    const slot = this.#used.indexOf(takeId);
    if (slot >= 0) this.#used[slot] = undefined;
  }

  #idOf(number: number): string {
    return this.#worker + counted(number, takeIdWidth - workerWidth);
  }
}
