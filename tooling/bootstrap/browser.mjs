import { resolve } from "node:path";
import { findProgram, isExecutable, pathFolders, SetupError } from "./repo.mjs";
import { capture } from "./run.mjs";

/** A shell without windows first: a page costs it a fifth less of the processor. */
const names = [
  ...["chromium-headless-shell", "chrome-headless-shell"],
  ...["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"],
];
const macApps = ["/Applications/Google Chrome.app/Contents/MacOS", "/Applications/Chromium.app/Contents/MacOS"];

/** Tells the reader how to get the browser that the skipped tests need. */
export const browserAdvice =
  "Browser tests are skipped: no Chromium was found. Install one (Debian: apt-get install chromium) or name one in CHROMIUM_PATH.";

/**
 * The path of an installed Chromium.
 * @param {NodeJS.ProcessEnv} env
 */
export function findBrowser(env) {
  const chosen = env["CHROMIUM_PATH"] && resolve(env["CHROMIUM_PATH"]);
  if (chosen && !isExecutable(chosen)) {
    throw new SetupError(`CHROMIUM_PATH is ${chosen}, which is not an executable file.`);
  }
  return chosen || findProgram(names, pathFolders(env)) || findProgram(["Google Chrome", "Chromium"], macApps);
}

/** Debian's packages that have one. */
const debianNames = /** @type {const} */ (["chromium-headless-shell", "chromium"]);

/** Whether a Chromium can be installed without a prompt: Debian's package, by root. */
export const canInstallBrowser = (env = process.env) =>
  process.getuid?.() === 0 && findProgram(["apt-get"], pathFolders(env)) !== undefined;

/**
 * @param {NodeJS.ProcessEnv} env
 * @returns {Promise<string | undefined>}
 */
export async function installBrowser(env) {
  const quiet = { env: { ...env, DEBIAN_FRONTEND: "noninteractive" } };
  // The browser's package only recommends a font. Without one, texts have no size in the tests of pages.
  const install = async (/** @type {string} */ browser) => {
    const packages = [browser, "fonts-dejavu-core"];
    return (
      (await capture("apt-get", ["install", "-y", "-q", "--no-install-recommends", ...packages], quiet)).code === 0
    );
  };
  let isThere = await install(debianNames[0]);
  if (!isThere) {
    await capture("apt-get", ["update", "-q"], quiet);
    // Older systems have no package of the shell.
    for (const name of debianNames) isThere ||= await install(name);
  }
  return isThere ? findBrowser(env) : undefined;
}
