import data from "./categories.json" with { type: "json" };
import type { Random } from "./random.js";

type Span = readonly [lowest: number, highest: number];

interface Category {
  readonly id: string;
  readonly name: string;
  readonly guild: string;
  readonly pounds: Span;
  readonly years?: Span;
  /** Each `{word}` is one of the next list of `words`, and `{year}` is one of `years`. */
  readonly title: string;
  /** Lists of words, divided by commas. */
  readonly words: readonly string[];
}

export const categories = data as unknown as readonly [Category, ...Category[]];

/** A title of a thing of this category. */
export const titleOf = ({ title, words, years: [from, to] = [0, 0] }: Category, chance: Random): string => {
  const lists = words.values();
  const word = (): string => chance.pick((lists.next().value ?? "").split(", ") as [string, ...string[]]);
  return title.replaceAll(/\{word\}|\{year\}/g, (part) =>
    part === "{word}" ? word() : String(chance.between(from, to)),
  );
};
