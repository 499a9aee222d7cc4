import { mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { workspaceFolder } from "./paths.js";

/** Lua that one script of a package runs first, with its operands by name. */
export interface Mutation {
  readonly script: string;
  /** The operands that it needs; a library has none. */
  readonly operands: readonly string[];
  /** On one line, since it becomes part of a JavaScript string. */
  readonly lua: string;
}

// Each script stands in the built package as a text of its own, with its header, and binds its operands before all else:
// that is how the scripts of all packages are written, whatever they do.
const mutated = (built: string, { script, operands, lua }: Mutation): string => {
  const newline = String.raw`(?:\\n|\n)`;
  const header = String.raw`(?:--(?:(?!\\n)[^\n])*${newline})*`;
  const binding = String.raw`local \w+ = [^\\\n]*?(?:KEYS|ARGV)[^\\\n]*${newline}`;
  const pattern = new RegExp(
    String.raw`-- ${script}\.lua - (?:(?!\\n)[^\n])*${newline}${header}(?<bindings>(?:${binding})*)`,
  );
  const found = pattern.exec(built);
  const bindings = found?.groups?.["bindings"];
  if (!found || bindings === undefined) throw new Error(`What was built has no script "${script}"`);
  const missing = operands.filter((operand) => !bindings.includes(`local ${operand} = `));
  if (missing.length > 0) throw new Error(`The script "${script}" has no operand ${missing.join()}`);
  const end = found.index + found[0].length;
  // A line of its own: the next one may be where core puts the libraries.
  const lineEnd = found[0].endsWith("\n") ? "\n" : String.raw`\n`;
  return `${built.slice(0, end)}${lua}${lineEnd}${built.slice(end)}`;
};

/**
 * Makes a copy of a built file of a package with these changes in its scripts, in this order; returns its address for
 * `import`.
 */
export const builtWith = (
  name: string,
  packageName: string,
  file: string,
  ...mutations: readonly Mutation[]
): string => {
  const require = createRequire(join(workspaceFolder, "package.json"));
  const dist = join(require.resolve(`${packageName}/package.json`), "../dist");
  const built = readFileSync(join(dist, file), "utf8");
  // In this workspace, so that its imports find what they look for.
  const folder = join(workspaceFolder, "test-results");
  mkdirSync(folder, { recursive: true });
  const copy = join(folder, `${name}.mjs`);
  const part = `${copy}.${String(process.pid)}.part`;
  // The last is put in first, since all are put in at the same place.
  const changed = mutations.toReversed().reduce(mutated, built);
  // An entry of a package finds the others beside it.
  writeFileSync(part, changed.replace(/\b(from|import) "\.\//g, `$1 "${pathToFileURL(dist).href}/`));
  // Another run may be reading it.
  renameSync(part, copy);
  return pathToFileURL(copy).href;
};

/** A module of a workload that wraps a package and tells one lie. */
export const wrappedBy = (workload: string, file: string, lie: string): string =>
  `${pathToFileURL(join(workspaceFolder, "src/workloads", workload, file)).href}?${lie}`;
