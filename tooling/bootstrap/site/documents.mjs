import { readFileSync } from "node:fs";
import { relative, sep } from "node:path";
import { markdownFiles } from "../checks/links.mjs";
import { root as repository } from "../repo.mjs";

/**
 * A page of the site: a document of the repository, or a text that is made for the site alone.
 * @typedef {{ file: string, address: string, title: string, text: string }} Page `file`: its path from the root of the repository.
 *   `address`: its path on the site, without an extension; the page of a folder ends with `index`.
 */

/** Paths of documents and the addresses of their pages. The first that fits counts. @type {readonly (readonly [RegExp, string])[]} */
const addresses = [
  [/^apps\/site\/index\.md$/, "index"],
  [/^README\.md$/, "overview"],
  [/^([^/]+)\.md$/, "$1"],
  [/^(?:packages|apps|tooling)\/([^/]+)\/DESIGN\.md$/, "$1/design"],
  [/^tooling\/bench\/README\.md$/, "bench/method"],
  [/^(?:packages|apps|tooling)\/([^/]+)\/README\.md$/, "$1/index"],
  [/^packages\/([^/]+)\/docs\/([^/]+)\.md$/, "$1/$2"],
  [/^apps\/docs\/([^/]+)\/README\.md$/, "$1/index"],
  [/^apps\/docs\/(.+)\.md$/, "$1"],
];

/** Documents that are no pages: forms, notes about files of tests, changes that the page of changes shows. */
const unlisted = /^(?:\.github|\.changeset)\/|\/test\/|(?:^|\/)CHANGELOG\.md$/;

/** @param {string} file @returns {string | undefined} */
export function addressOf(file) {
  const [pattern, address] = addresses.find(([one]) => one.test(file)) ?? [];
  if (pattern === undefined || address === undefined || unlisted.test(file)) return undefined;
  return file.replace(pattern, address).toLowerCase();
}

/** The first heading, without its marks. @param {string} text */
const titleOf = (text) => (/^# (.*)$/m.exec(text)?.[1] ?? "").replace(/`/g, "");

/**
 * The documents of the repository that are pages of the site, and what is wrong with the others.
 * @param {string} [root]
 */
export function documents(root = repository) {
  /** @type {Page[]} */
  const pages = [];
  /** @type {string[]} */
  const problems = [];
  for (const path of markdownFiles(root).sort()) {
    const file = relative(root, path).split(sep).join("/");
    if (unlisted.test(file)) continue;
    const address = addressOf(file);
    const text = readFileSync(path, "utf8");
    const taken = pages.find((page) => page.address === address)?.file;
    if (address === undefined)
      problems.push(`${file} has no address on the site (tooling/bootstrap/site/documents.mjs)`);
    else if (taken !== undefined) problems.push(`${file} and ${taken} have the same address on the site: ${address}`);
    else pages.push({ file, address, title: titleOf(text), text });
  }
  return { pages, problems };
}
