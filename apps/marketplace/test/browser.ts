// The common part of all tests in a browser: Chromium by CHROMIUM_PATH or on PATH, and a visitor in it.
import { type Browser, type BrowserContextOptions, chromium, type Page } from "playwright-core";
import { eventually } from "@kit/testing";
import { afterAll, beforeAll, describe, expect } from "vitest";
import { ask, field } from "../src/common/http-client.js";
import { findProgram } from "../src/behind/redis-server.js";
import { Visitor } from "./shop.js";

const findBrowser = (): string | undefined =>
  process.env["CHROMIUM_PATH"] ||
  findProgram(
    // A shell without windows first: a page costs it a fifth less of the processor.
    ...["chromium-headless-shell", "chrome-headless-shell"],
    ...["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"],
  );

const executablePath = findBrowser();
if (!executablePath)
  process.stderr.write("Browser tests are skipped: install Chromium (apt install chromium) or set CHROMIUM_PATH\n");

const patience = { timeout: 600_000 };

/** A group of tests that need the browser; patient with a busy machine. */
export const inBrowser = (name: string, tests: () => void): void => {
  describe.skipIf(!executablePath)(name, patience, () => {
    tests();
  });
};

/** How long one step in a page may take, on a machine that is busy with all other tests. */
export const stepMs = 200_000;

export interface Watched {
  readonly page: Page;
  readonly origin: string;
  /** Requests that would leave the machine, errors of the console and of scripts, breaches of the policy. */
  readonly complaints: string[];
  readonly close: () => Promise<void>;
}

/** Run in the page: how many messages of the stream it has shown, and when it showed the first. */
const countMessages = `document.addEventListener("htmx:sse:after:message", () => {
  window.heard = (window.heard ?? 0) + 1;
  window.heardAt ??= performance.now();
})`;

/** Resolves once the page has shown so many messages of its stream. */
export const hears = (page: Page, messages = 1): Promise<void> =>
  eventually(async () => expect(await page.evaluate("window.heard ?? 0")).toBeGreaterThanOrEqual(messages), {
    timeoutMs: stepMs,
  });

/** Closing a context does not end its session, and a persona may have only five. */
const leave = async (origin: string, cookie: string): Promise<void> => {
  const { body } = await ask(origin, "/about", { cookie });
  if (body.includes('action="/logout"')) await ask(origin, "/logout", { cookie, form: { csrf: field(body, "csrf") } });
};

/** One browser for a file; each visitor in it has cookies of its own. */
export const useBrowser = (shop: () => { readonly origin: string }) => {
  let browser: Browser;
  beforeAll(async () => {
    browser = await chromium.launch({ executablePath: executablePath ?? "", args: ["--disable-dev-shm-usage"] });
  });
  afterAll(() => browser.close());
  return async (options: BrowserContextOptions = {}): Promise<Watched> => {
    const origin = options.baseURL ?? shop().origin;
    const context = await browser.newContext({
      baseURL: origin,
      viewport: { width: 1280, height: 800 },
      ...options,
    });
    context.setDefaultTimeout(stepMs);
    await context.addInitScript(countMessages);
    const page = await context.newPage();
    const complaints: string[] = [];
    page.on("request", (request) => {
      if (!request.url().startsWith(origin)) complaints.push(`off host: ${request.url()}`);
    });
    page.on("console", (message) => {
      if (message.type() === "error" || message.type() === "warning") complaints.push(message.text());
    });
    page.on("pageerror", (error) => complaints.push(error.message));
    const close = async (): Promise<void> => {
      const cookie = (await context.cookies()).find(({ name }) => name === "sid");
      if (cookie) await leave(origin, `sid=${cookie.value}`);
      await context.close();
    };
    return { page, origin, complaints, close };
  };
};

/** Becomes a persona without visiting the two pages; by default the rich buyer. */
export const signIn = async ({ page, origin }: Watched, user = "u437"): Promise<void> => {
  const visitor = new Visitor(origin);
  await visitor.signIn(user);
  await page.context().addCookies([{ name: "sid", value: visitor.cookie?.slice("sid=".length) ?? "", url: origin }]);
};

/** Opens the first thing of a shelf. */
export const firstItem = async ({ page, origin }: Watched, category: string): Promise<void> => {
  const { body } = await ask(origin, `/?category=${category}`);
  await page.goto(/href="(\/item\/\w+)"/.exec(body.slice(body.indexOf('class="cards"')))?.[1] ?? "/");
};

/** Buys the first thing of a shelf, and is then on the page of the order. */
export const buySomething = async (visitor: Watched, category: string, button = "Buy with the lock"): Promise<void> => {
  await firstItem(visitor, category);
  await visitor.page.click(`text=${button}`);
  await visitor.page.waitForURL(/\/order\//);
};

export const fault = (name: string): string => `#fault-${name}`;

export const press = async (page: Page, name: string): Promise<void> => {
  await page.goto("/faults");
  await page.click(`.faults button[value="${name}"]`);
  await page.waitForURL("/faults");
};
