// The search box and its page, over HTTP.
import { describe, expect, it } from "vitest";
import { ask } from "../src/common/http-client.js";
import { useSharedShop } from "./shop.js";

const shop = useSharedShop();

describe("The search", () => {
  it.each([
    ["mül", /Müller/],
    ["muller", /Müller/],
    ["brass lamp", /^Brass .*\blamp\b/],
    ["lamp brass", /^Brass .*\blamp\b/],
    ["fabric brass la", /^Brass .*\blamp, with fabric/],
    ["bra lamp", /^Brass .*\blamp\b/],
    ["bras lamp", /^Brass .*\blamp\b/],
    ["brsas lamp", /^Brass .*\blamp\b/],
    ["lanp brass", /^Brass .*\blamp\b/],
    ["sextnat", /sextant/],
  ])("finds %s, whatever the order of its words and with a typing error", async (words, name) => {
    const { body } = await ask(shop.origin, `/suggest?q=${encodeURIComponent(words)}`);
    const found = (JSON.parse(body) as { text: string }[]).map(({ text }) => text);
    expect(found.length).toBeGreaterThan(0);
    for (const text of found) expect(text).toMatch(name);
    const page = await ask(shop.origin, `/search?q=${encodeURIComponent(words)}`);
    expect(page.body).toMatch(/class="results"/);
  });

  it("shows forty names to a page, and all of them on the pages after it", async () => {
    const hrefs = async (page: number): Promise<string[]> => {
      const { body } = await ask(shop.origin, `/search?q=with&page=${page}`);
      return [...body.matchAll(/<a href="(\/item\/\w+)"\s*><span class="kind">/g)].map(([, href = ""]) => href);
    };
    const [first, second] = [await hrefs(1), await hrefs(2)];
    expect([first.length, second.length]).toEqual([40, 40]);
    expect(new Set([...first, ...second]).size).toBe(80);
    expect((await ask(shop.origin, "/search?q=with&page=2")).body).toMatch(/Names 41 to 80 with.*rel="next"/s);
    expect((await ask(shop.origin, "/search?q=with&page=5")).body).not.toContain('rel="next"');
    expect((await ask(shop.origin, "/search?q=with&page=6")).status).toBe(404);
  });

  it("says that it found another spelling, and finds nothing under what is no word", async () => {
    const mended = (await ask(shop.origin, "/search?q=lanp%20brass")).body;
    expect(mended).toMatch(/lamp brass/);
    for (const words of ["zzzzzzzz", "brass zzzzzzzz", "zz qq xx"]) {
      const { body } = await ask(shop.origin, `/search?q=${encodeURIComponent(words)}`);
      expect(body).toContain("No matches");
      expect(body).not.toContain('class="results"');
    }
  });
});
