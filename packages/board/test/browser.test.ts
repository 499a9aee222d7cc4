// In Debian's Chromium: what only a browser shows. Skipped without one.
import { existsSync } from "node:fs";
import type { Server } from "node:http";
import { delimiter, join } from "node:path";
import { serve } from "@hono/node-server";
import { createLock } from "@kit/lock";
import { inspectJob, inspectQueue, pauseQueue } from "@kit/queue/manage";
import { queueMetrics } from "@kit/queue/metrics";
import { createSemaphore } from "@kit/semaphore";
import { useRedis } from "@kit/testing";
import axe from "axe-core";
import { type Browser, type BrowserContextOptions, chromium, type Page } from "playwright-core";
import * as vitest from "vitest";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { fill, permanentKeys, thing, visit } from "./harness.js";

const names = ["chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"];
const executablePath =
  process.env["CHROMIUM_PATH"] ||
  (process.env["PATH"] ?? "")
    .split(delimiter)
    .flatMap((folder) => names.map((name) => join(folder, name)))
    .find((path) => existsSync(path));
if (!executablePath)
  process.stderr.write("Browser tests are skipped: install Chromium (apt install chromium) or set CHROMIUM_PATH\n");

const stepMs = 100_000;
const rules = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"];
/** Run in the page: the findings of axe. */
const violations = `axe.run(document, { runOnly: ${JSON.stringify(rules)}, resultTypes: ["violations"] })
  .then(({ violations }) => violations.map(({ id, nodes }) => id + ": " + nodes.map(({ html }) => html.slice(0, 160)).slice(0, 3).join(" | ")))`;
/** Run in the page: buttons and fields that are smaller than a finger. Links in text and tables are exempt. */
const tooSmall = `[...document.querySelectorAll("button, .button, .top a, .tabs a, input:not([type=hidden], [type=checkbox])")]
  .filter((element) => element.checkVisibility() && element.getBoundingClientRect().height < 44)
  .map((element) => element.outerHTML.slice(0, 100))`;

describe.skipIf(!executablePath)("in a browser", { timeout: 600_000 }, () => {
  const redis = useRedis(vitest, { permanentKeys });
  let browser: Browser;
  beforeAll(async () => {
    browser = await chromium.launch({ executablePath: executablePath ?? "", args: ["--disable-dev-shm-usage"] });
  });
  afterAll(() => browser.close());

  /** A board with things, and a page in a new browser. */
  const open = async (options: BrowserContextOptions = {}) => {
    const filled = await fill(redis);
    const lock = createLock(redis.client, { prefix: redis.prefix });
    const semaphore = createSemaphore(redis.client, "payments", { permits: 2, prefix: redis.prefix });
    redis.defer(() => Promise.all([lock.close({ timeoutMs: 0 }), semaphore.close({ timeoutMs: 0 })]));
    await lock.acquire("a-rather-long-name-of-a-lock:with:parts:2026-11-29:and-more");
    await semaphore.acquire();
    await filled.queue.add("odd", 1, { group: "tenant-7" });
    await pauseQueue(redis.client, { queue: "mail", prefix: redis.prefix }, { group: "tenant-7" });
    const metrics = queueMetrics(redis.client, { queue: "mail", prefix: redis.prefix }, { workers: [filled.worker] });
    redis.defer(() => metrics.close());
    const { board } = visit(redis, { title: "shop, staging", jobData: (value) => value, metrics: () => metrics });
    const server = serve({ fetch: board, port: 0, hostname: "127.0.0.1" }) as Server;
    await vitest.vi.waitUntil(() => server.listening);
    const { port } = server.address() as { port: number };
    const context = await browser.newContext({ baseURL: `http://127.0.0.1:${String(port)}/`, ...options });
    context.setDefaultTimeout(stepMs);
    redis.defer(async () => {
      await context.close();
      server.close();
      server.closeAllConnections();
    });
    const page = await context.newPage();
    const complaints: string[] = [];
    page.on("console", (message) => {
      if (message.type() === "error" || message.type() === "warning") complaints.push(message.text());
    });
    page.on("pageerror", (error) => complaints.push(error.message));
    return { ...filled, page, complaints };
  };

  const every = ({ ids }: Awaited<ReturnType<typeof fill>>): readonly string[] => [
    "",
    "list=locks",
    "page=health&run=1",
    thing("queue", ["mail"]),
    thing("queue", ["mail"], ["state", "dead"]),
    thing("queue", ["mail"], ["keys", "1"]),
    thing("job", ["mail", ids.dead]),
    thing("job", ["mail", ids.active]),
    thing("job", ["mail", ids.waiting]),
    thing("job", ["mail", "nobody"]),
    thing("lock", ["a-rather-long-name-of-a-lock:with:parts:2026-11-29:and-more"]),
    thing("semaphore", ["payments"]),
    thing("queue", ["mail"], ["do", "queue retry"]),
    thing("queue", ["mail"], ["do", "queue limit"]),
    "page=nothing",
  ];

  it.each([
    [360, "light"],
    [360, "dark"],
    [1280, "light"],
    [1280, "dark"],
  ] as const)("every page is accessible and within its width: %i px, %s", async (width, colorScheme) => {
    const here = await open({ viewport: { width, height: 800 }, colorScheme, bypassCSP: true });
    const { page } = here;
    await page.addInitScript(axe.source);
    for (const query of every(here)) {
      await page.goto(`?${query}`);
      expect([query, await page.evaluate("document.documentElement.scrollWidth")]).toEqual([query, width]);
      expect([query, await page.evaluate(tooSmall)]).toEqual([query, []]);
      expect([query, await page.evaluate(violations)]).toEqual([query, []]);
    }
  });

  it("breaks its own policy nowhere, and needs no other host", async () => {
    const here = await open();
    const { page, complaints } = here;
    const hosts = new Set<string>();
    page.on("request", (request) => hosts.add(new URL(request.url()).hostname));
    // An unknown thing has the status 404, which the console reports.
    for (const query of every(here).filter((one) => !/nobody|nothing/.test(one))) await page.goto(`?${query}`);
    expect([complaints, [...hosts]]).toEqual([[], ["127.0.0.1"]]);
  });

  it("runs the checks when asked, and updates a page by itself", async () => {
    const { page, queue } = await open();
    await page.goto("");
    await page.getByRole("link", { name: "Run the health checks" }).click();
    await page.locator("#findings").getByText("Checked at").waitFor();
    expect(page.url()).not.toContain("health");
    await page.goto(`?${thing("queue", ["mail"], ["state", "waiting"])}`);
    await page.locator("#id").fill("being typed");
    await queue.add("slow", {}, { id: "came-later" });
    await page.getByRole("link", { name: "came-later" }).waitFor();
    expect(await page.locator("#id").inputValue()).toBe("being typed");
    await page.getByRole("link", { name: "Pause updates" }).click();
    await page.getByText("Updates are paused.").waitFor();
    expect(await page.locator("[hx-trigger]").count()).toBe(0);
  });

  const tabTo = async (page: Page, name: string): Promise<void> => {
    for (let presses = 0; presses < 60; presses++) {
      await page.keyboard.press("Tab");
      if ((await page.evaluate("document.activeElement.textContent.trim()")) === name) return;
    }
    throw new Error(`No press of Tab led to ${name}`);
  };

  it("retries a dead letter with the keyboard only", async () => {
    const { page, ids } = await open();
    const address = { queue: "mail", prefix: redis.prefix };
    await page.goto("");
    await tabTo(page, "mail");
    await page.keyboard.press("Enter");
    await page.waitForURL(/thing=queue/);
    await tabTo(page, "1 Dead");
    await page.keyboard.press("Enter");
    await page.waitForURL(/state=dead/);
    await tabTo(page, ids.dead);
    await page.keyboard.press("Enter");
    await page.waitForURL(/thing=job/);
    await tabTo(page, "Retry");
    await page.keyboard.press("Enter");
    await page.waitForURL(/do=queue/);
    expect((await inspectJob(redis.client, address, ids.dead)).state).toBe("dead");
    await tabTo(page, "Retry");
    await page.keyboard.press("Enter");
    await page.getByText("Done.").waitFor();
    expect((await inspectJob(redis.client, address, ids.dead)).state).toBe("ready");
  });

  it("works without JavaScript: pages, searches and actions", async () => {
    const { page, ids } = await open({ javaScriptEnabled: false });
    await page.goto("");
    await page.getByRole("link", { name: "mail" }).click();
    await page.getByLabel("Job id").fill(ids.waiting);
    await page.getByRole("button", { name: "Open" }).click();
    await page.getByText("Why does it wait?").waitFor();
    await page.getByRole("navigation", { name: "Breadcrumb" }).getByRole("link", { name: "mail" }).click();
    await page.getByRole("link", { name: "Pause", exact: true }).click();
    await page.getByRole("button", { name: "Pause" }).click();
    await page.getByText("Done.").waitFor();
    expect((await inspectQueue(redis.client, { queue: "mail", prefix: redis.prefix })).pausedAt).not.toBeNull();
  });
});
