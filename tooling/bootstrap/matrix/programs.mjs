import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { publicPackages } from "../pack.mjs";
import { isAsSaid, quickStart, run } from "../release/quick-start.mjs";
import { say } from "../steps.mjs";

/**
 * A client of Redis other than ioredis.
 * @typedef {{ name: "iovalkey" | "node-redis", package: string, folder: string }} OtherClient
 *   `package`: as programs import it; `folder`: where it is installed.
 */

/** The libraries whose READMEs begin with a program that connects. @param {readonly string[]} [names] None: all. */
export const programs = (names = []) =>
  publicPackages().flatMap(({ folder, manifest: { name } }) => {
    if (names.length > 0 && !names.includes(name)) return [];
    const start = quickStart(readFileSync(join(folder, "README.md"), "utf8"));
    return start?.file === "first.mjs" ? [{ name, folder, ...start }] : [];
  });

const connectImport = /^import \{ connect(?:, )?(.*?) ?\} from "@kit\/core";$/m;

/** A program with the `connect` of ./client.mjs. @param {string} text */
const withClient = (text) =>
  text.replace(connectImport, (_, /** @type {string} */ others) =>
    [
      'import { connect } from "./client.mjs";',
      ...(others === "" ? [] : [`import { ${others} } from "@kit/core";`]),
    ].join("\n"),
  );

/**
 * Runs the first programs of all READMEs in one process, with the built packages of this repository. It takes a few seconds,
 * where `smoke` packs and installs each package.
 * @param {string} folder Empty.
 * @param {NodeJS.ProcessEnv} env With `REDIS_URL`, of an empty server.
 * @param {{ names?: readonly string[], runtime?: readonly [string, ...string[]], client?: OtherClient }} [options] Names of
 *   packages (none: all); a runtime and a client other than this Node and ioredis.
 * @returns {Promise<{ ran: string[], problem: string | undefined }>} The packages whose programs ran as their READMEs say, and
 *   what went wrong with the next one.
 */
export async function runPrograms(folder, env, { names, runtime = [process.execPath], client } = {}) {
  const [program, ...first] = runtime;
  const all = programs(names);
  const modules = join(folder, "node_modules");
  /** @param {string} name @param {string} target */
  const install = (name, target) => {
    mkdirSync(dirname(join(modules, name)), { recursive: true });
    symlinkSync(target, join(modules, name));
  };
  for (const one of all) install(one.name, one.folder);
  if (client !== undefined) {
    install(client.package, client.folder);
    copyFileSync(fileURLToPath(new URL(`clients/${client.name}.mjs`, import.meta.url)), join(folder, "client.mjs"));
  }
  const files = all.map(({ name, text }) => {
    const file = `${name.slice("@kit/".length)}.mjs`;
    writeFileSync(join(folder, file), client === undefined ? text : withClient(text));
    return file;
  });
  const marks = files.map((file) => `console.log("# ${file}");\nawait import("./${file}");\n`);
  writeFileSync(join(folder, "all.mjs"), marks.join(""));
  const { stdout, stderr, code } = await run(program, [...first, "all.mjs"], { cwd: folder, env });
  const printed = stdout.split(/^# .*\n/m).slice(1);
  const isRight = all.map(({ said }, at) => isAsSaid(said, printed[at] ?? ""));
  const wrong = isRight.indexOf(false);
  const ran = all.slice(0, wrong === -1 ? all.length : wrong).map(({ name }) => name);
  if (wrong === -1 && code === 0 && stderr === "") return { ran, problem: undefined };
  const what = wrong === -1 ? "the programs" : `the program of ${all[wrong]?.name}`;
  return { ran, problem: `${what} (the process ended with ${code}) printed\n${printed[wrong] ?? ""}${stderr}` };
}

/**
 * The same against a server of its own, with a client.
 * @param {NodeJS.ProcessEnv} env With `REDIS_SERVER_BIN`.
 * @param {{ names: readonly string[], client: OtherClient }} options
 * @returns {Promise<import("../tally.mjs").Tally>}
 */
export async function programsOf(env, options) {
  const { startRedis } = await import("@kit/testing"); // built by now
  process.env["REDIS_SERVER_BIN"] = env["REDIS_SERVER_BIN"];
  const folder = mkdtempSync(join(tmpdir(), "kit-matrix-"));
  const server = await startRedis();
  try {
    const { ran, problem } = await runPrograms(folder, { ...env, REDIS_URL: server.url }, options);
    if (problem !== undefined) say(`${problem}\n`);
    const failures = programs(options.names).flatMap(({ name }) => (ran.includes(name) ? [] : [name]));
    return { passed: ran.length, failed: failures.length, skipped: 0, failures };
  } finally {
    await server.stop();
    rmSync(folder, { recursive: true, force: true });
  }
}
