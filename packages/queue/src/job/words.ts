/**
 * The words in which this package and its scripts write about a job. Each has one meaning; the scripts read and write the same ones.
 * Letters are in what is stored with each job; what only travels has whole words.
 */

/** The options in the header of a stored job, each a letter and its value. `entries.lua` has those that scripts read. */
export const letters = {
  maxAttempts: "a",
  backoff: "b",
  expires: "e",
  /** The key of a job whose key can have a successor. */
  latestKey: "k",
  successor: "n",
  priority: "p",
  replyTo: "r",
  timeoutMs: "t",
  uniqueKey: "u",
  traceparent: "w",
  bytes: "y",
} as const;

/** A word of a job in the `plan` of `add.lua`. `reschedule.lua` takes `delay` and `due` as well. */
export type PlanWord =
  "answer" | "delay" | "due" | "extend" | "front" | "ifNew" | "key" | "priority" | "replace" | "settles" | "ttl";

export const planWord = (word: PlanWord, value?: string | number): string =>
  value === undefined ? word : `${word}=${String(value)}`;

export const planned = (word: PlanWord, value?: string | number): string => `\t${planWord(word, value)}`;

/** What a step is told, see `step.lua`. */
type StepFlag = "announce" | "look" | "time" | "woken";

/** The text of those flags that are true. */
export const flagsOf = (flags: Readonly<Record<StepFlag, boolean>>): string =>
  (Object.keys(flags) as StepFlag[]).filter((flag) => flags[flag]).join(" ");

export const hasFlag = (flags: string, flag: StepFlag): boolean => flags.includes(flag);
