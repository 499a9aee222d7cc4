import { mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { publicPackages, repositoryAddress } from "../pack.mjs";
import { step } from "../steps.mjs";
import { install, consumerEnv, copiesIn } from "./consumer.mjs";
import { commit, copyRepository } from "./copy.mjs";
import { keptFolder, npm, publish } from "./publish.mjs";
import { runQuickStart } from "./quick-start.mjs";
import { startRegistry } from "./registry.mjs";
import { rehearseSecondYear } from "./second-year.mjs";
import { rehearseSideBySide } from "./side-by-side.mjs";
import { version } from "./version.mjs";

/** Stands in for the address of the repository while that is not set. It exists nowhere. */
const standIn = "https://repository.example/owner/kit";

/** @typedef {{ name: string, version: string, kiB: number | undefined, install: string, program: string }} Row */

/**
 * `npm run release -- --dry-run`: tries all of a release with a copy of the repository and a registry on loopback, as
 * somebody who then installs each package alone. Prints a table, and resolves to the exit code.
 * @param {NodeJS.ProcessEnv} env With `REDIS_SERVER_BIN`.
 */
export async function rehearse(env) {
  const { startRedis } = await import("@kit/testing"); // built by now
  process.env["REDIS_SERVER_BIN"] = env["REDIS_SERVER_BIN"];
  const server = await startRedis();
  const folder = mkdtempSync(join(tmpdir(), "kit-release-"));
  /** @type {string | undefined} */
  let refused;
  const registry = await startRegistry((name) => name === refused);
  const userEnv = { ...consumerEnv(env, registry.env, folder), REDIS_URL: server.url };
  const tree = join(folder, "repository");
  mkdirSync(tree);
  const options = { from: tree, repository: repositoryAddress() ?? standIn, folder: join(folder, "tarballs") };
  try {
    await step("a copy of the repository", () => copyRepository(tree, env));
    const changed = await step("versions and changelogs", () => version(env, tree), counted("new"));
    await commit(tree, env, "versions");
    const outcomes = await step("publication", () => publish(userEnv, options), countedBy("published"));
    const again = await step("publication once more", () => publish(userEnv, options), countedBy("was there"));
    const problems = outcomes.flatMap(({ name, problem }) => (problem === undefined ? [] : [`${name}: ${problem}`]));
    if (problems.length === 0 && again.some(({ state }) => state !== "was there"))
      problems.push(`a second run published again: ${JSON.stringify(again)}`);
    /** @type {Row[]} */
    const rows = [];
    for (const { name, version: published, kiB, state } of problems.length === 0 ? outcomes : []) {
      const row = await step(`${name} alone`, () => tryAlone(name, join(folder, name.replace("/", "-"))), resultOf);
      rows.push({ name, version: published, kiB, ...row });
      if (state === "failed" || resultOf(row) !== "ok") problems.push(`${name}: ${row.install}\n${row.program}`);
    }
    print(rows, changed.length, options.repository === standIn);
    if (problems.length === 0) {
      printReleases(await step("a second year", secondYear, counted("releases")));
      printSides(await step("two versions of one major on one server", () => sideBySide(outcomes)));
    }
    for (const problem of problems) process.stdout.write(`\n${problem}\n`);
    return problems.length === 0 ? 0 : 1;
  } finally {
    await registry.close();
    await server.stop();
    rmSync(folder, { recursive: true, force: true });
  }

  function secondYear() {
    const names = ["@kit/core", "@kit/lock", "@kit/queue", "@kit/cli"];
    const refuse = (/** @type {string | undefined} */ name) => void (refused = name);
    return rehearseSecondYear({ tree, env, userEnv, folder, names, refuse, repository: options.repository });
  }

  /** @param {readonly import("./publish.mjs").Outcome[]} first */
  function sideBySide(first) {
    const versions = Object.fromEntries(first.map(({ name, version: published }) => [name, published]));
    return rehearseSideBySide({ versions, kept: keptFolder, folder: join(folder, "side-by-side"), env: userEnv });
  }

  /** @param {string} name @param {string} project @returns {Promise<Pick<Row, "install" | "program">>} */
  async function tryAlone(name, project) {
    const readme = readFileSync(join(tree, "packages", name.replace("@kit/", ""), "README.md"), "utf8");
    const [, words = name] = /\bnpm install ([^`\n]*@kit[^`\n]*)/.exec(readme) ?? [];
    const isTest = words.includes("--save-dev");
    const failed = await install(project, [...words.split(" "), ...(isTest ? ["vitest"] : [])], userEnv);
    if (failed !== undefined) return { install: failed, program: "not tried" };
    const twice = Object.entries(copiesIn(project)).filter(([, versions]) => versions.length > 1);
    const installed = twice.length === 0 ? "ok" : `more than one copy: ${JSON.stringify(twice)}`;
    if (publicPackages(tree).some(({ manifest }) => manifest.name === name && manifest.bin !== undefined)) {
      const doctor = await npm(["exec", "--yes", "--", name, "doctor"], userEnv, project);
      return { install: installed, program: /^\d+ checks: /m.test(doctor.output) ? "ok" : doctor.output };
    }
    return { install: installed, program: (await runQuickStart(project, readme, userEnv)) ?? "ok" };
  }
}

/** @param {Pick<Row, "install" | "program">} row */
const resultOf = ({ install: installed, program }) => (installed === "ok" && program === "ok" ? "ok" : "failed");

/** @type {(word: string) => (list: readonly unknown[]) => string} */
const counted = (word) => (list) => `${list.length} ${word}`;

/** @type {(state: string) => (outcomes: readonly import("./publish.mjs").Outcome[]) => string} */
const countedBy = (state) => (outcomes) =>
  `${outcomes.filter((one) => one.state === state).length} of ${outcomes.length} ${state}`;

/** @param {readonly Row[]} rows @param {number} changed @param {boolean} isStandIn */
function print(rows, changed, isStandIn) {
  printTable([
    ["package", "version", "packed", "installed alone", "first program"],
    ...rows.map(({ name, version: published, kiB, install: installed, program }) => [
      name,
      published,
      kiB === undefined ? "" : `${kiB} KiB`,
      installed === "ok" ? "ok" : "failed",
      program === "ok" ? "ok" : "failed",
    ]),
  ]);
  process.stdout.write(`${changed} packages would get a new version. Nothing has left this machine.\n`);
  if (isStandIn)
    process.stdout.write(`\`repository\` of the root's package.json is empty: the links led to ${standIn}.\n`);
}

/** @param {readonly import("./second-year.mjs").Release[]} releases */
function printReleases(releases) {
  const words = (/** @type {Record<string, string | string[]>} */ of) =>
    Object.entries(of)
      .map(([name, value]) => `${name.replace("@kit/", "")} ${[value].flat().join(" and ")}`)
      .join(", ");
  printTable([
    ["release", "published and tagged", "core on npm", "lock on npm", "npm update in a project of version 1"],
    ...releases.map(({ what, versions, offered: { core = {}, lock = {} }, update }) => [
      what,
      ...[versions, core, lock, update].map(words),
    ]),
  ]);
}

/** @param {readonly import("./side-by-side.mjs").Side[]} sides */
function printSides(sides) {
  const names = Object.keys(sides[0]?.copies ?? {});
  printTable([
    ["a process with", ...names.map((name) => name.replace("@kit/", ""))],
    ...sides.map(({ what, copies }) => [what, ...names.map((name) => copies[name]?.join(" and ") ?? "none")]),
  ]);
  process.stdout.write("Processes of different versions ran each other's jobs and handed a lock to each other.\n");
}

/** @param {string[][]} lines */
function printTable(lines) {
  const widths = (lines[0] ?? []).map((_, column) => Math.max(...lines.map((line) => (line[column] ?? "").length)));
  const table = lines.map((line) =>
    line
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join("  ")
      .trimEnd(),
  );
  process.stdout.write(`\n${table.join("\n")}\n\n`);
}
