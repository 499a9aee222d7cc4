import { readFileSync } from "node:fs";
import { relative } from "node:path";
import { root } from "../repo.mjs";
import { markdownFiles } from "./links.mjs";

const notYet = /\b(?:not on npm yet|until it is on npm|(?:before it|nothing) is on npm|nothing is published yet)\b/i;

/**
 * The lines that say that nothing is published yet. Once `repository` is set none may be left.
 * @param {string} [folder]
 */
export function unpublishedPages(folder = root) {
  return markdownFiles(folder).flatMap((file) =>
    readFileSync(file, "utf8")
      .split("\n")
      .flatMap((line, index) =>
        notYet.test(line) ? [`${relative(folder, file)}:${index + 1}: ${line.slice(0, 80)}`] : [],
      ),
  );
}
