import { tableLines, width, wrap } from "./print.js";

/** The sections of the doctor's page, by the ids of their checks. */
export const sectionsOf = (page: string): ReadonlyMap<string, string> =>
  new Map(
    page
      .split(/^## /m)
      .slice(1)
      .map((section) => {
        const end = section.indexOf("\n");
        return [section.slice(0, end), section.slice(end).trim()];
      }),
  );

/** A section for the terminal: markup becomes words, or is left out. */
export const plainText = (id: string, section: string): string => {
  const blocks = section.split(/\n{2,}/).map((block) => linesOf(block).join("\n"));
  return `${[id, ...blocks].join("\n\n")}\n`;
};

const linesOf = (block: string): readonly string[] => {
  const lines = block.split("\n");
  // Commands stay unwrapped, to be copied.
  if (block.startsWith("```")) return lines.slice(1, -1).map((line) => `    ${line}`);
  if (!block.startsWith("|")) return wrap(unmarked(lines.join(" ")), width());
  const [names = [], , ...rows] = lines.map((line) =>
    line
      .split("|")
      .slice(1, -1)
      .map((cell) => unmarked(cell.trim())),
  );
  return tableLines(names, rows);
};

/** A link within the page becomes the command that shows its target. The target of any other link is not installed. */
const unmarked = (text: string): string =>
  text
    .replace(/\[([^\]]*)\]\(([^)]*)\)/g, (_, words: string, target: string) =>
      target.startsWith("#") ? `kit help ${target.slice(1)}` : words,
    )
    .replace(/\*\*([^*]+)\*\*/g, "$1")
    .replace(/`([^`]*)`/g, "$1");
