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
 * The links of a Markdown text, each with the place of its target, and the place and the words of the whole link.
 * @param {string} text
 * @returns {{ target: string, line: number, start: number, end: number, whole: { from: number, to: number, words: string } }[]}
 */
export function linksOf(text) {
  const prose = withoutCode(text);
  const forms = [
    /!?\[(?:[^[\]]|\[[^\]]*\])*\]\(\s*<?([^)\s>]+)>?(?:\s+["'][^)]*["'])?\s*\)/dg, // [text](target "title")
    /^ {0,3}\[[^\]]+\]:\s+<?(\S+?)>?(?:\s|$)/dgm, // [name]: target
    /<(?:a|img)\b[^>]*?\b(?:href|src)="([^"]*)"/dgi,
  ];
  return forms.flatMap((form) =>
    [...prose.matchAll(form)].map((match) => {
      const [start = 0, end = 0] = match.indices?.[1] ?? [];
      const to = match.index + match[0].length;
      const words = /^\[([^]*)\]\([^()]*\)$/.exec(text.slice(match.index, to))?.[1] ?? match[0];
      const line = prose.slice(0, match.index).split("\n").length;
      return { target: match[1] ?? "", line, start, end, whole: { from: match.index, to, words } };
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
 *   link is dropped, and its text is kept.
 */
export function changeLinks(text, file, change) {
  let result = text;
  for (const { target, start, end, whole } of linksOf(text).toSorted((a, b) => b.start - a.start)) {
    if (isExternal(target) || target.startsWith("#")) continue;
    const [path = "", anchor] = target.split("#");
    const changed = change(resolve(dirname(file), decodeURIComponent(path)));
    const { from, to, words } =
      changed === undefined
        ? whole
        : { from: start, to: end, words: anchor === undefined ? changed : `${changed}#${anchor}` };
    result = `${result.slice(0, from)}${words}${result.slice(to)}`;
  }
  return result;
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
