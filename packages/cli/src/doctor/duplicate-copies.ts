import { type Dirent, readdirSync, readFileSync, realpathSync } from "node:fs";
import { join, relative } from "node:path";
import type { Finding } from "@kit/core/toolkit";
import { type Check, ok, skipped, warning } from "./check.js";

/** The limit of the nesting, since a loop of links would have no end. */
const deepest = 8;
const wanted = ["ioredis", "@kit/core"] as const;

interface Copy {
  readonly name: string;
  readonly version: string;
  readonly path: string;
}

const entriesOf = (folder: string): readonly Dirent[] => {
  try {
    return readdirSync(folder, { withFileTypes: true });
  } catch {
    return [];
  }
};

/** All folders named `node_modules` below one, pnpm's store among them. */
const modulesOf = (folder: string, depth = 0): readonly string[] => {
  const modules = join(folder, "node_modules");
  const entries = entriesOf(modules);
  if (entries.length === 0 || depth > deepest) return [];
  // The target of a link is found at its own place, or is not part of this project.
  const packages = entries
    .filter((entry) => entry.isDirectory())
    .flatMap(({ name }) => {
      if (name === ".pnpm") return entriesOf(join(modules, name)).map((entry) => join(modules, name, entry.name));
      if (name.startsWith("@"))
        return entriesOf(join(modules, name))
          .filter((entry) => entry.isDirectory())
          .map((entry) => join(modules, name, entry.name));
      return name.startsWith(".") ? [] : [join(modules, name)];
    });
  return [modules, ...packages.flatMap((path) => modulesOf(path, depth + 1))];
};

const copyAt = (modules: string, name: string): Copy | undefined => {
  try {
    const path = realpathSync(join(modules, name));
    const manifest = JSON.parse(readFileSync(join(path, "package.json"), "utf8")) as { version?: unknown };
    return { name, version: String(manifest.version), path };
  } catch {
    return undefined;
  }
};

const copiesBelow = (folder: string): readonly Copy[] => {
  const found = new Map<string, Copy>();
  for (const modules of modulesOf(folder))
    for (const name of wanted) {
      const copy = copyAt(modules, name);
      if (copy) found.set(copy.path, copy);
    }
  return [...found.values()];
};

export const duplicateCopies: Check = {
  id: "duplicate-copies",
  isLocal: true,
  look(): Promise<readonly Finding[]> {
    const here = process.cwd();
    const copies = copiesBelow(here);
    if (copies.length === 0)
      return Promise.resolve([skipped("node_modules in this folder has no ioredis and no @kit/core")]);
    const found = wanted.flatMap((name) => {
      const ofName = copies.filter((copy) => copy.name === name);
      if (ofName.length < 2) return [];
      const list = ofName.map(({ version, path }) => `${version} in ${relative(here, path) || "."}`).join("; ");
      return [
        warning(
          `${String(ofName.length)} copies of ${name}: ${list}`,
          "Run npm ls (or pnpm why) to see which package needs which version. Align the ranges, then run npm dedupe.",
        ),
      ];
    });
    return Promise.resolve(found.length > 0 ? found : [ok("one copy of each package")]);
  },
};
