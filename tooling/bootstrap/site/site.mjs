import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { publicPackages, repositoryAddress } from "../pack.mjs";
import { readManifest, root as repository } from "../repo.mjs";
import { documents } from "./documents.mjs";
import { linkOf, sidebarOf } from "./outline.mjs";
import { siteText, summaryOf, templateProblems } from "./texts.mjs";

/** @typedef {import("./documents.mjs").Page} Page */

/**
 * The site, ready to be written: its pages with their final texts, the pictures that they show, the sidebar, and what is wrong.
 * @param {string} [root]
 * @param {readonly Page[]} [further] Pages that are no documents.
 */
export function site(root = repository, further = []) {
  const address = repositoryAddress(readManifest(root));
  const found = documents(root);
  const all = [...found.pages, changes(root), ...further];
  const outline = sidebarOf(all);
  /** @type {Set<string>} */
  const figures = new Set();
  const pages = all.map((page) => {
    const linked = siteText({ ...page, text: withPrograms(page, root) }, { root, repository: address });
    linked.figures.forEach((figure) => figures.add(figure));
    return { ...page, text: linked.text, summary: summaryOf(page.text) };
  });
  const home = "apps/site/index.md";
  const problems = [
    ...found.problems,
    ...outline.problems,
    ...found.pages.filter(({ file }) => file !== home).flatMap(templateProblems),
    ...homeLinks(all, home),
  ];
  return { pages, figures: [...figures], sidebar: outline.sidebar, repository: address, problems };
}

/** Problems of the documents that the site is made from, without a build of it. @param {string} [root] */
export const siteProblems = (root = repository) => site(root).problems;

/**
 * Puts the first program of a document, which a test runs, in the place of `<!-- program PATH -->`.
 * @param {Page} page
 * @param {string} root
 */
const withPrograms = ({ file, text }, root) =>
  file === "apps/site/index.md"
    ? text.replace(/^<!-- program (\S+) -->$/gm, (_, path) =>
        firstProgram(readFileSync(join(root, path), "utf8"), path),
      )
    : text;

/** @param {string} text @param {string} path */
const firstProgram = (text, path) => {
  const program = /^```js\n[^]*?^```$/m.exec(text)?.[0];
  if (program === undefined) throw new Error(`${path} has no program in JavaScript`);
  return program;
};

/** The front page names pages by their paths on the site, where no check of links sees them. @param {readonly Page[]} pages @param {string} home */
function homeLinks(pages, home) {
  const paths = new Set(pages.map(({ address }) => linkOf(address)));
  const text = pages.find(({ file }) => file === home)?.text ?? "";
  const links = [...text.matchAll(/^\s*link: (\/[^\s#]*)(?:#\S*)?$|href="(\/[^"#]*)/gm)].map(
    (match) => match[1] ?? match[2] ?? "",
  );
  return links.filter((link) => !paths.has(link)).map((link) => `${home}: ${link} is no page`);
}

/** The page of changes: the changelogs of the packages, and what the next release brings. @param {string} root @returns {Page} */
function changes(root) {
  const released = publicPackages(root).flatMap(({ folder, manifest: { name } }) => {
    const path = join(folder, "CHANGELOG.md");
    return existsSync(path)
      ? [
          readFileSync(path, "utf8")
            .replace(/^#/gm, "##")
            .replace(/^## .*$/m, `## ${name}`),
        ]
      : [];
  });
  const folder = join(root, ".changeset");
  const waiting = readdirSync(folder)
    .filter((name) => name.endsWith(".md"))
    .sort()
    .map((name) => readFileSync(join(folder, name), "utf8"))
    .flatMap((text) => {
      const [, head = "", body = ""] = /^---\n([^]*?)---\n([^]*)$/.exec(text) ?? [];
      const names = [...head.matchAll(/"(.+?)"/g)].map(([, name]) => name);
      return names.length === 0 ? [] : [`### ${names.join(", ")}\n\n${body.trim()}`];
    });
  const parts = [
    "# Changes",
    "Each package has versions of its own. [Versions](apps/docs/versions.md) says what may change in which.",
    ...(waiting.length === 0 ? [] : ["## In the next release", ...waiting]),
    ...released,
  ];
  return { file: "CHANGES.md", address: "changelog", title: "Changes", text: `${parts.join("\n\n")}\n` };
}
