import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { commitProblems } from "./checks/commits.mjs";
import { unbrandedErrors } from "./checks/errors.mjs";
import { wrongFigures } from "./checks/figures.mjs";
import { brokenLinks } from "./checks/links.mjs";
import { filesOfPackage, packedProblems } from "./checks/packed.mjs";
import { unpublishedPages } from "./checks/pages.mjs";
import { roomProblems } from "./checks/rooms.mjs";
import { measureSizes } from "./checks/sizes.mjs";
import { supplyProblems } from "./checks/supplies.mjs";
import { commentProblems, errorProblems, wordProblems } from "./checks/words.mjs";
import { packPackage, publicPackages } from "./pack.mjs";
import { root, SetupError } from "./repo.mjs";
import { capture } from "./run.mjs";
import { pictureProblems } from "./pictures/index.mjs";
import { siteProblems } from "./site/site.mjs";
import { seconds } from "./steps.mjs";

/**
 * A check resolves to a note of one line, or to the problem that makes it fail.
 * @typedef {{ note?: string, problem?: string }} Verdict
 * @typedef {(env: NodeJS.ProcessEnv) => Promise<Verdict>} Check
 */

/** @type {(command: string, ...args: string[]) => Check} */
const program =
  (command, ...args) =>
  async (env) => {
    const { code, output } = await capture(command, args, { cwd: root, env });
    return code === 0 ? {} : { problem: output.trim() || `${command} ended with ${code}` };
  };

/** @type {Record<string, Check>} */
const checks = {
  "lint (oxlint, type-aware)": program("turbo", "run", "//#oxlint", "--output-logs=errors-only"),
  "format (prettier)": program(
    "prettier",
    "--check",
    "--log-level=warn",
    "--cache",
    "--cache-location=.cache/prettier",
    ".",
  ),
  "types (tsc)": program("turbo", "run", "typecheck", "--output-logs=errors-only", "--continue"),
  "manifests (sherif)": program("sherif", "--fail-on-warnings", "--ignore-rule=packages-without-package-json"),
  "unused code and dependencies (knip)": program("knip"),
  "packages as published (publint, attw, file list)": checkPackages,
  "errors (the same class in ESM and CommonJS)": async () => {
    // A program exports no error classes.
    const problems = await unbrandedErrors(publicPackages().filter(({ manifest }) => manifest.bin === undefined));
    return problems.length === 0 ? {} : { problem: problems.join("\n") };
  },
  "rooms (no circle of imports between the folders of a workspace)": async () => {
    const problems = roomProblems();
    return problems.length === 0 ? {} : { problem: problems.join("\n") };
  },
  "supply chain (lockfiles, install scripts, settings)": async () => {
    const problems = supplyProblems();
    return problems.length === 0 ? {} : { problem: problems.join("\n") };
  },
  sizes: async () => {
    const { facts, problems } = await measureSizes(publicPackages());
    return problems.length === 0 ? { note: facts.join(", ") } : { problem: problems.join("\n") };
  },
  "pages (only a preview says that nothing is on npm yet)": async () => {
    const lines = unpublishedPages(root, { outsidePreview: true });
    return lines.length === 0 ? {} : { problem: lines.join("\n") };
  },
  "words (plain English, short sentences)": async () => {
    const problems = [...wordProblems(), ...commentProblems(), ...(await errorProblems())];
    return problems.length === 0 ? {} : { problem: problems.join("\n") };
  },
  "words of the output (command line, shop)": async () => {
    // It needs the compiler, which is not there before the set-up.
    const { outputProblems } = await import("./checks/words-output.mjs");
    const problems = outputProblems();
    return problems.length === 0 ? {} : { problem: problems.join("\n") };
  },
  "reference (the pages that are made from the code)": async () => {
    // It needs the compiler, which is not there before the set-up.
    const { referenceProblems } = await import("./reference/index.mjs");
    const problems = await referenceProblems();
    return problems.length === 0 ? {} : { problem: problems.join("\n") };
  },
  "links in documents": async () => {
    const broken = brokenLinks(root);
    return broken.length === 0 ? {} : { problem: broken.join("\n") };
  },
  "figures (those that link to a chart are of its case)": async () => {
    const wrong = wrongFigures();
    return wrong.length === 0 ? {} : { problem: wrong.join("\n") };
  },
  "pictures (those that are drawn from data)": async () => {
    const problems = pictureProblems();
    return problems.length === 0 ? {} : { problem: problems.join("\n") };
  },
  "site (each document has a page, and can be shown)": async () => {
    const problems = siteProblems();
    return problems.length === 0 ? {} : { problem: problems.join("\n") };
  },
  "commits (a subject that fits, a body that says why)": async (env) => {
    const { checked, problems } = await commitProblems(env);
    return problems.length === 0 ? { note: `${checked} of the latest` } : { problem: problems.join("\n") };
  },
};

/**
 * Runs every check, two at a time and even after one has failed, and prints one line for each when it ends.
 * @param {NodeJS.ProcessEnv} env
 * @param {readonly string[]} [words] Only the checks whose names have a word that begins with one of these.
 */
export async function verify(env, words = []) {
  const chosen = Object.entries(checks).filter(
    ([name]) => words.length === 0 || words.some((word) => name.split(/\W+/).some((part) => part.startsWith(word))),
  );
  if (chosen.length === 0)
    throw new SetupError(`No check has such a name. There are:\n  ${Object.keys(checks).join("\n  ")}`);
  let failed = 0;
  const left = chosen.values();
  /** Most checks use one processor. */
  const runThoseLeft = async () => {
    for (const [name, check] of left) {
      const start = performance.now();
      const { problem, note } = await check(env);
      if (problem !== undefined) failed += 1;
      const line = `${problem === undefined ? "ok    " : "FAILED"}  ${name} (${seconds(start)})`;
      process.stdout.write(`${note === undefined ? line : `${line}: ${note}`}\n`);
      if (problem !== undefined) process.stdout.write(`${problem.replace(/^/gm, "        ")}\n`);
    }
  };
  await Promise.all([runThoseLeft(), runThoseLeft()]);
  process.stdout.write(failed === 0 ? "All checks passed.\n" : `${failed} checks failed.\n`);
  return failed === 0 ? 0 : 1;
}

/** Packs each public package and checks the tarball that a user gets. @type {Check} */
async function checkPackages(env) {
  const folder = mkdtempSync(join(tmpdir(), "kit-pack-"));
  try {
    const verdicts = await Promise.all(publicPackages().map((one) => checkPackage(one, folder, env)));
    const problems = verdicts.flat();
    return problems.length === 0 ? {} : { problem: problems.join("\n") };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/**
 * @param {import("./pack.mjs").Workspace} one
 * @param {string} parent
 * @param {NodeJS.ProcessEnv} env
 */
async function checkPackage(one, parent, env) {
  const { folder, manifest } = one;
  const path = await packPackage(one, join(parent, manifest.name.replace("/", "-")), env);
  const runs = await Promise.all([
    capture("publint", ["--strict", path], { cwd: folder, env }),
    capture("attw", [path, "--no-emoji"], { cwd: folder, env }),
  ]);
  return [
    ...runs.filter(({ code }) => code !== 0).map(({ output }) => `${manifest.name}:\n${output.trim()}`),
    ...packedProblems(manifest.name, path, filesOfPackage(manifest)),
    ...(manifest.keywords?.length ? [] : [`${manifest.name} has no keywords`]),
  ];
}
