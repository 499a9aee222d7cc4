import { existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";

const skipped = new Set(["node_modules", "dist", ".git", ".cache", ".turbo", "test-results", "coverage"]);

/**
 * What is wrong with the relative links and anchors of the Markdown files below a folder; nothing on the network is
 * asked.
 * @param {string} root
 */
export function brokenLinks(root) {
  return markdownFiles(root).flatMap((file) => {
    const text = readFileSync(file, "utf8");
    return linksOf(text).flatMap(({ target, line }) => {
      const problem = checkLink(file, text, target, root);
      return problem === undefined ? [] : [`${relative(root, file)}:${line}: ${target}: ${problem}`];
    });
  });
}

/** @param {string} folder @returns {string[]} */
function markdownFiles(folder) {
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
 * @param {string} root
 */
function checkLink(file, text, target, root) {
  if (/^[a-z][a-z0-9+.-]*:/i.test(target) || target.startsWith("//")) return undefined;
  const [path = "", anchor] = target.split("#");
  if (path.startsWith("/")) return "is absolute; links are relative to their file";
  const destination = path === "" ? file : resolve(dirname(file), decodeURIComponent(path));
  if (relative(root, destination).startsWith("..")) return "leads out of the repository";
  if (!existsSync(destination)) return "no such file";
  if (anchor === undefined || anchor === "" || !destination.endsWith(".md") || statSync(destination).isDirectory()) {
    return undefined;
  }
  const there = destination === file ? text : readFileSync(destination, "utf8");
  return anchorsOf(there).has(anchor) ? undefined : "no such heading";
}

/**
 * The text with everything blanked in which Markdown has no links, line breaks kept.
 * @param {string} text
 */
const withoutCode = (text) =>
  text
    .replace(/^( {0,3})(`{3,}|~{3,})[^\n]*\n[\s\S]*?(?:^ {0,3}\2[`~]*[ \t]*$|$(?![\s\S]))/gm, blank)
    .replace(/<!--[\s\S]*?-->/g, blank)
    .replace(/(`+)(?!`)([\s\S]*?[^`])\1(?!`)/g, blank);

/** @param {string} text */
const blank = (text) => text.replace(/[^\n]/g, " ");

/**
 * @param {string} text
 * @returns {{ target: string, line: number }[]}
 */
export function linksOf(text) {
  const prose = withoutCode(text);
  const forms = [
    /!?\[(?:[^[\]]|\[[^\]]*\])*\]\(\s*<?([^)\s>]+)>?(?:\s+["'][^)]*["'])?\s*\)/g, // [text](target "title")
    /^ {0,3}\[[^\]]+\]:\s+<?(\S+?)>?(?:\s|$)/gm, // [name]: target
    /<(?:a|img)\b[^>]*?\b(?:href|src)="([^"]*)"/gi,
  ];
  return forms.flatMap((form) =>
    [...prose.matchAll(form)].map((match) => ({
      target: match[1] ?? "",
      line: prose.slice(0, match.index).split("\n").length,
    })),
  );
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

/** @param {string} heading */
const slug = (heading) =>
  heading
    .replace(/!?\[([^\]]*)\]\([^)]*\)/g, "$1")
    .replace(/<[^>]+>/g, "")
    .toLowerCase()
    .replace(/[^\p{L}\p{M}\p{N}\p{Pc}\- ]/gu, "")
    .replace(/ /g, "-");
