// What the tests in a browser share: Chromium by CHROMIUM_PATH or on PATH, and a visitor in it.
import { accessSync, constants } from "node:fs";
import { delimiter, join } from "node:path";
import { type Browser, type BrowserContextOptions, chromium, type Page } from "playwright-core";
import { afterAll, beforeAll, describe } from "vitest";

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

/** A group of tests that need the browser; patient with a busy machine. */
export const inBrowser = (name: string, tests: () => void): void => {
  describe.skipIf(!executablePath)(name, { timeout: 60_000 }, tests);
};

const stepMs = 20_000;

export interface Watched {
  readonly page: Page;
  /** Requests that would leave the machine, errors of the console and of scripts, breaches of the policy. */
  readonly complaints: string[];
  /** Leaves the shop, too: a persona may have five sessions. */
  readonly close: () => Promise<void>;
}

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
      await page.goto("/about");
      const leave = page.locator('.visitor button:has-text("Leave")');
      if (await leave.count()) {
        await leave.click();
        // A context that closes before takes the request with it, and the session stays.
        await leave.waitFor({ state: "detached" });
      }
      await context.close();
    };
    return { page, complaints, close };
  };
};

export const signIn = async (page: Page, role = "rich buyer"): Promise<void> => {
  await page.goto("/personas");
  await page.click(`.persona:has-text("${role}")`);
  await page.waitForURL("/");
};

export const firstItem = async (page: Page, path = "/?category=books"): Promise<void> => {
  await page.goto(path);
  await page.click(".cards .card a");
  await page.waitForURL(/\/item\//);
};

/** Buys the first thing of a shelf, and is then on the page of the order. */
export const buySomething = async (page: Page, path: string, button = "Buy with the lock"): Promise<void> => {
  await firstItem(page, path);
  await page.click(`text=${button}`);
  await page.waitForURL(/\/order\//);
};

export const fault = (name: string): string => `#fault-${name}`;

export const press = async (page: Page, name: string): Promise<void> => {
  await page.goto("/faults");
  await page.click(`.faults button[value="${name}"]`);
  await page.waitForURL("/faults");
};
