import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { findBrowser } from "../browser.mjs";
import { root, SetupError } from "../repo.mjs";
import { say } from "../steps.mjs";
import { drawings } from "./architecture.mjs";
import { badges } from "./badges.mjs";
import { charts } from "./charts.mjs";
import { diagram } from "./diagram.mjs";
import { session } from "./session.mjs";
import { screenshots } from "./shop.mjs";
import { terminal } from "./terminal.mjs";

const folder = join(root, "apps/docs/pictures");
/** The output of the command line when the pictures were made. Only `npm run pictures` runs it. */
const sessionFile = join(folder, "terminal.txt");

/** The pictures that follow from what is stored, by their paths in the folder. */
function drawn() {
  const texts = new Map([...charts()].map(([name, text]) => [`charts/${name}.svg`, text]));
  for (const [name, description] of Object.entries(drawings)) texts.set(`drawings/${name}.svg`, diagram(description));
  for (const [name, text] of badges()) texts.set(`badges/${name}.svg`, text);
  if (existsSync(sessionFile)) texts.set("terminal.svg", terminal(readFileSync(sessionFile, "utf8")));
  return texts;
}

/** Pictures that are not as the script makes them now. Screenshots are not compared. @param {string} [from] */
export const pictureProblems = (from = folder) =>
  [...drawn()]
    .map(([name, text]) => ({ path: join(from, name), text }))
    .filter(({ path, text }) => !existsSync(path) || readFileSync(path, "utf8") !== text)
    .map(({ path }) => `${relative(root, path)} is not as its data: \`npm run pictures -- drawn\``);

/**
 * Makes all pictures; without a browser, all but the screenshots. With `drawn` only those that follow from what is stored, so that a new
 * figure changes one file.
 * @param {NodeJS.ProcessEnv} env With `REDIS_SERVER_BIN`.
 * @param {readonly string[]} args
 */
export async function pictures(env, args) {
  if (args.some((word) => word !== "drawn"))
    throw new SetupError("There are: npm run pictures, npm run pictures -- drawn");
  mkdirSync(folder, { recursive: true });
  if (args.length === 0) writeFileSync(sessionFile, await session(env));
  for (const [name, text] of drawn()) {
    const path = join(folder, name);
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, text);
  }
  if (args.length > 0) return 0;
  const browser = findBrowser(env);
  if (browser === undefined) {
    say("The screenshots are as they were: no Chromium was found (CHROMIUM_PATH names one).\n");
    return 0;
  }
  for (const [name, png] of await screenshots(env, browser)) writeFileSync(join(folder, `${name}.png`), png);
  return 0;
}
