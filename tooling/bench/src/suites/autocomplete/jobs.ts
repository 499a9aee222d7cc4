import { now } from "@tooling/lab";
import { sent } from "../../sent.js";
import type { Jobs, OpenJobs } from "../../suite.js";
import { type AutocompleteSetup, type Caller, openAutocompleteImplementation } from "./implementations.js";
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
  readonly ms: number;
}

export interface SearchResult {
  readonly suggestions: number;
  readonly elapsedMs: number;
  readonly sent: number;
  /** Milliseconds of each call. */
  readonly waits: Float64Array;
}

export interface TypeTask extends NamesTask {
  readonly boxes: number;
  readonly keystrokes: number;
}

export const jobs: OpenJobs = async ({ implementation, url, setup }) => {
  const completer = await openAutocompleteImplementation(implementation, url, setup as AutocompleteSetup);
  const callers: Caller[] = [];
  return {
    ready: () => Promise.resolve(),

    load: ({ names, words, from = 0 }: NamesTask) => completer.load(namesOf(names, words).slice(from)),

    /** Resolves with the names per second. */
    rebuild: async ({ names, words }: NamesTask): Promise<number> => {
      if (!completer.rebuild) throw new Error("the implementation has no rebuild");
      const all = namesOf(names, words);
      const startedAt = now();
      await completer.rebuild(all);
      return (names * 1_000) / (now() - startedAt);
    },

    search: async (task: SearchTask): Promise<SearchResult> => {
      const queries = queriesOf(namesOf(task.names, task.words), task.shortest, task.longest);
      while (callers.length < task.callers) callers.push(await completer.caller());
      const waits: number[] = [];
      const before = sent();
      const startedAt = now();
      const end = startedAt + task.ms;
      const search = async ({ suggest }: Caller, first: number): Promise<void> => {
        for (let turn = first; now() < end; turn += task.callers) {
          const query = queries[turn % queries.length] as string;
          const askedAt = now();
          const [best] = await suggest(query);
          waits.push(now() - askedAt);
          // The query is part of a name, so at least one name matches.
          if (!best || !` ${best.text}`.includes(` ${query}`))
            throw new Error("the best suggestion is missing or does not match");
        }
      };
      await Promise.all(callers.slice(0, task.callers).map(search));
      const elapsedMs = now() - startedAt;
      return { suggestions: waits.length, elapsedMs, sent: sent() - before, waits: Float64Array.from(waits) };
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
  } satisfies Jobs;
};
