import { Deadline, isReplyError, reading, serverError } from "@kit/core/toolkit";
import { isNameRow, type Item, parseRecord, parseRow } from "../entry.js";
import { foldPrefix } from "../fold/index.js";
import { type FoundItem, type Query, queryOf, select } from "../matching.js";
import type { IndexRules, WordOrder } from "../options.js";
import * as scripts from "../scripts/index.js";
import { maxWords } from "../words.js";
import { QueryBatcher } from "./query-batcher.js";
import { mostTries, type Shard, type Shards } from "./shards.js";

/** The result of a query. */
export interface Found {
  readonly query: Query;
  readonly rules: IndexRules;
  readonly items: readonly FoundItem[];
  readonly hasMore: boolean;
  readonly truncated: boolean;
}

/** The maximum number of rows that one query reads, unless a higher limit needs more. */
const mostRows = 512;
/** The most texts in one call: more would hold up the server, and keep it idle while their answers are read here. */
const mostBatched = 4;

/** A query by weight: rows of `suggest.lua`. */
interface WeightedQuery {
  readonly settings: string;
  readonly texts: Parameters<typeof scripts.suggest.run>[2]["texts"];
}

type MatchReply = scripts.Matches | { readonly settings: string } | undefined;

/** A range of rows of an alphabetical index, and how many at most. */
interface RowRange {
  readonly from: string;
  readonly to: string;
  readonly most: number;
}

/** The smallest text after all texts that start with `text`: bytes of UTF-8 are in the order of code points. */
const behind = (text: string): string => {
  for (let end = text.length; end > 0;) {
    const at = /[\uDC00-\uDFFF]/.test(text[end - 1]!) ? end - 2 : end - 1;
    const last = text.codePointAt(at)!;
    // There are no characters between U+D7FF and U+E000, and none after the last one.
    if (last < 0x10ffff) return text.slice(0, at) + String.fromCodePoint(last === 0xd7ff ? 0xe000 : last + 1);
    end = at;
  }
  return "";
};

/** `settings` is the text of `rules`. */
const weightedQuery = (settings: string, { rankedLength }: IndexRules, query: Query, limit: number): WeightedQuery => {
  const anchorOf = (text: string): string =>
    Array.from(text.slice(0, 2 * rankedLength))
      .slice(0, rankedLength)
      .join("");
  const whole = { prefix: query.text, anchor: anchorOf(query.text), limit };
  if (query.parts[0]?.isWhole !== true) return { settings, texts: [whole] };
  const words = query.parts.map(({ text, isWhole }) => ({
    prefix: isWhole ? `${text} ` : text,
    anchor: anchorOf(text),
    limit: "",
  }));
  return { settings, texts: [...words, whole] };
};

/** No answer: the query matches nothing. */
export const nothing = (rules: IndexRules): Found => ({
  query: queryOf("", "in-order"),
  rules,
  items: [],
  hasMore: false,
  truncated: false,
});

/** Answers queries from one shard. */
export class ShardReader {
  readonly #shard: Shard;
  readonly #shards: Shards;
  readonly #onDamage: () => void;
  /** Queries by weight, and in alphabetical order. */
  readonly #matches: QueryBatcher<WeightedQuery, MatchReply>;
  readonly #ranges: QueryBatcher<RowRange, readonly string[]>;
  /** The last rebuild at the time when an alphabetical query found nothing; undefined if none ever did. */
  #switched: string | undefined;

  constructor(shard: Shard, shards: Shards, onDamage: () => void) {
    this.#shard = shard;
    this.#shards = shards;
    this.#onDamage = onDamage;
    this.#matches = new QueryBatcher(mostBatched, (queries, signal) => this.#readMatches(queries, signal));
    this.#ranges = new QueryBatcher(mostBatched, (ranges, signal) => this.#readRanges(ranges, signal));
  }

  /** The entries that match, `limit` at most. */
  async suggest(typed: string, order: WordOrder, limit: number, signal: AbortSignal | undefined): Promise<Found> {
    const shard = this.#shard;
    for (let tries = 0; tries < mostTries; tries++) {
      const rules = this.#shards.rulesOf(shard.rules);
      const query = queryOf(foldPrefix(typed, rules.fold), order);
      // A name has no more words.
      if ((query.text === "" && rules.empty === "nothing") || query.parts.length > maxWords + 1) return nothing(rules);
      const isAnyOrder = query.parts[0]?.isWhole === true;
      if (rules.order === "alphabetical") {
        const found = await (isAnyOrder
          ? this.#rangeOfWords(rules, query, limit, signal)
          : this.#range(rules, query, limit, signal));
        if (found) return found;
        continue;
      }
      const weighted = weightedQuery(shard.rules, rules, query, limit);
      const reply = isAnyOrder
        ? (await this.#readMatches([weighted], signal))[0]
        : await this.#matches.run(weighted, signal);
      if (!reply) return { ...nothing(rules), query };
      if ("items" in reply) {
        if (reply.damaged > 0) this.#onDamage();
        const items = reply.items.map(({ id, record }) => parseRecord(id, record));
        return { query, rules, items, hasMore: reply.hasMore, truncated: reply.truncated };
      }
      this.#shards.learn(shard, reply.settings, shard.staged);
    }
    throw this.#shards.unsettled();
  }

  /** Answers queries by weight; undefined if there is no index. */
  async #readMatches(queries: readonly WeightedQuery[], signal: AbortSignal | undefined): Promise<MatchReply[]> {
    const settings = queries[0]?.settings ?? "";
    const isSame = (one: WeightedQuery): boolean => one.settings === settings;
    const same = queries.filter(isSame);
    const args = { settings, texts: same.flatMap(({ texts }) => texts) };
    // The rules may have been updated within the turn.
    const others = queries.filter((one) => !isSame(one));
    const [reply, rest] = await Promise.all([
      scripts.suggest.run(this.#shards.context, this.#shard.keys, args, this.#shards.options(signal)),
      others.length === 0 ? [] : this.#readMatches(others, undefined),
    ]);
    const found = same.map((_, at) => (reply.state === "found" ? reply.found?.[at] : reply));
    const next = { same: found.values(), other: rest.values() };
    return queries.map((one) => next[isSame(one) ? "same" : "other"].next().value);
  }

  /**
   * Answers a query of an alphabetical index by one plain range, without a script: the first `limit` names that start with it. If there
   * are fewer, or rows of later words are between them, a longer range is read and sorted by name. A row with the tag of other rules is
   * not found, so no answer mixes two rebuilds. If nothing is found, the rules are read. Undefined if the rules have changed.
   */
  async #range(
    rules: IndexRules,
    query: Query,
    limit: number,
    signal: AbortSignal | undefined,
  ): Promise<Found | undefined> {
    const { tag } = this.#shard;
    for (let most = limit + 1; ; most = Math.max(mostRows, 4 * limit)) {
      const rows = await this.#rows(query.text, most, signal);
      if (rows.length === 0 && !(await this.#isStill(signal))) return undefined;
      const itemOf = (row: string): Item => parseRow(row, tag.length, rules);
      const names = rows.filter((row) => isNameRow(row, tag.length));
      const isAll = rows.length < most;
      // The rows of names are in order, and names that begin with the query come before all others.
      if (names.length > limit)
        return { query, rules, items: names.slice(0, limit).map(itemOf), hasMore: true, truncated: false };
      if (!isAll && most <= limit + 1) continue;
      const items = select([...new Map(rows.map(itemOf).map((item) => [item.id, item])).values()], query, false);
      const hasMore = !isAll || items.length > limit;
      return { query, rules, items: items.slice(0, limit), hasMore, truncated: !isAll && names.length < limit };
    }
  }

  /**
   * The same for words in any order: reads the rows of one word, and keeps the names that also have the other words. The longest
   * word is likely the rarest; another one is tried if it is too common to be read completely.
   */
  async #rangeOfWords(
    rules: IndexRules,
    query: Query,
    limit: number,
    signal: AbortSignal | undefined,
  ): Promise<Found | undefined> {
    const { tag } = this.#shard;
    const most = Math.max(mostRows, 4 * limit);
    let rows: readonly string[] = [];
    for (const { text } of query.parts.toSorted((one, two) => two.text.length - one.text.length)) {
      rows = await this.#rows(text, most, signal);
      if (rows.length < most) break;
    }
    if (rows.length === 0 && !(await this.#isStill(signal))) return undefined;
    const items = new Map(rows.map((row) => parseRow(row, tag.length, rules)).map((item) => [item.id, item]));
    const found = select([...items.values()], query, false);
    const truncated = rows.length >= most;
    return { query, rules, items: found.slice(0, limit), hasMore: found.length > limit || truncated, truncated };
  }

  /** The first rows that start with a folded text, by the rules that the shard had at the last call. */
  #rows(prefix: string, most: number, signal: AbortSignal | undefined): Promise<readonly string[]> {
    const from = this.#shard.tag + prefix;
    return this.#ranges.run({ from: `[${from}`, to: `(${behind(from)}`, most }, signal);
  }

  /** Reads ranges of rows: a single one by a plain command. */
  async #readRanges(
    ranges: readonly RowRange[],
    signal: AbortSignal | undefined,
  ): Promise<readonly (readonly string[])[]> {
    const { keys } = this.#shard;
    const { context, deadlineMs } = this.#shards;
    const [first] = ranges;
    if (ranges.length > 1 || !first)
      return await scripts.ranges.run(context, keys, { ranges }, this.#shards.options(signal));
    const { from, to, most } = first;
    const what = `ZRANGEBYLEX of ${keys.rows}`;
    const call = reading(what, Deadline.in(deadlineMs), signal);
    try {
      const args = [keys.rows, from, to, "LIMIT", "0", String(most)];
      return [(await context.executor.run("ZRANGEBYLEX", args, call)) as string[]];
    } catch (error) {
      if (!isReplyError(error)) throw error;
      // The script's error names the wrong key.
      await this.#shards.survey(this.#shard, signal);
      throw serverError(error, what);
    }
  }

  /** Whether the shard still has the rules of the last call, and no rebuild has switched in between. */
  async #isStill(signal: AbortSignal | undefined): Promise<boolean> {
    const shard = this.#shard;
    const { settings, switched } = await this.#shards.survey(shard, signal);
    if (settings === "") return true;
    const isStill = settings === shard.rules && switched === this.#switched;
    this.#shards.learn(shard, settings, shard.staged);
    this.#switched = switched;
    return isStill;
  }
}
