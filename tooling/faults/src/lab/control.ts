import { mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { workspaceFolder } from "./paths.js";

/**
 * Lua by the place where it runs first, like `release(lease, owner)`: a script or a library of a package, and the operands
 * that the Lua uses. A script of a further entry has the entry before it: `read-write/release(leases)`. Each is one line, since it
 * becomes part of a JavaScript string.
 */
export type Mutations = Readonly<Record<string, string>>;

/** A deliberate fault in the package under test, which the checker must detect. */
export interface Control<L extends string = string> {
  readonly name: string;
  /** At least one of these invariants is broken. */
  readonly invariants: readonly L[];
  /** The injected fault under which the control shows. */
  readonly kind: string;
  /** The number of injections in the first run; later runs have more. @default 3 */
  readonly injections?: number;
  /** Whether it shows only where the packages run on ioredis. @default false */
  readonly needsIoredis?: boolean;
  /** A mutation that the scripts of the package run first. @default the workers tell the lie of this name in the workload's `lies.mjs` */
  readonly lua?: Mutations;
}

/**
 * Lua that changes what a script sees of the server. `lua` runs before each `redis.call` and `redis.pcall`, and may return
 * another reply. It has the names `call`, `command` and `key`.
 */
export const misled = (lua: string): string =>
  [
    "local server = redis",
    `local function misled(call) return function(...) local command, key = ... ${lua} return call(...) end end`,
    "local own = { call = misled(server.call), pcall = misled(server.pcall), isRecorded = rawget(server, 'isRecorded') }",
    "local redis = setmetatable(own, { __index = server })",
  ].join(" ");

// The built package contains each script as a text with its header. In every package a script binds its operands before
// all else.
const mutated = (built: string, [place, lua]: readonly [place: string, lua: string]): string => {
  const [script = "", ...operands] = place.match(/\w+/g) ?? [];
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

/** Copies a built module, like `@kit/core/config`, with these changes of its scripts, in this order. Returns the URL to import. */
export const builtWith = (name: string, module: string, ...changes: readonly Mutations[]): string => {
  const [, packageName = "", entry = "index"] = /^(@kit\/\w+)(?:\/([\w-]+))?$/.exec(module) ?? [];
  const require = createRequire(join(workspaceFolder, "package.json"));
  const dist = join(require.resolve(`${packageName}/package.json`), "../dist");
  const built = readFileSync(join(dist, `${entry}.js`), "utf8");
  // In this workspace, so that the imports of the copy resolve.
  const folder = join(workspaceFolder, "test-results");
  mkdirSync(folder, { recursive: true });
  const copy = join(folder, `${name}.mjs`);
  // All are inserted at the same place, so the last one is inserted first.
  const all = changes.flatMap(Object.entries<string>).toReversed();
  const changed = withParts(all.reduce(mutated, built), dist, copy, all);
  // Relative imports must refer to the other entries of the package.
  write(copy, changed.replace(/\b(from |import |import\()"\.\//g, `$1"${pathToFileURL(dist).href}/`));
  return pathToFileURL(copy).href;
};

/** Renames a file at the end, since another run may be reading it. */
const write = (file: string, text: string): void => {
  const part = `${file}.${String(process.pid)}.part`;
  writeFileSync(part, text);
  renameSync(part, file);
};

/** Lets a built file load copies of the parts that have one of the changed scripts as well. They import no other file of the package. */
const withParts = (
  text: string,
  dist: string,
  copy: string,
  changes: readonly [place: string, lua: string][],
): string =>
  text.replaceAll(/import\("\.\/([\w/-]+)\.js"\)/g, (found, part: string) => {
    const built = readFileSync(join(dist, `${part}.js`), "utf8");
    const own = changes.filter(([place]) => built.includes(`-- ${place.split("(", 1)[0] ?? ""}.lua`));
    if (own.length === 0) return found;
    const file = `${copy.slice(0, -".mjs".length)}-${part.replaceAll("/", "-")}.mjs`;
    write(file, own.reduce(mutated, built));
    return `import(${JSON.stringify(pathToFileURL(file).href)})`;
  });

/** The module that the workers import as the package. */
export interface Subject {
  /** Their exports together are the package. */
  readonly modules: readonly string[];
  /** The name of a lie, and the module that tells it. */
  readonly lie?: { readonly name: string; readonly file: string };
}

/** The changes of one module's scripts, without its entry. A place without an entry belongs to the first module. */
const changesOf = (module: string, isFirst: boolean, mutations: Mutations): Mutations => {
  const entry = module.split("/")[2];
  return Object.fromEntries(
    Object.entries(mutations).flatMap(([place, lua]) => {
      const [script = "", own] = place.split("/").toReversed();
      return (own === undefined ? isFirst : own === entry) ? [[script, lua]] : [];
    }),
  );
};

/** A package as it is, or with the fault of a control; `always` is what its scripts run first in any case. */
export const subjectOf = (
  workload: string,
  modules: readonly string[],
  { name = "", lua }: Partial<Control> = {},
  always: Mutations = {},
): Subject => {
  const file = pathToFileURL(join(workspaceFolder, "src/workloads", workload, "lies.mjs")).href;
  return {
    modules: modules.map((module, at) => {
      const changes = [always, lua ?? {}].map((mutations) => changesOf(module, at === 0, mutations));
      const isBuilt = changes.some((mutations) => Object.keys(mutations).length > 0);
      return isBuilt ? builtWith(`${workload}-${name}${at === 0 ? "" : `-${String(at)}`}`, module, ...changes) : module;
    }),
    ...(name !== "" && lua === undefined && { lie: { name, file } }),
  };
};
