import { docOf } from "./comments.mjs";

/**
 * The section with the keys of a package: the doc comments with tables in its files `keys.ts`, as they stand; and what is
 * wrong in them.
 * @param {readonly import("typescript").SourceFile[]} files
 * @returns {{ text: string, problems: string[] }}
 */
export function keysSection(files) {
  const docs = files.flatMap(({ statements }) => statements.map(docOf).filter((doc) => doc.includes("\n| ")));
  const problems = docs.flatMap((doc) => doc.split(/\n\s*\n/).flatMap(unequalRows));
  const isMissing = docs.length === 0 && files.some(({ text }) => text.includes("keyspace("));
  if (isMissing) problems.push("keys.ts has no table of keys in a doc comment");
  return { text: docs.length === 0 ? "" : ["## Keys", ...docs].join("\n\n"), problems };
}

/** The rows with more or fewer cells than the heading. @param {string} paragraph */
const unequalRows = (paragraph) => {
  const [heading = [], ...rows] = paragraph
    .split("\n")
    .filter((line) => line.startsWith("|"))
    .map(cellsOf);
  return rows
    .filter((row) => row.length !== heading.length)
    .map(
      ([key = ""]) => `the row of ${key.trim()} has not as many cells as the heading: write \\| for a bar in a cell`,
    );
};

/** @param {string} line */
const cellsOf = (line) =>
  line
    .trim()
    .replace(/^\||\|$/g, "")
    .split(/(?<!\\)\|/);
