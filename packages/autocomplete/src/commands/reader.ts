import { isUnsearchable, type Item, mostFoldBytes } from "../entry.js";
import { foldPrefix } from "../fold/index.js";
import { queryOf, select } from "../matching.js";
import type { IndexRules, ResolvedQuery, WordOrder } from "../options.js";
import * as scripts from "../scripts/index.js";
import { type Found, nothing, ShardReader } from "./shard-reader.js";
import { mostTries, type Shards } from "./shards.js";

/** The order of entries that were found by different texts. */
const byRelevance =
  ({ order }: IndexRules) =>
  (one: Item, two: Item): number =>
    (order === "weight" ? two.weight - one.weight : 0) || Buffer.from(one.fold).compare(Buffer.from(two.fold));

/** Shorter words are not corrected: almost any word is one character away from them. */
const shortestMistyped = 4;

/** Each character of a folded text, and which mistakes `spell.lua` looks for there. */
const mistakes = (text: string): { readonly character: string; readonly mistake: "0" | "1" | "2" }[] => {
  const found: ReturnType<typeof mistakes> = [];
  let isBehindLong = false;
  for (const [word = ""] of text.matchAll(/[^ ]+| +/g)) {
    const characters = Array.from(word);
    const isLong = !word.startsWith(" ") && characters.length >= shortestMistyped;
    characters.forEach((character, at) =>
      found.push({ character, mistake: isLong ? "2" : isBehindLong && at === 0 ? "1" : "0" }),
    );
    isBehindLong = isLong;
  }
  return found;
};

/** Answers the queries of an index: finds the shard of each, and combines the answers of several. */
export class IndexReader {
  readonly #shards: Shards;
  readonly #readers: readonly ShardReader[];
  #hasLooked = false;

  /** `onDamage` is called when found items have no record. */
  constructor(shards: Shards, onDamage: () => void) {
    this.#shards = shards;
    this.#readers = shards.all.map((shard) => new ShardReader(shard, shards, onDamage));
  }

  /**
   * The entries that match, `most` at most. If they are fewer than the limit and `typos` allows it, entries follow that match except for
   * one character.
   */
  suggest(query: string, resolved: ResolvedQuery, most: number, signal: AbortSignal | undefined): Promise<Found> {
    const found = this.#suggest(query, resolved.words, most, signal);
    return resolved.typos === 0 ? found : found.then((matching) => this.#withMistyped(matching, resolved, signal));
  }

  async #withMistyped(found: Found, resolved: ResolvedQuery, signal: AbortSignal | undefined): Promise<Found> {
    const { rules, items, query } = found;
    // A longer text cannot match a name even with one wrong character.
    const characters =
      items.length < resolved.limit && query.text.length <= mostFoldBytes + 1 ? mistakes(query.text) : [];
    if (!characters.some(({ mistake }) => mistake === "2")) return found;
    const spelt = await Promise.all(
      this.#shards.all.map(({ keys, tag }) => {
        const args = { tag: rules.order === "weight" ? "" : tag, characters };
        return scripts.spell.run(this.#shards.context, keys, args, this.#shards.options(signal));
      }),
    );
    const texts = spelt.flatMap((one) => one.texts);
    // Together they read about twice the items of one answer, which bounds the server's time.
    const each = Math.min(resolved.limit, Math.max(10, Math.ceil((2 * resolved.limit) / texts.length)));
    const others = await Promise.all(texts.map((text) => this.#suggest(text, resolved.words, each, signal)));
    const areMore = others.some(({ hasMore }) => hasMore);
    const more = new Map(
      others.flatMap((other) => other.items.map((item) => [item.id, { ...item, foundBy: other.query }] as const)),
    );
    for (const { id } of items) more.delete(id);
    const all = [...items, ...[...more.values()].toSorted(byRelevance(rules))];
    return {
      ...found,
      items: all.slice(0, resolved.limit),
      hasMore: found.hasMore || all.length > resolved.limit || areMore,
      truncated: [found, ...spelt, ...others].some((one) => one.truncated) || (areMore && each < resolved.limit),
    };
  }

  async #suggest(query: string, words: WordOrder, limit: number, signal: AbortSignal | undefined): Promise<Found> {
    const { first } = this.#shards;
    if (isUnsearchable(query)) return nothing(this.#shards.rulesOf(first.rules));
    await this.#look(query, signal);
    for (let text = first.rules, tries = 1; ; tries++) {
      const rules = this.#shards.rulesOf(text);
      const typed = queryOf(foldPrefix(query, rules.fold), words);
      if (typed.text === "" && rules.empty === "nothing") return nothing(rules);
      const shard = this.#shards.shardOf(typed.text);
      if (!shard) {
        const all = await Promise.all(this.#readers.map((one) => one.suggest(query, words, limit, signal)));
        const items = new Map(all.flatMap((found) => found.items.map((item) => [item.id, item] as const)));
        const best = select([...items.values()], typed, rules.order === "weight").slice(0, limit);
        const hasMore = items.size > limit || all.some((found) => found.hasMore);
        return { query: typed, rules, items: best, hasMore, truncated: all.some((found) => found.truncated) };
      }
      const found = await this.#readers[shard.index]!.suggest(query, words, limit, signal);
      // By the new rules the query may belong to another shard.
      if (shard.rules === text || this.#shards.all.length === 1 || tries === mostTries) return found;
      text = shard.rules;
    }
  }

  /** Reads the rules of the index once, before the first query: they decide which shard a query is for, if any. */
  async #look(query: string, signal: AbortSignal | undefined): Promise<void> {
    if (this.#hasLooked || (this.#shards.all.length === 1 && query.trim() !== "")) return;
    const { first } = this.#shards;
    const { settings } = await this.#shards.survey(first, signal);
    if (settings === "") return;
    this.#shards.learn(first, settings, first.staged);
    this.#hasLooked = true;
  }
}
