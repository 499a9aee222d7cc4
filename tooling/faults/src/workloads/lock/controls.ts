import { mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { workspaceFolder } from "../../lab/paths.js";
import type { Control } from "../../workload.js";
import type { Law } from "./checker.js";

/** Lua that one of the lock's scripts runs before all else, with its operands by their names. */
interface Mutation {
  readonly script: string;
  /** The operands that it needs. */
  readonly operands: readonly string[];
  readonly lua: string;
}

interface LockControl extends Control {
  readonly laws: readonly Law[];
  readonly mutation?: Mutation;
  /** A module that wraps the lock. */
  readonly module?: string;
  readonly isFenced?: boolean;
}

/** What a lock may get wrong; a checker that does not see it is of no use. */
export const lockControls: readonly LockControl[] = [
  {
    name: "unfenced",
    laws: ["L2"],
    kind: "2 worker stopped",
    isFenced: false,
  },
  {
    name: "release-unowned",
    laws: ["L5", "exclusion", "linearizable"],
    kind: "2 worker stopped",
    // Whoever calls is the owner.
    mutation: { script: "release", operands: ["lease", "owner"], lua: "owner = redis.call('GET', lease) or owner" },
  },
  {
    name: "renew-unowned",
    laws: ["L5"],
    kind: "8 scripts flushed",
    mutation: {
      script: "renew",
      operands: ["leases", "terms"],
      lua: "for i, lease in ipairs(leases) do terms[2 * i - 1] = redis.call('GET', lease) or terms[2 * i - 1] end",
    },
  },
  {
    name: "fence-stands-still",
    laws: ["L1"],
    kind: "8 scripts flushed",
    module: "wrapped-lock.mjs?fence-stands-still",
  },
  {
    name: "release-denies",
    laws: ["linearizable"],
    kind: "8 scripts flushed",
    module: "wrapped-lock.mjs?release-denies",
  },
  {
    name: "late-abort",
    laws: ["L3"],
    kind: "14 server stopped",
    module: "wrapped-lock.mjs?late-abort",
  },
  {
    name: "grant-while-held",
    laws: ["exclusion", "linearizable"],
    kind: "8 scripts flushed",
    mutation: { script: "acquire", operands: ["lease"], lua: "redis.call('DEL', lease)" },
  },
  {
    name: "acquire-forgets-itself",
    laws: ["U2"],
    kind: "27 requests repeated",
    mutation: {
      script: "acquire",
      operands: ["lease", "owner"],
      lua: "if redis.call('GET', lease) == owner then return { 0, 0, redis.call('PTTL', lease), owner } end",
    },
  },
];

/** What the workers of a control import as the lock. */
export const moduleOf = ({ name, mutation, module }: LockControl): string => {
  if (module !== undefined) {
    const [file = "", query = ""] = module.split("?");
    return `${pathToFileURL(join(workspaceFolder, "src/workloads/lock", file)).href}?${query}`;
  }
  return mutation ? lockWith(name, mutation) : "@kit/lock";
};

// Each script stands in the built lock as a text of its own, with its header, and binds its operands before all else:
// that is how the scripts of all packages are written, whatever they do.
const mutated = (built: string, { script, operands, lua }: Mutation): string => {
  const newline = String.raw`(?:\\n|\n)`;
  const binding = String.raw`local \w+ = [^\\\n]*?(?:KEYS|ARGV)[^\\\n]*${newline}`;
  const pattern = new RegExp(String.raw`-- ${script}\.lua - [^]*?${newline}(?<bindings>(?:${binding})+)`);
  const found = pattern.exec(built);
  const bindings = found?.groups?.["bindings"];
  if (!found || bindings === undefined) throw new Error(`The built lock has no script "${script}"`);
  const missing = operands.filter((operand) => !bindings.includes(`local ${operand} = `));
  if (missing.length > 0) throw new Error(`The script "${script}" has no operand ${missing.join()}`);
  const end = found.index + found[0].length;
  return `${built.slice(0, end)}${lua} ${built.slice(end)}`;
};

const lockWith = (name: string, mutation: Mutation): string => {
  const require = createRequire(join(workspaceFolder, "package.json"));
  const built = readFileSync(join(require.resolve("@kit/lock/package.json"), "../dist/index.js"), "utf8");
  // In this workspace, so that its imports find what they look for.
  const folder = join(workspaceFolder, "test-results");
  mkdirSync(folder, { recursive: true });
  const file = join(folder, `${name}.mjs`);
  const part = `${file}.${String(process.pid)}.part`;
  writeFileSync(part, mutated(built, mutation));
  // Another run may be reading it.
  renameSync(part, file);
  return pathToFileURL(file).href;
};
