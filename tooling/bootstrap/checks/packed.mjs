import { readFileSync, writeFileSync } from "node:fs";
import { gunzipSync, gzipSync } from "node:zlib";

const always = ["LICENSE", "README.md", "package.json"];

/** The files of one entry of a library. @type {(name: string) => string[]} */
const part = (name) => ["cjs", "cjs.map", "d.cts", "d.ts", "js", "js.map"].map((end) => `dist/${name}.${end}`);

/** The files of a package beyond its entries. @type {Record<string, readonly string[]>} */
const more = {
  "@kit/core": [...part("kernel"), "dist/LICENSE-uuid.md"],
};

/** Types that several entries share. Their names contain a hash of their content. */
const sharedTypes = /^dist\/[\w-]+-[\w-]{8}\.d\.c?ts$/;

/**
 * The expected files of a published package: the program, or the entries of a library in both formats with types.
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
 * The differences between a package's tarball and the expected files.
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
const filesOf = (tar) =>
  entriesOf(tar).map(({ path, type }) =>
    type === "0" || type === "" ? path.replace(/^package\//, "") : `${path} (type ${type})`,
  );

/**
 * The entries of a tar archive. A header has 512 bytes: the name at 0, the size in octal at 124, the type at 156 and the
 * prefix of the name at 345. Contents are padded to a multiple of 512 bytes.
 * @param {Buffer} tar
 */
function entriesOf(tar) {
  const entries = [];
  for (let at = 0; at + 512 <= tar.length && tar[at] !== 0;) {
    const header = tar.subarray(at, at + 512);
    const field = (/** @type {number} */ start, /** @type {number} */ length) =>
      header.toString("utf8", start, start + length).replace(/\0.*$/s, "");
    const size = Number.parseInt(field(124, 12), 8);
    const path = [field(345, 155), field(0, 100)].filter((part) => part !== "").join("/");
    entries.push({ path, type: field(156, 1), header, content: tar.subarray(at + 512, at + 512 + size) });
    at += 512 + Math.ceil(size / 512) * 512;
  }
  return entries;
}

/**
 * Replaces the contents of files in a package's tarball.
 * @param {string} tarball
 * @param {Readonly<Record<string, (text: string) => string>>} changes By the file's path in the package.
 */
export function rewriteTarball(tarball, changes) {
  const parts = entriesOf(gunzipSync(readFileSync(tarball))).flatMap(({ path, header, content }) => {
    const change = changes[path.replace(/^package\//, "")];
    const bytes = change ? Buffer.from(change(content.toString("utf8"))) : content;
    const changed = Buffer.from(header);
    changed.write(`${bytes.length.toString(8).padStart(11, "0")}\0`, 124, "latin1");
    // The checksum is the sum of the header's bytes, with its own field counted as blanks.
    changed.fill(" ", 148, 156);
    const sum = changed.reduce((total, byte) => total + byte, 0);
    changed.write(`${sum.toString(8).padStart(6, "0")}\0 `, 148, "latin1");
    return [changed, bytes, Buffer.alloc((512 - (bytes.length % 512)) % 512)];
  });
  writeFileSync(tarball, gzipSync(Buffer.concat([...parts, Buffer.alloc(1024)])));
}
