import { readFileSync } from "node:fs";
import { gunzipSync } from "node:zlib";

const always = ["LICENSE", "README.md", "package.json"];

/** The files of one entry of a library. @type {(name: string) => string[]} */
const part = (name) => ["cjs", "cjs.map", "d.cts", "d.ts", "js", "js.map"].map((end) => `dist/${name}.${end}`);

/** What a package consists of beyond its entries. @type {Record<string, readonly string[]>} */
const more = {
  "@kit/core": [...part("kernel"), "dist/LICENSE-uuid.md"],
};

/** Types that several entries share; their names change with what is in them. */
const sharedTypes = /^dist\/[\w-]+-[\w-]{8}\.d\.c?ts$/;

/**
 * What a published package consists of, file by file: a program of itself, a library of its entries in both formats, with
 * types.
 * @param {import("../repo.mjs").Manifest} manifest
 */
export function filesOfPackage({ name, bin = {}, exports = {} }) {
  const entries = Object.keys(exports).filter((path) => path !== "./package.json");
  return [
    ...always,
    ...Object.values(/** @type {Record<string, string>} */ (bin)).flatMap((path) => {
      const file = path.replace(/^\.\//, "");
      return [file, `${file}.map`];
    }),
    ...entries.flatMap((path) => part(path === "." ? "index" : path.slice(2))),
    ...(more[name] ?? []),
  ];
}

/**
 * How a package's tarball differs from what it should consist of.
 * @param {string} name
 * @param {string} tarball
 * @param {readonly string[]} wanted
 */
export function packedProblems(name, tarball, wanted) {
  const found = filesOf(gunzipSync(readFileSync(tarball))).filter((file) => !sharedTypes.test(file));
  return [
    ...found.filter((file) => !wanted.includes(file)).map((file) => `${name} would publish ${file}`),
    ...wanted.filter((file) => !found.includes(file)).map((file) => `${name} would be published without ${file}`),
  ];
}

/** @param {Buffer} tar */
function filesOf(tar) {
  const files = [];
  // A header of 512 bytes: the name, at 124 the size in octal, at 156 the type, at 345 what precedes the name.
  for (let at = 0; at + 512 <= tar.length && tar[at] !== 0;) {
    const field = (/** @type {number} */ start, /** @type {number} */ length) =>
      tar.toString("utf8", at + start, at + start + length).replace(/\0.*$/s, "");
    const size = Number.parseInt(field(124, 12), 8);
    const path = [field(345, 155), field(0, 100)].filter((part) => part !== "").join("/");
    if (field(156, 1) === "0" || field(156, 1) === "") files.push(path.replace(/^package\//, ""));
    else files.push(`${path} (type ${field(156, 1)})`);
    at += 512 + Math.ceil(size / 512) * 512;
  }
  return files;
}
