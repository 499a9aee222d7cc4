import { readFileSync, writeFileSync } from "node:fs";
import { relative } from "node:path";
import { root } from "../repo.mjs";
import { markdownFiles } from "./links.mjs";

/** What a page says only before the first publication. */
const preview = /<!-- preview -->\n[^]*?<!-- \/preview -->\n\n?/g;
const notYet =
  /\b(?:not on npm yet|until it is on npm|(?:before it|nothing) is on npm|nothing is published yet)\b|<!-- preview -->/i;

/**
 * The lines that say that nothing is published yet.
 * @param {string} [folder]
 * @param {{ outsidePreview?: boolean }} [options] `outsidePreview`: only those that {@link removePreviews} would leave.
 */
export function unpublishedPages(folder = root, { outsidePreview = false } = {}) {
  return markdownFiles(folder).flatMap((file) => {
    const text = readFileSync(file, "utf8");
    // Line numbers stay.
    const judged = outsidePreview ? text.replace(preview, (block) => block.replace(/[^\n]/g, "")) : text;
    return withoutCodeSpans(judged)
      .split("\n")
      .flatMap((line, index) =>
        notYet.test(line) ? [`${relative(folder, file)}:${index + 1}: ${line.slice(0, 80)}`] : [],
      );
  });
}

/** @param {string} text */
const withoutCodeSpans = (text) => text.replace(/`[^`\n]*`/g, (span) => " ".repeat(span.length));

/** Deletes from all pages what they say only before the first publication. @param {string} folder */
export function removePreviews(folder) {
  for (const file of markdownFiles(folder)) {
    const text = readFileSync(file, "utf8");
    const published = text.replace(preview, "");
    if (published !== text) writeFileSync(file, published);
  }
}
