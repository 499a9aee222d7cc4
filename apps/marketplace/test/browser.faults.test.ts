// In a browser: races and deliberate faults. It has a shop of its own, since the whole shop is cut off and slowed down.
import { eventually } from "@kit/testing";
import { afterAll, beforeAll, expect, it } from "vitest";
import { ask } from "../src/common/http-client.js";
import { fault, firstItem, inBrowser, press, signIn, stepMs, useBrowser, type Watched } from "./browser.js";
import { type RunningShop, startShop } from "./shop.js";

inBrowser("Under stress", () => {
  let shop: RunningShop;
  beforeAll(async () => {
    shop = await startShop("--no-visitors");
    await shop.isComplete();
  });
  afterAll(() => shop.stop());
  const open = useBrowser(() => shop);

  it("a worker, a lock holder, the sellers' program, a chat and a poison job break at once, and each promise holds", async () => {
    const { page, complaints, close } = await open();
    const names = ["worker", "holder", "sellers", "flood", "poison"];
    for (const name of names) await press(page, name);
    for (const name of names) {
      await page.locator(`${fault(name)} .mark`).waitFor();
      expect([name, await page.locator(`${fault(name)} .mark.good`).count()]).toEqual([name, 1]);
    }
    expect(await page.textContent(fault("worker"))).toMatch(
      /worker \d \(pid \d+\) was killed .* worker \d finished it .* after 1 crash\. The payment was requested [2-9] times with the same id, and made once\./s,
    );
    expect(await page.textContent(fault("holder"))).toMatch(/Rejected: .*token/s);
    await page.goto("/ops");
    expect(await page.textContent("#ops-events")).toContain("was killed");

    // The dead letter is retried by hand, and the printer has been mended.
    expect(await page.textContent(".letters")).toContain("5 attempts");
    const letter = page.locator(".letters li").first();
    const id = (await letter.locator("code").textContent()) ?? "";
    await letter.locator("text=Retry").click();
    expect(await page.textContent(".notice.good")).toContain("back in the queue");
    expect(await page.locator(`.letters code:text-is("${id}")`).count()).toBe(0);
    expect(complaints).toEqual([]);
    await close();
  });

  /** Cuts Redis off, again and again, until `isSeen` finds the shop closed: a slow browser can miss five seconds. */
  const inOutage = async ({ page }: Watched, isSeen: (attempt: number) => Promise<boolean>): Promise<void> => {
    for (let attempt = 1; ; attempt++) {
      await press(page, "cut");
      const ended = page.locator(`${fault("cut")} .mark`);
      do if (await isSeen(attempt)) return ended.waitFor();
      while ((await ended.count()) === 0);
    }
  };

  it.each([true, false])(
    "a page that was asked for in an outage comes by itself (scripts: %s)",
    async (javaScriptEnabled) => {
      const { page, close } = await open({ javaScriptEnabled });
      const other = await open();
      const path = "/item/i1?from=here";
      await inOutage(other, async () => {
        if ((await page.goto(path))?.status() !== 503) return false;
        expect(await page.textContent("h1")).toBe("Temporarily unavailable");
        await page.locator(".asked").waitFor();
        expect(page.url()).toBe(`${shop.origin}${path}`);
        return true;
      });
      await close();
      await other.close();
    },
  );

  it("a form that was sent in an outage leads back to its page", async () => {
    const here = await open();
    const { page, close } = here;
    const other = await open();
    await signIn(here);
    await firstItem(here, "clocks");
    const item = new URL(page.url()).pathname;
    const path = `${item}?from=here`;
    const button = page.locator("text=Hold its lock");
    await inOutage(other, async () => {
      if ((await ask(shop.origin, "/invariants")).status !== 503) {
        if (!page.url().endsWith(path)) await page.goto(path);
        return false;
      }
      // The outage may have begun before the page was there.
      if (!page.url().endsWith(path) || !(await button.isVisible())) return false;
      const answer = page.waitForResponse((response) => response.request().method() === "POST");
      const [sent] = await Promise.all([answer, button.click()]);
      if (sent.status() !== 503) return false;
      await page.waitForURL(path);
      await page.locator(".asked").waitFor();
      expect(page.url()).toBe(`${shop.origin}${path}`);
      return true;
    });
    await close();
    await other.close();
  });

  it.each([
    ["none", /^\s*Sold (?:[2-9]|[1-4]\d|50) times$/],
    ["optimistic", /^\s*Sold once$/],
    ["lock", /^\s*Sold once$/],
    ["poor", /^\s*1 purchase of 50 went through$/],
  ])("a race is run and told: %s", async (way, headline) => {
    const { page, complaints, close } = await open();
    // On a busy machine buyers may get no answer in time: then the race is run again. Every race is judged.
    let answers: string | null = "";
    for (let races = 0; races < 5 && !answers?.includes("50 of 50"); races++) {
      await page.goto(`/race?way=${way}`);
      await page.click(".race .start button");
      await page.waitForURL(/\/race\/race-/);
      expect(await page.textContent(".headline")).toMatch(headline);
      answers = await page.textContent("table");
    }
    expect(answers).toContain("50 of 50");
    expect(await page.locator(".result .dot").count()).toBe(50);
    expect(await page.locator(".result .dot.won").count()).toBeGreaterThan(way === "none" ? 1 : 0);
    expect(await page.locator(".checks .mark.bad").count()).toBe(way === "none" ? 2 : 0);
    const result: unknown = JSON.parse(
      (await ask(shop.origin, new URL(page.url()).pathname, { accept: "application/json" })).body,
    );
    const told = way === "lock" ? { sold: 1, refused: { "not-for-sale": 49 }, recount: { owned: 1 } } : { way };
    expect(result).toMatchObject(told);
    // The bar judges the shop, not the race.
    expect(await page.locator(".bar .mark.bad").count()).toBe(0);
    // The result stays when tabs change.
    await page.click(".tabs >> text=SETNX");
    await page.click(`.tabs a[href="/race?way=${way}"]`);
    expect(await page.textContent(".headline")).toMatch(headline);
    expect(complaints).toEqual([]);
    await close();
  });

  it("a buyer is stopped in the middle: SETNX sells twice, the fencing token refuses", async () => {
    const { page, complaints, close } = await open();
    await page.goto("/race/pause");
    await page.click("main .start button");
    await page.waitForSelector(".steps");
    const [setnx, lock] = await page.locator(".headline").allTextContents();
    expect([setnx?.trim(), lock?.trim()]).toEqual(["Sold 2 times", "Sold once"]);
    expect(await page.textContent(".pauses .panel:last-child")).toMatch(
      /Rejected: the item has seen token \d{16}, and \d{16} is older/,
    );
    expect(complaints).toEqual([]);
    await close();
  });

  it("round trips are measured on request", async () => {
    const { page, complaints, close } = await open();
    await page.goto("/pipeline");
    expect(await page.locator("table").count()).toBe(0);
    await page.click("main .start button");
    await page.waitForSelector("table");
    expect(await page.locator("tbody tr").count()).toBe(6);
    expect(complaints).toEqual([]);
    await close();
  });

  it("Redis is cut off: the page says so, comes back by itself, and nothing is lost", async () => {
    const { page, close } = await open();
    await press(page, "cut");
    await page.locator("#bar-money .mark.bad").waitFor();
    expect(await page.textContent("#bar-money")).toMatch(/unknown for \d+ s/);
    await page.locator("#bar-money .mark.good").waitFor();
    await page.locator(`${fault("cut")} .mark.good`).waitFor();
    const said = (await page.textContent(fault("cut"))) ?? "";
    expect(said).toContain("Money and items are unchanged");
    // The promise is 3 s, on a machine that does nothing else.
    expect(Number(/first reply came ([\d.]+) s/.exec(said)?.[1])).toBeLessThan(15);
    await close();
  });

  it("a file is shipped: what is counted never falls, and in the end is what was shipped", async () => {
    const { page, complaints, close } = await open();
    await page.goto("/logs");
    const number = async (name: string): Promise<number> =>
      Number(
        ((await page.locator(`#logs-now div:has(> dt:text-is("${name}")) dd`).textContent()) ?? "").replace(/\D/g, ""),
      );
    const seen = [await number("Counted exactly once")];
    await page.click("text=Ship a file of 20,000 lines");
    await eventually(
      async () => {
        const now = await number("Counted exactly once");
        seen.push(now);
        expect(now - seen[0]!).toBeGreaterThanOrEqual(20_000);
        expect(now).toBe(await number("Lines"));
      },
      { timeoutMs: stepMs, intervalMs: 300 },
    );
    expect(seen).toEqual(seen.toSorted((a, b) => a - b));
    expect(await page.locator(".heat tbody tr").count()).toBeGreaterThan(5);
    expect(await page.textContent("main")).toContain("Synthetic geography");
    expect(complaints).toEqual([]);
    await close();
  });
});
