import { describe, expect, it } from "vitest";
import { historyDays, historyFile, logLine } from "../src/seed/access-log.js";
import { money, parsePence, parsePrice, priceField } from "../src/common/money.js";
import { picture } from "../src/market/pictures.js";
import { world } from "../src/seed/index.js";
import { personas } from "../src/seed/personas.js";
import { categories } from "../src/seed/categories.js";

describe("The opening", () => {
  const opening = world(1_912);

  it("is the same on every run, and another for another seed", () => {
    expect(world(1_912)).toEqual(opening);
    expect(world(1_913)).not.toEqual(opening);
  });

  it("has 60 sellers, 800 buyers, 1,200 items, and nobody's name twice", () => {
    const { users, items } = opening;
    expect(users.filter(({ isSeller }) => isSeller)).toHaveLength(60);
    expect(new Set(users.map(({ name }) => name)).size).toBe(860);
    expect(items).toHaveLength(1_200);
    expect(items.filter(({ price }) => price === null).length).toBeGreaterThan(100);
    expect(new Set(items.map(({ category }) => category)).size).toBe(12);
  });

  it("has a seller whom the tour and the search page tell visitors to look for", () => {
    expect(opening.users.filter(({ name, isSeller }) => isSeller && /Müller/.test(name))).toHaveLength(1);
  });

  it("mixes scripts: accents, Chinese, Korean, Hebrew, Arabic, and one emoji", () => {
    const names = opening.users.map(({ name }) => name);
    for (const script of [
      /\p{L}\p{M}|[éöøłřçñ]/u,
      /\p{Script=Han}/u,
      /\p{Script=Hangul}/u,
      /\p{Script=Hebrew}/u,
      /\p{Script=Arabic}/u,
      /\p{Script=Devanagari}/u,
    ])
      expect(names.some((name) => script.test(name))).toBe(true);
    expect(names.filter((name) => /\p{Extended_Pictographic}/u.test(name))).toHaveLength(1);
    for (const name of names) expect(name).not.toMatch(/\p{Surrogate}/u);
  });

  it("prices in whole pence within the bounds of each category, and offers nothing of a buyer's", () => {
    const { users, items } = opening;
    const sellers = new Set(users.filter(({ isSeller }) => isSeller).map(({ id }) => id));
    for (const { price, category, owner } of items) {
      if (price === null) continue;
      const [lowest = 0, highest = 0] = categories.find(({ id }) => id === category)?.pounds ?? [];
      expect(Number.isInteger(price)).toBe(true);
      expect(price).toBeGreaterThanOrEqual(lowest * 100 * 0.9);
      expect(price).toBeLessThanOrEqual(highest * 100 * 1.1);
      expect(sellers.has(owner)).toBe(true);
    }
  });

  it("offers a dozen different personas that exist", () => {
    const list = personas(opening);
    expect(new Set(list.map(({ id }) => id)).size).toBe(12);
    for (const { id } of list) expect(opening.users.some((user) => user.id === id)).toBe(true);
  });
});

describe("A picture", () => {
  it("is drawn for every item: its own, the same each time, without styles or scripts", () => {
    const { items } = world(1_912);
    const pictures = items.map(({ id, category }) => picture(id, category));
    expect(new Set(pictures).size).toBe(items.length);
    expect(picture(items[0]?.id ?? "", items[0]?.category ?? "")).toBe(pictures[0]);
    for (const svg of pictures) {
      expect(svg).toMatch(/^<svg xmlns="http:\/\/www\.w3\.org\/2000\/svg" viewBox="0 0 400 300".*<\/svg>$/);
      expect(svg).not.toMatch(/style|script|href=|NaN|undefined/);
    }
  });
});

describe("Money", () => {
  it.each([
    ["12", 1_200],
    ["12.5", 1_250],
    [" £1,234.50 ", 123_450],
    ["0.01", 1],
    ["1000000", 100_000_000],
    ["0", null],
    ["0.001", null],
    ["-1", null],
    ["1e3", null],
    ["1,00", null],
    ["1000000.01", null],
    ["", null],
    ["٣", null],
  ])("reads %j as %j", (text, pence) => {
    expect(parsePrice(text)).toBe(pence);
  });

  it("comes back from the field it was put in, for every price of the shop", () => {
    const prices = world(1_912).items.flatMap(({ price }) => price ?? []);
    expect(prices.map(priceField).map(parsePrice)).toEqual(prices);
    expect(money(123_450)).toBe("£1,234.50");
  });

  it.each([
    ["1", 1],
    ["100000000", 100_000_000],
    ["100000001", null],
    ["0", null],
    ["01", null],
    ["1.0", null],
    [undefined, null],
  ])("takes %j from a form as %j", (text, pence) => {
    expect(parsePence(text)).toBe(pence);
  });
});

describe("The access log", () => {
  it("keeps a hostile request on its line, and 200,000 lines of history in thirty files", () => {
    const line = { address: "240.1.2.3", at: 0, status: 200, bytes: 1 };
    const text = logLine({ ...line, method: "GET\r\n", path: '/"\n240.0.0.1 - - [x] "\\', agent: '\u0000"<script>\n' });
    expect(text.split("\n")).toHaveLength(2);
    expect(text.match(/"/g)).toHaveLength(6);
    const days = historyDays(Date.now(), 30);
    expect(days).toHaveLength(30);
    const lines = days.reduce((sum, day) => sum + historyFile(day).join("").split("\n").length - 1, 0);
    expect(lines).toBeGreaterThan(195_000);
    expect(lines).toBeLessThan(210_000);
  });
});
