import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { basename, dirname, join, relative } from "node:path";
import { publicPackages } from "../pack.mjs";
import { root } from "../repo.mjs";
import { errorPage } from "./a-to-z.mjs";
import { sourcesNamed } from "./comments.mjs";
import { defaultsPage } from "./defaults.mjs";
import { errorsSection } from "./errors.mjs";
import { faultsPage, withFaults } from "./faults.mjs";
import { keysSection } from "./keys.mjs";
import { tablesOf } from "./options.mjs";
import { optionsSection } from "./section.mjs";

/** @typedef {import("../pack.mjs").Workspace} Workspace */

/**
 * The pages that follow from the code of the packages, by their paths, and what is wrong in that code: `docs/reference.md` of each, and,
 * where all are given, the pages of all errors, of all defaults and of the fault runs, and the table of these on the front page.
 * @param {readonly Workspace[]} packages
 */
async function pages(packages) {
  /** @type {string[]} */
  const problems = [];
  /** @type {Map<string, string>} */
  const texts = new Map();
  const prettier = createRequire(join(root, "package.json"))("prettier");
  const optionTables = await tablesOf(packages);
  for (const { folder, manifest } of packages) {
    const { name } = manifest;
    const sections = [
      optionsSection(optionTables.find((one) => one.folder === folder)?.tables ?? []),
      errorsSection(name, sourcesNamed(folder, "errors.ts")),
      keysSection(sourcesNamed(folder, "keys.ts")),
    ];
    problems.push(...sections.flatMap((section) => section.problems.map((problem) => `${name}: ${problem}`)));
    const written = sections.map(({ text }) => text).filter((text) => text !== "");
    if (written.length === 0) continue;
    const head = `# ${name}: reference\n\nThis page is made from the code by \`npm run reference\`.`;
    texts.set(join(folder, "docs", "reference.md"), [head, ...written].join("\n\n"));
  }
  if (packages.length === publicPackages().length) {
    const sources = packages.map(({ folder, manifest: { name } }) => ({
      source: name,
      folder: basename(folder),
      files: sourcesNamed(folder, "errors.ts"),
    }));
    const all = errorPage(sources);
    problems.push(...all.problems);
    texts.set(join(root, "apps", "docs", "errors.md"), all.text);
    const defaults = defaultsPage(optionTables);
    problems.push(...defaults.problems);
    texts.set(join(root, "apps", "docs", "defaults.md"), defaults.text);
    const runs = JSON.parse(readFileSync(join(root, "apps", "docs", "faults.json"), "utf8"));
    texts.set(join(root, "apps", "docs", "fault-runs.md"), faultsPage(runs));
    const front = join(root, "README.md");
    texts.set(front, withFaults(readFileSync(front, "utf8"), runs));
  }
  for (const [path, text] of texts) {
    const style = await prettier.resolveConfig(path);
    texts.set(path, await prettier.format(text, { ...style, parser: "markdown" }));
  }
  return { texts, problems };
}

/** The faults of the pages: they differ from the code, or the code contradicts itself. */
export async function referenceProblems(packages = publicPackages()) {
  const { texts, problems } = await pages(packages);
  const old = [...texts].filter(([path, text]) => !existsSync(path) || readFileSync(path, "utf8") !== text);
  return [...problems, ...old.map(([path]) => `${relative(root, path)} is not as the code: \`npm run reference\``)];
}

/** Writes the pages. Resolves with the problems of the code. */
export async function writeReference(packages = publicPackages()) {
  const { texts, problems } = await pages(packages);
  for (const [path, text] of texts) {
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, text);
  }
  return problems;
}
