import { existsSync, readdirSync, readFileSync, statSync, accessSync, constants } from "node:fs";
import { userInfo } from "node:os";
import { delimiter, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

export const root = join(dirname(fileURLToPath(import.meta.url)), "..", "..");
export const cacheDir = join(root, ".cache");

/** A failure that is printed as its message, without a stack. */
export class SetupError extends Error {
  /** @override */
  name = "SetupError";
}

/**
 * @typedef {{
 *   name: string, version?: string, private?: boolean, bin?: unknown, exports?: Record<string, unknown>,
 *   scripts?: Record<string, string>, engines?: Record<string, string>, packageManager?: string,
 *   dependencies?: Record<string, string>, devDependencies?: Record<string, string>,
 *   peerDependencies?: Record<string, string>, optionalDependencies?: Record<string, string>,
 *   peerDependenciesMeta?: Record<string, { optional?: boolean }>, keywords?: string[], repository?: unknown, author?: unknown, funding?: unknown,
 * }} Manifest
 */

/** @type {(folder: string) => Manifest} */
export const readManifest = (folder) => JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));

/** The workspaces as pnpm-workspace.yaml lists them (only globs of the form `folder/*`, and exceptions of the form `!folder/name`). */
export function workspaces(from = root) {
  const list = /^packages: \[(.*)\]$/m.exec(readFileSync(join(from, "pnpm-workspace.yaml"), "utf8"))?.[1] ?? "";
  const globs = list.split(",").map((glob) => glob.trim().replace(/^"(.*)"$/, "$1"));
  const left = globs.filter((glob) => glob.startsWith("!")).map((glob) => join(from, glob.slice(1)));
  return globs
    .map((glob) => join(from, glob.replace(/\/\*$/, "")))
    .filter((parent) => existsSync(parent))
    .flatMap((parent) => readdirSync(parent).map((name) => join(parent, name)))
    .filter((folder) => !left.includes(folder) && existsSync(join(folder, "package.json")))
    .sort()
    .map((folder) => ({ folder, manifest: readManifest(folder) }));
}

/** @type {(path: string) => boolean} */
export function isExecutable(path) {
  try {
    accessSync(path, constants.X_OK);
    return statSync(path).isFile();
  } catch {
    return false;
  }
}

/**
 * The path of the first named program in the folders. All folders are searched for one name before the next name.
 * @param {readonly string[]} names
 * @param {readonly string[]} folders
 */
export function findProgram(names, folders) {
  for (const name of names) {
    for (const folder of folders) {
      const path = join(folder, name);
      if (isExecutable(path)) return path;
    }
  }
  return undefined;
}

/** @type {(env: NodeJS.ProcessEnv) => string[]} */
export const pathFolders = (env) => (env["PATH"] ?? "").split(delimiter).filter((folder) => folder !== "");

/**
 * The environment of every child. Tools need a writable home folder, which accounts such as `nobody` lack.
 * @param {NodeJS.ProcessEnv} base
 * @returns {NodeJS.ProcessEnv}
 */
export function childEnv(base = process.env) {
  /** @type {NodeJS.ProcessEnv} */
  const env = { ...base, TURBO_TELEMETRY_DISABLED: "1", DO_NOT_TRACK: "1" };
  if (!process.stdout.isTTY && base["FORCE_COLOR"] === undefined) env["NO_COLOR"] = "1";
  const home = [base["HOME"], ownHome()].find((folder) => folder && isWritableFolder(folder));
  if (home !== undefined) return { ...env, HOME: home };
  delete env["npm_config_cache"]; // npm derived it from the missing home
  return { ...env, HOME: join(cacheDir, "home") };
}

function ownHome() {
  try {
    return userInfo().homedir;
  } catch {
    return undefined; // a user id without an account, as containers have
  }
}

/** @param {string} folder */
function isWritableFolder(folder) {
  try {
    accessSync(folder, constants.W_OK);
    return statSync(folder).isDirectory();
  } catch {
    return false;
  }
}
