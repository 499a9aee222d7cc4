import { withoutFrontmatter } from "./texts.mjs";

/** @typedef {import("./outline.mjs").Item} Item */
/** @typedef {import("./documents.mjs").Page & { summary: string }} Page */

/**
 * The files for programs that read: each page as Markdown beside its HTML, and `llms.txt`, which lists them.
 * @param {{ pages: readonly Page[], sidebar: readonly Item[] }} site
 * @returns {[path: string, text: string][]}
 */
export function machineReadable({ pages, sidebar }) {
  const shown = pages.filter(({ address }) => address !== "index");
  return [
    ["llms.txt", listOf(shown, sidebar)],
    ...shown.map(({ address, text }) => /** @type {[string, string]} */ ([`${address}.md`, withoutFrontmatter(text)])),
  ];
}

/** @param {readonly Page[]} pages @param {readonly Item[]} sidebar */
function listOf(pages, sidebar) {
  const overview = pages.find(({ address }) => address === "overview");
  /** @type {Set<string>} */
  const listed = new Set();
  const sections = sidebar.map(({ text, items = [] }) => {
    const lines = items.flatMap(linksOf).flatMap((link) => {
      const address = link.replace(/^\//, "").replace(/\/$/, "/index");
      const page = pages.find((one) => one.address === address);
      if (page === undefined || listed.has(address)) return [];
      listed.add(address);
      return [`- [${page.title}](${address}.md): ${page.summary}`];
    });
    return `## ${text}\n\n${lines.join("\n")}`;
  });
  return `${[`# kit`, `> ${overview?.summary ?? ""}`, ...sections].join("\n\n")}\n`;
}

/** @param {Item} item @returns {string[]} */
const linksOf = ({ link, items = [] }) => [...(link === undefined ? [] : [link]), ...items.flatMap(linksOf)];
