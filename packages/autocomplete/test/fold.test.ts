import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { fold, foldPrefix, foldVersion } from "../src/fold/index.js";

const tr = { locale: "tr" };
const keep = { marks: "keep" } as const;
const anyText = fc.string({ unit: "binary" }).filter((text) => !/\p{Surrogate}/u.test(text));

describe("fold()", () => {
  it.each([
    ["case", "ANNA", "anna"],
    ["e with a combining acute, and precomposed", "Zoe\u0301", "Zo\u00e9"],
    ["accents", "Søren Åkerblöm", "soren akerblom"],
    ["full-width Latin", "ＡＢＣ", "abc"],
    ["half-width Katakana", "ｶﾞ", "ガ"],
    ["the ligature fi", "ﬁne", "fine"],
    ["one half", "½", "1⁄2"],
    ["sharp s, SS and capital sharp s", "Straße", "STRASSE"],
    ["capital sharp s", "STRAẞE", "strasse"],
    ["a final sigma that is half typed", "ΣΊΣΥΦΟΣ", "σίσυφοσ"],
    ["sigma at the end, and within", "ΟΔΟΣ", "οδοσ"],
    ["Turkish letters where no locale is named", "DIYARBAKIR İstanbul ısparta", "diyarbakir istanbul isparta"],
    ["zero-width joiners, soft hyphens and variation selectors", "a\u200db\u00adc\ufe0f", "abc"],
    ["white space of all kinds", "\u3000a \t\n\u00a0b\u2003 ", "a b"],
    ["Arabic vowel signs and hamza", "أَحْمَد", "احمد"],
    ["yeh and kaf of an Arabic and of a Persian keyboard", "علي كريمي", "علی کریمی"],
    ["alef maqsura and yeh, teh marbuta and heh, alef wasla", "مصطفى مكة ٱلله", "مصطفي مكه الله"],
    ["a word that tatweels stretch, and its presentation forms", "محـــمد ﻣﺤﻤﺪ", "محمد محمد"],
    ["the digits of other scripts", "٢٥ ۲۵ २५ ২৫ ౨౫ ൨൫ ๒๕ ២៥ ２５", "25 25 25 25 25 25 25 25 25"],
    ["a full-width apostrophe", "O\uff07Neil", "O'Neil"],
    ["yo", "Ёлка", "елка"],
    ["the apostrophe of a phone and of a keyboard", "O\u2019Neil", "O'Neil"],
    ["the letters that transcriptions use as apostrophes", "Qur\u02bcan \u02bbAmran", "Qur'an 'Amran"],
    ["an acute or grave accent typed for an apostrophe", "O\u00b4Neil D`Arc", "O'Neil D'Arc"],
    ["hyphens and dashes of all kinds", "Jean\u2010Luc\u2011A\u2013B\u2212C", "Jean-Luc-A-B-C"],
    ["runs of punctuation, and spaces", "St. Petersburg, (Florida) - U.S.", "st petersburg florida u s"],
  ])("takes for the same: %s", (_what, one, other) => {
    expect(fold(one)).toBe(fold(other));
  });

  it.each([
    ["й and и", "й", "и"],
    ["ka and ga", "か", "が"],
    ["Hindi vowels", "कि", "की"],
    ["Thai vowels", "กิ", "กี"],
    ["signs without any letter", "!!!", "???"],
    ["emoji and flags", "👍🏻", "👍🏿"],
  ])("distinguishes letters of their own: %s", (_what, one, other) => {
    expect(fold(one)).not.toBe(fold(other));
  });

  it("distinguishes dotted and dotless i where the locale does", () => {
    expect(fold("IĞDIR", tr)).toBe("ıgdır");
    expect(fold("İZMİR", tr)).toBe("izmir");
    expect(fold("ısparta", tr)).not.toBe(fold("isparta", tr));
    expect(fold("TITLE", { locale: "de" })).toBe("title");
  });

  it('keeps accents with `marks: "keep"`, however they are written', () => {
    expect(fold("Zoe\u0301", keep)).toBe("zo\u00e9");
    expect(fold("Zoé", keep)).not.toBe(fold("Zoe", keep));
    expect([fold("علی", keep), fold("مكة", keep)]).toEqual([fold("علي", keep), "مكة"]);
  });

  it("makes each state of a Korean syllable that is being typed a prefix of the next", () => {
    for (const states of [
      ["ㅎ", "하", "한", "한ㄱ", "한그", "한글"],
      ["ㄱ", "가", "갑", "값"],
      ["ㄱ", "가", "각", "가구"],
      ["ㄱ", "고", "과", "광"],
    ])
      for (const state of states) expect(fold(states.at(-1)!).startsWith(fold(state)), state).toBe(true);
  });

  it("folds what is folded to itself", () => {
    fc.assert(
      fc.property(anyText, fc.constantFrom({}, tr, keep), (text, options) => {
        expect(fold(fold(text, options), options)).toBe(fold(text, options));
      }),
      { numRuns: 3_000 },
    );
  });

  it("does not depend on case or on how characters are composed", () => {
    fc.assert(
      fc.property(anyText, (text) => {
        expect(fold(text.normalize("NFD"))).toBe(fold(text.normalize("NFC")));
        expect(fold(fold(text).toUpperCase())).toBe(fold(text));
      }),
      { numRuns: 3_000 },
    );
  });

  it("keeps one space at the end of a prefix, and refuses half a surrogate pair", () => {
    expect(foldPrefix("  Bob \t ")).toBe("bob ");
    expect(() => fold("\ud83d")).toThrow(RangeError);
    expect(() => fold("é\udc00")).toThrow(RangeError);
  });

  it("names its rules and the Unicode version", () => {
    expect(foldVersion).toBe(`3/${process.versions["unicode"]!}`);
  });
});
