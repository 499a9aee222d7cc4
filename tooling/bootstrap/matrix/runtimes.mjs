import { existsSync, mkdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { npmCommand } from "../pnpm.mjs";
import { cacheDir, findProgram, SetupError } from "../repo.mjs";
import { capture } from "../run.mjs";
import { alone, step } from "../steps.mjs";

const platform = `${process.platform}-${process.arch}`;

/** The folder of the cache that has a package of npm under a name. @param {string} name */
const cached = (name) => join(cacheDir, "matrix", name);

/** The file of it that npm writes last. @param {string} name */
const done = (name) => join(cached(name), "node_modules", ".package-lock.json");

/**
 * The program of a runtime if the cache has it.
 * @param {import("./columns.mjs").RuntimeColumn} column
 * @returns {[string, ...string[]] | undefined}
 */
export function cachedRuntime({ name, version, packages, program, args }) {
  const from = packages[platform];
  const one = `${name}-${version}`;
  if (from === undefined || !existsSync(done(one))) return undefined;
  return [join(cached(one), "node_modules", from, program), ...args];
}

/**
 * The program of a runtime: from the cache, else from npm, which checks the hash of the package. No script of it runs.
 * @param {import("./columns.mjs").RuntimeColumn} column
 * @param {NodeJS.ProcessEnv} env
 * @returns {Promise<[string, ...string[]]>}
 */
export async function runtimeOf({ name, version, packages, program, args }, env) {
  const from = packages[platform];
  if (from === undefined) throw new SetupError(`${name}: no package on npm has it for ${platform}.`);
  const folder = await npmPackage(`${name}-${version}`, from, version, env);
  const path = findProgram([program], [folder]);
  if (path === undefined) throw new SetupError(`${name}: ${from}@${version} has no ${program}.`);
  return [path, ...args];
}

/**
 * The folder of a package of npm in the cache.
 * @param {string} name
 * @param {string} from
 * @param {string} version
 * @param {NodeJS.ProcessEnv} env
 */
export async function npmPackage(name, from, version, env) {
  const target = cached(name);
  const folder = join(target, "node_modules", from);
  await alone(async () => {
    if (existsSync(done(name))) return;
    rmSync(target, { recursive: true, force: true });
    mkdirSync(target, { recursive: true });
    const [command, ...args] = npmCommand(env);
    const flags = ["--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error", "--prefix", target];
    const { code, output } = await step(`${name} from npm`, () =>
      capture(command, [...args, "install", ...flags, `${from}@${version}`], { cwd: target, env }),
    );
    if (code !== 0) throw new SetupError(`${name}: npm could not fetch ${from}@${version}:\n${output.trim()}`);
  });
  return folder;
}
