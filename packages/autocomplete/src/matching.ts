import { type Folded, isUnsearchable, type Item } from "./entry.js";
import { highlight, type Range } from "./highlight.js";
import { foldPrefix, type FoldOptions } from "./fold/index.js";
import type { MatchRules, WordOrder } from "./options.js";
import { inWord, joinedMark } from "./words.js";

/** One answer to what is being typed. */
export interface Suggestion<Payload = unknown> {
  readonly id: string;
  /** The text as it was stored. */
  readonly text: string;
  readonly weight: number;
  /** The payload; undefined if it was stored without one. */
  readonly payload: Payload | undefined;
  /** The parts of `text` that match, in UTF-16 units, in order and without overlap: `text.slice(start, end)`. */
  readonly ranges: readonly Range[];
}

/** The answer to a query. */
export interface Suggestions<Payload = unknown> {
  /** The matching items, the best first. */
  readonly items: readonly Suggestion<Payload>[];
  /** Whether more items match. */
  readonly hasMore: boolean;
  /**
   * Whether better items may have been missed. All returned items match. Items can be missed
   *
   * - by weight, if the prefix is longer than `rankedLength` and very common, and most heavy items with the same first characters
   *   continue differently
   * - in alphabetical order, if few names start with the query, and very many later words do
   * - with `words: "any-order"`, if the rarest word is very common
   * - with `typos`, if not all beginnings of names were searched
   */
  readonly truncated: boolean;
}

/** A part of a query. A matching name has a word that starts with it. If it `isWhole`, the word ends with it as well. */
interface QueryPart {
  readonly text: string;
  /** Without the space at its end, which is matched but not highlighted. */
  readonly length: number;
  readonly isWhole: boolean;
}

/** A folded query. */
export interface Query {
  readonly text: string;
  /** A name matches all of them. In order, the whole query is the only one. */
  readonly parts: readonly QueryPart[];
}

/** An item, and the text by which it was found if that is not the typed one. */
export interface FoundItem extends Item {
  readonly foundBy?: Query | undefined;
}

/** The first part is whole only with words in any order: a query of a single half-typed word is matched in order. */
export const queryOf = (text: string, words: WordOrder): Query => {
  const partOf = (part: string, isWhole: boolean): QueryPart => ({
    text: part,
    length: part.trimEnd().length,
    isWhole,
  });
  if (words === "in-order" || !text.includes(" ")) return { text, parts: [partOf(text, false)] };
  const typed = text.split(" ");
  const last = typed.pop() ?? "";
  const parts = [...new Set(typed)].map((word) => partOf(word, true));
  return { text, parts: last === "" ? parts : [...parts, partOf(last, false)] };
};

/** A character that continues a word in a folded text. */
const goesOn = /[a-z0-9\u0080-\uffff]/;

/** Where a part of a query matches. */
const startsOf = ({ fold, starts }: Folded, { text, isWhole }: QueryPart): number[] =>
  starts.filter((start) => fold.startsWith(text, start) && !(isWhole && goesOn.test(fold.charAt(start + text.length))));

/** Whether a text matches all parts of a query. */
export const isMatch = (folded: Folded, { parts }: Query): boolean =>
  parts.every((part) => startsOf(folded, part).length > 0);

/** Invalid JSON, written by another program, is no reason to fail. */
const parsePayload = <Payload>(payload: string | undefined): Payload | undefined => {
  if (payload === undefined) return undefined;
  try {
    return JSON.parse(payload) as Payload;
  } catch {
    return undefined;
  }
};

/** An item as a caller gets it. */
export const suggestionOf = <Payload>(
  { id, text, weight, payload, fold, starts, foundBy }: FoundItem,
  query: Query,
  rules: MatchRules,
): Suggestion<Payload> => {
  const matched: Range[] = [];
  for (const part of (foundBy ?? query).parts)
    if (part.length > 0)
      for (const start of startsOf({ fold, starts }, part)) matched.push([start, start + part.length]);
  const ranges = highlight(text, fold, rules.fold, matched);
  return { id, text, weight, payload: parsePayload<Payload>(payload), ranges };
};

interface Placed {
  readonly item: Item;
  readonly isExact: boolean;
  /** By weight: the row that matched. In alphabetical order: the name, preceded by whether it starts with the query. */
  readonly row: Buffer;
}

const placed = (item: Item, query: Query, isRanked: boolean): Placed | undefined => {
  if (!isMatch(item, query)) return undefined;
  const [first] = query.parts;
  // Ordered by the part that matched; by the whole name if several words match.
  const starts = first && query.parts.length === 1 ? startsOf(item, first) : [0];
  const rows = starts.map((start) => Buffer.from(`${item.fold.slice(start)}\0${start === 0 ? "0" : "1"}${item.id}`));
  const [row] = rows.toSorted((one, two) => one.compare(two));
  const isExact = item.fold.split(joinedMark, 1)[0] === `${query.text.trimEnd()} `;
  const name = Buffer.from(`${starts.includes(0) ? "0" : "1"}${item.fold}\0${item.id}`);
  return row && { item, isExact, row: isRanked ? row : name };
};

/** A text with its accents and punctuation, in one spelling of each: what folding removes. */
const typedForm = (text: string, options: FoldOptions): string =>
  foldPrefix(text, { ...options, marks: "keep" }, false)
    .replace(/[\u2018\u2019\u02bb\u02bc]/g, "'")
    .replace(/\p{Pd}|\u2212/gu, "-")
    .replace(/\s+/g, " ")
    .trim();

/** Whether a query has accents or punctuation that folding removes. */
export const isSpecific = (query: string, options: FoldOptions): boolean =>
  /[^a-z0-9 ]/i.test(query) &&
  !isUnsearchable(query) &&
  typedForm(query, options) !== foldPrefix(query, options).trimEnd();

/** Moves the items with the accents and punctuation of a query to the front; both parts keep their order. */
export const asTyped = <Found extends { readonly text: string }>(
  items: readonly Found[],
  query: string,
  { fold }: MatchRules,
): readonly Found[] => {
  if (!isSpecific(query, fold)) return items;
  const typed = typedForm(query, fold);
  const isTyped = ({ text }: Found): boolean => {
    const form = typedForm(text, fold);
    for (let at = form.indexOf(typed); at >= 0; at = form.indexOf(typed, at + 1))
      if (at === 0 || !inWord.test(form[at - 1]!)) return true;
    return false;
  };
  return [true, false].flatMap((wanted) => items.filter((item) => isTyped(item) === wanted));
};

/** The items that match, in the order in which a server would give them. */
export const select = (items: readonly Item[], query: Query, isRanked: boolean): Item[] =>
  items
    .flatMap((item) => placed(item, query, isRanked) ?? [])
    .toSorted((one, two) => {
      if (isRanked && one.isExact !== two.isExact) return one.isExact ? -1 : 1;
      return (isRanked && two.item.weight - one.item.weight) || one.row.compare(two.row);
    })
    .map(({ item }) => item);
