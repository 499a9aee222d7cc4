import { existsSync, rmSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { unpackRedis } from "./debian.mjs";
import { findProgram, isExecutable, pathFolders, SetupError } from "./repo.mjs";
import { capture } from "./run.mjs";

/** The oldest servers that kit supports. */
const floor = { redis: [6, 2], valkey: [7, 2] };
const names = ["redis-server", "valkey-server"];
const homebrewFolders = ["/opt/homebrew/bin", "/usr/local/bin", "/home/linuxbrew/.linuxbrew/bin"];

/** @typedef {{ bin: string, product: "redis" | "valkey", version: string }} Server */
/** @typedef {{ env: NodeJS.ProcessEnv, cacheDir: string }} Place */

/**
 * A way to get a server. `get` resolves to the path of one, or to the reason why there is none.
 * @typedef {{ name: string, get: (place: Place) => Promise<string | { why: string }> }} Route
 */

/** @type {Route} */
export const onPath = {
  name: "redis-server or valkey-server on PATH and in the Homebrew folders",
  get: async ({ env }) =>
    findProgram(names, [...pathFolders(env), ...homebrewFolders]) ?? { why: "none of the folders has one" },
};

/** @type {Route} */
export const inCache = {
  name: "the cache of an earlier run",
  get: async (place) => {
    const bin = cachedServer(place);
    // An older cache may lack the checkers, which were added later.
    const isWhole = existsSync(bin) && existsSync(join(dirname(bin), "redis-check-aof"));
    return isWhole ? bin : { why: "nothing there yet" };
  },
};

/** @type {Route} */
const fromDebian = {
  name: "Debian or Ubuntu packages, unpacked into the cache without root",
  get: async (place) => {
    const failure = await unpackRedis(place.env, join(place.cacheDir, "redis"));
    return failure === undefined ? cachedServer(place) : { why: failure };
  },
};

/** @type {Route} */
const fromApk = {
  name: "apk add redis",
  get: async ({ env }) => {
    if (findProgram(["apk"], pathFolders(env)) === undefined) return { why: "there is no apk here" };
    if (process.getuid?.() !== 0) return { why: "apk needs root" };
    return installed(env, "apk", ["add", "--no-cache", "redis"]);
  },
};

/** @type {Route} */
const fromHomebrew = {
  name: "brew install redis",
  get: async ({ env }) => {
    const brew = findProgram(["brew"], [...pathFolders(env), ...homebrewFolders]);
    return brew === undefined ? { why: "there is no brew here" } : installed(env, brew, ["install", "redis"]);
  },
};

/** Routes that only search, which are quick enough for every run. */
export const lookRoutes = [onPath, inCache];
/** Routes that fetch a server. */
export const fetchRoutes = [fromDebian, fromApk, fromHomebrew];

/** @param {Place} place */
const cachedServer = ({ cacheDir }) => join(cacheDir, "redis", "bin", "redis-server");

/**
 * @param {NodeJS.ProcessEnv} env
 * @param {string} manager
 * @param {string[]} args
 */
async function installed(env, manager, args) {
  const { code, output } = await capture(manager, args, { env });
  if (code !== 0) return { why: output.trim().split("\n").slice(-3).join("; ") };
  return findProgram(names, [...pathFolders(env), ...homebrewFolders]) ?? { why: "installed, but no server appeared" };
}

/**
 * The first usable server of the routes. Adds the reason of each failed route to `tried`.
 * @param {Place} place
 * @param {readonly Route[]} routes
 * @param {string[]} tried
 * @returns {Promise<Server | undefined>}
 */
export async function firstServer(place, routes, tried) {
  for (const route of routes) {
    const got = await route.get(place);
    const server = typeof got === "string" ? await inspect(got, place.env) : got;
    if ("bin" in server) return server;
    tried.push(`${route.name}: ${server.why}`);
    // A cached server that does not run (for example another distribution's) is fetched again.
    if (route === inCache) rmSync(join(place.cacheDir, "redis"), { recursive: true, force: true });
  }
  return undefined;
}

/**
 * The server that `REDIS_SERVER_BIN` names, if it is set. A wrong value is an error; there is no fallback.
 * @param {NodeJS.ProcessEnv} env
 * @returns {Promise<Server | undefined>}
 */
export async function chosenServer(env) {
  if (!env["REDIS_SERVER_BIN"]) return undefined;
  const bin = resolve(env["REDIS_SERVER_BIN"]); // children run in other folders
  if (!isExecutable(bin)) throw new SetupError(`REDIS_SERVER_BIN is ${bin}, which is not an executable file.`);
  const server = await inspect(bin, env);
  if ("bin" in server) return server;
  throw new SetupError(`REDIS_SERVER_BIN is ${bin}: ${server.why}.`);
}

/** @type {(tried: readonly string[]) => SetupError} */
export const noServer = (tried) =>
  new SetupError(
    ["No Redis server could be found or fetched. Tried:", ...tried.map((line) => `  - ${line}`)].join("\n") +
      "\nInstall Redis 6.2 or newer (or Valkey 7.2 or newer) and run the command again, or name its server program in" +
      " the environment variable REDIS_SERVER_BIN.",
  );

/**
 * @param {string} bin
 * @param {NodeJS.ProcessEnv} env
 * @returns {Promise<Server | { why: string }>}
 */
export async function inspect(bin, env) {
  const { code, output } = await capture(bin, ["--version"], { env }).catch((error) => ({
    code: 1,
    output: String(error),
  }));
  const version = /\bv=(\d+)\.(\d+)\.\d+/.exec(output);
  if (code !== 0 || version === null) return { why: `${bin} does not run: ${output.trim().split("\n")[0]}` };
  const product = /valkey/i.test(output) ? "valkey" : "redis";
  const [major, minor] = [Number(version[1]), Number(version[2])];
  const [wantMajor = 0, wantMinor = 0] = floor[product];
  if (major < wantMajor || (major === wantMajor && minor < wantMinor)) {
    return { why: `${bin} is ${product} ${major}.${minor}, older than ${wantMajor}.${wantMinor}` };
  }
  return { bin, product, version: version[0].slice(2) };
}
