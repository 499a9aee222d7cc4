import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

const wanted = /darwin|win32|windows|linux-(x64|64|arm64)/;

/** Packages that fall back to JavaScript without their platform program. Peers of the benchmarks depend on them. */
const canDoWithout = ["msgpackr-extract"];

/**
 * The platform programs that an installed package names but the lockfile lacks. A release of a native tool can be in
 * the registry before its macOS and Windows programs. pnpm then locks it without them and without a warning, so that the
 * tool is missing on those machines.
 * @param {string} root
 */
export function missingPlatforms(root) {
  const lockfile = readFileSync(join(root, "pnpm-lock.yaml"), "utf8");
  const locked = new Set([...lockfile.matchAll(/^ {2}'?([^\s'()]+@[^\s'():]+)/gm)].map((match) => match[1]));
  let checked = 0;
  const missing = installedManifests(root, locked).flatMap(({ name, version, optionalDependencies = {} }) =>
    Object.entries(optionalDependencies).flatMap(([dependency, range]) => {
      if (!wanted.test(dependency) || canDoWithout.includes(name)) return [];
      checked += 1;
      return locked.has(`${dependency}@${range}`) ? [] : [`${name}@${version} wants ${dependency}@${range}`];
    }),
  );
  return { checked, missing };
}

/**
 * @param {string} root
 * @param {Set<string | undefined>} locked The store folder may contain older versions; only locked ones count.
 * @returns {import("../repo.mjs").Manifest[]}
 */
export function installedManifests(root, locked) {
  const store = join(root, "node_modules", ".pnpm");
  return readdirSync(store)
    .map((name) => join(store, name, "node_modules"))
    .filter((folder) => existsSync(folder))
    .flatMap((folder) =>
      readdirSync(folder).flatMap((name) => (name.startsWith("@") ? scoped(folder, name) : [join(folder, name)])),
    )
    .map((folder) => join(folder, "package.json"))
    .filter((file) => existsSync(file))
    .map((file) => JSON.parse(readFileSync(file, "utf8")))
    .filter(({ name, version }) => locked.has(`${name}@${version}`));
}

/** @param {string} folder @param {string} scope */
const scoped = (folder, scope) => readdirSync(join(folder, scope)).map((name) => join(folder, scope, name));
