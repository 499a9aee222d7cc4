import type { Folded, Item } from "./entry.js";
import { highlight, type Range } from "./highlight.js";
import type { MatchRules } from "./options.js";

/** One answer to what is being typed. */
export interface Suggestion<Payload = unknown> {
  readonly id: string;
  /** As it was stored. */
  readonly text: string;
  readonly weight: number;
  /** Undefined: it was stored without one. */
  readonly payload: Payload | undefined;
  /** The parts of `text` that match, in UTF-16 units, in order and apart: `text.slice(start, end)`. */
  readonly ranges: readonly Range[];
}

/** What a query gives. */
export interface Suggestions<Payload = unknown> {
  /** The best first. */
  readonly items: readonly Suggestion<Payload>[];
  /** Whether more items match. */
  readonly hasMore: boolean;
  /**
   * Whether better items may have been missed: the prefix is longer than `rankedLength`, very common, and those of a high
   * weight that begin like it mostly go on otherwise. What is given does match.
   */
  readonly truncated: boolean;
}

/** Where a folded query matches. */
export const matchedStarts = ({ fold, starts }: Folded, query: string): number[] =>
  starts.filter((start) => fold.startsWith(query, start));

/** @internal JSON that somebody else wrote there is no reason to fail. */
const parsePayload = <Payload>(payload: string | undefined): Payload | undefined => {
  if (payload === undefined) return undefined;
  try {
    return JSON.parse(payload) as Payload;
  } catch {
    return undefined;
  }
};

/** What a caller gets of an item. */
export const suggestionOf = <Payload>(
  { id, text, weight, payload, fold, starts }: Item,
  query: string,
  rules: MatchRules,
): Suggestion<Payload> => {
  const matched = matchedStarts({ fold, starts }, query);
  const ranges = highlight(text, fold, rules.fold, matched, query);
  return { id, text, weight, payload: parsePayload<Payload>(payload), ranges };
};

interface Placed {
  readonly item: Item;
  readonly isExact: boolean;
  readonly row: Buffer;
}

const placed = (item: Item, query: string): Placed | undefined => {
  const whole = `${query.trimEnd()} `;
  const rows = matchedStarts(item, query).map((start) =>
    Buffer.from(`${item.fold.slice(start)}\0${start === 0 ? "0" : "1"}${item.id}`),
  );
  const [row] = rows.toSorted((one, two) => one.compare(two));
  return row && { item, isExact: item.fold === whole, row };
};

/** The items that match, in the order in which a server would give them. */
export const select = (items: readonly Item[], query: string, isRanked: boolean): Item[] =>
  items
    .flatMap((item) => placed(item, query) ?? [])
    .toSorted((one, two) => {
      if (isRanked && one.isExact !== two.isExact) return one.isExact ? -1 : 1;
      const byWeight = isRanked ? two.item.weight - one.item.weight : 0;
      return byWeight === 0 ? one.row.compare(two.row) : byWeight;
    })
    .map(({ item }) => item);
