import { randomInt } from "node:crypto";
import { textOption } from "@kit/core/toolkit";

const alphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/** Random letters and digits. */
export const randomText = (length: number): string =>
  Array.from({ length }, () => alphabet[randomInt(alphabet.length)]).join("");

/** A count of fixed width in base 36, so that the texts sort like the numbers. */
export const counted = (count: number, width: number): string => count.toString(36).padStart(width, "0");

/** Ids per producer: at most four digits in base 36, so that each id has 14 characters. */
const idsPerProducer = 36 ** 4;

const madeId = /^[0-9A-Za-z]{9}\.[0-9a-z]{4}$/;

/**
 * Checks the text of a caller's id or key.
 *
 * @throws {TypeError | RangeError} the text is invalid.
 */
export const idText = (name: string, id: string): string => {
  if (/[\p{Cc}\p{Surrogate}]/u.test(textOption(name, id, 128)))
    throw new RangeError(`Expected \`${name}\` to have no control characters or lone surrogates`);
  return id;
};

/** Whether a producer generated the id. Generated ids are never reused. A caller's id must not look like one. */
export const isMade = (id: string): boolean => madeId.test(id);

/**
 * Checks the id that a caller gives a job. Every function that stores such an id calls this. An id that starts with `!` would read as an
 * entry.
 *
 * @throws {TypeError | RangeError} the id is invalid.
 */
export const ownId = (name: string, id: string): string => {
  if (isMade(idText(name, id)) || id.startsWith("!"))
    throw new RangeError(`Expected \`${name}\` not to start with \`!\` or look like a generated id`);
  return id;
};

/**
 * Generates job ids, and numbers the calls that add jobs. A producer's name has nine random characters, or 53 bits. Among a million
 * producers the probability that two have the same name is 1 in 18,000.
 */
export class IdSource {
  producer: string = randomText(9);
  /** Whether the last call was this producer's first call, or its first in an hour. */
  isNew = true;
  #shownAt = -Infinity;
  #made = 0;
  #sequence = 0;

  /** Generates this many ids, all of one producer. */
  take(count: number): string[] {
    if (this.#made + count > idsPerProducer) this.retire();
    const ids: string[] = [];
    while (ids.length < count) ids.push(`${this.producer}.${counted(this.#made++, 4)}`);
    return ids;
  }

  /** The number of the next call: about `now`, so that the oldest producers sort first. */
  nextSequence(now: number): number {
    this.isNew = now - this.#shownAt > 3_600_000;
    if (this.isNew) this.#shownAt = now;
    this.#sequence = Math.max(this.#sequence + 1, now);
    return this.#sequence;
  }

  /** Continues under a new name, because the outcome of the last call is unknown. */
  retire(): void {
    this.producer = randomText(9);
    this.#made = 0;
    this.#sequence = 0;
    this.#shownAt = -Infinity;
  }
}

/** The id and priority of an entry: the id alone, `!priority!id`, or `!priority@group!id`. */
export const partsOf = (entry: string): { readonly id: string; readonly priority: number } => {
  const [, priority, id] = /^!(-?\d+)(?:@[^!]+)?!(.*)$/s.exec(entry) ?? [];
  return id === undefined ? { id: entry, priority: 0 } : { id, priority: Number(priority) };
};
