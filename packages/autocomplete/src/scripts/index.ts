import { defineScript } from "@kit/core";
import { listSeparator } from "../entry.js";
import bookSource from "./book.lua";
import fetchSource from "./fetch.lua";
import forgetSource from "./forget.lua";
import itemsSource from "./items.lua";
import purgeSource from "./purge.lua";
import rangesSource from "./ranges.lua";
import recordSource from "./record.lua";
import revisionSource from "./revision.lua";
import stageSource from "./stage.lua";
import suggestSource from "./suggest.lua";
import spellSource from "./spell.lua";
import surveySource from "./survey.lua";
import switchSource from "./switch.lua";
import weightsSource from "./weights.lua";
import writeSource from "./write.lua";

const generations = ["rows", "ranked", "items", "stagedRows", "stagedRanked", "stagedItems"] as const;

/** The outcome of a batch of changes. */
export type WriteReply =
  | { readonly state: "done"; readonly known: number; readonly superseded: readonly string[] }
  | { readonly state: "settings"; readonly settings: string; readonly staged: string }
  | { readonly state: "lost" };

/** Puts and drops items of one shard, and adds to weights. */
export const write = defineScript({
  name: "autocomplete.write",
  source: [itemsSource, writeSource],
  keys: ["index", "ops", "live", ...generations],
  args: [
    "op",
    "token",
    "settings",
    "staged",
    "keepMs",
    "...changes[id revision weight tail fold starts secondFold secondStarts]",
  ],
  idempotent: true,
  reply: (raw): WriteReply => {
    const [code, first, ...rest] = raw as unknown[];
    if (Number(code) === 2) return { state: "settings", settings: String(first), staged: String(rest[0]) };
    return Number(code) === 1
      ? { state: "done", known: Number(first), superseded: rest.map(String) }
      : { state: "lost" };
  },
});

/** Starts a rebuild. */
export const stage = defineScript({
  name: "autocomplete.stage",
  source: stageSource,
  keys: ["index", "live", "stagedRows", "stagedRanked", "stagedItems", "absent"],
  args: ["token", "settings", "keepMs"],
  idempotent: true,
  reply: () => undefined,
});

/** Ends a rebuild; resolves with whether it was still under way. */
export const switchOver = defineScript({
  name: "autocomplete.switch",
  source: switchSource,
  keys: ["index", "live", ...generations, "absent"],
  args: ["token", "batches"],
  idempotent: true,
  reply: (raw): boolean => Number(raw) === 1,
});

/** An item as it is stored. */
interface StoredItem {
  readonly id: string;
  readonly record: string;
}

/** The matches of one text. */
export interface Matches {
  readonly items: readonly StoredItem[];
  readonly hasMore: boolean;
  readonly truncated: boolean;
  readonly damaged: number;
}

/** The matches of some texts, in their order; undefined if there is no index. */
export type SuggestReply =
  | { readonly state: "found"; readonly found: readonly Matches[] | undefined }
  | { readonly state: "settings"; readonly settings: string };

/** A list that a script joined into one text. */
const listOf = (raw: unknown): string[] => (raw === "" ? [] : String(raw).split(listSeparator));

const matchesOf = ([more, truncated, damaged, records, ids]: readonly unknown[]): Matches => {
  const each = listOf(records);
  return {
    items: listOf(ids).map((id, at): StoredItem => ({ id, record: each[at] ?? "" })),
    hasMore: Number(more) === 1,
    truncated: Number(truncated) === 1,
    damaged: Number(damaged),
  };
};

/** Answers texts by weight. */
export const suggest = defineScript({
  name: "autocomplete.suggest",
  source: suggestSource,
  keys: ["index", "rows", "ranked", "items"],
  args: ["settings", "...texts[prefix anchor limit]"],
  readonly: true,
  reply: (raw): SuggestReply => {
    const [state, ...rest] = raw as unknown[];
    if (Number(state) === 2) return { state: "settings", settings: String(rest[0]) };
    return { state: "found", found: Number(state) === 0 ? undefined : (rest as unknown[][]).map(matchesOf) };
  },
});

/** Beginnings of names that equal a text except for one character. */
export interface Spellings {
  readonly texts: readonly string[];
  /** Whether the search was cut short. */
  readonly truncated: boolean;
}

/** Finds the beginnings of names that equal a text except for one character. */
export const spell = defineScript({
  name: "autocomplete.spell",
  source: spellSource,
  keys: ["rows"],
  args: ["tag", "...characters[character mistake]"],
  readonly: true,
  reply: (raw): Spellings => {
    const [truncated, ...texts] = raw as unknown[];
    return { texts: texts.map(String), truncated: Number(truncated) === 1 };
  },
});

/** The rows that start with each of some texts. */
export const ranges = defineScript({
  name: "autocomplete.ranges",
  source: rangesSource,
  keys: ["rows"],
  args: ["...ranges[from to most]"],
  readonly: true,
  reply: (raw): readonly (readonly string[])[] => (raw as unknown[]).map(listOf),
});

/** The weights of items in one shard; undefined for items that it does not have. */
export const weights = defineScript({
  name: "autocomplete.weights",
  source: weightsSource,
  keys: ["items"],
  args: ["...ids"],
  readonly: true,
  reply: (raw): readonly (string | undefined)[] =>
    (raw as unknown[]).map((weight) => (weight === "" ? undefined : String(weight))),
});

/** The next revision of a sharded index, and its settings, which are empty if they are lost. */
export const revision = defineScript({
  name: "autocomplete.revision",
  source: revisionSource,
  keys: ["index", "items"],
  args: ["settings"],
  idempotent: true,
  reply: (raw): { readonly revision: string; readonly settings: string } => {
    const [revision, settings] = raw as unknown[];
    return { revision: String(revision), settings: String(settings) };
  },
});

/** One shard, counted. */
export interface Survey {
  /** Empty if there is no index. */
  readonly settings: string;
  /** The last rebuild; empty if there was none. */
  readonly switched: string;
  readonly items: number;
  readonly rows: number;
  readonly ranked: number;
  /** Items that a rebuild has written; -1 if none is under way. */
  readonly staged: number;
}

/** Counts one shard. */
export const survey = defineScript({
  name: "autocomplete.survey",
  source: surveySource,
  keys: ["index", "rows", "ranked", "items", "stagedItems"],
  args: [],
  readonly: true,
  reply: (raw): Survey => {
    const [settings, switched, items, rows, ranked, staged] = raw as unknown[];
    return {
      settings: String(settings),
      switched: String(switched),
      items: Number(items),
      rows: Number(rows),
      ranked: Number(ranked),
      staged: Number(staged),
    };
  },
});

/** Deletes keys. */
export const purge = defineScript({
  name: "autocomplete.purge",
  source: purgeSource,
  keys: ["...keys"],
  args: [],
  idempotent: true,
  reply: Number,
});

const book = ["book", "contacts", "cards", "blocked"] as const;

/** Whether a change was made, and the version of the book after it. */
export interface BookChange {
  readonly isDone: boolean;
  readonly version: string;
}

const bookChange = (raw: unknown): BookChange => {
  const [code, version] = raw as unknown[];
  return { isDone: Number(code) === 1, version: String(version) };
};

/** One event with a contact. */
export const record = defineScript({
  name: "autocomplete.record",
  source: [bookSource, recordSource],
  keys: book,
  args: ["op", "id", "card", "halfLifeMs", "max", "keepMs"],
  idempotent: true,
  reply: bookChange,
});

/** Removes, blocks or unblocks a contact. */
export const forget = defineScript({
  name: "autocomplete.forget",
  source: [bookSource, forgetSource],
  keys: book,
  args: ["op", "action", "id", "max", "keepMs"],
  idempotent: true,
  reply: bookChange,
});

/** A contact as it is stored. */
export interface StoredContact {
  readonly id: string;
  readonly score: number;
  readonly card: string;
}

/** A book as it is stored. */
export interface FetchReply {
  readonly version: string;
  /** Undefined if the caller has the current one. */
  readonly content: { readonly blocked: readonly string[]; readonly contacts: readonly StoredContact[] } | undefined;
}

/** A book, if it changed. */
export const fetch = defineScript({
  name: "autocomplete.fetch",
  source: fetchSource,
  keys: book,
  args: ["version"],
  readonly: true,
  reply: (raw): FetchReply => {
    const [version, blockedCount, ...rest] = (raw as unknown[]).map(String);
    if (blockedCount === undefined) return { version: version ?? "", content: undefined };
    const blocked = rest.splice(0, Number(blockedCount));
    const contacts: StoredContact[] = [];
    for (let at = 0; at < rest.length; at += 3)
      contacts.push({ id: rest[at] ?? "", score: Number(rest[at + 1]), card: rest[at + 2] ?? "" });
    return { version: version ?? "", content: { blocked, contacts } };
  },
});
