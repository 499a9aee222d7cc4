import { createReadStream } from "node:fs";
import { basename } from "node:path";
import { fileURLToPath } from "node:url";
import { createGunzip } from "node:zlib";
import { GeoIpImportError } from "./errors.js";

/** A file by its path or URL, gunzipped where it ends in `.gz`; or a stream of bytes or text with a name for messages. */
export type CsvInput = string | URL | { readonly name: string; readonly stream: AsyncIterable<Uint8Array | string> };

const comma = 0x2c;
const quote = 0x22;
const newline = 0x0a;
const carriageReturn = 0x0d;
/** Without a limit, one quote that is never closed would read a whole file into memory. */
const longestRow = 1 << 20;
const maxColumns = 64;

/** One row; the same object for all rows of a file, valid until the callback returns. */
export class CsvRow {
  readonly file: string;
  /** Counted from 1, the header included. */
  number = 0;
  bytes: Buffer = Buffer.alloc(0);
  from = 0;
  to = 0;
  count = 0;
  readonly #starts = new Int32Array(maxColumns + 1);
  readonly #decoder = new TextDecoder("utf-8", { fatal: true });

  constructor(file: string) {
    this.file = file;
  }

  /** @internal */
  set(bytes: Buffer, from: number, to: number, mayHaveQuotes: boolean): void {
    this.number++;
    this.bytes = bytes;
    this.from = from;
    this.to = to;
    let count = 0;
    let isQuoted = false;
    this.#starts[0] = from;
    for (let index = from; index < to; index++) {
      const byte = bytes[index];
      if (byte === comma && !isQuoted) {
        if (++count === maxColumns) throw this.error(undefined, `has more than ${String(maxColumns)} columns`);
        this.#starts[count] = index + 1;
      } else if (mayHaveQuotes && byte === quote) isQuoted = !isQuoted;
    }
    this.count = ++count;
    this.#starts[count] = to + 1;
  }

  startOf(column: number): number {
    return this.#starts[column] ?? this.to;
  }

  endOf(column: number): number {
    return (this.#starts[column + 1] ?? this.to + 1) - 1;
  }

  isEmpty(column: number): boolean {
    return column < 0 || column >= this.count || this.startOf(column) === this.endOf(column);
  }

  /** The text of a column; empty where the row has no such column. */
  text(column: number, name: string): string {
    if (this.isEmpty(column)) return "";
    const [start, end] = [this.startOf(column), this.endOf(column)];
    let text: string;
    try {
      text = this.#decoder.decode(this.bytes.subarray(start, end));
    } catch (error) {
      throw this.error(name, "is not UTF-8", error);
    }
    if (!text.includes('"')) return text;
    const [, quoted] = /^"((?:[^"]|"")*)"$/s.exec(text) ?? [];
    if (quoted === undefined) throw this.error(name, "has a quote inside a field that is not quoted");
    return quoted.replaceAll('""', '"');
  }

  /** A column whose text is ASCII if it is right: much cheaper than `text()`, and wrong text stays wrong. */
  ascii(column: number): string {
    const text = this.bytes.toString("latin1", this.startOf(column), this.endOf(column));
    return text.startsWith('"') && text.endsWith('"') ? text.slice(1, -1) : text;
  }

  /** The row's bytes without one column: equal for rows that say the same of another network. */
  rawWithout(column: number): string {
    const [start, end] = [this.startOf(column), this.endOf(column)];
    const after = this.bytes.toString("latin1", end, this.to);
    return start === this.from ? after : `${this.bytes.toString("latin1", this.from, start)}${after}`;
  }

  error(column: string | undefined, problem: string, cause?: unknown): GeoIpImportError {
    return new GeoIpImportError({ file: this.file, row: this.number, column }, problem, cause);
  }
}

const opened = (input: CsvInput): { readonly name: string; readonly stream: AsyncIterable<Uint8Array | string> } => {
  if (typeof input === "object" && !(input instanceof URL)) return input;
  const path = typeof input === "string" ? input : fileURLToPath(input);
  const file = createReadStream(path, { highWaterMark: 1 << 18 });
  if (!path.endsWith(".gz")) return { name: basename(path), stream: file };
  const gunzip = createGunzip({ chunkSize: 1 << 18 });
  file.on("error", (error) => gunzip.destroy(error));
  // The file must not stay open when the reader gives up early.
  gunzip.on("close", () => file.destroy());
  return { name: basename(path), stream: file.pipe(gunzip) };
};

const isOdd = (bytes: Buffer, from: number, to: number): boolean => {
  let quotes = 0;
  for (let at = bytes.indexOf(quote, from); at >= 0 && at < to; at = bytes.indexOf(quote, at + 1)) quotes++;
  return quotes % 2 === 1;
};

/**
 * Reads CSV (RFC 4180) as a stream: `onRow` for each row that is not empty, `onChunk` after each chunk, awaited, so that a
 * slow consumer slows the file down.
 *
 * @throws {GeoIpImportError} the file cannot be read or unpacked, or is no CSV.
 */
export const readCsv = async (
  input: CsvInput,
  onRow: (row: CsvRow) => void,
  onChunk: (row: CsvRow, bytes: number) => Promise<void> | undefined,
): Promise<void> => {
  const { name, stream } = opened(input);
  const row = new CsvRow(name);
  let rest: Buffer = Buffer.alloc(0);
  let isFirst = true;

  const take = (bytes: Buffer, isLast: boolean): Buffer => {
    const hasQuotes = bytes.includes(quote);
    let from = isFirst && bytes.subarray(0, 3).equals(Buffer.from([0xef, 0xbb, 0xbf])) ? 3 : 0;
    isFirst = false;
    while (from < bytes.length) {
      let end = bytes.indexOf(newline, from);
      let isOpen = hasQuotes && end >= 0 && isOdd(bytes, from, end);
      while (isOpen) {
        const next = bytes.indexOf(newline, end + 1);
        isOpen = next >= 0 && !isOdd(bytes, end, next);
        end = next;
      }
      if (end < 0) {
        if (!isLast) break;
        end = bytes.length;
        if (hasQuotes && isOdd(bytes, from, end)) {
          row.number++;
          throw row.error(undefined, "a quote is not closed");
        }
      }
      const to = end > from && bytes[end - 1] === carriageReturn ? end - 1 : end;
      if (to > from) {
        row.set(bytes, from, to, hasQuotes);
        onRow(row);
      } else row.number++;
      from = end + 1;
    }
    return bytes.subarray(Math.min(from, bytes.length));
  };

  const chunks = stream[Symbol.asyncIterator]();
  try {
    for (;;) {
      let next: IteratorResult<Uint8Array | string>;
      try {
        next = await chunks.next();
      } catch (error) {
        const reason = error instanceof Error ? error.message : "failed";
        throw new GeoIpImportError({ file: name, row: row.number + 1 }, `could not be read: ${reason}`, error);
      }
      if (next.done) break;
      const { value } = next;
      const chunk =
        typeof value === "string" ? Buffer.from(value) : Buffer.isBuffer(value) ? value : Buffer.from(value);
      // A byte order mark may be parted from the first row.
      const bytes = rest.length === 0 ? chunk : Buffer.concat([rest, chunk]);
      rest = bytes.length < 3 && isFirst ? bytes : take(bytes, false);
      if (rest.length > longestRow) {
        row.number++;
        throw row.error(undefined, "is longer than a mebibyte: a quote may not be closed");
      }
      await onChunk(row, chunk.length);
    }
    take(rest, true);
    await onChunk(row, 0);
  } finally {
    await chunks.return?.();
  }
};
