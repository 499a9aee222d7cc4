import { useRedis } from "@kit/testing";
import fc from "fast-check";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import type { Entry, PrefixIndex, PrefixIndexOptions, Suggestions } from "../src/index.js";
import { foldPrefix } from "../src/fold/index.js";
import { asTyped } from "../src/matching.js";
import { fixtureOf, permanentKeys } from "./harness.js";

const redis = useRedis(vitest, { permanentKeys });
const fixture = fixtureOf(redis);

/** How many characters are to be replaced, added, left out or swapped with a neighbour (optimal string alignment). */
const distance = (one: readonly string[], two: readonly string[]): number => {
  const rows = [two.map((_, at) => at), []].map((row) => (row.length > 0 ? [...row, two.length] : [0]));
  one.forEach((character, at) => {
    const [before, row] = [rows[at]!, [at + 1]];
    rows[at + 1] = row;
    two.forEach((other, column) => {
      const isSwap = at > 0 && column > 0 && character === two[column - 1] && one[at - 1] === other;
      row.push(
        Math.min(
          before[column]! + (character === other ? 0 : 1),
          before[column + 1]! + 1,
          row[column]! + 1,
          isSwap ? rows[at - 1]![column - 1]! + 1 : Infinity,
        ),
      );
    });
  });
  return rows[one.length]!.at(-1)!;
};

const asian = String.raw`[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}]`;
const closed = new RegExp(String.raw`(?<=[\p{L}\p{N}]\p{M}*)-(?=[\p{L}\p{N}])|(?<=${asian}) (?=${asian})`, "gu");

/** All forms of a name: folded, then without apostrophes between letters, then also without hyphens and spaces in Asian scripts. */
const wholeOf = (text: string): string => {
  const joined = text.replace(/(?<=\p{L}\p{M}*)'(?=\p{L})/gu, "");
  const forms = new Set([text, joined, joined.replace(closed, "")]);
  return [...forms].map((form) => foldPrefix(`${form} `)).join("\u0002");
};

/** The same index, in memory and without any index: each query looks at every word of every entry. */
class Model {
  readonly #entries = new Map<string, { text: string; weight: number; payload: unknown }>();
  readonly #isRanked: boolean;

  constructor(isRanked: boolean) {
    this.#isRanked = isRanked;
  }

  put({ id, text, weight, payload }: Entry): void {
    this.#entries.set(id, { text, weight: weight ?? this.#entries.get(id)?.weight ?? 0, payload });
  }

  delete(id: string): boolean {
    return this.#entries.delete(id);
  }

  touch(id: string, by: number): boolean {
    const entry = this.#entries.get(id);
    if (entry) entry.weight = Math.max(0, entry.weight + by);
    return entry !== undefined;
  }

  suggest(query: string, limit: number): { id: string; text: string; weight: number; payload: unknown }[] {
    const prefix = foldPrefix(query);
    if (prefix === "") return [];
    const found = [...this.#entries].flatMap(([id, entry]) => {
      const words = this.#words(wholeOf(entry.text));
      const best = words.filter(({ suffix }) => suffix.startsWith(prefix)).toSorted((a, b) => a.row.compare(b.row))[0];
      return best
        ? [
            {
              id,
              entry,
              row: Buffer.concat([best.row, Buffer.from(id)]),
              isExact: words[0]!.suffix.split("\u0002")[0] === `${prefix.trimEnd()} `,
              isFirst: words[0]!.suffix.startsWith(prefix),
              name: Buffer.from(`${words[0]!.suffix}\0${id}`),
            },
          ]
        : [];
    });
    const all = found
      .toSorted((a, b) => {
        if (!this.#isRanked) return Number(b.isFirst) - Number(a.isFirst) || a.name.compare(b.name);
        return Number(b.isExact) - Number(a.isExact) || b.entry.weight - a.entry.weight || a.row.compare(b.row);
      })
      .map(({ id, entry }) => ({ id, ...entry }));
    return asTyped(all, query, { match: "word-start", fold: { marks: "fold", locale: "" } }).slice(0, limit);
  }

  /** The ids of names that have all words of a query, the last one half typed unless a space is behind it. */
  withWords(query: string): string[] {
    const typed = foldPrefix(query).split(" ");
    const last = typed.pop() ?? "";
    return [...this.#entries].flatMap(([id, { text }]) => {
      const words = this.#words(wholeOf(text)).map(({ suffix }) => suffix);
      const has = (word: string): boolean =>
        words.some((suffix) => suffix.startsWith(word) && !/^[a-z0-9\u0080-\uffff]/.test(suffix.slice(word.length)));
      return typed.every(has) && words.some((suffix) => suffix.startsWith(last)) ? [id] : [];
    });
  }

  /** The ids of names with a word that begins like a query with one wrong character. */
  mistyped(query: string): string[] {
    const typed = Array.from(foldPrefix(query));
    return [...this.#entries].flatMap(([id, { text }]) => {
      const words = this.#words(wholeOf(text)).map(({ suffix }) => Array.from(suffix));
      return words.some((word) => word.some((_, end) => distance(typed, word.slice(0, end + 1)) <= 1)) ? [id] : [];
    });
  }

  #words(folded: string): { suffix: string; row: Buffer }[] {
    const all = Array.from(folded);
    const isWord = (one: string | undefined): boolean => one !== undefined && /[\p{L}\p{N}\p{M}]/u.test(one);
    return all.flatMap((one, at) => {
      const before = all[at - 1];
      const begins =
        at === 0 ||
        (one !== " " &&
          (before === " " || /\p{Script=Han}/u.test(one) || (/[\p{L}\p{N}]/u.test(one) && !isWord(before))));
      const suffix = all.slice(at).join("");
      return begins ? [{ suffix, row: Buffer.from(`${suffix}\0${at === 0 ? "0" : "1"}`) }] : [];
    });
  }
}

// A small alphabet with all that is hard in it, so that names meet.
const letter = fc.constantFrom(
  ...Array.from("aaabbAB  -'ßéeİıΣς́ñ東京한하ｱﬁ½"),
  "e\u0301",
  "\u{1f468}\u200d\u{1f469}",
  "\u{1f468}",
  "\u{1f3fd}",
  "\uffee",
  "\u{10400}",
);
const text = fc
  .array(letter, { minLength: 1, maxLength: 7 })
  .map((letters) => letters.join(""))
  .filter((one) => foldPrefix(one).trim() !== "");
const id = fc.constantFrom("1", "2", "3", "4", "5", "6", "é", "\u{10400}", "x\0y");
const weight = fc.option(fc.integer({ min: 0, max: 3 }), { nil: undefined });
const step = fc.oneof(
  fc.record({ id, text, weight, payload: fc.option(fc.jsonValue({ maxDepth: 1 }), { nil: undefined }) }),
  fc.record({ drop: id }),
  fc.record({ touch: id, by: fc.integer({ min: -2, max: 2 }) }),
);
const query = fc.array(letter, { maxLength: 3 }).map((letters) => letters.join(""));

const expectSame = async (index: PrefixIndex, model: Model, query: string, limit: number): Promise<void> => {
  // JSON has no -0.
  const wanted = model.suggest(query, limit).map((one) => JSON.parse(JSON.stringify(one)) as unknown);
  const { items, truncated } = await index.suggest(query, { limit });
  const shown = items.map(({ id: of, text: shownText, weight: shownWeight, payload }) => ({
    id: of,
    text: shownText,
    weight: shownWeight,
    payload,
  }));
  expect(shown.map((one) => JSON.parse(JSON.stringify(one)) as unknown)).toEqual(wanted);
  expect(truncated).toBe(false);
};

type Step = Entry | { readonly drop: string } | { readonly touch: string; readonly by: number };

/** One step of an index or of the model, and its result. */
const take = async (on: PrefixIndex | Model, one: Step, isRanked: boolean): Promise<boolean | undefined> => {
  if ("drop" in one) return await on.delete(one.drop);
  if ("text" in one) await on.put(one);
  if ("text" in one || !isRanked) return undefined;
  return await (on instanceof Model ? on.touch(one.touch, one.by) : on.touch(one.touch, { by: one.by }));
};

describe.each<[string, PrefixIndexOptions]>([
  ["alphabetical", {}],
  ["by weight", { order: "weight" }],
  ["by weight, in four shards", { order: "weight", shards: 4, rankedLength: 1 }],
])("an index that is %s", (what, options) => {
  it("answers as a list of names that is searched whole, whatever was put, deleted and touched", async () => {
    let runs = 0;
    await fc.assert(
      fc.asyncProperty(
        fc.array(step, { maxLength: 14 }),
        fc.array(query, { minLength: 6, maxLength: 6 }),
        async (steps, queries) => {
          const isRanked = options.order === "weight";
          const index = fixture.index({ ...options, name: `${what}${String(runs++)}` });
          const model = new Model(isRanked);
          for (const one of steps) expect(await take(index, one, isRanked)).toBe(await take(model, one, isRanked));
          for (const query of queries) await expectSame(index, model, query, 1 + (query.length % 5));
          for (const query of options.shards ? [] : [queries.slice(0, 2), queries.slice(2, 4), queries.slice(4)]) {
            const typed = query.join(" ");
            const { items } = await index.suggest(typed, { words: "any-order" });
            const wanted = foldPrefix(typed) === "" ? [] : model.withWords(typed);
            expect(items.map((one) => one.id).toSorted()).toEqual(wanted.toSorted());
          }
          for (const query of queries.map((one, at) => one + (queries[at + 1] ?? ""))) {
            const folded = foldPrefix(query);
            if (folded.includes(" ") || Array.from(folded).length < 4) continue;
            const { items, truncated } = await index.suggest(query, { typos: 1, limit: 200 });
            const [found, wanted] = [items.map((one) => one.id).toSorted(), model.mistyped(query).toSorted()];
            const wrong = found.filter((id) => !wanted.includes(id));
            const missing = truncated ? [] : wanted.filter((id) => !found.includes(id));
            expect({ wrong, missing }).toEqual({ wrong: [], missing: [] });
          }
          await index.purge();
          await index.close();
        },
      ),
      { numRuns: 150 },
    );
    expect(await redis.keys()).toEqual([]);
  });
});

it("answers a session of random keystrokes as the server would", async () => {
  let runs = 0;
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.record({ id, text, weight }), { minLength: 1, maxLength: 9 }),
      fc.array(query, { minLength: 8, maxLength: 8 }),
      fc.constantFrom("alphabetical" as const, "weight" as const),
      fc.constantFrom("in-order" as const, "any-order" as const),
      async (entries, queries, order, words) => {
        const index = fixture.index({ order, name: `session${String(runs++)}` });
        await index.putMany(entries);
        const session = index.session({ limit: 3, prefetch: 5, words });
        for (const query of queries) {
          const answer = await session.type(query);
          const { items, hasMore, truncated } = answer!;
          // With words in any order, items of equal weight have no particular order.
          const shown = (of: Suggestions): unknown =>
            words === "in-order" ? of : of.items.map(({ weight: shownWeight }) => shownWeight);
          expect(shown({ items, hasMore, truncated })).toEqual(shown(await index.suggest(query, { limit: 3, words })));
        }
        session.close();
        await index.purge();
        await index.close();
      },
    ),
    { numRuns: 100 },
  );
});
