import { readFileSync } from "node:fs";
import { readTarball } from "../tarball.mjs";

const always = ["LICENSE", "README.md", "package.json"];

/** The files of one entry of a library. @type {(name: string) => string[]} */
const part = (name) => ["cjs", "d.cts", "d.ts", "js"].map((end) => `dist/${name}.${end}`);

/** The files of a package beyond its entries. @type {Record<string, readonly string[]>} */
const more = {
  "@kit/board": [...["view", "queue"].flatMap(part), "dist/LICENSE-hono", "dist/LICENSE-htmx.org"],
  "@kit/cli": ["dist/LICENSE-hono-node-server"],
  "@kit/core": [...part("kernel"), "dist/LICENSE-uuid.md"],
  // Loaded on use: by workers, a heartbeat thread, groups, dead letters, flows and reports.
  "@kit/queue": ["presence", "thread", "store/grouped", "dead", "below", "slices", "waits"].flatMap(part),
};

/** The version of a package that has never been published. It has no changelog. */
export const unpublished = "0.0.0";

/** Types that several entries share. Their names contain a hash of their content. */
const sharedTypes = /^dist\/[\w.-]+-[\w-]{8}\.d\.c?ts$/;

/**
 * The expected files of a published package: the program, or the entries of a library in both formats with types.
 * @param {import("../repo.mjs").Manifest} manifest
 */
export function filesOfPackage({ name, version = unpublished, bin = {}, exports = {} }) {
  const entries = Object.keys(exports).filter((path) => path !== "./package.json");
  return [
    ...always,
    ...(version === unpublished ? [] : ["CHANGELOG.md"]),
    ...Object.values(/** @type {Record<string, string>} */ (bin)).map((path) => path.replace(/^\.\//, "")),
    ...entries.flatMap((path) => part(path === "." ? "index" : path.slice(2))),
    ...(more[name] ?? []),
  ];
}

/**
 * The differences between a package's tarball and the expected files.
 * @param {string} name
 * @param {string} tarball
 * @param {readonly string[]} wanted
 */
export function packedProblems(name, tarball, wanted) {
  const found = filesOf(tarball).filter((file) => !sharedTypes.test(file));
  return [
    ...found.filter((file) => !wanted.includes(file)).map((file) => `${name} would publish ${file}`),
    ...wanted.filter((file) => !found.includes(file)).map((file) => `${name} would be published without ${file}`),
  ];
}

/** @param {string} tarball */
const filesOf = (tarball) =>
  readTarball(readFileSync(tarball)).map(({ path, type }) => (type === "0" ? path : `${path} (type ${type})`));
