import { createReadStream } from "node:fs";
import { basename } from "node:path";
import { fileURLToPath } from "node:url";
import { createGunzip } from "node:zlib";
import { untilAborted } from "@kit/core/toolkit";
import { GeoIpImportError } from "./errors.js";

/** Unpacked bytes or text. */
type CsvStream = AsyncIterable<Uint8Array | string>;
interface NamedStream {
  readonly name: string;
  readonly stream: CsvStream;
}

/**
 * A file by its path or URL, gunzipped if its name ends with `.gz`; or a stream of bytes or text, optionally with a name for
 * messages.
 */
export type CsvInput = string | URL | CsvStream | NamedStream;

const comma = 0x2c;
const quote = 0x22;
const newline = 0x0a;
const carriageReturn = 0x0d;
const byteOrderMark = Buffer.from([0xef, 0xbb, 0xbf]);
/** Without a limit, an unclosed quote would read a whole file into memory. */
const longestRow = 1 << 20;
/** A larger chunk would keep the event loop for too long. */
const mostAtOnce = 1 << 16;
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

  /**
   * Reads the row that starts at `from` and finds its columns. Returns where the next row starts; -1 if the row's end is not in
   * these bytes, which can happen in a file's last row.
   *
   * @internal
   */
  take(bytes: Buffer, from: number, isLast: boolean): number {
    const { length } = bytes;
    const starts = this.#starts;
    let count = 0;
    let isQuoted = false;
    let end = from;
    for (; end < length; end++) {
      const byte = bytes[end]!;
      // Most bytes are letters and digits.
      if (byte > comma) continue;
      if (byte === quote) isQuoted = !isQuoted;
      else if (isQuoted) continue;
      else if (byte === newline) break;
      else if (byte === comma && ++count <= maxColumns) starts[count] = end + 1;
    }
    if (end === length && !isLast) return -1;
    this.number++;
    if (isQuoted) throw this.error(undefined, "has an unclosed quote");
    if (count >= maxColumns) throw this.error(undefined, `has more than ${String(maxColumns)} columns`);
    this.bytes = bytes;
    this.from = from;
    this.to = end > from && bytes[end - 1] === carriageReturn ? end - 1 : end;
    starts[0] = from;
    starts[++count] = this.to + 1;
    this.count = count;
    return end + 1;
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

  /** The text of a column; empty if the row has no such column. */
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
    if (quoted === undefined) throw this.error(name, "has a quote inside an unquoted field");
    return quoted.replaceAll('""', '"');
  }

  /** Reads a column as bytes, without the quotes around it; strings would take a third of an import's time. */
  bare<T>(column: number, read: (bytes: Uint8Array, from: number, to: number) => T): T {
    const [start, end] = [this.startOf(column), this.endOf(column)];
    const isQuoted = end - start >= 2 && this.bytes[start] === quote && this.bytes[end - 1] === quote;
    return isQuoted ? read(this.bytes, start + 1, end - 1) : read(this.bytes, start, end);
  }

  error(column: string | undefined, problem: string, cause?: unknown): GeoIpImportError {
    return new GeoIpImportError({ file: this.file, row: this.number, column }, problem, cause);
  }
}

const isStream = (input: unknown): input is CsvStream =>
  typeof input === "object" && input !== null && Symbol.asyncIterator in input;

const opened = (input: CsvInput): NamedStream => {
  if (isStream(input)) {
    // A stream of a file has its path.
    const { path } = input as { path?: unknown };
    return { name: typeof path === "string" ? basename(path) : "stream", stream: input };
  }
  if (typeof input !== "string" && !(input instanceof URL)) {
    if (isStream((input as Partial<NamedStream> | null)?.stream)) return input;
    throw new TypeError("Expected a file to be a path, a URL, a stream or `{ name, stream }`");
  }
  const path = typeof input === "string" ? input : fileURLToPath(input);
  const file = createReadStream(path, { highWaterMark: 1 << 18 });
  if (!path.endsWith(".gz")) return { name: basename(path), stream: file };
  const gunzip = createGunzip({ chunkSize: 1 << 18 });
  file.on("error", (error) => gunzip.destroy(error));
  // The file must not stay open when the reader gives up early.
  gunzip.on("close", () => file.destroy());
  return { name: basename(path), stream: file.pipe(gunzip) };
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
  signal?: AbortSignal,
): Promise<void> => {
  const { name, stream } = opened(input);
  const row = new CsvRow(name);
  let rest: Buffer = Buffer.alloc(0);
  let isFirst = true;

  const take = (bytes: Buffer, isLast: boolean): Buffer => {
    let from = isFirst && bytes.subarray(0, 3).equals(byteOrderMark) ? 3 : 0;
    isFirst = false;
    while (from < bytes.length) {
      const next = row.take(bytes, from, isLast);
      if (next < 0) break;
      if (row.to > row.from) onRow(row);
      from = next;
    }
    return bytes.subarray(Math.min(from, bytes.length));
  };

  const chunks = untilAborted(stream, signal)[Symbol.asyncIterator]();
  try {
    for (;;) {
      let next: IteratorResult<Uint8Array | string>;
      try {
        next = await chunks.next();
      } catch (error) {
        signal?.throwIfAborted();
        const reason = error instanceof Error ? error.message : "failed";
        throw new GeoIpImportError({ file: name, row: row.number + 1 }, `cannot be read: ${reason}`, error);
      }
      if (next.done) break;
      const { value } = next;
      const chunk =
        typeof value === "string" ? Buffer.from(value) : Buffer.isBuffer(value) ? value : Buffer.from(value);
      for (let at = 0; at < chunk.length; at += mostAtOnce) {
        const part = chunk.subarray(at, at + mostAtOnce);
        // A byte order mark may arrive separately from the first row.
        const bytes = rest.length === 0 ? part : Buffer.concat([rest, part]);
        rest = bytes.length < 3 && isFirst ? bytes : take(bytes, false);
        if (rest.length > longestRow) {
          row.number++;
          throw row.error(undefined, "is longer than 1 MiB: it may have an unclosed quote");
        }
        await onChunk(row, part.length);
      }
    }
    take(rest, true);
    await onChunk(row, 0);
  } finally {
    await chunks.return?.();
  }
};
