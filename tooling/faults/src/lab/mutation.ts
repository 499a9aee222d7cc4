import { mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { workspaceFolder } from "./paths.js";

/** Lua that one script of a package runs first, with its operands by name. */
export interface Mutation {
  readonly script: string;
  /** The operands that `lua` uses; a library has none. */
  readonly operands: readonly string[];
  /** One line of Lua, since it becomes part of a JavaScript string. */
  readonly lua: string;
}

// The built package contains each script as a text with its header. In every package a script binds its operands before
// all else.
const mutated = (built: string, { script, operands, lua }: Mutation): string => {
  const newline = String.raw`(?:\\n|\n)`;
  const header = String.raw`(?:--(?:(?!\\n)[^\n])*${newline})*`;
  const binding = String.raw`local \w+ = [^\\\n]*?(?:KEYS|ARGV)[^\\\n]*${newline}`;
  const pattern = new RegExp(
    String.raw`-- ${script}\.lua(?: - (?:(?!\\n)[^\n])*)?${newline}${header}(?<bindings>(?:${binding})*)`,
  );
  const found = pattern.exec(built);
  const bindings = found?.groups?.["bindings"];
  if (!found || bindings === undefined) throw new Error(`The built package has no script "${script}"`);
  const missing = operands.filter((operand) => !bindings.includes(`local ${operand} = `));
  if (missing.length > 0) throw new Error(`The script "${script}" has no operand ${missing.join()}`);
  const end = found.index + found[0].length;
  // The Lua gets its own line, since core may put the libraries at the next one.
  const lineEnd = found[0].endsWith("\n") ? "\n" : String.raw`\n`;
  return `${built.slice(0, end)}${lua}${lineEnd}${built.slice(end)}`;
};

/** Copies a built file of a package and applies these changes to its scripts, in this order. Returns the URL to import. */
export const builtWith = (
  name: string,
  packageName: string,
  file: string,
  ...mutations: readonly Mutation[]
): string => {
  const require = createRequire(join(workspaceFolder, "package.json"));
  const dist = join(require.resolve(`${packageName}/package.json`), "../dist");
  const built = readFileSync(join(dist, file), "utf8");
  // In this workspace, so that the imports of the copy resolve.
  const folder = join(workspaceFolder, "test-results");
  mkdirSync(folder, { recursive: true });
  const copy = join(folder, `${name}.mjs`);
  const part = `${copy}.${String(process.pid)}.part`;
  // All are inserted at the same place, so the last one is inserted first.
  const changed = mutations.toReversed().reduce(mutated, built);
  // Relative imports must refer to the other entries of the package.
  writeFileSync(part, changed.replace(/\b(from|import) "\.\//g, `$1 "${pathToFileURL(dist).href}/`));
  // Renamed at the end, since another run may be reading the file.
  renameSync(part, copy);
  return pathToFileURL(copy).href;
};

/** A module of a workload that wraps a package and tells one lie. */
export const wrappedBy = (workload: string, file: string, lie: string): string =>
  `${pathToFileURL(join(workspaceFolder, "src/workloads", workload, file)).href}?${lie}`;
