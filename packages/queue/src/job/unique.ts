import { boolean, choice, custom, required, resolve, type Resolved, type RulesOf } from "@kit/core/toolkit";
import { milliseconds } from "./backoff.js";
import { idText } from "./ids.js";
import { letters, planned } from "./words.js";

/**
 * Allows only one job per key in a queue. A job has the key until it is done, dead, removed or expired. It keeps the key while it waits for
 * its next attempt, or runs again after a crash.
 */
export interface Unique {
  /** The key, 1 to 128 characters. Jobs with the same key represent the same work. */
  readonly key: string;
  /**
   * Which add wins.
   *
   * - `"keepFirst"`: while a job has the key, no other job with this key is added.
   * - `"keepLast"`: if the job with the key has not started, it gets the data and the options of this add, but keeps its priority and
   *   group. If it is delayed, it also gets the add's due time. If the job with the key is active, this add creates a second job, which
   *   starts after the active job has ended. So a job with the latest data always starts after the last add.
   *
   * Use one mode per key: while a job that was added with `"keepFirst"` is active, neither mode adds another.
   *
   * @default "keepFirst"
   */
  readonly mode?: "keepFirst" | "keepLast" | undefined;
  /**
   * How long the key stays taken after its job was added, in milliseconds, even if the job is done or removed earlier. A dead letter frees
   * the key. Only with `"keepFirst"`.
   *
   * @default none
   */
  readonly ttlMs?: number | undefined;
  /**
   * Whether an add restarts `ttlMs` if the key is taken and it adds no job.
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

/** @throws {TypeError | RangeError} an option is invalid, or can't be combined with the mode. */
export const uniqueOption = (name: string, given: Unique): ResolvedUnique => {
  const unique = resolve(name, given, uniqueRules, undefined, `${name}.`);
  if (unique.ttlMs === undefined ? unique.extend : unique.mode === "keepLast")
    throw new TypeError(
      `Expected \`${name}\` to set \`ttlMs\` only with mode "keepFirst", and \`extend\` only with \`ttlMs\``,
    );
  return unique;
};

/** The words of a key in the `plan` of `add.lua`. */
export const uniqueWords = ({ key, mode, ttlMs, extend }: ResolvedUnique): string =>
  planned("answer", "quick") +
  planned("key", key) +
  (mode === "keepLast" ? planned("replace") : "") +
  (ttlMs === undefined ? "" : planned("ttl", ttlMs)) +
  (extend ? planned("extend") : "");

/** The word of a key in its job's header. */
export const keyWordOf = ({ key, mode }: ResolvedUnique): string =>
  `${mode === "keepLast" ? letters.latestKey : letters.uniqueKey}${encodeURIComponent(key)}`;
