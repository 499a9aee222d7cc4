import { existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { join, posix, relative, sep } from "node:path";

/**
 * The links of the built pages that lead nowhere: to a file that is not there, or to an anchor that its page does not have.
 * @param {string} folder
 * @param {string} [base] The path of the site on its host.
 */
export function pageProblems(folder, base = "/") {
  const pages = new Map(
    readdirSync(folder, { recursive: true, encoding: "utf8" })
      .filter((path) => path.endsWith(".html"))
      .map((path) => [path.split(sep).join("/"), readFileSync(join(folder, path), "utf8")]),
  );
  const anchors = new Map(
    [...pages].map(([path, text]) => [
      path,
      new Set([...text.matchAll(/\bid="([^"]+)"/g)].map(([, id = ""]) => plain(id))),
    ]),
  );
  return [...pages].flatMap(([page, text]) => {
    const links = new Set([...text.matchAll(/<a\b[^>]*?\bhref="([^"]*)"/g)].map(([, href = ""]) => plain(href)));
    return [...links].flatMap((href) => {
      if (/^[a-z][a-z0-9+.-]*:/i.test(href) || href === "") return [];
      const [path = "", anchor = ""] = href.split("#");
      const target = path === "" ? page : fileOf(folder, path, page, base);
      if (target === undefined) return [`${page}: ${href} leads to no page`];
      const isKnown = anchor === "" || !anchors.has(target) || anchors.get(target)?.has(decodeURIComponent(anchor));
      return isKnown ? [] : [`${page}: ${href}: there is no such heading`];
    });
  });
}

/** The file that a host sends for a path, as hosts of static pages find it. @param {string} folder @param {string} path @param {string} page @param {string} base */
function fileOf(folder, path, page, base) {
  if (path.startsWith("/") && !path.startsWith(base)) return undefined;
  const absolute = path.startsWith("/") ? path.slice(base.length) : posix.join(posix.dirname(page), path);
  return [absolute, `${absolute}.html`, posix.join(absolute, "index.html")].find((one) => {
    const file = join(folder, decodeURIComponent(one));
    return existsSync(file) && statSync(file).isFile() && !relative(folder, file).startsWith("..");
  });
}

/** @param {string} text As HTML has it. */
const plain = (text) =>
  text
    .replace(/&quot;/g, '"')
    .replace(/&#39;/g, "'")
    .replace(/&lt;/g, "<")
    .replace(/&gt;/g, ">")
    .replace(/&amp;/g, "&");
