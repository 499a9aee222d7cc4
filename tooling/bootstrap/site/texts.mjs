import { existsSync, statSync } from "node:fs";
import { extname, join, posix, relative, sep } from "node:path";
import { addressInRepository, changeLinks, withoutCode } from "../checks/links.mjs";
import { oneLine } from "../reference/markdown.mjs";
import { addressOf } from "./documents.mjs";

/** @typedef {import("./documents.mjs").Page} Page */
/** @typedef {{ root: string, repository: string | undefined }} Place */

/** Files that the site has, too: pictures, and data to download. */
const copied = [".svg", ".png", ".json"];

/**
 * The text of a page with the links that it has on the site: to the pages, to copies of pictures and data beside them, and for everything else to the
 * repository. Until that has an address, such a link is dropped, and its words are kept.
 * @param {Page} page
 * @param {Place} place
 */
export function siteText({ file, address, text }, { root, repository }) {
  /** @type {Set<string>} */
  const figures = new Set();
  const here = posix.dirname(address);
  const linked = changeLinks(text, join(root, file), (destination) => {
    if (!existsSync(destination)) return undefined; // the check of links names it
    const target = pathOf(destination, root);
    const there = addressOf(target);
    if (there !== undefined) return `${relativeTo(here, there)}.md`;
    if (copied.includes(extname(target))) {
      figures.add(target);
      return relativeTo(here, `figures/${target}`);
    }
    return repository === undefined ? undefined : addressInRepository(join(root, target), repository, "main", root);
  });
  return { text: linked, figures };
}

/** The path of a document: a folder stands for its README. @param {string} destination @param {string} root */
function pathOf(destination, root) {
  const path = relative(root, destination).split(sep).join("/");
  const readme = join(destination, "README.md");
  return statSync(destination).isDirectory() && existsSync(readme) ? posix.join(path, "README.md") : path;
}

/** @param {string} from A folder. @param {string} to */
const relativeTo = (from, to) => posix.relative(from, to).replace(/^(?!\.)/, "./");

/** The first paragraph of a document as plain text, for lists and search engines. @param {string} text */
export function summaryOf(text) {
  const paragraphs = withoutFrontmatter(text)
    .replace(/^```[^]*?^```$/gm, "")
    .split(/\n\s*\n/)
    .map((one) =>
      oneLine(one.replace(/!?\[([^\]]*)\]\([^)]*\)/g, "$1").replace(/[`*]/g, "")).replace(/^Part of @kit\/\w+\. ?/, ""),
    );
  const plain = paragraphs.find((one) => /^[\p{L}@]/u.test(one) && !one.startsWith("This page is made")) ?? "";
  return plain.length <= 240 ? plain : `${plain.slice(0, 240).replace(/\s\S*$/, "")} …`;
}

/** @param {string} text */
export const withoutFrontmatter = (text) => text.replace(/^---\n[^]*?\n---\n/, "");

/**
 * Text of a document that Vue would take for its own: it compiles each page as a template. Code is exempt.
 * @param {Page} page
 */
export const templateProblems = ({ file, text }) =>
  withoutCode(text)
    .split("\n")
    .flatMap((line, index) =>
      /\{\{|<[a-z][^>]*>/i.test(line.replace(/<(?:https?:|[^<>\s]+\))[^>]*>?/g, ""))
        ? [`${file}:${index + 1}: a tag or {{ }} outside of code, which the site cannot show`]
        : [],
    );
