import { resolve } from "node:path";
import { findProgram, isExecutable, pathFolders, SetupError } from "./repo.mjs";
import { capture } from "./run.mjs";

const names = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];
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
  const install = ["install", "-y", "-q", "--no-install-recommends", "chromium", "fonts-dejavu-core"];
  let { code } = await capture("apt-get", install, quiet);
  if (code !== 0) {
    await capture("apt-get", ["update", "-q"], quiet);
    ({ code } = await capture("apt-get", install, quiet));
  }
  return code === 0 ? findBrowser(env) : undefined;
}
