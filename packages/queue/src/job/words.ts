/**
 * The words that this package and its scripts exchange about a job. Each word has one meaning. The stored header of a job uses letters;
 * operands and replies use whole words.
 */

/** The options in the header of a stored job: a letter, then the value. `entries.lua` repeats the letters that scripts read. */
export const letters = {
  maxAttempts: "a",
  backoff: "b",
  expires: "e",
  /** The job is in a flow. The value has its parents, see `flow.lua`. */
  flow: "f",
  group: "g",
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
  | "answer"
  | "delay"
  | "due"
  | "extend"
  | "front"
  | "group"
  | "ifNew"
  | "key"
  | "priority"
  | "replace"
  | "settles"
  | "ttl";

/** A word of a job in the `plan` of `addFlow.lua` only. */
export type FlowWord = "open" | "root";
/** A word of a job in a slice of `stageFlow.lua` only. */
export type SliceWord = "bytes";

export const planWord = (word: PlanWord | FlowWord | SliceWord, value?: string | number): string =>
  value === undefined ? word : `${word}=${String(value)}`;

export const planned = (word: PlanWord | FlowWord | SliceWord, value?: string | number): string =>
  `\t${planWord(word, value)}`;

/** The flags of a step; see `step.lua`. */
type StepFlag = "announce" | "look" | "time" | "woken";

/** A flag as part of `flags`. */
export const flagged = (flag: StepFlag, isSet: boolean): string => (isSet ? `${flag} ` : "");

export const hasFlag = (flags: string, flag: StepFlag): boolean => flags.includes(flag);
