import { mkdirSync, readFileSync, rmSync, statSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { cacheDir, SetupError } from "./repo.mjs";

/** @param {string} text */
export const say = (text) => process.stderr.write(text);

/** @param {number} start */
export const seconds = (start) => `${((performance.now() - start) / 1000).toFixed(1)} s`;

const SIGN_OF_LIFE_MS = 5_000;

/**
 * Shows one line for a step of the set-up: its name, the time every five seconds while it runs, then its outcome and
 * duration.
 * @template T
 * @param {string} name
 * @param {() => Promise<T>} work
 * @param {(result: T) => string} [outcome]
 * @returns {Promise<T>}
 */
export async function step(name, work, outcome = () => "done") {
  const start = performance.now();
  say(`set-up: ${name} ... `);
  const signs = setInterval(() => say(`${Math.round((performance.now() - start) / 1000)} s ... `), SIGN_OF_LIFE_MS);
  try {
    const result = await work();
    say(`${outcome(result)} (${seconds(start)})\n`);
    return result;
  } catch (error) {
    say(`failed (${seconds(start)})\n`);
    throw error;
  } finally {
    clearInterval(signs);
  }
}

const HEARTBEAT_MS = 1_000;
const STALE_MS = 15_000;

/**
 * Runs `work` while no other run on this checkout changes the set-up. The lock is a file that its holder keeps touching,
 * so that the lock of a crashed run expires.
 * @template T
 * @param {() => Promise<T>} work
 * @param {string} [folder]
 * @returns {Promise<T>}
 */
export async function alone(work, folder = cacheDir) {
  const file = join(folder, "setup.lock");
  makeCacheFolder(folder);
  let waited = false;
  while (!take(file)) {
    if (!waited) say("set-up: waiting for another run in this checkout\n");
    waited = true;
    await sleep(200);
  }
  const heartbeat = setInterval(() => touch(file), HEARTBEAT_MS);
  try {
    return await work();
  } finally {
    clearInterval(heartbeat);
    rmSync(file, { force: true });
  }
}

/** @param {string} folder */
function makeCacheFolder(folder) {
  try {
    mkdirSync(folder, { recursive: true });
  } catch (error) {
    throw new SetupError(`The cache folder ${folder} cannot be made: ${/** @type {Error} */ (error).message}`);
  }
}

/** @param {string} file */
function take(file) {
  try {
    writeFileSync(file, String(process.pid), { flag: "wx" });
    return true;
  } catch (error) {
    const { code, message } = /** @type {NodeJS.ErrnoException} */ (error);
    if (code !== "EEXIST") {
      throw new SetupError(`The cache folder cannot be written to (${message}). Was it made by another user?`);
    }
    if (isStale(file)) rmSync(file, { force: true });
    return false;
  }
}

/** @param {string} file */
function isStale(file) {
  try {
    return Date.now() - statSync(file).mtimeMs > STALE_MS || !isAlive(Number(readFileSync(file, "utf8")));
  } catch {
    return false; // released between the two reads
  }
}

/** @param {number} pid */
function isAlive(pid) {
  if (!Number.isInteger(pid) || pid <= 0) return true; // the file is being written; the time of the last touch decides
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return /** @type {NodeJS.ErrnoException} */ (error).code === "EPERM";
  }
}

/** @param {string} file */
function touch(file) {
  try {
    utimesSync(file, new Date(), new Date());
  } catch {
    // The lock was taken over as stale while this process was stopped. The set-up tolerates that: each step ends in a
    // rename.
  }
}
