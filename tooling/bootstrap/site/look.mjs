import { existsSync, readFileSync, statSync } from "node:fs";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { extname, join } from "node:path";
import { browserAdvice, findBrowser } from "../browser.mjs";
import { root, SetupError } from "../repo.mjs";

/** The widths of a telephone and of a small window, in pixels. */
const widths = [360, 1280];
const schemes = /** @type {const} */ (["light", "dark"]);

const types = /** @type {Record<string, string>} */ ({
  ".css": "text/css",
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript",
  ".png": "image/png",
  ".svg": "image/svg+xml",
});

/**
 * Opens built pages in a Chromium, in each width and colour scheme. Returns their problems: content that is wider than the window,
 * findings of axe, files that are missing, errors of scripts.
 * @param {string} folder Of the built site, made for the root of a host.
 * @param {readonly string[]} paths Of pages, as a browser shows them.
 * @param {NodeJS.ProcessEnv} env
 * @returns {Promise<string[]>}
 */
export async function look(folder, paths, env) {
  const executablePath = findBrowser(env);
  if (executablePath === undefined) throw new SetupError(browserAdvice);
  // The tests of the shop have the browser's driver and axe.
  const ofShop = createRequire(join(root, "apps/marketplace/package.json"));
  const host = await serve(folder);
  // The pages are ours; a container's root has no sandbox.
  const browser = await ofShop("playwright-core").chromium.launch({ executablePath, args: ["--no-sandbox"] });
  try {
    const problems = new Set();
    for (const width of widths) {
      const page = await browser.newPage({ baseURL: host.url, viewport: { width, height: 800 } });
      /** @param {string} problem */
      const found = (problem) => problems.add(`${new URL(page.url()).pathname} at ${width} px: ${problem}`);
      page.on("pageerror", (/** @type {Error} */ error) => found(error.message));
      page.on("response", (/** @type {any} */ response) => {
        if (response.status() >= 400) found(`${response.url()}: ${response.status()}`);
      });
      await page.addInitScript(ofShop("axe-core").source);
      for (const path of paths) {
        await page.goto(path, { waitUntil: "networkidle" });
        const wide = await page.evaluate("document.documentElement.scrollWidth");
        if (wide > width) found(`its content is ${wide} px wide`);
        for (const colorScheme of schemes) {
          await page.emulateMedia({ colorScheme });
          await page.waitForFunction(colorScheme === "dark" ? isDark : `!${isDark}`);
          for (const violation of await page.evaluate(violations)) found(`${colorScheme}: ${violation}`);
        }
      }
      await page.close();
    }
    return /** @type {string[]} */ ([...problems]);
  } finally {
    await browser.close();
    host.close();
  }
}

/** Run in the page: it follows the scheme of the system by a class. */
const isDark = `document.documentElement.classList.contains("dark")`;

/** Run in the page: all findings of axe. */
const violations = `axe.run(document, { resultTypes: ["violations"] }).then(({ violations }) =>
  violations.map(({ id, nodes }) => id + ": " + nodes.slice(0, 3).map(({ html }) => html.slice(0, 120)).join(" | ")))`;

/** Sends the files of a folder, found as hosts of static pages find them. @param {string} folder */
async function serve(folder) {
  const server = createServer(({ url = "/" }, response) => {
    const path = decodeURIComponent(new URL(url, "http://localhost").pathname);
    const file = [path, `${path}.html`, join(path, "index.html")]
      .map((one) => join(folder, one))
      .find((one) => existsSync(one) && statSync(one).isFile());
    if (file === undefined) return response.writeHead(404).end();
    response.writeHead(200, { "content-type": types[extname(file)] ?? "application/octet-stream" });
    return response.end(readFileSync(file));
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", () => resolve(undefined)));
  const { port } = /** @type {import("node:net").AddressInfo} */ (server.address());
  const close = () => {
    server.close();
    server.closeAllConnections();
  };
  return { url: `http://127.0.0.1:${port}`, close };
}
