/** @param {string} text */
export const oneLine = (text) => text.replace(/\s+/g, " ").trim();

/** The first paragraph, without its last stop. @param {string} text */
export const firstParagraph = (text) => oneLine(text.split(/\n\s*\n/)[0] ?? "").replace(/\.$/, "");

/** @param {string} text */
const cell = (text) => oneLine(text).replace(/(?<!\\)\|/g, "\\|");

/** @param {readonly string[]} heading @param {readonly (readonly string[])[]} rows */
export const table = (heading, rows) =>
  [heading, heading.map(() => "---"), ...rows].map((row) => `| ${row.map(cell).join(" | ")} |`).join("\n");

/** @param {number} value */
export const grouped = (value) => value.toLocaleString("en-US");
