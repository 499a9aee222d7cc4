import { publicPackages } from "../pack.mjs";
import { SetupError } from "../repo.mjs";
import { say } from "../steps.mjs";
import { sum, tallyLine, tallyOf } from "../tally.mjs";
import { about, clientText, columns, newest } from "./columns.mjs";
import { programsOf } from "./programs.mjs";
import { npmPackage, runtimeOf } from "./runtimes.mjs";
import { serverOf, Unavailable } from "./servers.mjs";
import { smoke } from "./smoke.mjs";

/** @typedef {import("./columns.mjs").Column} Column */
/** @typedef {import("../tally.mjs").Tally} Tally */
/**
 * @typedef {{ build: () => Promise<unknown>, redis: () => Promise<NodeJS.ProcessEnv>,
 *   test: (env: NodeJS.ProcessEnv, args: string[]) => Promise<unknown> }} Tasks
 *   The build; the environment with this machine's server; `npm test` with arguments for turbo.
 */

/**
 * `npm run matrix -- [COLUMN ...] [PACKAGE ...]`: runs what each column says, and prints a table. Without a column it says
 * which there are. `newest` is the short run for CI, which passes where its server cannot be fetched.
 * @param {NodeJS.ProcessEnv} env
 * @param {readonly string[]} words
 * @param {Tasks} tasks
 */
export async function matrix(env, words, tasks) {
  const isShort = words.join() === "newest";
  const { chosen, names } = wishes(isShort ? [newest.column] : words);
  if (chosen.length === 0) {
    const width = Math.max(...columns.map(({ name }) => name.length));
    const lines = columns.map((column) => `  ${column.name.padEnd(width)}  ${about(column)}`);
    lines.push(
      `  ${"newest".padEnd(width)}  a file of every package's tests on ${newest.column}, if that can be fetched`,
    );
    process.stdout.write(`npm run matrix -- COLUMN ... [PACKAGE ...]\n\n${lines.join("\n")}\n`);
    return 0;
  }
  /** @type {{ name: string, what: string, tally: Tally }[]} */
  const rows = [];
  for (const column of chosen) rows.push({ name: column.name, ...(await run(column)) });
  print(rows);
  return rows.every(({ tally: { failed } }) => failed === 0) ? 0 : 1;

  /**
   * Tests of the packages.
   * @param {NodeJS.ProcessEnv} more For the tests.
   * @param {readonly string[]} files None: all.
   * @param {(folder: string) => boolean} [isWanted] Whether to run a package.
   */
  async function suites(more, files, isWanted = () => true) {
    const packages = publicPackages().filter(
      ({ folder, manifest: { name } }) => (names.length === 0 || names.includes(name)) && isWanted(folder),
    );
    await tasks.test({ ...env, ...more }, [
      ...packages.map(({ manifest }) => `--filter=${manifest.name}`),
      ...(files.length === 0 ? [] : ["--", ...files]),
    ]);
    return sum(packages.map(({ folder }) => tallyOf(folder)));
  }

  /** @param {Column} column @returns {Promise<{ what: string, tally: Tally }>} */
  async function run(column) {
    let what = "";
    try {
      if (column.kind === "server") {
        const { bin, product, version } = await serverOf(column, env);
        what = `${product} ${version}`;
        say(`\n${what} at ${bin}\n`);
        return { what, tally: await suites({ REDIS_SERVER_BIN: bin }, isShort ? newest.files : []) };
      }
      if (column.kind === "suites") {
        const { env: more, files } = column;
        what = "behavior suites";
        return {
          what,
          tally: await suites({ ...(await tasks.redis()), ...more }, [], (folder) => files(folder).length > 0),
        };
      }
      await tasks.build();
      if (column.kind === "runtime") {
        what = `${column.name.replace(/-\d+$/, "")} ${column.version}`;
        const runtime = await runtimeOf(column, env);
        say(`\n${what}\n`);
        return { what, tally: await smoke(await tasks.redis(), { names, runtime }) };
      }
      what = clientText(column);
      const { other, package: from = "ioredis" } = column;
      const folder = await npmPackage(column.name, from, column.version, env);
      say(`\n${what}\n`);
      const ready = await tasks.redis();
      const tally = other
        ? await programsOf(ready, { names, client: { name: other, package: from, folder } })
        : await smoke(ready, { names, runtime: [process.execPath], others: { ioredis: folder } });
      return { what, tally };
    } catch (error) {
      if (!(error instanceof SetupError)) throw error;
      if (isShort && error instanceof Unavailable)
        return { what: `not run: ${error.message}`, tally: { passed: 0, failed: 0, skipped: 0, failures: [] } };
      // The other columns are run.
      return { what, tally: { passed: 0, failed: 1, skipped: 0, failures: [error.message] } };
    }
  }
}

/** @param {readonly string[]} words */
function wishes(words) {
  const chosen = columns.filter(({ name }) => words.includes(name));
  const packages = publicPackages().map(({ manifest }) => manifest.name);
  const names = words
    .filter((word) => !chosen.some(({ name }) => name === word))
    .map((word) => (word.startsWith("@kit/") ? word : `@kit/${word}`));
  const unknown = names.filter((name) => !packages.includes(name));
  if (unknown.length > 0 || (names.length > 0 && chosen.length === 0))
    throw new SetupError(
      `Expected columns (${columns.map(({ name }) => name).join(", ")}) and names of packages, got ${words.join(" ")}.`,
    );
  return { chosen, names };
}

/** @param {readonly { name: string, what: string, tally: Tally }[]} rows */
function print(rows) {
  const widths = [Math.max(...rows.map(({ name }) => name.length)), Math.max(...rows.map(({ what }) => what.length))];
  const lines = rows.flatMap(({ name, what, tally }) => [
    `${name.padEnd(widths[0] ?? 0)}  ${what.padEnd(widths[1] ?? 0)}  ${tallyLine(tally)}`,
    ...tally.failures.map((failure) => `  failed: ${failure}`),
  ]);
  process.stdout.write(`\n${lines.join("\n")}\n`);
}
