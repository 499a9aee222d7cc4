import { spawn } from "node:child_process";
import { once } from "node:events";
import { createRequire } from "node:module";
import { join } from "node:path";
import { root } from "../repo.mjs";

/** Each picture by its name, taken in a page of the shop. @type {Record<string, (page: any) => Promise<Buffer>>} */
const shots = { shop: market, race, "board-queue": boardQueue, "board-job": boardJob };

/** As long as a busy machine may take. */
const patienceMs = 120_000;

/**
 * Screenshots of the running shop.
 * @param {NodeJS.ProcessEnv} env With `REDIS_SERVER_BIN`.
 * @param {string} executablePath A Chromium.
 * @returns {Promise<Map<string, Buffer>>} PNGs by their names.
 */
export async function screenshots(env, executablePath) {
  const program = join(root, "apps/marketplace/dist/main.js");
  // The leash ends the shop when this process dies.
  const leash = join(root, "tooling/bootstrap/leash.mjs");
  const shop = spawn(process.execPath, [`--import=${leash}`, program, "--port", "0"], {
    env,
    stdio: ["ignore", "pipe", "pipe", "pipe"],
  });
  const { stdout, stderr } = shop;
  if (stdout === null || stderr === null) throw new Error("The shop has no output");
  try {
    const [[, origin]] = await Promise.all([
      said(shop, stdout, /(http:\/\/\S+)/),
      said(shop, stderr, /all processes are running/),
    ]);
    const { chromium } = createRequire(join(root, "apps/marketplace/package.json"))("playwright-core");
    const browser = await chromium.launch({ executablePath, args: ["--disable-dev-shm-usage"] });
    try {
      const taken = new Map();
      for (const [name, shot] of Object.entries(shots)) {
        const viewport = { width: 1000, height: 860 };
        // The policy of the shop forbids the questions that are asked in its pages here.
        const page = await browser.newPage({ baseURL: origin, viewport, colorScheme: "light", bypassCSP: true });
        page.setDefaultTimeout(patienceMs);
        taken.set(name, await shot(page));
        await page.close();
      }
      return taken;
    } finally {
      await browser.close();
    }
  } finally {
    const ended = once(shop, "exit");
    shop.kill("SIGTERM");
    await ended;
  }
}

/** The front of the shop, with the pictures of its things. @param {any} page */
async function market(page) {
  await page.goto("/");
  await page.waitForFunction(allLoaded);
  return page.screenshot();
}

/** The queue of the shop, while visitors buy. The board draws what it has seen, so it looks for a while. @param {any} page */
async function boardQueue(page) {
  for (let look = 0; look < 10; look++) {
    await page.goto("/board?thing=queue&name=orders&state=dead&live=off");
    await page.waitForTimeout(4_200);
  }
  return page.screenshot();
}

/** A job that waits, with the reason. @param {any} page */
async function boardJob(page) {
  await page.goto("/board?thing=queue&name=orders&state=delayed&live=off");
  await page.click("#jobs td a");
  await page.locator(".why").waitFor();
  return page.screenshot();
}

/** Run in the page. */
const allLoaded = `[...document.images].filter((one) => one.getBoundingClientRect().top < innerHeight).every((one) => one.complete && one.naturalWidth > 0)`;

/** Fifty buyers of one item, without a lock and with it: the two results, one below the other. @param {any} page */
async function race(page) {
  const results = [];
  for (const way of ["none", "lock"]) {
    await page.goto(`/race?way=${way}`);
    await page.click(".race .start button");
    const result = page.locator("#result");
    await result.waitFor();
    await result.scrollIntoViewIfNeeded();
    const { x, y, width } = await result.boundingBox();
    const end = await page.locator("#result .dots").boundingBox();
    results.push(await page.screenshot({ clip: { x, y, width, height: end.y + end.height - y + 8 } }));
  }
  const images = results.map((png) => `<img src="data:image/png;base64,${png.toString("base64")}">`);
  const titles = ["Without a lock", "With @kit/lock"].map((title) => `<h2>${title}</h2>`);
  await page.goto("about:blank"); // without the styles of the shop
  await page.setContent(`<main>${titles.flatMap((title, index) => [title, images[index]]).join("")}</main>`);
  await page.addStyleTag({ content: pageStyle });
  // Nothing behind the card, so that its corners show the page that it is on, light or dark.
  return page.locator("main").screenshot({ omitBackground: true });
}

const pageStyle = `main { display: inline-block; padding: 12px 28px 20px; background: #fffefa; color: #201e1a;
  border: 1px solid #b9b2a3; border-radius: 10px }
  body { background: transparent }
  h2 { font: 600 15px "DejaVu Sans", sans-serif; margin: 14px 0 10px; padding-top: 12px; border-top: 1px solid #e0dacd }
  h2:first-child { border: 0; margin-top: 0 } img { display: block }`;

/**
 * The first match in what a program prints.
 * @param {import("node:child_process").ChildProcess} child
 * @param {import("node:stream").Readable} stream
 * @param {RegExp} pattern
 * @returns {Promise<RegExpExecArray>}
 */
const said = (child, stream, pattern) =>
  new Promise((resolve, reject) => {
    let text = "";
    stream.setEncoding("utf8").on("data", (part) => {
      const match = pattern.exec((text += part));
      if (match) resolve(match);
    });
    child.once("exit", (code) => reject(new Error(`The shop ended with ${code}: ${text}`)));
  });
