import { boolean, choice, custom, required, resolve, type Resolved, type RulesOf } from "@kit/core/toolkit";
import { milliseconds } from "./backoff.js";
import { idText } from "./ids.js";

/**
 * How many jobs of one key a queue has. A job has the key until it is done, dead, removed or expired, and while it waits for a next attempt
 * or runs again after a crash.
 */
export interface Unique {
  /** The key, 1 to 128 characters. Jobs of the same key stand for the same work. */
  readonly key: string;
  /**
   * The add that wins. `"keepFirst"`: while there is a job of the key, others are not added. `"keepLast"`: a job of the key that has not
   * begun gets the data and the options of this add, and a delayed one also its due time; if the job of the key is active, this one is added
   * and begins when that has ended. So a job with the latest data begins after the last add. Use one mode for a key: while a job that was
   * added with `"keepFirst"` is active, neither mode adds another.
   *
   * @default "keepFirst"
   */
  readonly mode?: "keepFirst" | "keepLast" | undefined;
  /**
   * How long the key also stays taken after its job was added, even if the job is done or removed before; a dead letter frees it. In
   * milliseconds, only with `"keepFirst"`.
   *
   * @default none
   */
  readonly ttlMs?: number | undefined;
  /**
   * Adds that are refused begin `ttlMs` anew.
   *
   * @default false
   */
  readonly extend?: boolean | undefined;
}

const uniqueRules = {
  key: required(custom(idText)),
  mode: choice(["keepFirst", "keepLast"], "keepFirst"),
  ttlMs: milliseconds(1, 1e12),
  extend: boolean(false),
} satisfies RulesOf<Unique>;

export type ResolvedUnique = Resolved<typeof uniqueRules>;

/** @throws {TypeError | RangeError} an option is not what it should be, or does not go with the mode. */
export const uniqueOption = (name: string, given: Unique): ResolvedUnique => {
  const unique = resolve(name, given, uniqueRules, undefined, `${name}.`);
  if (unique.ttlMs === undefined ? unique.extend : unique.mode === "keepLast")
    throw new TypeError(
      `Expected \`${name}\` to have \`ttlMs\` only with "keepFirst", and \`extend\` only with \`ttlMs\``,
    );
  return unique;
};

/** The words of `plan` of `add.lua`. */
export const uniqueWords = ({ key, mode, ttlMs, extend }: ResolvedUnique): string =>
  `\t?-\tk${key}${mode === "keepLast" ? "\tr" : ""}${ttlMs === undefined ? "" : `\tw${String(ttlMs)}`}${extend ? "\te" : ""}`;

/** The word of a key in the header of its job. */
export const keyWordOf = ({ key, mode }: ResolvedUnique): string =>
  `${mode === "keepLast" ? "k" : "u"}${encodeURIComponent(key)}`;
