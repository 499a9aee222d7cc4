import { readdirSync, readFileSync } from "node:fs";
import { join, relative, sep } from "node:path";
import { parse, ts } from "../reference/comments.mjs";
import { root } from "../repo.mjs";
import { problemsOf } from "./words.mjs";

/** The sources whose texts people read in a terminal or on a page of the shop. */
const printed =
  /^(?:packages\/(?:cli\/src|[^/]+\/src\/descriptor)\/.*\.ts|apps\/marketplace\/(?:src\/(?:main|app|pages\/.*|web\/.*|behind\/.*|orders\/.*|race\/.*)\.ts|public\/(?:shop|charts)\.js))$/;

/**
 * The tics and the long sentences in what the command line and the shop print.
 * @param {string} [folder]
 */
export function outputProblems(folder = root) {
  return ["packages", "apps/marketplace"]
    .flatMap((part) => sourcesIn(join(folder, part)))
    .flatMap((path) => {
      const name = relative(folder, path).split(sep).join("/");
      if (!printed.test(name)) return [];
      return textsOf(readFileSync(path, "utf8"), name).flatMap(({ line, text }) =>
        problemsOf(text).map(({ problem }) => `${name}:${line}: ${problem}`),
      );
    });
}

/** @param {string} folder @returns {string[]} */
const sourcesIn = (folder) =>
  readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    if (["node_modules", "dist", "test"].includes(entry.name)) return [];
    const path = join(folder, entry.name);
    return entry.isDirectory() ? sourcesIn(path) : [path];
  });

/**
 * The string literals and templates of a source, without markup.
 * @param {string} source
 * @param {string} [name]
 */
export function textsOf(source, name) {
  const file = parse(source, name);
  /** @type {{ line: number, text: string }[]} */
  const texts = [];
  /** @param {import("typescript").Node} node */
  const visit = (node) => {
    if (ts.isImportDeclaration(node)) return;
    const text = ts.isStringLiteralLike(node) ? node.text : ts.isTemplateExpression(node) ? templateText(node) : "";
    const words = withoutMarkup(text);
    if (/[a-z]/i.test(words))
      texts.push({ line: file.getLineAndCharacterOfPosition(node.getStart(file)).line + 1, text: words });
    ts.forEachChild(node, visit);
  };
  visit(file);
  return texts;
}

/** Each `${…}` counts as one word. @param {import("typescript").TemplateExpression} template */
const templateText = ({ head, templateSpans }) =>
  head.text + templateSpans.map(({ literal }) => `x${literal.text}`).join("");

/** A tag inside a line of text is nothing. Any other tag starts a paragraph, as does an option of a usage. @param {string} text */
const withoutMarkup = (text) =>
  text
    .replace(/<\/?(?:a|b|bdi|br|code|em|i|span)\b[^>]*>/g, "")
    .replace(/<\/?\w[^>]*>/g, "\n\n")
    .replace(/^[ \t]+/gm, "")
    .replace(/^--/gm, "\n--");
