import { gunzipSync, gzipSync } from "node:zlib";

/**
 * A file in a package's tarball. `path` is below the tarball's folder `package`.
 * @typedef {{ path: string, content: Buffer, isProgram?: boolean, type?: string }} TarEntry
 */

const block = 512;

/**
 * The entries of a tarball. A header has 512 bytes: the name at 0, the mode at 100 and the size at 124, both in octal, the
 * type at 156 and the prefix of the name at 345. Contents are padded to a multiple of 512 bytes.
 * @param {Buffer} tarball
 * @returns {TarEntry[]}
 */
export function readTarball(tarball) {
  const tar = gunzipSync(tarball);
  const entries = [];
  for (let at = 0; at + block <= tar.length && tar[at] !== 0;) {
    const header = tar.subarray(at, at + block);
    const field = (/** @type {number} */ start, /** @type {number} */ length) =>
      header.toString("utf8", start, start + length).replace(/\0.*$/s, "");
    const size = Number.parseInt(field(124, 12), 8);
    const path = [field(345, 155), field(0, 100)].filter((part) => part !== "").join("/");
    const isProgram = (Number.parseInt(field(100, 8), 8) & 0o111) !== 0;
    const content = tar.subarray(at + block, at + block + size);
    entries.push({ path: path.replace(/^package\//, ""), content, isProgram, type: field(156, 1) || "0" });
    at += block + Math.ceil(size / block) * block;
  }
  return entries;
}

/** npm's own date: archives of equal contents are equal. */
const modified = Date.UTC(1985, 9, 26, 8, 15) / 1000;

/**
 * A tarball whose bytes follow from names, contents and program bits alone, in the order of the names.
 * @param {readonly TarEntry[]} entries
 */
export function makeTarball(entries) {
  const sorted = entries.toSorted((a, b) => (a.path < b.path ? -1 : 1));
  const parts = sorted.flatMap(({ path, content, isProgram = false }) => [
    headerOf(`package/${path}`, content.length, isProgram),
    content,
    Buffer.alloc((block - (content.length % block)) % block),
  ]);
  return gzipSync(Buffer.concat([...parts, Buffer.alloc(2 * block)]), { level: 9 });
}

/**
 * @param {string} path
 * @param {number} size
 * @param {boolean} isProgram
 */
function headerOf(path, size, isProgram) {
  const [prefix, name] = splitPath(path);
  const header = Buffer.alloc(block);
  const octal = (/** @type {number} */ value, /** @type {number} */ start, /** @type {number} */ length) =>
    header.write(`${value.toString(8).padStart(length - 1, "0")}\0`, start, "latin1");
  header.write(name, 0);
  octal(isProgram ? 0o755 : 0o644, 100, 8);
  octal(0, 108, 8); // user
  octal(0, 116, 8); // group
  octal(size, 124, 12);
  octal(modified, 136, 12);
  header.write("0", 156); // a file
  header.write("ustar\0" + "00", 257, "latin1");
  header.write(prefix, 345);
  // The checksum is the sum of the header's bytes, with its own field counted as blanks.
  header.fill(" ", 148, 156);
  const sum = header.reduce((total, byte) => total + byte, 0);
  header.write(`${sum.toString(8).padStart(6, "0")}\0 `, 148, "latin1");
  return header;
}

/** A name has 100 bytes at most, and in front of a slash 155 more. @param {string} path @returns {[prefix: string, name: string]} */
function splitPath(path) {
  if (Buffer.byteLength(path) <= 100) return ["", path];
  for (let at = path.indexOf("/"); at !== -1; at = path.indexOf("/", at + 1))
    if (Buffer.byteLength(path.slice(at + 1)) <= 100 && Buffer.byteLength(path.slice(0, at)) <= 155)
      return [path.slice(0, at), path.slice(at + 1)];
  throw new RangeError(`${path} is too long for a tarball`);
}
