// In a browser: properties of every page, whatever its content.
import { gzipSync } from "node:zlib";
import { eventually } from "@kit/testing";
import axe from "axe-core";
import { expect, inject, it } from "vitest";
import { ask } from "../src/common/http-client.js";
import { buySomething, firstItem, hears, inBrowser, signIn, stepMs, useBrowser } from "./browser.js";
import { Visitor } from "./shop.js";

/** Run in the page: targets that are smaller than a finger. Links inside of sentences are exempt. */
const tooSmall = `[...document.querySelectorAll("a:not(.skip, p a, .note, td a), button:not(.away-button), summary, select, input:not([type=hidden])")]
  .filter((element) => element.checkVisibility())
  .map((element) => ({ text: element.textContent.trim(), height: element.getBoundingClientRect().height }))
  .filter(({ height }) => height < 44)`;

/** Run in the page: the findings of axe by these rules. */
const violations = (rules: readonly string[]): string =>
  `axe.run(document, { runOnly: ${JSON.stringify(rules)}, resultTypes: ["violations"] })
    .then(({ violations }) => violations.map(({ id, nodes }) => id + ": " + nodes.map(({ html }) => html.slice(0, 160)).slice(0, 3).join(" | ")))`;
const everyRule = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"];
/** The rules that another palette may break. */
const rulesOfColour = ["color-contrast", "link-in-text-block"];

const pages = [
  "/",
  "/?category=textiles&page=2",
  "/item/i1",
  "/personas",
  "/me",
  "/search?q=brass",
  "/messages",
  "/ops",
  "/logs",
  "/stats",
  "/mail",
  "/race",
  "/race/pause",
  "/race/prices",
  "/faults",
  "/pipeline",
  "/about",
  "/docs/lock",
] as const;

inBrowser("Every page", () => {
  const shop = { origin: inject("full") };
  const open = useBrowser(() => shop);
  const reports = async (): Promise<unknown> => JSON.parse((await ask(shop.origin, "/csp-report")).body);

  it.each([360, 1280])(
    "every page is within its width, large enough to press, and accessible in light and dark: %i px",
    async (width) => {
      const here = await open({ viewport: { width, height: 740 }, colorScheme: "light" });
      const { page, complaints, close } = here;
      await page.addInitScript(axe.source);
      await signIn(here);
      await buySomething(here, "cameras");
      const order = new URL(page.url()).pathname;
      await page.goto("/race?way=poor");
      await page.click(".race .start button");
      await page.waitForURL(/\/race\/race-/);
      for (const path of [...pages, order, new URL(page.url()).pathname]) {
        await page.goto(path);
        expect([path, await page.evaluate("document.documentElement.scrollWidth")]).toEqual([path, width]);
        expect([path, await page.evaluate(tooSmall)]).toEqual([path, []]);
        // The bar covers different targets at each scroll position, so it is judged where it covers none.
        await page.evaluate("document.querySelector('.bar').style.position = 'static'");
        expect([path, await page.evaluate(violations(everyRule))]).toEqual([path, []]);
        await page.emulateMedia({ colorScheme: "dark" });
        expect([path, "dark", await page.evaluate(violations(rulesOfColour))]).toEqual([path, "dark", []]);
        await page.emulateMedia({ colorScheme: "light" });
      }
      expect(complaints).toEqual([]);
      await close();
    },
  );

  it("the first live panel is there soon after the page was asked for", async () => {
    const here = await open();
    const { page, close } = here;
    // The promise is 1.5 s, on a machine that does nothing else. The best visit decides.
    await eventually(
      async () => {
        await firstItem(here, "clocks");
        await hears(page);
        expect(await page.evaluate("window.heardAt")).toBeLessThan(7_500);
      },
      { timeoutMs: stepMs },
    );
    await close();
  });

  it("the lock of an item is seen without scrolling at 1280 × 800", async () => {
    const here = await open();
    const { page, close } = here;
    await signIn(here);
    await firstItem(here, "clocks");
    const bottom = await page.evaluate("document.querySelector('#lock .facts').getBoundingClientRect().bottom");
    const bar = await page.evaluate("document.querySelector('.bar').getBoundingClientRect().top");
    expect(bottom).toBeLessThanOrEqual(bar as number);
    await close();
  });

  it("a page that is kept current for long gathers no listeners and no elements", async () => {
    const here = await open();
    const { page, complaints, close } = here;
    await firstItem(here, "clocks");
    const path = new URL(page.url()).pathname;
    const visitor = new Visitor(shop.origin);
    const csrf = await visitor.signIn("u63");
    const session = await page.context().newCDPSession(page);
    await session.send("Performance.enable");
    /** After so many messages: a held lock sends one every quarter of a second. */
    const heldFor = async (messages: number): Promise<Record<string, number>> => {
      await page.evaluate("window.heard = 0");
      const held = visitor.post(`${path}/hold`, { csrf });
      await hears(page, messages);
      await held;
      await page.locator("#lock .chip.free").waitFor();
      await session.send("HeapProfiler.collectGarbage");
      const { metrics } = await session.send("Performance.getMetrics");
      return Object.fromEntries(
        metrics
          .filter(({ name }) => ["JSEventListeners", "Nodes", "Documents"].includes(name))
          .map(({ name, value }) => [name, value]),
      );
    };
    const before = await heldFor(10);
    // A page that leaks has ten more after each round, and never as few as before.
    await eventually(
      async () => {
        for (const [name, count] of Object.entries(await heldFor(10)))
          expect(count, name).toBeLessThanOrEqual(before[name] ?? 0);
      },
      { timeoutMs: stepMs },
    );
    expect(complaints).toEqual([]);
    await close();
  });

  it("a chart is zoomed by dragging and by keys: a finer precision is asked for, with the same sum, and back", async () => {
    const { page, complaints, close } = await open();
    await page.goto("/stats?span=7d");
    const precision = (is: string): Promise<void> => page.locator(`.answered b:text-is("Precision: ${is}")`).waitFor();
    await precision("1 hour");
    const plot = page.locator("#zoomed .plot >> nth=0");
    expect(await page.locator("#zoomed .u-over").count()).toBe(2);
    expect(await page.locator("svg[role=img]:visible").count()).toBe(0);
    const box = await plot.locator(".u-over").boundingBox();
    if (!box) throw new Error("there is no chart");
    await page.mouse.move(box.x + box.width * 0.95, box.y + 40);
    expect(await page.textContent(".readout >> nth=0")).toMatch(/^\d{4}-\d\d-\d\d \d\d:00: [\d,]+$/);
    await page.mouse.down();
    await page.mouse.move(box.x + box.width * 0.99, box.y + 40, { steps: 4 });
    await page.mouse.up();
    await precision("1 minute");
    expect(page.url()).toContain("from=");
    await plot.focus();
    for (const key of ["+", "+", "+", "ArrowLeft"]) {
      const link = (): Promise<string | null> => page.getAttribute('[data-move="+"]', "href");
      const before = await link();
      await page.keyboard.press(key);
      await eventually(async () => expect(await link()).not.toBe(before));
      await eventually(async () => expect(await page.evaluate("document.activeElement.className")).toContain("plot"));
    }
    expect(await page.textContent("[data-status]")).toContain("Precision: ");
    for (let step = 0; step < 5; step++) await page.goBack();
    await precision("1 hour");

    const end = Math.floor(Date.now() / 60_000) * 60_000 - 300_000;
    const sumOf = async (from: number, to: number): Promise<number> => {
      await page.goto(`/stats?from=${from}&to=${to}`);
      const text = (await page.textContent(".chart figcaption .fact >> nth=0")) ?? "";
      return Number(/([\d,]+) in total/.exec(text)?.[1]?.replaceAll(",", ""));
    };
    const [start, middle] = [end - 60 * 60_000, end - 30 * 60_000];
    const whole = await sumOf(start, end);
    await precision("5 seconds");
    expect((await sumOf(start, middle)) + (await sumOf(middle, end))).toBe(whole);
    expect(whole).toBeGreaterThan(0);
    expect(complaints).toEqual([]);
    await close();
  });

  it("the labels of a chart fit next to it, and counts have no halves", async () => {
    const { page, complaints, close } = await open();
    // The server's answer, with times that are longer than any of this shop.
    await page.route(/\/stats\?/, async (route) => {
      const response = await route.fetch();
      const figure = (unit: string, values: readonly number[]): string => {
        const data = { from: 0, stepMs: 60_000, shape: "lines", unit, series: [{ name: "one", values }] };
        return `data-chart="${JSON.stringify(data).replaceAll('"', "&quot;")}"`;
      };
      const charts = [figure("", [1, 3]), figure("", [1, 3]), figure(" ms", [28_000, 1_234_000])];
      const body = (await response.text()).replaceAll(/data-chart="[^"]*"/g, () => charts.shift() ?? "");
      await route.fulfill({ response, body });
    });
    await page.addInitScript(`{
      const { fillText } = CanvasRenderingContext2D.prototype;
      window.labels = [];
      CanvasRenderingContext2D.prototype.fillText = function (text, x, ...rest) {
        const { width } = this.measureText(text);
        window.labels.push({ text, left: x - (this.textAlign === "right" ? width : 0) });
        return fillText.call(this, text, x, ...rest);
      };
    }`);
    await firstItem({ page, origin: shop.origin, complaints, close }, "clocks");
    await eventually(
      async () => {
        await page.goto("/stats?route=/item/:id");
        expect(await page.locator(".plot").count()).toBe(3);
      },
      { timeoutMs: stepMs },
    );
    const labels = (await page.evaluate("window.labels")) as { text: string; left: number }[];
    const times = labels.filter(({ text }) => text.endsWith(" ms"));
    expect(times.some(({ text }) => text.length >= 10)).toBe(true);
    for (const { text, left } of times) expect([text, left >= 0]).toEqual([text, true]);
    // Neither half a sale nor a time between two minutes.
    for (const { text } of labels) expect(text).toMatch(/^(\d{2}:\d{2}|\d{2}-\d{2}|[\d,]+|[\d,]+ ms)$/);
    await close();
  });

  it("the current page is in view in the bar of links at 360 px, with and without scripts", async () => {
    for (const javaScriptEnabled of [true, false]) {
      const { page, close } = await open({ viewport: { width: 360, height: 740 }, javaScriptEnabled });
      for (const path of ["/", "/logs", "/mail", "/race", "/faults", "/pipeline"]) {
        await page.goto(path);
        const box = await page.locator(".top nav [aria-current]").boundingBox();
        expect([path, (box?.x ?? -1) >= 0, (box?.x ?? 0) + (box?.width ?? 999) <= 360]).toEqual([path, true, true]);
      }
      await close();
    }
  });

  it("a chart that the server has drawn has its values next to it", async () => {
    const { page, close } = await open({ javaScriptEnabled: false });
    await page.goto("/stats");
    const scale = await page.locator(".scale >> nth=0").locator("span").allTextContents();
    expect(scale).toHaveLength(3);
    expect(scale.at(-1)).toBe("0");
    // Counts have no halves.
    for (const value of scale) expect(value).toMatch(/^[\d,]+$/);
    await close();
  });

  it("keyboard: the first stop leads to the content, focus is seen, the drawer opens and closes", async () => {
    const { page, close } = await open();
    await page.goto("/faults");
    await page.keyboard.press("Tab");
    expect(await page.evaluate("document.activeElement.textContent")).toBe("Skip to content");
    await page.keyboard.press("Tab");
    const outline = await page.evaluate("getComputedStyle(document.activeElement).outlineStyle");
    expect(outline).toBe("solid");
    await page.focus(".drawer summary");
    await page.keyboard.press("Enter");
    expect(await page.locator(".drawer-body").isVisible()).toBe(true);
    await page.keyboard.press("Escape");
    expect(await page.locator(".drawer-body").isVisible()).toBe(false);
    await close();
  });

  it("a page loads at most 45 kB of script, packed", async () => {
    const { page, close } = await open();
    const bodies: Promise<Buffer>[] = [];
    page.on("response", (response) => {
      if (response.request().resourceType() === "script") bodies.push(response.body());
    });
    await page.goto("/stats", { waitUntil: "load" });
    const sizes = (await Promise.all(bodies)).map((body) => gzipSync(body).length);
    expect(sizes).toHaveLength(4);
    expect(sizes.reduce((sum, size) => sum + size, 0)).toBeLessThanOrEqual(45 * 1024);
    await close();
  });

  it("the policy of the pages was broken by none of this", async () => {
    // The counter counts: a page that breaks it on purpose is reported.
    const { page, close } = await open();
    await page.goto("/");
    expect(await reports()).toEqual({ count: 0, reports: [] });
    await page.evaluate(
      "document.head.append(Object.assign(document.createElement('script'), { textContent: '1' })), undefined",
    );
    await eventually(async () => expect(await reports()).toMatchObject({ count: 1 }));
    await close();
  });
});
