import { custom, integer, integerOption, type RulesOf, textOption } from "@kit/core/toolkit";
import { longestWaitMs, milliseconds } from "../job/backoff.js";
import { encodedName } from "../job/names.js";

/** Which dead letters to read. */
export interface DeadLetterOptions {
  /** The last letter of the previous page, even if it was deleted since. */
  readonly before?: { readonly id: string; readonly diedAt: number } | undefined;
  /**
   * How many letters to read, up to 100.
   *
   * @default 10
   */
  readonly count?: number | undefined;
  /** Reads only letters of jobs with this name. */
  readonly job?: string | undefined;
}

export const letterRules = {
  // A dead letter, with all its fields.
  before: custom((name, before: { readonly id: string; readonly diedAt: number }) => {
    integerOption(`${name}.diedAt`, before.diedAt, 0);
    textOption(`${name}.id`, before.id, 160);
    return before;
  }),
  count: integer(1, 100, 10),
  job: custom((_name, job: string) => encodedName(job), ""),
} satisfies RulesOf<DeadLetterOptions>;

/** How dead letters return to the queue. */
export interface RedriveOptions {
  /**
   * The period in which the jobs become due, at random times, in milliseconds.
   *
   * @default 0
   */
  readonly spreadMs?: number | undefined;
}

export const redriveRules = { spreadMs: milliseconds(0, longestWaitMs, 0) } satisfies RulesOf<RedriveOptions>;

/** @throws {TypeError | RangeError} `ids` is not an array of ids. */
export const idsOption = (ids: readonly string[]): readonly string[] => {
  if (!Array.isArray(ids)) throw new TypeError("Expected `ids` to be an array");
  for (const id of ids)
    // A control character would split the list of ids.
    if (/\p{Cc}/u.test(textOption("id", id, 160))) throw new RangeError("Expected `id` to have no control characters");
  return ids;
};
