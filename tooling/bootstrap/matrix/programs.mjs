import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { publicPackages } from "../pack.mjs";
import { isAsSaid, quickStart, run } from "../release/quick-start.mjs";

/** The libraries whose READMEs begin with a program that connects. @param {readonly string[]} [names] None: all. */
export const programs = (names = []) =>
  publicPackages().flatMap(({ folder, manifest: { name } }) => {
    if (names.length > 0 && !names.includes(name)) return [];
    const start = quickStart(readFileSync(join(folder, "README.md"), "utf8"));
    return start?.file === "first.mjs" ? [{ name, folder, ...start }] : [];
  });

/**
 * Runs the first programs of all READMEs in one process, with the built packages of this repository. It takes a few seconds,
 * where `smoke` packs and installs each package.
 * @param {string} folder Empty.
 * @param {NodeJS.ProcessEnv} env With `REDIS_URL`, of an empty server.
 * @param {{ names?: readonly string[], runtime?: readonly [string, ...string[]]}} [options] Names of
 *   packages (none: all); a runtime other than this Node.
 * @returns {Promise<{ ran: string[], problem: string | undefined }>} The packages whose programs ran as their READMEs say, and
 *   what went wrong with the next one.
 */
export async function runPrograms(folder, env, { names, runtime = [process.execPath] } = {}) {
  const [program, ...first] = runtime;
  const all = programs(names);
  const modules = join(folder, "node_modules");
  /** @param {string} name @param {string} target */
  const install = (name, target) => {
    mkdirSync(dirname(join(modules, name)), { recursive: true });
    symlinkSync(target, join(modules, name));
  };
  for (const one of all) install(one.name, one.folder);
  const files = all.map(({ name, text }) => {
    const file = `${name.slice("@kit/".length)}.mjs`;
    writeFileSync(join(folder, file), text);
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
