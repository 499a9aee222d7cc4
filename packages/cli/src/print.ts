import { styleText } from "node:util";
import { counted, type Facts, type Finding } from "@kit/core/toolkit";
import type { CheckResult, Report } from "./doctor/index.js";

/** The width of a page of unknown width, and the longest readable line. */
const usualWidth = 80;
const widest = 100;

export const width = (): number => Math.max(40, Math.min(process.stdout.columns || usualWidth, widest));

/** The width of a report: in a file or a pipe each fact and each row is one line, for programs that read lines. */
export const reportWidth = (): number => (process.stdout.isTTY ? width() : Infinity);

/** Colours for a terminal only: not in a file or a pipe, and not with NO_COLOR (https://no-color.org). */
const isColourful = (): boolean => process.stdout.isTTY && !process.env["NO_COLOR"] && process.env["TERM"] !== "dumb";

const colours = { ok: "green", warning: "yellow", problem: "red", skipped: "gray" } as const;

const wordOf = (severity: Finding["severity"]): string => {
  const word = severity.padEnd(8);
  return isColourful() ? styleText(colours[severity], word) : word;
};

/** Control characters could rewrite the terminal; names come from other people. */
export const harmless = (text: string): string => text.replace(/\p{C}/gu, "·");

/** The same for a text of several lines. */
export const harmlessLines = (text: string): string => text.replace(/[^\P{C}\n\t]/gu, "·");

/** A path that is longer than a line is broken behind a slash. */
const piecesOf = (word: string, room: number): readonly string[] => {
  const pieces: string[] = [];
  let from = 0;
  while (word.length - from > room) {
    const slash = word.lastIndexOf("/", from + room - 1);
    if (slash <= from) break;
    pieces.push(word.slice(from, slash + 1));
    from = slash + 1;
  }
  return [...pieces, word.slice(from)];
};

/** In lines of at most `room` characters. */
export const wrap = (text: string, room: number): readonly string[] => {
  const lines: string[] = [];
  let line = "";
  for (const word of harmless(text)
    .split(" ")
    .flatMap((word) => piecesOf(word, room))) {
    if (line !== "" && line.length + word.length + 1 > room) {
      lines.push(line);
      line = word;
    } else line = line === "" ? word : `${line} ${word}`;
  }
  return [...lines, line];
};

const nameWidth = "keys-without-expiry".length;
const indent = " ".repeat(8 + 1 + nameWidth + 2);
const wrapBeside = (text: string): readonly string[] => wrap(text, width() - indent.length);

/** One check: its state, its name, and what it found, with what to do about it. */
export const checkLines = ({ id, severity, findings, docs }: CheckResult): string => {
  const lines = findings.flatMap(({ text, fix }, index) => [
    ...wrapBeside(text),
    // Advice that several findings in a row share is printed below the last of them.
    ...(fix === undefined || fix === findings[index + 1]?.fix ? [] : wrapBeside(`Fix: ${fix}`)),
  ]);
  if (severity === "warning" || severity === "problem") lines.push(`More: ${docs}`);
  const [first = "", ...others] = lines;
  const head = `${wordOf(severity)} ${id.padEnd(nameWidth)}  ${first}`;
  return `${[head, ...others.map((line) => indent + line)].join("\n")}\n`;
};

export const countsOf = ({ checks }: Report): Readonly<Record<Finding["severity"], number>> => {
  const counts = { ok: 0, warning: 0, problem: 0, skipped: 0 };
  for (const { severity } of checks) counts[severity]++;
  return counts;
};

/** The last line of a doctor's report. */
export const summaryLine = (report: Report): string => {
  const { ok, warning, problem, skipped } = countsOf(report);
  return `\n${counted(report.checks.length, "check")}: ${String(ok)} ok, ${counted(warning, "warning")}, ${counted(problem, "problem")}, ${String(skipped)} skipped\n`;
};

/** Names and values under each other, on a page of this width. */
export const factLines = (facts: Facts, page = width()): string =>
  besideEachOther(facts, [longest(facts.map(([name]) => name))], page)
    .join("\n")
    .concat("\n");

/** The length of the longest text. There may be more texts than a call may have arguments. */
const longest = (texts: readonly string[]): number => texts.reduce((most, { length }) => Math.max(most, length), 0);

/** The share of a narrow page that the columns before the last may take together. */
const mostBefore = 0.55;

/** Rows of cells on a page of this width. The names of the columns are on a separate line. */
export const tableLines = (
  names: readonly string[],
  rows: readonly (readonly string[])[],
  page = width(),
): readonly string[] => {
  const cellsOf = (column: number): readonly string[] => rows.map((row) => row[column] ?? "");
  const wanted = names.map((name, column) => Math.max(name.length, longest(cellsOf(column))));
  const isRoomy = wanted.reduce((sum, one) => sum + one + 2, -2) <= page;
  const most = isRoomy ? Infinity : Math.floor((page * mostBefore) / (names.length - 1));
  // A longer word pushes the rest of its line to the right.
  const longestWord = (column: number): number => longest(cellsOf(column).flatMap((cell) => cell.split(" ")));
  const widths = wanted
    .slice(0, -1)
    .map((one, column) => Math.min(one, Math.max(most, Math.min(longestWord(column), Math.floor(page / 3)))));
  const head = besideEachOther([names], widths, page);
  return [...head, "-".repeat(longest(head)), ...besideEachOther(rows, widths, page)];
};

/** `widths`: of all columns except the last, which has the rest of the page. */
const besideEachOther = (
  rows: readonly (readonly string[])[],
  widths: readonly number[],
  page: number,
): readonly string[] => {
  const left = page - widths.reduce((sum, one) => sum + one + 2, 0);
  return rows.flatMap((row) => {
    const cells = row.map((cell, column) => wrap(cell, widths[column] ?? left));
    const height = Math.max(...cells.map((lines) => lines.length));
    return Array.from({ length: height }, (_, line) =>
      cells
        .map((lines, column) => (lines[line] ?? "").padEnd(widths[column] ?? 0))
        .join("  ")
        .trimEnd(),
    );
  });
};
