import { readFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";

/**
 * The bytes that a browser loads to show a page, compressed by gzip as hosts do it. Pages that are fetched ahead when a reader rests are
 * not among them.
 * @typedef {{ html: number, scripts: number, styles: number, fonts: number, pictures: number }} Weight
 */

/** What the front page may weigh: a tenth more than it did on 2026-11-27 (91 KiB). */
const frontKiB = 100;

/** @param {string} folder Of the built site. @param {string} page Its file in it. @param {string} [base] The path of the site on its host. @returns {Weight} */
export function weightOf(folder, page, base = "/") {
  const html = readFileSync(join(folder, page), "utf8");
  const tags = [...html.matchAll(/<(?:link|script|img)\b[^>]*>/g)].map(([tag]) => tag);
  const pathsOf = (/** @type {RegExp} */ kind, /** @type {RegExp} */ attribute) =>
    new Set(tags.filter((tag) => kind.test(tag)).flatMap((tag) => attribute.exec(tag)?.[1] ?? []));
  const styles = pathsOf(/rel="[^"]*stylesheet"/, /\bhref="([^"]*)"/);
  const fonts = [...styles].flatMap((style) =>
    [...readFileSync(fileOf(folder, style, base), "utf8").matchAll(/url\(["']?([^"')]+\.woff2?)/g)].map(
      ([, url = ""]) => url,
    ),
  );
  const sum = (/** @type {Iterable<string>} */ paths) =>
    [...new Set(paths)]
      .filter((path) => !path.startsWith("data:"))
      .reduce((total, path) => total + sizeOf(readFileSync(fileOf(folder, path, base)), path), 0);
  return {
    html: sizeOf(Buffer.from(html), page),
    scripts:
      sum(pathsOf(/^<script\b[^>]*type="module"/, /\bsrc="([^"]*)"/)) +
      sum(pathsOf(/rel="modulepreload"/, /\bhref="([^"]*)"/)),
    styles: sum(styles),
    fonts: sum(fonts),
    pictures: sum(pathsOf(/^<img/, /\bsrc="([^"]*)"/)),
  };
}

/** @param {Weight} weight */
const kibOf = (weight) => Object.values(weight).reduce((total, bytes) => total + bytes, 0) / 1024;

/**
 * The weights of the front page and of the heaviest other one in words, and whether the front page is over its bound.
 * @param {string} folder
 * @param {readonly string[]} pages Files in it.
 * @param {string} [base]
 */
export function weightReport(folder, pages, base = "/", bound = frontKiB) {
  const front = weightOf(folder, "index.html", base);
  const others = pages
    .filter((page) => page !== "index.html")
    .map((page) => ({ page, kib: kibOf(weightOf(folder, page, base)) }));
  const heaviest = others.toSorted((a, b) => b.kib - a.kib)[0];
  const parts = Object.entries(front).map(([kind, bytes]) => `${kind} ${Math.ceil(bytes / 1024)}`);
  const fact = `front page ${Math.ceil(kibOf(front))} of ${bound} KiB compressed (${parts.join(", ")})`;
  return {
    fact: heaviest === undefined ? fact : `${fact}; the heaviest is ${heaviest.page}, ${Math.ceil(heaviest.kib)} KiB`,
    problems: kibOf(front) > bound ? [`${fact}: over its bound (tooling/bootstrap/site/weight.mjs)`] : [],
  };
}

/** @param {string} folder @param {string} path @param {string} base */
const fileOf = (folder, path, base) =>
  join(folder, decodeURIComponent(path.startsWith(base) ? path.slice(base.length) : path));

/** Pictures of points are compressed already. @param {Buffer} content @param {string} path */
const sizeOf = (content, path) => (/\.(?:png|woff2?)$/.test(path) ? content.length : gzipSync(content).length);
