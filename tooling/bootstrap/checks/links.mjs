import { existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { root } from "../repo.mjs";

const skipped = new Set(["node_modules", "dist", ".git", ".cache", ".turbo", "test-results", "coverage"]);

/**
 * The broken relative links and anchors in the Markdown files below a folder. Links to the network are not checked.
 * @param {string} folder
 */
export function brokenLinks(folder) {
  return markdownFiles(folder).flatMap((file) => {
    const text = readFileSync(file, "utf8");
    return linksOf(text).flatMap(({ target, line }) => {
      const problem = checkLink(file, text, target, folder);
      return problem === undefined ? [] : [`${relative(folder, file)}:${line}: ${target}: ${problem}`];
    });
  });
}

/** @param {string} folder @returns {string[]} */
export function markdownFiles(folder) {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) return skipped.has(entry.name) ? [] : markdownFiles(path);
    return entry.name.endsWith(".md") ? [path] : [];
  });
}

/**
 * @param {string} file
 * @param {string} text
 * @param {string} target
 * @param {string} folder
 */
function checkLink(file, text, target, folder) {
  if (isExternal(target)) return undefined;
  const [path = "", anchor] = target.split("#");
  if (path.startsWith("/")) return "is absolute; links are relative to their file";
  const destination = path === "" ? file : resolve(dirname(file), decodeURIComponent(path));
  if (relative(folder, destination).startsWith("..")) return "leads out of the repository";
  if (!existsSync(destination)) return "no such file";
  if (anchor === undefined || anchor === "" || !destination.endsWith(".md") || statSync(destination).isDirectory()) {
    return undefined;
  }
  const there = destination === file ? text : readFileSync(destination, "utf8");
  return anchorsOf(there).has(anchor) ? undefined : "no such heading";
}

/** @param {string} target */
const isExternal = (target) => /^[a-z][a-z0-9+.-]*:/i.test(target) || target.startsWith("//");

/**
 * The text with code and comments blanked, since Markdown has no links there. Line breaks are kept.
 * @param {string} text
 */
export const withoutCode = (text) =>
  text
    .replace(/^( {0,3})(`{3,}|~{3,})[^\n]*\n[\s\S]*?(?:^ {0,3}\2[`~]*[ \t]*$|$(?![\s\S]))/gm, blank)
    .replace(/<!--[\s\S]*?-->/g, blank)
    .replace(/(`+)(?!`)([\s\S]*?[^`])\1(?!`)/g, blank);

/** @param {string} text */
const blank = (text) => text.replace(/[^\n]/g, " ");

/**
 * A place in a text, and the text that belongs there.
 * @typedef {{ from: number, to: number, text: string }} Edit
 */

/**
 * The links and pictures of a Markdown text, each with the place of its target. `words` are those of a link, and `unlink` leaves just
 * them; a picture and a reference have neither.
 * @param {string} text
 * @returns {{ target: string, line: number, start: number, end: number, words: string, unlink: readonly Edit[] }[]}
 */
export function linksOf(text) {
  const prose = withoutCode(text);
  const words = String.raw`\[((?:[^[\]]|\[[^\]]*\])*)\]`;
  const target = String.raw`\(\s*<?(?<target>[^)\s>]+)>?(?:\s+["'][^)]*["'])?\s*\)`;
  const forms = [
    new RegExp(`(?<!!)${words}${target}`, "dg"), // [words](target "title"); the words may be a picture
    new RegExp(`!${words}${target}`, "dg"),
    /^ {0,3}\[[^\]]+\]:\s+<?(?<target>\S+?)>?(?:\s|$)/dgm, // [name]: target
    /<(?:a|img)\b[^>]*?\b(?:href|src)="(?<target>[^"]*)"/dgi,
  ];
  return forms.flatMap((form, index) =>
    [...prose.matchAll(form)].map((match) => {
      const [start = 0, end = 0] = match.indices?.groups?.["target"] ?? [];
      const [first = 0, last = 0] = match.indices?.[1] ?? [];
      const around = [
        { from: match.index, to: first, text: "" },
        { from: last, to: match.index + match[0].length, text: "" },
      ];
      const line = prose.slice(0, match.index).split("\n").length;
      const own = index === 0 ? { words: text.slice(first, last), unlink: around } : { words: "", unlink: [] };
      return { target: match.groups?.["target"] ?? "", line, start, end, ...own };
    }),
  );
}

/**
 * Replaces the relative links of a text by addresses of a repository's pages, for readers without the files.
 * @param {string} text
 * @param {string} file The path of the text in the repository.
 * @param {string} repository `https://host/owner/name`
 * @param {string} ref The tag or branch whose pages are meant.
 * @param {string} [from] The folder of the repository.
 */
export const absoluteLinks = (text, file, repository, ref, from = root) =>
  changeLinks(text, file, (destination) => addressInRepository(destination, repository, ref, from));

const pictures = /\.(?:svg|png)$/;

/**
 * The address of a file or folder among a repository's pages; of a picture that of the file itself, which other pages can show.
 * @param {string} path
 * @param {string} repository
 * @param {string} ref
 * @param {string} from
 */
export const addressInRepository = (path, repository, ref, from) =>
  `${repository}/${statSync(path).isDirectory() ? "tree" : pictures.test(path) ? "raw" : "blob"}/${ref}/${relative(from, path).replaceAll("\\", "/")}`;

/**
 * Changes the relative links of a text. The anchor of a link is kept.
 * @param {string} text
 * @param {string} file The path of the text.
 * @param {(destination: string) => string | undefined} change Maps the path of a file or folder to the new target. Undefined: the
 *   link is dropped, and its words are kept.
 */
export function changeLinks(text, file, change) {
  const edits = linksOf(text).flatMap(({ target, start, end, unlink }) => {
    if (isExternal(target) || target.startsWith("#")) return [];
    const [path = "", anchor] = target.split("#");
    const changed = change(resolve(dirname(file), decodeURIComponent(path)));
    if (changed === undefined) return unlink;
    return [{ from: start, to: end, text: anchor === undefined ? changed : `${changed}#${anchor}` }];
  });
  return edits
    .toSorted((a, b) => b.from - a.from)
    .reduce((result, { from, to, text: words }) => `${result.slice(0, from)}${words}${result.slice(to)}`, text);
}

/**
 * The anchors that a Markdown page offers, as GitHub derives them from its headings.
 * @param {string} text
 */
export function anchorsOf(text) {
  const withoutFences = text.replace(/^ {0,3}(`{3,}|~{3,})[^\n]*\n[\s\S]*?^ {0,3}\1/gm, blank);
  /** @type {Set<string>} */
  const anchors = new Set();
  for (const [, heading = ""] of withoutFences.matchAll(/^ {0,3}#{1,6}\s+(.*?)\s*#*\s*$/gm)) {
    const base = slug(heading);
    let anchor = base;
    for (let count = 1; anchors.has(anchor); count++) anchor = `${base}-${count}`;
    anchors.add(anchor);
  }
  for (const [, id = ""] of withoutFences.matchAll(/<[a-z][^>]*?\b(?:id|name)="([^"]+)"/gi)) anchors.add(id);
  return anchors;
}

/** The anchor of a heading. The configuration of the site has it, too. @public @param {string} heading */
export const slug = (heading) =>
  heading
    .replace(/!?\[([^\]]*)\]\([^)]*\)/g, "$1")
    .replace(/<[^>]+>/g, "")
    .toLowerCase()
    .replace(/[^\p{L}\p{M}\p{N}\p{Pc}\- ]/gu, "")
    .replace(/ /g, "-");
