// The page "At scale", whose tables are made from the kept costs.
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { root } from "../keep.js";
import type { Costs } from "./costs.js";
import { tablesOf } from "./tables.js";

export const pageFile = join(root, "apps", "docs", "at-scale.md");

interface Prettier {
  resolveConfig(path: string): Promise<object | null>;
  format(text: string, options: object): Promise<string>;
}

/** A part that is made: all between its two comments. */
const part = /<!-- costs: (\w+) -->\n[^]*?<!-- end -->/g;

/**
 * The page with the tables of `costs`.
 *
 * @throws {RangeError} the page has a part that no table is for, or a table has no part.
 */
export const pageOf = async (costs: Costs, page: string = readFileSync(pageFile, "utf8")): Promise<string> => {
  const tables = tablesOf(costs);
  const left = new Set(tables.keys());
  const text = page.replaceAll(part, (_, name: string) => {
    const made = tables.get(name);
    if (made === undefined) throw new RangeError(`No table is named "${name}"`);
    left.delete(name);
    return `<!-- costs: ${name} -->\n\n${made}\n\n<!-- end -->`;
  });
  if (left.size > 0) throw new RangeError(`The page has no part for ${[...left].join(", ")}`);
  const prettier = createRequire(join(root, "package.json"))("prettier") as Prettier;
  const style = await prettier.resolveConfig(pageFile);
  return await prettier.format(text, { ...style, parser: "markdown" });
};
