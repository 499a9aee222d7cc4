import { StringDecoder } from "node:string_decoder";
import type { CommandCall, Report } from "@kit/core/toolkit";
import { exitCodes } from "./exit-codes.js";
import { factLines, harmless, harmlessLines, reportWidth, tableLines } from "./print.js";

/** The version of the `--json` form; it grows when a field is removed or changes its meaning. */
const jsonVersion = 1;

/** Resolves when the stream accepts more. */
export const write = (stream: NodeJS.WriteStream, chunk: string | Uint8Array): Promise<void> =>
  new Promise((resolve) => {
    if (stream.write(chunk)) resolve();
    else stream.once("drain", resolve);
  });

/**
 * The same JSON with escapes for characters that could rewrite a terminal or reorder a line, such as C1 and bidi control
 * characters.
 */
const escaped = (json: string): string =>
  json.replace(/[\p{C}\p{Zl}\p{Zp}]/gu, (found) =>
    Array.from({ length: found.length }, (_, at) => `\\u${found.charCodeAt(at).toString(16).padStart(4, "0")}`).join(
      "",
    ),
  );

/** `own`: further fields of the form. A field of the value never replaces them. */
export const writeJson = (value: object, own: object = {}): Promise<void> => {
  const form = { version: jsonVersion, ...own };
  return write(process.stdout, `${escaped(JSON.stringify({ ...form, ...value, ...form }))}\n`);
};

const wordsOf = ({ facts = [], table }: Report): string => {
  const head = facts.length === 0 ? "" : factLines(facts, reportWidth());
  if (!table) return head;
  return `${head}${head === "" ? "" : "\n"}${tableLines(table.columns, table.rows, reportWidth()).join("\n")}\n`;
};

/** A file or a pipe gets the bytes as they are, a terminal the text in them. */
const bytesTo = (stream: NodeJS.WriteStream): CommandCall["output"]["bytes"] => {
  if (!stream.isTTY) return (chunk) => write(stream, chunk);
  // A chunk may end within a character.
  const decoder = new StringDecoder("utf8");
  return (chunk) => write(stream, harmlessLines(decoder.write(Buffer.from(chunk))));
};

/** `url`: without user name and password. */
export const outputOf = (isJson: boolean, url: string): CommandCall["output"] => ({
  report: async (report) => {
    const { data, isUnknown, hasProblem } = report;
    if (isUnknown) process.exitCode = exitCodes.unknown;
    if (hasProblem) process.exitCode = exitCodes.problem;
    await (isJson ? writeJson(data, { url, ...(isUnknown && { isUnknown }) }) : write(process.stdout, wordsOf(report)));
  },
  line: (data, text) => (isJson ? writeJson(data) : write(process.stdout, `${harmless(text)}\n`)),
  bytes: bytesTo(process.stdout),
  note: (text) => write(process.stderr, `${harmless(text)}\n`),
  progress:
    process.stderr.isTTY && !isJson
      ? (text) => void process.stderr.write(`\r\u001B[K${harmless(text).slice(0, (process.stderr.columns || 80) - 1)}`)
      : undefined,
});
