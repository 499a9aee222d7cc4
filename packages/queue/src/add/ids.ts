import { randomInt } from "node:crypto";
import { textOption } from "@kit/core/toolkit";

const alphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/** Random letters and digits. */
export const randomText = (length: number): string =>
  Array.from({ length }, () => alphabet[randomInt(alphabet.length)]).join("");

/** A count of fixed width in base 36, so that the texts sort like the numbers. */
export const counted = (count: number, width: number): string => count.toString(36).padStart(width, "0");

/** Ids of one producer: at most four digits of base 36, so that each id has 14 characters. */
const idsPerProducer = 36 ** 4;

const madeId = /^[0-9A-Za-z]{9}\.[0-9a-z]{4}$/;

/**
 * Checks the text of an id or key of a caller.
 *
 * @throws {TypeError | RangeError} it is not what it should be.
 */
export const idText = (name: string, id: string): string => {
  if (/[\p{Cc}\p{Surrogate}]/u.test(textOption(name, id, 128)))
    throw new RangeError(`Expected \`${name}\` without control characters and lone surrogates`);
  return id;
};

/** Whether a producer made the id; such ids are never reused. A caller's own id must not look like one. */
export const isMade = (id: string): boolean => madeId.test(id);

/**
 * Checks an id that a caller gives a job: every door that stores one calls this. One that begins with `!` would read as an entry.
 *
 * @throws {TypeError | RangeError} it is not what it should be.
 */
export const ownId = (name: string, id: string): string => {
  if (isMade(idText(name, id)) || id.startsWith("!"))
    throw new RangeError(`Expected \`${name}\` not to begin with \`!\` or look like a generated id`);
  return id;
};

/**
 * Makes the ids of jobs, and numbers the calls that add them. A producer's name has nine random characters, 53 bits: among a million
 * producers two have the same name with a probability of 1 in 18,000.
 */
export class IdSource {
  producer: string = randomText(9);
  /** Whether the last call was the first of this producer, or the first in an hour. */
  isNew = true;
  #shownAt = -Infinity;
  #made = 0;
  #sequence = 0;

  /** Makes this many ids, all of one producer. */
  take(count: number): string[] {
    if (this.#made + count > idsPerProducer) this.retire();
    return Array.from({ length: count }, () => `${this.producer}.${counted(this.#made++, 4)}`);
  }

  /** The number of the next call: about `now`, so that the oldest producers sort first. */
  nextSequence(now: number): number {
    this.isNew = now - this.#shownAt > 3_600_000;
    if (this.isNew) this.#shownAt = now;
    this.#sequence = Math.max(this.#sequence + 1, now);
    return this.#sequence;
  }

  /** Continues under a new name, since the outcome of the last call is unknown. */
  retire(): void {
    this.producer = randomText(9);
    this.#made = 0;
    this.#sequence = 0;
    this.#shownAt = -Infinity;
  }
}

/** The id and priority of an entry: the id alone, or `!priority!id`. */
export const partsOf = (entry: string): { readonly id: string; readonly priority: number } => {
  const [, priority, id] = /^!(-?\d+)!(.*)$/s.exec(entry) ?? [];
  return id === undefined ? { id: entry, priority: 0 } : { id, priority: Number(priority) };
};
