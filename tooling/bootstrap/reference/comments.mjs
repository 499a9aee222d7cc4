import { readdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { root } from "../repo.mjs";

/** @type {typeof import("typescript")} */
export const ts = createRequire(join(root, "package.json"))("typescript");

/**
 * The source files of this name in a package, in the order of their paths.
 * @param {string} folder The package's.
 * @param {string} name
 */
export const sourcesNamed = (folder, name) =>
  readdirSync(join(folder, "src"), { withFileTypes: true, recursive: true })
    .filter((entry) => entry.isFile() && entry.name === name)
    .map((entry) => join(entry.parentPath, entry.name))
    .sort()
    .map((path) => parse(readFileSync(path, "utf8"), path));

/** @param {string} text @param {string} [path] */
export const parse = (text, path = "some.ts") => ts.createSourceFile(path, text, ts.ScriptTarget.ES2023, true);

/**
 * The doc comment that stands last before a declaration, without its tags.
 * @param {import("typescript").Node} node
 */
export const docOf = (node) => {
  const comment = ts.getJSDocCommentsAndTags(node).filter(ts.isJSDoc).at(-1)?.comment;
  return (ts.getTextOfJSDocComment(comment) ?? "").replace(/\{@link (.+?)\}/g, "`$1`");
};
