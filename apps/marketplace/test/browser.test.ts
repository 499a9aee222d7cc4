// In a real browser: Chromium by CHROMIUM_PATH, or on PATH.
import { accessSync, constants } from "node:fs";
import { delimiter, join } from "node:path";
import { eventually } from "@kit/testing";
import { type Browser, type BrowserContextOptions, chromium, type Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ask } from "../src/http-client.js";
import { type RunningShop, startShop, Visitor } from "./shop.js";

const findBrowser = (): string | undefined => {
  if (process.env["CHROMIUM_PATH"]) return process.env["CHROMIUM_PATH"];
  for (const name of ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"])
    for (const folder of (process.env["PATH"] ?? "").split(delimiter)) {
      const file = join(folder, name);
      try {
        accessSync(file, constants.X_OK);
        return file;
      } catch {
        continue;
      }
    }
  return undefined;
};

const executablePath = findBrowser();
if (!executablePath)
  process.stderr.write("Browser tests are skipped: install Chromium (apt install chromium) or set CHROMIUM_PATH\n");

/** Run in the page: what can be pressed and is lower than a finger is wide. Links inside of sentences are let off. */
const tooSmall = `[...document.querySelectorAll("a:not(.skip, p a, .note), button, input:not([type=hidden])")]
  .filter((element) => element.checkVisibility())
  .map((element) => ({ text: element.textContent.trim(), height: element.getBoundingClientRect().height }))
  .filter(({ height }) => height < 44)`;

describe.skipIf(!executablePath)("In the browser", () => {
  let shop: RunningShop;
  let browser: Browser;

  beforeAll(async () => {
    shop = await startShop();
    browser = await chromium.launch({ executablePath: executablePath ?? "", args: ["--disable-dev-shm-usage"] });
  });
  afterAll(async () => {
    await browser.close();
    await shop.stop();
  });

  interface Watched {
    readonly page: Page;
    /** Requests that would leave the machine, errors of the console, errors of scripts. */
    readonly complaints: string[];
  }

  const open = async (options: BrowserContextOptions = {}): Promise<Watched> => {
    const context = await browser.newContext({
      baseURL: shop.origin,
      viewport: { width: 1280, height: 800 },
      ...options,
    });
    const page = await context.newPage();
    const complaints: string[] = [];
    page.on("request", (request) => {
      if (!request.url().startsWith(shop.origin)) complaints.push(`off host: ${request.url()}`);
    });
    page.on("console", (message) => {
      if (message.type() === "error" || message.type() === "warning") complaints.push(message.text());
    });
    page.on("pageerror", (error) => complaints.push(error.message));
    return { page, complaints };
  };

  const signIn = async (page: Page, role = "rich buyer"): Promise<void> => {
    await page.goto("/personas");
    await page.click(`.persona:has-text("${role}")`);
    await page.waitForURL("/");
  };

  const reports = async (): Promise<unknown> => JSON.parse((await ask(shop.origin, "/csp-report")).body);

  const firstItem = async (page: Page, path = "/?category=books"): Promise<void> => {
    await page.goto(path);
    await page.click(".card a");
    await page.waitForURL(/\/item\//);
  };

  it.each(["Buy with the lock", "Buy optimistically"])("a visitor buys: %s", async (button) => {
    const { page, complaints } = await open();
    await signIn(page);
    await firstItem(page);
    await page.click(`text=${button}`);
    await page.waitForSelector(".notice.good");
    expect(await page.textContent(".notice")).toMatch(/^Yours: .+ for £/);
    expect(await page.textContent(".seller")).toBe("This is yours.");
    expect(complaints).toEqual([]);
    await page.context().close();
  });

  it("a visitor lists what they bought, and sees it first on the market", async () => {
    const { page, complaints } = await open();
    await signIn(page);
    await page.goto("/me");
    await page.click(".card a");
    const title = await page.textContent("h1");
    await page.fill("#pounds", "12.34");
    await page.click("text=List it optimistically");
    await page.waitForSelector(".notice.good");
    await page.goto("/");
    expect(await page.textContent(".card >> nth=0")).toContain("£12.34");
    expect(await page.textContent(".card >> nth=0")).toContain(title?.trim());
    expect(complaints).toEqual([]);
    await page.context().close();
  });

  it("the lock panel and the bar are live: held by somebody, others wait, let go", async () => {
    const { page, complaints } = await open();
    await firstItem(page, "/?category=plants");
    const lock = page.locator("#lock");
    await lock.locator(".chip.free").waitFor();
    const visitor = new Visitor(shop.origin);
    const csrf = await visitor.signIn("u61");
    const path = new URL(page.url()).pathname;
    await visitor.post(`${path}/hold`, { csrf });
    await lock.locator(".chip.held").waitFor();
    const left = async (): Promise<number> =>
      Number.parseFloat((await lock.locator("[data-lock=left]").textContent()) ?? "");
    expect(await lock.locator("[data-lock=fence]").textContent()).toMatch(/^\d{16}$/);
    const seen = await left();
    await eventually(async () => expect(await left()).not.toBe(seen));

    // Somebody buys under the lock: stands in line until it is let go, then the page says that it is out of date.
    const other = new Visitor(shop.origin);
    const token = await other.signIn("u62");
    const waiting = other.post(`${path}/hold`, { csrf: token });
    await eventually(async () => expect(await lock.locator("[data-lock=waiters]").textContent()).toBe("1"));
    await lock.locator(".queue li").waitFor();
    await waiting;
    expect(complaints).toEqual([]);
    await page.context().close();
  });

  it("a page whose item was sold meanwhile says so, and updates can be paused", async () => {
    const { page } = await open();
    await signIn(page);
    await firstItem(page, "/?category=records");
    const buyer = (await open()).page;
    await signIn(buyer);
    await page.click("[data-pause]");
    expect(await page.getAttribute("[data-pause]", "aria-pressed")).toBe("true");
    const sales = await page.textContent("#bar-sales");
    await buyer.goto(page.url());
    await buyer.click("text=Buy with the lock");
    await buyer.waitForSelector(".notice.good");
    await eventually(async () => expect(await buyer.textContent("#bar-sales")).not.toBe(sales));
    expect(await page.textContent("#stale")).toBe("");
    await page.click("[data-pause]");
    await page.waitForSelector("#stale .note");
    expect(await page.textContent("#bar-money")).toContain("not a penny more or less");
    expect(await page.textContent("#bar-items")).toContain("each in exactly one place");
    await page.context().close();
    await buyer.context().close();
  });

  it.each([
    ["none", /^\s*Sold (?:[2-9]|[1-4]\d|50) times$/],
    ["optimistic", /^\s*Sold once$/],
    ["lock", /^\s*Sold once$/],
    ["poor", /^\s*1 purchase of 50 went through$/],
  ])("a race is run and told: %s", async (way, headline) => {
    const { page, complaints } = await open();
    await page.goto(`/race?way=${way}`);
    await page.click(".start button");
    await page.waitForURL(/\/race\/race-/);
    expect(await page.textContent(".headline")).toMatch(headline);
    expect(await page.locator(".result .dot").count()).toBe(50);
    expect(await page.locator(".result .dot.won").count()).toBeGreaterThan(way === "none" ? 1 : 0);
    expect(await page.textContent("table")).toContain("50 of 50");
    expect(await page.locator(".checks .mark.bad").count()).toBe(way === "none" ? 2 : 0);
    // The bar judges the shop, not the race.
    expect(await page.locator(".bar .mark.bad").count()).toBe(0);
    expect(complaints).toEqual([]);
    await page.context().close();
  });

  it("the cost of a page view is measured on request", async () => {
    const { page, complaints } = await open();
    await page.goto("/sessions");
    expect(await page.locator("table").count()).toBe(0);
    await page.click(".start button");
    await page.waitForSelector("table");
    expect(await page.locator("tbody tr").count()).toBe(3);
    expect(complaints).toEqual([]);
    await page.context().close();
  });

  it("everything works with JavaScript off: persona, filter, buy, list, race", async () => {
    const { page, complaints } = await open({ javaScriptEnabled: false });
    await signIn(page);
    await page.click("text=Ceramics");
    await page.click(".card a");
    await page.click("text=Buy with the lock");
    expect(await page.textContent(".notice.good")).toContain("Yours: ");
    await page.fill("#pounds", "99");
    await page.click("text=List it with the lock");
    expect(await page.textContent(".notice.good")).toContain("£99.00");
    expect(await page.textContent(".bar")).toContain("not a penny more or less");
    expect(await page.locator("[data-pause]").isVisible()).toBe(false);
    await page.goto("/race?way=lock");
    await page.click(".start button");
    expect(await page.textContent(".headline")).toContain("Sold once");
    await page.click("text=Leave");
    expect(await page.locator("text=Choose a persona").count()).toBe(1);
    expect(complaints).toEqual([]);
    await page.context().close();
  });

  const pages = ["/", "/?category=textiles&page=2", "/item/i1", "/personas", "/race", "/sessions", "/me"] as const;

  it.each([
    ["360 px, light", 360, "light"],
    ["360 px, dark", 360, "dark"],
    ["1280 px, light", 1280, "light"],
  ] as const)("no page scrolls sideways, and what is pressed is large enough: %s", async (_, width, colorScheme) => {
    const { page, complaints } = await open({ viewport: { width, height: 740 }, colorScheme });
    await signIn(page);
    await page.goto("/race?way=poor");
    await page.click(".start button");
    await page.waitForURL(/\/race\/race-/);
    for (const path of [...pages, new URL(page.url()).pathname]) {
      await page.goto(path);
      expect([path, await page.evaluate("document.documentElement.scrollWidth")]).toEqual([path, width]);
      const small = await page.evaluate(tooSmall);
      expect([path, small]).toEqual([path, []]);
    }
    expect(complaints).toEqual([]);
    await page.context().close();
  });

  it("keyboard: the first stop leads to the content, and focus is seen", async () => {
    const { page } = await open();
    await page.goto("/");
    await page.keyboard.press("Tab");
    expect(await page.evaluate("document.activeElement.textContent")).toBe("To the content");
    await page.keyboard.press("Tab");
    const outline = await page.evaluate("getComputedStyle(document.activeElement).outlineStyle");
    expect(outline).toBe("solid");
    await page.context().close();
  });

  it("the policy of the pages was broken by none of this", async () => {
    // The counter counts: a page that breaks it on purpose is reported.
    const { page } = await open();
    await page.goto("/");
    expect(await reports()).toEqual({ count: 0, reports: [] });
    await page.evaluate(
      "document.head.append(Object.assign(document.createElement('script'), { textContent: '1' })), undefined",
    );
    await eventually(async () => expect(await reports()).toMatchObject({ count: 1 }));
    await page.context().close();
  });
});
