import {
  boolean,
  choice,
  clientRules,
  type ClientOptions,
  custom,
  integer,
  integerOption,
  matching,
  newToken,
  nullable,
  resolve,
  type Resolved,
  type RulesOf,
  signal,
  text,
  textOption,
} from "@kit/core/toolkit";
import { type FoldOptions, foldVersion } from "./fold/index.js";
import type { Match } from "./words.js";

export const mostWeight = 9_999_999_999_999;
/** The most items in one answer. */
export const mostItems = 200;
const dayMs = 86_400_000;

/** Rules by which a query matches a text. */
interface MatchOptions extends FoldOptions {
  /**
   * Where a query can match. `"word-start"`: from the start of any word of a text, across the following words. `"phrase"`: only from
   * the beginning of the text. `"phrase"` uses a fraction of the memory for names of several words.
   *
   * @default "word-start"
   */
  readonly match?: Match | undefined;
}

const matchRules = {
  match: choice(["phrase", "word-start"], "word-start"),
  marks: choice(["fold", "keep"], "fold"),
  // Only two locales fold differently. Any other locale has no effect.
  locale: custom((name, locale: string): string => {
    const given = textOption(name, locale, 64);
    try {
      return /^(?:tr|az)\b/.exec(Intl.getCanonicalLocales(given).join())?.[0] ?? "";
    } catch {
      throw new RangeError(`Expected \`${name}\` to be a language tag, got ${JSON.stringify(given)}`);
    }
  }, ""),
} satisfies RulesOf<MatchOptions>;

const maxPayloadBytes = integer(0, 65_536, 4_096);

/**
 * Settings of a prefix index. `order`, `rankedLength`, `empty`, `match`, `marks` and `locale` are stored with the data, and the stored
 * settings apply.
 */
export interface PrefixIndexOptions extends ClientOptions, MatchOptions {
  /**
   * The order of answers. `"alphabetical"` sorts by code points of the folded name. Names that start with the query come before names
   * in which a later word starts with it. `"weight"` returns the name that equals the query first, then sorts by highest weight, then
   * alphabetically. `"weight"` needs about four more rows for each word.
   *
   * @default "alphabetical"
   */
  readonly order?: "alphabetical" | "weight" | undefined;
  /**
   * Prefixes of up to this many characters are ranked when they are written: 1 to 8. Longer prefixes are ranked when they are read:
   * exactly, unless the prefix is very common. Each ranked prefix costs a row of about 100 bytes for each word. Only for
   * `order: "weight"`.
   *
   * @default 3
   */
  readonly rankedLength?: number | undefined;
  /**
   * The answer to an empty query: `"nothing"`, or the `"top"` of the order.
   *
   * @default "nothing"
   */
  readonly empty?: "nothing" | "top" | undefined;
  /**
   * The number of hash tags over which the index is spread, by the first character of each word: 1 to 64. A query still reads only
   * one. Several are useful above about five million names. The number is part of the index's name: another number means another
   * index.
   *
   * @default 1
   */
  readonly shards?: number | undefined;
  /**
   * The longest JSON of a payload, in bytes: up to 65,536.
   *
   * @default 4096
   */
  readonly maxPayloadBytes?: number | undefined;
}

export const indexRules = {
  ...clientRules,
  ...matchRules,
  order: choice(["alphabetical", "weight"], "alphabetical"),
  rankedLength: integer(1, 8, 3),
  empty: choice(["nothing", "top"], "nothing"),
  shards: integer(1, 64, 1),
  maxPayloadBytes,
} satisfies RulesOf<PrefixIndexOptions>;

/** Settings of a contact book. */
export interface ContactBookOptions extends ClientOptions, MatchOptions {
  /**
   * How contacts are ranked. `"recent"`: by the last event. `"frecent"`: each event counts, and loses half of its weight every
   * `halfLifeMs`. You can change `ranking` at any time; the current order stays.
   *
   * @default "recent"
   */
  readonly ranking?: "recent" | "frecent" | undefined;
  /**
   * The time after which an event counts half, in milliseconds. A shorter time favors recent contacts, a longer time frequent contacts.
   *
   * @default 1209600000 (14 days)
   */
  readonly halfLifeMs?: number | undefined;
  /**
   * How many contacts are kept, 1 to 1,000. The lowest-ranked contacts are dropped.
   *
   * @default 100
   */
  readonly max?: number | undefined;
  /**
   * How long a fetched book is used without checking for changes, in milliseconds. Changes by this object are visible immediately.
   *
   * @default 5000
   */
  readonly maxAgeMs?: number | undefined;
  /**
   * How long after its last change the book is deleted, in milliseconds; null for never.
   *
   * @default 31536000000 (365 days)
   */
  readonly keepMs?: number | null | undefined;
  /**
   * The longest JSON of a payload, in bytes: up to 65,536.
   *
   * @default 4096
   */
  readonly maxPayloadBytes?: number | undefined;
}

export const bookRules = {
  ...clientRules,
  ...matchRules,
  ranking: choice(["recent", "frecent"], "recent"),
  halfLifeMs: integer(1_000, 3_650 * dayMs, 14 * dayMs),
  max: integer(1, 1_000, 100),
  maxAgeMs: integer(0, dayMs, 5_000),
  keepMs: nullable(integer(1_000, 36_500 * dayMs, 365 * dayMs)),
  maxPayloadBytes,
} satisfies RulesOf<ContactBookOptions>;

/** One call. */
export interface CallOptions {
  /** Rejects the call with `signal.reason`. A change that was already sent may still happen. */
  readonly signal?: AbortSignal | undefined;
}

export const callRules = { signal } satisfies RulesOf<CallOptions>;

/** One change. */
export interface ChangeOptions extends CallOptions {
  /**
   * The operation id: your own, or the `op` of a `KitUnknownOutcomeError`. A repeat of the same change has no effect: within a minute
   * in an index, and until eight other changes in a contact book. Another change with the same id is rejected.
   *
   * @default a new one
   */
  readonly op?: string | undefined;
}

export const changeRules = {
  op: matching(text(128), /^[\w:.-]+$/, "to have only letters, digits and _ : . -"),
  signal,
} satisfies RulesOf<ChangeOptions>;

/** One change of a weight. */
export interface TouchOptions extends ChangeOptions {
  /**
   * The amount to add: any integer. A weight stays between 0 and 9,999,999,999,999.
   *
   * @default 1
   */
  readonly by?: number | undefined;
}

export const touchRules = {
  by: integer(-mostWeight, mostWeight, 1),
  ...changeRules,
} satisfies RulesOf<TouchOptions>;

/** One query. */
export interface SuggestOptions extends CallOptions {
  /**
   * The maximum number of items: 1 to 200.
   *
   * @default 10
   */
  readonly limit?: number | undefined;
  /**
   * How the words of the query match. `"in-order"`: a name must contain the query, starting at a word. `"any-order"`: a name must have
   * all words of the query, in any order, so `smith jo` finds John Smith. Only the last word may be incomplete. Items of equal weight
   * then have no particular order. `"any-order"` needs an index of word starts, in one shard.
   *
   * @default "in-order"
   */
  readonly words?: WordOrder | undefined;
  /**
   * How many typing errors are tolerated, 0 or 1. With 1, if fewer than `limit` names match, the answer continues with names that are
   * one typing error away. An error is one character of the query that is replaced, removed, inserted, or swapped with its neighbor.
   * Only words of four or more characters are corrected. Cannot be combined with `words: "any-order"`.
   *
   * `typos` costs up to two more round trips, and up to about three milliseconds of server time. Up to eight beginnings of names are
   * searched, for twice `limit` names in all. If there are more beginnings, the answer is `truncated`.
   *
   * @default 0
   */
  readonly typos?: number | undefined;
}

/** The options of a query that an index and a contact book share. */
const queryRules = {
  limit: integer(1, mostItems, 10),
  words: choice(["in-order", "any-order"], "in-order"),
};
export const bookSuggestRules = { ...queryRules, signal };
export const suggestRules = { ...bookSuggestRules, typos: integer(0, 1, 0) } satisfies RulesOf<SuggestOptions>;

/** The options of a query, with every default filled in. */
export type ResolvedQuery = Omit<Resolved<typeof suggestRules>, "signal">;

/** Whether the words of a query must be in the order in which they are typed. */
export type WordOrder = "in-order" | "any-order";

/** A search box. */
export interface SessionOptions extends Omit<SuggestOptions, "signal"> {
  /**
   * How many items the first keystroke requests, so that the next keystrokes need no round trip: up to 200, and at least `limit`. Each
   * keystroke that needs the server again requests four times as many items, up to 200.
   *
   * @default the larger of 50 and `limit`
   */
  readonly prefetch?: number | undefined;
  /**
   * How long an answer of the server is used for further keystrokes, in milliseconds.
   *
   * @default 10000
   */
  readonly maxAgeMs?: number | undefined;
  /**
   * How long a keystroke waits for the next one before it goes to the server, in milliseconds. A keystroke that can be
   * answered locally does not wait.
   *
   * @default 0
   */
  readonly debounceMs?: number | undefined;
}

export const sessionRules = {
  ...queryRules,
  typos: suggestRules.typos,
  prefetch: integer(1, mostItems),
  maxAgeMs: integer(0, dayMs, 10_000),
  debounceMs: integer(0, 60_000, 0),
} satisfies RulesOf<SessionOptions>;

/** The options of a call with many entries. */
export interface PutManyOptions<Payload> extends CallOptions {
  /**
   * Called for each entry that cannot be stored; the other entries are stored. Without it, the first such entry rejects the call.
   *
   * @default undefined
   */
  readonly onInvalid?: ((error: Error, entry: Entry<Payload>) => void) | undefined;
}

export const putManyRules = {
  onInvalid: custom((name, onInvalid: NonNullable<PutManyOptions<unknown>["onInvalid"]>) => {
    if (typeof onInvalid !== "function")
      throw new TypeError(`Expected \`${name}\` to be a function, got ${typeof onInvalid}`);
    return onInvalid;
  }),
  signal,
} satisfies RulesOf<PutManyOptions<unknown>>;

/** A rebuild. */
export interface RebuildOptions<Payload> extends PutManyOptions<Payload> {
  /**
   * Whether a rebuild without entries empties the index.
   *
   * @default false
   */
  readonly allowEmpty?: boolean | undefined;
}

export const rebuildRules = { ...putManyRules, allowEmpty: boolean(false) } satisfies RulesOf<RebuildOptions<unknown>>;

/** A name that can be found. */
export interface Entry<Payload = unknown> {
  /** The permanent id of the entry: 1 to 256 bytes, without U+0001. */
  readonly id: string;
  /** The text that is searched and displayed: up to 512 UTF-16 units. */
  readonly text: string;
  /**
   * An integer from 0 to 9,999,999,999,999. In an index by weight, higher weights come first. If you leave it out, the stored weight
   * stays; a new entry has 0.
   */
  readonly weight?: number | undefined;
  /** Any value that JSON can represent. Each suggestion returns it. */
  readonly payload?: Payload | undefined;
}

/** Rules by which texts are folded and matched, with every default filled in. */
export interface MatchRules {
  readonly match: Match;
  readonly fold: { readonly marks: "fold" | "keep"; readonly locale: string };
}

const matchOf = ({ match, marks, locale }: Resolved<typeof matchRules>): MatchRules => ({
  match,
  fold: { marks, locale },
});

/** The rules that are stored with a generation of an index. */
export interface IndexRules extends MatchRules {
  readonly order: "alphabetical" | "weight";
  readonly rankedLength: number;
  readonly empty: "nothing" | "top";
  readonly foldVersion: string;
}

/** The stored text of rules. Scripts read `order`, `ranked` and `empty` from it. */
export const rulesText = ({ order, match, rankedLength, empty, fold, foldVersion: version }: IndexRules): string =>
  `order=${order} match=${match} ranked=${String(rankedLength)} empty=${empty} marks=${fold.marks} locale=${fold.locale} fold=${version}`;

const rulesPattern =
  /^order=(alphabetical|weight) match=(phrase|word-start) ranked=([1-8]) empty=(nothing|top) marks=(fold|keep) locale=(tr|az|) fold=(\S+)$/;

/** The rules in a stored text; undefined if a newer version wrote it. */
export const parseRules = (text: string): IndexRules | undefined => {
  const [found, order, match, ranked, empty, marks, locale = "", version = ""] = rulesPattern.exec(text) ?? [];
  if (found === undefined) return undefined;
  return {
    order: order as IndexRules["order"],
    match: match as Match,
    rankedLength: Number(ranked),
    empty: empty as IndexRules["empty"],
    fold: { marks: marks as "fold" | "keep", locale },
    foldVersion: version,
  };
};

/** After the check, with every default filled in. */
export interface IndexSettings extends Resolved<typeof clientRules> {
  readonly rules: IndexRules;
  readonly shards: number;
  readonly maxPayloadBytes: number;
}

/** @throws {TypeError | RangeError} an option is invalid. */
export const indexSettings = (options: PrefixIndexOptions): IndexSettings => {
  const { order, rankedLength, empty, ...own } = resolve("options", options, indexRules);
  return { ...own, rules: { ...matchOf(own), order, rankedLength, empty, foldVersion } };
};

/** After the check, with every default filled in. */
export interface BookSettings extends Resolved<typeof clientRules> {
  readonly rules: MatchRules;
  /** With 0 only the last event counts. */
  readonly halfLifeMs: number;
  readonly max: number;
  readonly maxAgeMs: number;
  /** 0 means forever. */
  readonly keepMs: number;
  readonly maxPayloadBytes: number;
}

/** @throws {TypeError | RangeError} an option is invalid. */
export const bookSettings = (options: ContactBookOptions): BookSettings => {
  const own = resolve("options", options, bookRules);
  const halfLifeMs = own.ranking === "recent" ? 0 : own.halfLifeMs;
  return { ...own, rules: matchOf(own), halfLifeMs, keepMs: own.keepMs ?? 0 };
};

/** @throws {TypeError} typing errors are tolerated only in the order in which words are typed. */
const checkedQuery = <Query extends ResolvedQuery>(query: Query): Query => {
  if (query.typos > 0 && query.words === "any-order")
    throw new TypeError('Expected `typos` to be 0 with `words: "any-order"`');
  return query;
};

/** @throws {TypeError | RangeError} an option is invalid. */
export const resolveSuggest = (options: SuggestOptions): Resolved<typeof suggestRules> =>
  checkedQuery(resolve("options", options, suggestRules));

/** The checked options of one change. `isGiven`: its caller made `op`, and so can repeat the call. */
export interface ResolvedChange {
  readonly op: string;
  readonly isGiven: boolean;
  readonly signal: AbortSignal | undefined;
}

/** @throws {TypeError | RangeError} an option is invalid. */
export const resolveChange = (options: ChangeOptions): ResolvedChange => {
  const { op, signal: ended } = resolve("options", options, changeRules);
  return { op: op ?? newToken(), isGiven: op !== undefined, signal: ended };
};

/** @throws {TypeError | RangeError} an option is invalid. */
export const resolveTouch = (options: TouchOptions): ResolvedChange & { readonly by: number } => {
  const { by, ...change } = resolve("options", options, touchRules);
  return { by, ...resolveChange(change) };
};

/** After the check, with every default filled in. */
export type ResolvedSession = Resolved<typeof sessionRules> & { readonly prefetch: number };

/** @throws {TypeError | RangeError} an option is invalid. */
export const resolveSession = (options: SessionOptions): ResolvedSession => {
  const own = checkedQuery(resolve("options", options, sessionRules));
  const { limit, prefetch = Math.max(50, limit) } = own;
  return { ...own, prefetch: integerOption("prefetch", prefetch, limit, mostItems) };
};
