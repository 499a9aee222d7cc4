import { KitError } from "@kit/core";
import { type ClientContext, Deadline, isReplyError, newToken, reading, serverError } from "@kit/core/toolkit";
import {
  byteOffsets,
  type CheckedEntry,
  checkFolded,
  type Folded,
  foldText,
  isUnsearchable,
  type Item,
  mostFoldBytes,
  parseRecord,
  parseRow,
  isNameRow,
} from "./entry.js";
import { RebuildLostError } from "./errors.js";
import { foldPrefix } from "./fold/index.js";
import { absentKey, type IndexKeys, indexKeys, rowTag } from "./keys.js";
import { type FoundItem, type Query, queryOf, select } from "./matching.js";
import {
  type IndexRules,
  type IndexSettings,
  parseRules,
  type ResolvedQuery,
  rulesText,
  type WordOrder,
} from "./options.js";
import * as scripts from "./scripts/index.js";
import { Together } from "./together.js";
import { maxWords } from "./words.js";

/** A put of an entry, or a drop of an id. */
export type Change = { readonly put: CheckedEntry } | { readonly drop: string };
/** A change as a shard receives it; it may also add to the weight of an id. */
type ShardChange = Change | { readonly touch: string; readonly by: number };

/** The facts of one changing call. */
export interface WriteCall {
  readonly op: string;
  readonly signal: AbortSignal | undefined;
  /** The rebuild that it is part of. */
  readonly token?: string | undefined;
}

/** The result of a query. */
export interface Found {
  readonly query: Query;
  readonly rules: IndexRules;
  readonly items: readonly FoundItem[];
  readonly hasMore: boolean;
  readonly truncated: boolean;
}

/** Callbacks of the index. */
export interface CommandEvents {
  readonly mismatch: (stored: IndexRules) => void;
  /** A key of each shard, before a call. */
  readonly used: (key: string) => void;
  readonly damaged: () => void;
}

/** Staged data expires when nothing was written to it for this long. */
const stagedMs = 600_000;
/** A rebuild changes the rules; more changes than this within one call indicate an error. */
const mostTries = 5;
const longestQuery = 512;
/** The most rows that one query reads, unless a higher limit needs more. */
const mostRows = 512;
/** The most texts in one call: more would hold up the server, and keep it idle while their answers are read here. */
const mostTogether = 4;

/** A query by weight: rows of `suggest.lua`. */
interface Asked {
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

/** A row of `write.lua`. */
type ChangeRow = Parameters<typeof scripts.write.run>[2]["changes"][number];
const noChange = { weight: "", tail: "", fold: "", starts: "", secondFold: "", secondStarts: "" };

/** One shard of an index: its keys, and the rules that it had at the last call. */
interface Shard {
  readonly keys: IndexKeys;
  rules: string;
  /** The tag at the beginning of its rows, by these rules. */
  tag: string;
  /** The rules of a rebuild under way; empty if none was seen. */
  staged: string;
  /** The last rebuild at the time when an alphabetical query found nothing; undefined if none ever did. */
  switched: string | undefined;
  /** Queries by weight, and in alphabetical order. */
  readonly matches: Together<Asked, MatchReply>;
  readonly ranges: Together<RowRange, readonly string[]>;
}

/** The smallest text behind all that begin with `text`: bytes of UTF-8 are in the order of code points. */
const behind = (text: string): string => {
  for (let end = text.length; end > 0;) {
    const at = /[\uDC00-\uDFFF]/.test(text[end - 1]!) ? end - 2 : end - 1;
    const last = text.codePointAt(at)!;
    // There are no characters between U+D7FF and U+E000, and none behind the last one.
    if (last < 0x10ffff) return text.slice(0, at) + String.fromCodePoint(last === 0xd7ff ? 0xe000 : last + 1);
    end = at;
  }
  return "";
};

/** FNV-1a of a code point's four bytes. */
const hashOf = (codePoint: number): number => {
  let hash = 0x811c9dc5;
  for (let shift = 0; shift < 32; shift += 8) hash = Math.imul(hash ^ ((codePoint >>> shift) & 0xff), 0x01000193);
  return hash >>> 0;
};

const nothing = (rules: IndexRules): Found => ({
  query: queryOf("", "in-order"),
  rules,
  items: [],
  hasMore: false,
  truncated: false,
});

const idOf = (change: Change): string => ("put" in change ? change.put.id : change.drop);

const signed = (by: number): string => (by < 0 ? String(by) : `+${String(by)}`);

/** The order of entries that different texts have found. */
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

/** The scripts of one index, on its client. */
export class IndexCommands {
  readonly #name: string;
  readonly #context: ClientContext;
  readonly #settings: IndexSettings;
  readonly #events: CommandEvents;
  readonly #shards: readonly Shard[];
  /** The first shard, which holds the rules of all. */
  readonly #first: Shard;
  readonly #own: string;
  /** Rules by their text, so that a text is read once. */
  readonly #rules = new Map<string, IndexRules>();
  #hasLooked = false;

  constructor(name: string, context: ClientContext, settings: IndexSettings, events: CommandEvents) {
    this.#name = name;
    this.#context = context;
    this.#settings = settings;
    this.#events = events;
    this.#own = rulesText(settings.rules);
    this.#rules.set(this.#own, settings.rules);
    this.#shards = Array.from({ length: settings.shards }, (_, shard): Shard => {
      const keys = indexKeys(context.prefix, name, shard, settings.shards);
      return {
        keys,
        rules: this.#own,
        tag: rowTag(this.#own),
        staged: "",
        switched: undefined,
        matches: new Together(mostTogether, (asked, signal) => this.#matches(keys, asked, signal)),
        ranges: new Together(mostTogether, (asked, signal) => this.#ranges(keys, asked, signal)),
      };
    });
    this.#first = this.#shards[0]!;
  }

  /** To be called before each call: it may use all shards. */
  used(): void {
    for (const { keys } of this.#shards) this.#events.used(keys.index);
  }

  /**
   * Makes changes, and resolves with how many of their items existed before. With several shards it adds first and drops
   * afterwards, so that an item is never missing in between; a change that was overtaken by a later one removes what it
   * added.
   */
  async write(given: readonly Change[], call: WriteCall): Promise<number> {
    if (this.#shards.length === 1) return (await this.#writeTo(this.#first, () => given, "0", call)).known;
    const revision = await this.#revision(call.signal);
    const changes = await this.#weighed(given, call.signal);
    const overtaken = new Set<string>();
    const each = async (phase: string, chosen: (shard: Shard) => readonly Change[]): Promise<number> => {
      const counts = await Promise.all(
        this.#shards.map(async (shard) => {
          const own = (): readonly Change[] => chosen(shard);
          const done = await this.#writeTo(shard, own, revision, { ...call, op: `${call.op}.${phase}` });
          for (const id of done.overtaken) overtaken.add(id);
          return done.known;
        }),
      );
      return counts.reduce((sum, count) => sum + count, 0);
    };
    const isAdd =
      (shard: Shard) =>
      (change: Change): boolean =>
        "put" in change && this.#belongs(change.put, shard, call);
    const added = new Map<Shard, readonly Change[]>();
    await each("add", (shard) => {
      const own = changes.filter(isAdd(shard));
      added.set(shard, own);
      return own;
    });
    // A shard whose rules have changed reports it at its first change: then more items may belong there.
    const known = await each("drop", (shard) =>
      changes
        .filter((change) => !added.get(shard)?.includes(change))
        .map((change) => (isAdd(shard)(change) ? change : { drop: idOf(change) })),
    );
    if (overtaken.size > 0) await each("undo", () => [...overtaken].map((id) => ({ drop: id })));
    return known;
  }

  /** @throws {InvalidEntryError} nothing is left of the text, or too much. */
  check({ id, text }: CheckedEntry): Folded {
    return checkFolded(id, foldText(text, this.#settings.rules));
  }

  async touch(id: string, by: number, call: WriteCall): Promise<boolean> {
    const found = await Promise.all(
      this.#shards.map((shard) => this.#writeTo(shard, () => [{ touch: id, by }], "0", call)),
    );
    return found.some(({ known }) => known > 0);
  }

  /**
   * The entries that match, `most` at most; if they are fewer than the limit and `typos` allows it, followed by those that match
   * except for one character.
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
      this.#shards.map(({ keys, tag }) => {
        const args = { tag: rules.order === "weight" ? "" : tag, characters };
        return scripts.spell.run(this.#context, keys, args, this.#options(signal));
      }),
    );
    const texts = spelt.flatMap((one) => one.texts);
    // Together they read about twice what one answer may have, so that the server's time has a bound.
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
    const first = this.#first;
    if (query.length > longestQuery || isUnsearchable(query)) return nothing(this.rulesOf(first.rules));
    await this.#look(query, signal);
    for (let text = first.rules, tries = 1; ; tries++) {
      const rules = this.rulesOf(text);
      const typed = queryOf(foldPrefix(query, rules.fold), words);
      if (typed.text === "" && rules.empty === "nothing") return nothing(rules);
      const shard = this.#shardOf(typed.text);
      if (!shard) {
        const all = await Promise.all(this.#shards.map((one) => this.#ask(one, query, words, limit, signal)));
        const items = new Map(all.flatMap((found) => found.items.map((item) => [item.id, item] as const)));
        const best = select([...items.values()], typed, rules.order === "weight").slice(0, limit);
        const hasMore = items.size > limit || all.some((found) => found.hasMore);
        return { query: typed, rules, items: best, hasMore, truncated: all.some((found) => found.truncated) };
      }
      const found = await this.#ask(shard, query, words, limit, signal);
      // By the new rules it may belong to another shard.
      if (shard.rules === text || this.#shards.length === 1 || tries === mostTries) return found;
      text = shard.rules;
    }
  }

  /** Reads the rules of the index once, for a query before any other call: they decide which shard it is for, if any. */
  async #look(query: string, signal: AbortSignal | undefined): Promise<void> {
    if (this.#hasLooked || (this.#shards.length === 1 && query.trim() !== "")) return;
    const { settings } = await this.#survey(this.#first, signal);
    if (settings === "") return;
    this.#learn(this.#first, settings, this.#first.staged);
    this.#hasLooked = true;
  }

  /** Empties the generation that is not current, and marks it as that of a rebuild. */
  async stage(token: string, signal: AbortSignal | undefined): Promise<void> {
    const args = { token, settings: this.#own, keepMs: stagedMs };
    await Promise.all(
      this.#shards.map(({ keys }) =>
        scripts.stage.run(this.#context, { ...keys, absent: absentKey(keys) }, args, this.#options(signal, token)),
      ),
    );
  }

  /** Makes the staged generation current, shard after shard. */
  async switchOver(token: string, signal: AbortSignal | undefined): Promise<void> {
    for (const shard of this.#shards) {
      const keys = { ...shard.keys, absent: absentKey(shard.keys) };
      const isDone = await scripts.switchOver.run(this.#context, keys, { token }, this.#options(signal, token));
      if (!isDone) throw new RebuildLostError(this.#name);
      this.#learn(shard, this.#own, "");
    }
  }

  async survey(signal: AbortSignal | undefined): Promise<scripts.Survey[]> {
    return await Promise.all(this.#shards.map((shard) => this.#survey(shard, signal)));
  }

  async purge(signal: AbortSignal | undefined): Promise<void> {
    await Promise.all(
      this.#shards.map(({ keys }) =>
        scripts.purge.run(this.#context, { keys: Object.values(keys) as string[] }, {}, this.#options(signal)),
      ),
    );
  }

  #options(signal: AbortSignal | undefined, op?: string): { deadlineMs: number; signal?: AbortSignal; op?: string } {
    return { deadlineMs: this.#settings.deadlineMs, ...(signal && { signal }), ...(op !== undefined && { op }) };
  }

  /** Parses the text of rules. */
  rulesOf(text: string): IndexRules {
    let rules = this.#rules.get(text);
    if (!rules) {
      rules = parseRules(text);
      if (!rules)
        throw new KitError("KIT_LAYOUT", `The index ${JSON.stringify(this.#name)} has settings of a newer version`);
      this.#rules.set(text, rules);
    }
    return rules;
  }

  /** The shard with all names that begin with a folded text; undefined if they may be in any shard. */
  #shardOf(prefix: string): Shard | undefined {
    if (this.#shards.length === 1) return this.#shards[0];
    const first = prefix.codePointAt(0);
    return first === undefined ? undefined : this.#shards[hashOf(first) % this.#shards.length];
  }

  #foldFor({ text }: CheckedEntry, rules: string, shard: Shard): Folded {
    const { fold, starts } = foldText(text, this.rulesOf(rules));
    if (this.#shards.length === 1) return { fold, starts };
    return { fold, starts: starts.filter((start) => this.#shardOf(fold.slice(start)) === shard) };
  }

  #belongs(entry: CheckedEntry, shard: Shard, { token }: WriteCall): boolean {
    const rules = token === undefined ? [shard.rules, shard.staged] : [this.#own];
    return rules.some((text) => text !== "" && this.#foldFor(entry, text, shard).starts.length > 0);
  }

  /** The row of one change. */
  #rowOf(change: ShardChange, revision: string, shard: Shard, rules: string, staged: string): ChangeRow {
    if ("drop" in change) return { ...noChange, id: change.drop, revision };
    if ("touch" in change) return { ...noChange, id: change.touch, revision, weight: signed(change.by) };
    const { put } = change;
    const first = this.#foldFor(put, rules, shard);
    const second = staged === "" ? { fold: "", starts: [] } : this.#foldFor(put, staged, shard);
    return {
      ...{ id: put.id, revision, weight: put.weight, tail: put.tail },
      ...{ fold: first.fold, starts: byteOffsets(first) },
      ...{ secondFold: second.fold, secondStarts: byteOffsets(second) },
    };
  }

  /** Makes changes in one shard; `chosen` selects them again when its rules have changed. */
  async #writeTo(
    shard: Shard,
    chosen: () => readonly ShardChange[],
    revision: string,
    { op, signal, token = "" }: WriteCall,
  ): Promise<{ readonly known: number; readonly overtaken: readonly string[] }> {
    for (let tries = 0; tries < mostTries; tries++) {
      const changes = chosen();
      if (changes.length === 0) return { known: 0, overtaken: [] };
      const settings = token === "" ? shard.rules : this.#own;
      const staged = token === "" && shard.staged !== settings ? shard.staged : "";
      const rows = changes.map((change) => this.#rowOf(change, revision, shard, settings, staged));
      const args = { op, token, settings, staged, keepMs: stagedMs, changes: rows };
      const reply = await scripts.write.run(this.#context, shard.keys, args, this.#options(signal, op));
      if (reply.state === "done") return reply;
      if (reply.state === "lost") throw new RebuildLostError(this.#name);
      this.#learn(shard, reply.settings, reply.staged);
    }
    throw this.#unsettled();
  }

  async #ask(
    shard: Shard,
    typed: string,
    order: WordOrder,
    limit: number,
    signal: AbortSignal | undefined,
  ): Promise<Found> {
    for (let tries = 0; tries < mostTries; tries++) {
      const rules = this.rulesOf(shard.rules);
      const query = queryOf(foldPrefix(typed, rules.fold), order);
      // A name has no more words.
      if ((query.text === "" && rules.empty === "nothing") || query.parts.length > maxWords + 1) return nothing(rules);
      const isAnyOrder = query.parts[0]?.isWhole === true;
      if (rules.order === "alphabetical") {
        const found = await (isAnyOrder
          ? this.#rangeOfWords(shard, rules, query, limit, signal)
          : this.#range(shard, rules, query, limit, signal));
        if (found) return found;
        continue;
      }
      const anchorOf = (text: string): string =>
        Array.from(text.slice(0, 2 * rules.rankedLength))
          .slice(0, rules.rankedLength)
          .join("");
      const whole = { prefix: query.text, anchor: anchorOf(query.text), limit };
      const words = query.parts.map(({ text, isWhole }) => ({
        prefix: isWhole ? `${text} ` : text,
        anchor: anchorOf(text),
        limit: "",
      }));
      const asked = { settings: shard.rules, texts: isAnyOrder ? [...words, whole] : [whole] };
      const reply = isAnyOrder
        ? (await this.#matches(shard.keys, [asked], signal))[0]
        : await shard.matches.ask(asked, signal);
      if (!reply) return { ...nothing(rules), query };
      if ("items" in reply) {
        if (reply.damaged > 0) this.#events.damaged();
        const items = reply.items.map(({ id, record }) => parseRecord(id, record));
        return { query, rules, items, hasMore: reply.hasMore, truncated: reply.truncated };
      }
      this.#learn(shard, reply.settings, shard.staged);
    }
    throw this.#unsettled();
  }

  #unsettled(): KitError {
    const message = `The settings of ${JSON.stringify(this.#name)} keep changing`;
    return new KitError("KIT_CONFLICT", message, { retryable: true });
  }

  /** Answers queries by weight; undefined if there is no index. */
  async #matches(keys: IndexKeys, asked: readonly Asked[], signal: AbortSignal | undefined): Promise<MatchReply[]> {
    const settings = asked[0]?.settings ?? "";
    const isSame = (one: Asked): boolean => one.settings === settings;
    const same = asked.filter(isSame);
    const args = { settings, texts: same.flatMap(({ texts }) => texts) };
    // The rules may have been updated within the turn.
    const others = asked.filter((one) => !isSame(one));
    const [reply, rest] = await Promise.all([
      scripts.suggest.run(this.#context, keys, args, this.#options(signal)),
      others.length === 0 ? [] : this.#matches(keys, others, undefined),
    ]);
    const found = same.map((_, at) => (reply.state === "found" ? reply.found?.[at] : reply));
    const next = { same: found.values(), other: rest.values() };
    return asked.map((one) => next[isSame(one) ? "same" : "other"].next().value);
  }

  /** Reads rows: by one plain command where it is one range. */
  async #ranges(
    keys: IndexKeys,
    asked: readonly RowRange[],
    signal: AbortSignal | undefined,
  ): Promise<readonly (readonly string[])[]> {
    const [first] = asked;
    if (asked.length > 1 || !first)
      return await scripts.ranges.run(this.#context, keys, { ranges: asked }, this.#options(signal));
    const { from, to, most } = first;
    const what = `ZRANGEBYLEX of ${keys.rows}`;
    const deadline = Deadline.in(this.#settings.deadlineMs);
    const call = reading(what, deadline, signal);
    try {
      const args = [keys.rows, from, to, "LIMIT", "0", String(most)];
      return [(await this.#context.executor.run("ZRANGEBYLEX", args, call)) as string[]];
    } catch (error) {
      if (!isReplyError(error)) throw error;
      // The script's error names the wrong key.
      await scripts.survey.run(this.#context, keys, {}, this.#options(signal));
      throw serverError(error, what);
    }
  }

  /**
   * Answers a query of an alphabetical index by one plain range, without a script: the first `limit` names that begin with it. If
   * there are fewer, or they lie between rows of later words, a longer range has all, and what begins with it sorted by name. A row with the tag of other rules is not
   * found, so no answer mixes two rebuilds; if nothing is found, the rules are read. Undefined if they have changed.
   */
  async #range(
    shard: Shard,
    rules: IndexRules,
    query: Query,
    limit: number,
    signal: AbortSignal | undefined,
  ): Promise<Found | undefined> {
    for (let most = limit + 1; ; most = Math.max(mostRows, 4 * limit)) {
      const rows = await this.#rows(shard, query.text, most, signal);
      if (rows.length === 0 && !(await this.#isStill(shard, signal))) return undefined;
      const itemOf = (row: string): Item => parseRow(row, shard.tag.length, rules);
      const names = rows.filter((row) => isNameRow(row, shard.tag.length));
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
   * The same for words in any order: of the rows of one word those whose names have the other words, too. The longest word
   * is likely the rarest; another one is tried if it is too common to be read completely.
   */
  async #rangeOfWords(
    shard: Shard,
    rules: IndexRules,
    query: Query,
    limit: number,
    signal: AbortSignal | undefined,
  ): Promise<Found | undefined> {
    const most = Math.max(mostRows, 4 * limit);
    let rows: readonly string[] = [];
    for (const { text } of query.parts.toSorted((one, two) => two.text.length - one.text.length)) {
      rows = await this.#rows(shard, text, most, signal);
      if (rows.length < most) break;
    }
    if (rows.length === 0 && !(await this.#isStill(shard, signal))) return undefined;
    const items = new Map(rows.map((row) => parseRow(row, shard.tag.length, rules)).map((item) => [item.id, item]));
    const found = select([...items.values()], query, false);
    const truncated = rows.length >= most;
    return { query, rules, items: found.slice(0, limit), hasMore: found.length > limit || truncated, truncated };
  }

  /** The first rows that begin with a folded text, by the rules that a shard had at the last call. */
  #rows(shard: Shard, prefix: string, most: number, signal: AbortSignal | undefined): Promise<readonly string[]> {
    const from = shard.tag + prefix;
    return shard.ranges.ask({ from: `[${from}`, to: `(${behind(from)}`, most }, signal);
  }

  /** Whether a shard still has the rules of the last call, and no rebuild has switched in between. */
  async #isStill(shard: Shard, signal: AbortSignal | undefined): Promise<boolean> {
    const { settings, switched } = await this.#survey(shard, signal);
    if (settings === "") return true;
    const isStill = settings === shard.rules && switched === shard.switched;
    this.#learn(shard, settings, shard.staged);
    shard.switched = switched;
    return isStill;
  }

  #survey(shard: Shard, signal: AbortSignal | undefined): Promise<scripts.Survey> {
    return scripts.survey.run(this.#context, shard.keys, {}, this.#options(signal));
  }

  #learn(shard: Shard, rules: string, staged: string): void {
    const stored = this.rulesOf(rules);
    if (staged !== "") this.rulesOf(staged);
    shard.staged = staged;
    const before = shard.rules;
    if (rules === before) return;
    const isNew = this.#shards.every((one) => one.rules !== rules);
    const tag = rowTag(rules);
    // All shards have the same rules, except while a rebuild switches one after another.
    for (const one of this.#shards) if (one.rules === before) Object.assign(one, { rules, tag });
    if (isNew && rules !== this.#own) this.#events.mismatch(stored);
  }

  /** A put without a weight keeps the one that the item has, also in shards that do not have the item yet. */
  async #weighed(changes: readonly Change[], signal: AbortSignal | undefined): Promise<readonly Change[]> {
    const ids = changes.flatMap((change) => ("put" in change && change.put.weight === "" ? [change.put.id] : []));
    if (ids.length === 0 || this.#settings.rules.order !== "weight") return changes;
    const all = await Promise.all(
      this.#shards.map(({ keys }) => scripts.weights.run(this.#context, keys, { ids }, this.#options(signal))),
    );
    const weights = new Map(
      ids.map((id, at) => [id, all.map((found) => found[at]).find((weight) => weight !== undefined)]),
    );
    return changes.map((change) => {
      const weight = "put" in change && change.put.weight === "" ? weights.get(change.put.id) : undefined;
      return "put" in change && weight !== undefined ? { put: { ...change.put, weight } } : change;
    });
  }

  /** The revision of a change. The first shard has the rules of all, including shards that are still empty. */
  async #revision(signal: AbortSignal | undefined): Promise<string> {
    const first = this.#first;
    const args = { settings: first.rules };
    const options = this.#options(signal, newToken());
    const { revision, settings } = await scripts.revision.run(this.#context, first.keys, args, options);
    if (settings !== "") this.#learn(first, settings, first.staged);
    return revision;
  }
}
