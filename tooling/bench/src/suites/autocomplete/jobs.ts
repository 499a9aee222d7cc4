import { now } from "@tooling/lab";
import { sent } from "../../sent.js";
import type { Operation } from "../../operation.js";
import type { OpenJobs } from "../../suite.js";
import { type Caller, implementations } from "./implementations.js";
import { namesOf, queriesOf } from "./names.js";

/** The names of a case. */
export interface NamesTask {
  readonly names: number;
  readonly words: number;
  /** Index of the first name. @default 0 */
  readonly from?: number;
}

export interface SearchTask extends NamesTask {
  readonly callers: number;
  readonly shortest: number;
  readonly longest: number;
}

export interface TypeTask extends NamesTask {
  readonly boxes: number;
  readonly keystrokes: number;
}

export const jobs: OpenJobs = async (opening) => {
  const completer = await implementations.open(opening);
  const callers: Caller[] = [];
  return {
    load: ({ names, words, from = 0 }: NamesTask) => completer.load(namesOf(names, words).slice(from)),

    /** Resolves with the names per second. */
    rebuild: async ({ names, words }: NamesTask): Promise<number> => {
      if (!completer.rebuild) throw new Error("the implementation has no rebuild");
      const all = namesOf(names, words);
      const startedAt = now();
      await completer.rebuild(all);
      return (names * 1_000) / (now() - startedAt);
    },

    operation: async ({ names, words, shortest, longest, callers: count }: SearchTask): Promise<Operation> => {
      const queries = queriesOf(namesOf(names, words), shortest, longest);
      while (callers.length < count) callers.push(await completer.caller());
      const call = async (caller: number, number: number): Promise<void> => {
        const query = queries[(caller + number * count) % queries.length] as string;
        const [best] = (await callers[caller]?.suggest(query)) ?? [];
        // The query is part of a name, so at least one name matches.
        if (!best || !` ${best.text}`.includes(` ${query}`))
          throw new Error("the best suggestion is missing or does not match");
      };
      return { callers: count, call, isTimed: true };
    },

    /** Types the first characters of names into search boxes. Resolves with the commands that each box sent. */
    type: async ({ names, words, boxes, keystrokes }: TypeTask): Promise<readonly number[]> => {
      const each: number[] = [];
      for (const text of queriesOf(namesOf(names, words), keystrokes, keystrokes, boxes)) {
        const type = completer.box();
        const before = sent();
        for (let length = 1; length <= keystrokes; length++) await type(text.slice(0, length));
        each.push(sent() - before);
      }
      return each;
    },
  };
};
