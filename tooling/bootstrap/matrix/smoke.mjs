import { mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { packPackage, publicPackages } from "../pack.mjs";
import { installAlone } from "../release/alone.mjs";
import { runQuickStart } from "../release/quick-start.mjs";
import { capture } from "../run.mjs";
import { say } from "../steps.mjs";

/**
 * Runs the first program of every package's README, each package alone in a folder, against a server of its own. The
 * command line runs its doctor.
 * @param {NodeJS.ProcessEnv} env With `REDIS_SERVER_BIN`.
 * @param {{ names: readonly string[], runtime: [string, ...string[]], others?: Record<string, string> }} options
 *   Names of packages (none: all); the program that runs them; folders of other packages instead of the repository's.
 * @returns {Promise<import("../tally.mjs").Tally>}
 */
export async function smoke(env, { names, runtime, others = {} }) {
  const { startRedis } = await import("@kit/testing"); // built by now
  process.env["REDIS_SERVER_BIN"] = env["REDIS_SERVER_BIN"];
  const packages = publicPackages();
  const chosen = packages.filter(({ manifest: { name } }) => names.length === 0 || names.includes(name));
  const folder = mkdtempSync(join(tmpdir(), "kit-matrix-"));
  const server = await startRedis();
  /** @type {string[]} */
  const failures = [];
  try {
    /** @type {Map<string, string>} */
    const tarballs = new Map();
    for (const one of packages) tarballs.set(one.manifest.name, await packPackage(one, join(folder, "tarballs"), env));
    for (const { folder: source, manifest } of chosen) {
      const { name } = manifest;
      const own = join(folder, name.replace("/", "-"));
      mkdirSync(own);
      await installAlone(own, name, packages, tarballs, others);
      await server.call("FLUSHALL");
      const userEnv = { ...env, REDIS_URL: server.url };
      const problem =
        manifest.bin === undefined
          ? await runQuickStart(own, readFileSync(join(source, "README.md"), "utf8"), userEnv, runtime)
          : await doctor(own, join("node_modules", name, "dist", "main.js"), userEnv, runtime);
      say(`${problem === undefined ? "ok    " : "FAILED"}  ${name}\n${problem === undefined ? "" : `${problem}\n`}`);
      if (problem !== undefined) failures.push(name);
    }
    return { passed: chosen.length - failures.length, failed: failures.length, skipped: 0, failures };
  } finally {
    await server.stop();
    rmSync(folder, { recursive: true, force: true });
  }
}

/**
 * Runs the doctor of the command line. Returns what it printed if that is not as it should be.
 * @param {string} folder
 * @param {string} main The built program.
 * @param {NodeJS.ProcessEnv} env With `REDIS_URL`.
 * @param {readonly [string, ...string[]]} runtime
 */
export async function doctor(folder, main, env, [program, ...first]) {
  const { stdout, output } = await capture(program, [...first, main, "doctor"], { cwd: folder, env });
  return /^\d+ checks: \d+ ok/m.test(stdout) ? undefined : output;
}
