import { isUtf8 } from "node:buffer";
import { choice, integer, resolve, type Resolved, type RulesOf } from "@kit/core/toolkit";
import { crcOf } from "./crc.js";
import { LineError } from "../errors.js";

/** How lines are cut out of bytes. */
export interface LineOptions {
  /**
   * The longest line, in bytes without its line feed. It limits the memory of a reader. `onLongLine` controls longer lines.
   *
   * @default 1048576
   */
  readonly maxLineBytes?: number | undefined;
  /**
   * The policy for a line above `maxLineBytes`. `error` rejects. `split` delivers it in pieces of at most `maxLineBytes`, cut between
   * characters. `truncate` delivers its start. `skip` drops it.
   *
   * @default "error"
   */
  readonly onLongLine?: "error" | "split" | "truncate" | "skip" | undefined;
  /**
   * The policy for a line that is not UTF-8. `replace` puts U+FFFD in place of each bad sequence. `error` rejects. `skip` drops the line.
   *
   * @default "replace"
   */
  readonly onInvalidText?: "replace" | "error" | "skip" | undefined;
}

export const lineRules = {
  maxLineBytes: integer(16, 268_435_456, 1_048_576),
  onLongLine: choice(["error", "split", "truncate", "skip"], "error"),
  onInvalidText: choice(["replace", "error", "skip"], "replace"),
} satisfies RulesOf<LineOptions>;

export type ResolvedLines = Resolved<typeof lineRules>;

const [lineFeed, carriageReturn] = [10, 13];
const noBytes: Buffer = Buffer.alloc(0);
const zeros: Buffer = Buffer.alloc(65_536);
/** V8 keeps a string of twice this size in another heap, which costs three times as much per character. */
const pieceBytes = 65_536;

/** Some lines of a file, in order. */
export class LineBatch {
  /** The lines, each without its LF or CR LF. */
  readonly lines: readonly string[];
  /** Text bytes before the first line. */
  readonly offset: number;
  /** Text bytes up to and including the end of the last line. */
  readonly endOffset: number;
  /**
   * The original bytes of the lines, with line ends. If a line is longer than a block, the part that `truncate` or `skip` drops is missing.
   */
  readonly bytes: Buffer;
  /** The number of zero bytes that were dropped. Zero bytes at the start of a line are padding. */
  readonly padding: number;
  readonly #ends: readonly number[] | undefined;
  readonly #crcBefore: () => number;
  readonly #crcAfter: () => number;

  /**
   * `crcs` compute the CRC-32 of the text before the first line and after the last. `ends` lists where each line ends in `bytes`, unless
   * each of them ends with a line feed there. `length` is the number of bytes that were read, if `bytes` are not all of them.
   */
  constructor(
    lines: readonly string[],
    offset: number,
    bytes: Buffer,
    crcs: readonly [before: () => number, after: () => number],
    ends?: readonly number[],
    length: number = bytes.length,
    padding = 0,
  ) {
    this.lines = lines;
    this.padding = padding;
    this.offset = offset;
    this.endOffset = offset + length;
    this.bytes = bytes;
    this.#ends = ends;
    [this.#crcBefore, this.#crcAfter] = crcs;
  }

  /** Text bytes up to and including the end of line number `count`. For 0, the text bytes before the first line. */
  endOf(count: number): number {
    if (count >= this.lines.length) return this.endOffset;
    if (count === 0) return this.offset;
    if (this.#ends) return this.offset + (this.#ends[count - 1] ?? 0);
    let end = 0;
    for (let line = 0; line < count; line++) end = this.bytes.indexOf(lineFeed, end) + 1;
    return this.offset + end;
  }

  /** CRC-32 of the text up to and including the end of line number `count`. */
  crcOf(count: number): number {
    if (count >= this.lines.length) return this.#crcAfter();
    return crcOf(this.bytes.subarray(0, this.endOf(count) - this.offset), this.#crcBefore());
  }
}

/**
 * Cuts blocks of bytes into lines at LF. It drops a CR before the LF, zero bytes at the start of a line, and a byte order mark at the start
 * of the text. Non-empty text after the last LF is the last line. Blocks may cut characters and line ends anywhere. Each byte is read once,
 * however long lines are.
 *
 * @throws {LineError} a line is too long or not UTF-8, and the policy is `error`; or the text is UTF-16. The lines before it have been
 * delivered.
 * @throws {TypeError | RangeError} an option is invalid.
 *
 * @example
 * for await (const { lines } of readLines(createReadStream("access.log"))) count += lines.length;
 */
export async function* readLines(
  blocks: AsyncIterable<Uint8Array>,
  options: LineOptions = {},
): AsyncGenerator<LineBatch, void, undefined> {
  const cutter = new LineCutter(resolve("options", options, lineRules), 0);
  for await (const block of blocks) yield* cutter.cut(Buffer.from(block.buffer, block.byteOffset, block.byteLength));
  yield* cutter.end("all");
}

/** How much text to use after the last line feed: nothing; a last line without the zero bytes at the end; or all. */
export type Rest = "none" | "line" | "all";

/** Cuts lines, and keeps the state between two blocks. */
export class LineCutter {
  readonly #resolved: ResolvedLines;
  /** Text bytes before `#carry`, and a function that computes their CRC-32, because few positions are needed. */
  #offset: number;
  #crc: () => number;
  /** CRC-32 of all blocks; undefined if it is not needed. */
  #crcOfAll: number | undefined;
  /** The start of a line whose end has not arrived. */
  #carry: Buffer[] = [];
  #carried = 0;
  /** Bytes dropped so far from a line that is too long, for `truncate` or `skip`; -1 if there is no such line. */
  #dropped = -1;
  #droppedCrc = 0;
  /** Zero bytes at the start of a line, while nothing else of the line has arrived. */
  #padding = 0;

  /** `crc` is the CRC-32 of the text before `offset`. Without it, batches have no CRC. */
  constructor(resolved: ResolvedLines, offset: number, crc?: number) {
    this.#resolved = resolved;
    this.#offset = offset;
    this.#crcOfAll = crc;
    this.#crc = always(crc ?? 0);
  }

  *cut(block: Buffer): Generator<LineBatch, void, undefined> {
    const before = this.#crcOfAll;
    if (before !== undefined) this.#crcOfAll = crcOf(block, before);
    const last = block.lastIndexOf(lineFeed);
    if (last < 0) {
      yield* this.#carryOn(block);
      return;
    }
    yield* this.#endPadding();
    yield* this.#deliver(block.subarray(0, last + 1), before ?? 0);
    if (last + 1 < block.length) yield* this.#carryOn(block.subarray(last + 1));
  }

  /**
   * Takes the rest of the text as the last line, without a line feed. Zero bytes at the end belong to it only if nothing more can be
   * written there. With `line` they are left, because they may be space that is reserved for later lines.
   */
  *end(rest: Exclude<Rest, "none">): Generator<LineBatch, void, undefined> {
    if (rest === "all") yield* this.#endPadding();
    if (this.#dropped < 0 && this.#carried > 0 && rest === "line") {
      const bytes = this.#takeCarry();
      const written = bytes.subarray(0, textEnd(bytes));
      if (written.length < bytes.length) {
        this.#refuseUtf16(written);
        yield* this.#slow(written, [written.length]);
        return;
      }
      [this.#carry, this.#carried] = [[bytes], bytes.length];
    }
    if (this.#carried > 0 || this.#dropped > 0) yield* this.#deliver(noBytes, this.#crcOfAll ?? 0);
  }

  /** The zero bytes follow the text so far. */
  *#endPadding(): Generator<LineBatch, void, undefined> {
    const count = this.#padding;
    if (count === 0) return;
    let crc = this.#crc();
    for (let left = count; left > 0; left -= zeros.length) crc = crcOf(zeros.subarray(0, left), crc);
    this.#padding = 0;
    yield this.#batch([], noBytes, always(crc), [], count, count);
  }

  *#carryOn(given: Buffer): Generator<LineBatch, void, undefined> {
    if (this.#dropped >= 0) {
      this.#dropped += given.length;
      this.#droppedCrc = crcOf(given, this.#droppedCrc);
      return;
    }
    const padding = this.#carried === 0 ? leadingZeros(given) : 0;
    this.#padding += padding;
    if (padding === given.length) return;
    yield* this.#endPadding();
    const part = given.subarray(padding);
    this.#carry.push(part);
    this.#carried += part.length;
    const { maxLineBytes, onLongLine } = this.#resolved;
    // A CR at the end may belong to the line's end.
    if (this.#carried <= maxLineBytes + 1) return;
    if (onLongLine === "error") throw this.#tooLong(this.#offset);
    const bytes = this.#takeCarry();
    if (onLongLine === "split") {
      const ends: number[] = [];
      for (let from = 0; bytes.length - from > maxLineBytes + 1; from = ends.at(-1)!)
        ends.push(cutBetweenCharacters(bytes, from, maxLineBytes));
      const until = ends.at(-1) ?? 0;
      yield* this.#slow(bytes.subarray(0, until), ends);
      this.#carry = [bytes.subarray(until)];
      this.#carried = bytes.length - until;
      return;
    }
    const kept = onLongLine === "skip" ? 0 : cutBetweenCharacters(bytes, 0, maxLineBytes);
    this.#carry = [bytes.subarray(0, kept)];
    this.#carried = kept;
    this.#dropped = bytes.length - kept;
    this.#droppedCrc = crcOf(bytes, this.#crc());
  }

  #takeCarry(): Buffer {
    const bytes = this.#carry.length === 1 ? this.#carry[0]! : Buffer.concat(this.#carry, this.#carried);
    this.#carry = [];
    this.#carried = 0;
    return bytes;
  }

  /** `body` ends with a line feed, or is empty at the end of the text. `before` is the CRC-32 of all blocks before it. */
  *#deliver(body: Buffer, before: number): Generator<LineBatch, void, undefined> {
    if (this.#dropped >= 0) {
      const first = body.indexOf(lineFeed) + 1;
      const head = body.subarray(0, first);
      yield* this.#endDropped(head);
      if (first < body.length) yield* this.#deliver(body.subarray(first), crcOf(head, before));
      return;
    }
    const carried = this.#carried;
    let bytes = body;
    if (carried > 0) {
      this.#carry.push(body);
      this.#carried += body.length;
      bytes = this.#takeCarry();
    }
    this.#refuseUtf16(bytes);
    const { maxLineBytes, onInvalidText } = this.#resolved;
    const isPlain = bytes.length <= maxLineBytes && (onInvalidText === "replace" || isUtf8(bytes));
    if (bytes.includes(0)) yield* this.#slow(bytes, lineEnds(bytes));
    else if (isPlain || (onInvalidText === "replace" && !hasLongLine(bytes, maxLineBytes)))
      yield* this.#fast(bytes, carried, before);
    else yield* this.#slow(bytes, lineEnds(bytes));
  }

  /** Delivers all lines unchanged, some at a time. The block starts after the first `carried` bytes. */
  *#fast(bytes: Buffer, carried: number, before: number): Generator<LineBatch, void, undefined> {
    for (let [from, end] = [0, 0]; from < bytes.length; from = end) {
      end = pieceEnd(bytes, from);
      const [piece, ofBlock] = [bytes.subarray(from, end), bytes.subarray(carried, end)];
      yield this.#batch(this.#textLines(piece), piece, () => crcOf(ofBlock, before));
    }
  }

  #textLines(bytes: Buffer): string[] {
    const { length } = bytes;
    const endsWithFeed = bytes[length - 1] === lineFeed;
    let text = bytes.toString("utf8", 0, endsWithFeed ? length - 1 : length);
    if (this.#offset === 0 && text.charCodeAt(0) === 0xfeff) text = text.slice(1);
    const lines = text.split("\n");
    if (bytes.includes(carriageReturn))
      for (let index = 0; index < lines.length; index++) {
        const line = lines[index]!;
        // At the end of the text a lone CR is part of the line.
        const isWhole = endsWithFeed || index < lines.length - 1;
        if (isWhole && line.charCodeAt(line.length - 1) === carriageReturn) lines[index] = line.slice(0, -1);
      }
    return lines;
  }

  /** Delivers the lines that end at `ends` in `bytes`. Each line is checked separately. */
  *#slow(bytes: Buffer, ends: readonly number[]): Generator<LineBatch, void, undefined> {
    const lines: string[] = [];
    const delivered: number[] = [];
    const { maxLineBytes, onLongLine } = this.#resolved;
    let [from, padding] = [0, 0];
    let fault: LineError | undefined;
    for (const end of ends) {
      const whole = withoutEnd(bytes, from, end);
      const line = whole.subarray(leadingZeros(whole));
      padding += whole.length - line.length;
      from += whole.length - line.length;
      if (line.length > maxLineBytes) {
        if (onLongLine === "error") fault = this.#tooLong(this.#offset + from);
        else if (onLongLine === "truncate") {
          const kept = line.subarray(0, cutBetweenCharacters(line, 0, maxLineBytes));
          fault = this.#judge(kept, from, end, lines, delivered);
        } else if (onLongLine === "split")
          for (let piece = 0; piece < line.length && !fault;) {
            const until = Math.min(cutBetweenCharacters(line, piece, maxLineBytes), line.length);
            const isLast = until === line.length;
            fault = this.#judge(
              line.subarray(piece, until),
              from + piece,
              isLast ? end : from + until,
              lines,
              delivered,
            );
            piece = until;
          }
      } else fault = this.#judge(line, from, end, lines, delivered);
      if (fault) break;
      from = end;
    }
    // Skipped lines at the end also belong to the batch, so that they are not read again.
    const until = fault ? (delivered.at(-1) ?? 0) : bytes.length;
    if (until > 0) {
      const passed = bytes.subarray(0, until);
      yield this.#batch(lines, passed, always(crcOf(passed, this.#crc())), delivered, until, padding);
    }
    if (fault) throw fault;
  }

  #judge(line: Buffer, from: number, end: number, lines: string[], delivered: number[]): LineError | undefined {
    const { onInvalidText } = this.#resolved;
    if (onInvalidText !== "replace" && !isUtf8(line)) {
      if (onInvalidText === "error") return new LineError("A line is not UTF-8", this.#offset + from);
      return undefined;
    }
    const text = line.toString("utf8");
    lines.push(this.#offset + from === 0 && text.charCodeAt(0) === 0xfeff ? text.slice(1) : text);
    delivered.push(end);
    return undefined;
  }

  /** Delivers the end of a line whose middle was dropped. */
  *#endDropped(rest: Buffer): Generator<LineBatch, void, undefined> {
    const kept = this.#takeCarry();
    const length = kept.length + this.#dropped + rest.length;
    this.#dropped = -1;
    const lines: string[] = [];
    const fault = kept.length > 0 ? this.#judge(kept, 0, length, lines, []) : undefined;
    if (fault) throw fault;
    const crc = always(crcOf(rest, this.#droppedCrc));
    yield this.#batch(lines, kept, crc, [], length);
  }

  /** Creates the next batch. The text so far then ends with it. */
  #batch(
    lines: readonly string[],
    bytes: Buffer,
    crc: () => number,
    ends?: readonly number[],
    length?: number,
    padding?: number,
  ): LineBatch {
    const batch = new LineBatch(lines, this.#offset, bytes, [this.#crc, crc], ends, length, padding);
    [this.#offset, this.#crc] = [batch.endOffset, crc];
    return batch;
  }

  #tooLong(offset: number): LineError {
    return new LineError(`A line has more than maxLineBytes, ${String(this.#resolved.maxLineBytes)} bytes`, offset);
  }

  #refuseUtf16(bytes: Buffer): void {
    if (this.#offset > 0 || bytes.length < 2) return;
    const mark = bytes.readUInt16BE(0);
    if (mark === 0xfffe || mark === 0xfeff) throw new LineError("The text is UTF-16. Convert it to UTF-8", 0);
  }
}

const always =
  (crc: number): (() => number) =>
  () =>
    crc;

/**
 * The end of a piece of whole lines that starts at `from`: one line, or all lines that fit into a string that V8 does not treat as a large
 * object.
 */
const pieceEnd = (bytes: Buffer, from: number): number => {
  if (bytes.length - from <= pieceBytes) return bytes.length;
  const feed = bytes.lastIndexOf(lineFeed, from + pieceBytes - 1);
  const end = feed >= from ? feed : bytes.indexOf(lineFeed, from + pieceBytes);
  return end < 0 ? bytes.length : end + 1;
};

/** The end of the longest piece that starts at `from`, has at most `most` bytes and cuts no character. */
const cutBetweenCharacters = (bytes: Buffer, from: number, most: number): number => {
  const end = Math.min(from + most, bytes.length);
  if (end === bytes.length) return end;
  // A character has at most three continuation bytes; a sequence with more is not UTF-8.
  for (let cut = end; cut > end - 4 && cut > from; cut--) if ((bytes[cut]! & 0xc0) !== 0x80) return cut;
  return end;
};

const leadingZeros = (bytes: Buffer): number => {
  let count = 0;
  while (bytes[count] === 0) count++;
  return count;
};

/** The end of the bytes without trailing zeros. */
export const textEnd = (bytes: Buffer): number => {
  let end = bytes.length;
  while (end > 0 && bytes[end - 1] === 0) end--;
  return end;
};

const hasLongLine = (bytes: Buffer, maxLineBytes: number): boolean =>
  lineEnds(bytes).some((end, index, ends) => withoutEnd(bytes, ends[index - 1] ?? 0, end).length > maxLineBytes);

const lineEnds = (bytes: Buffer): number[] => {
  const ends: number[] = [];
  for (let from = 0; from < bytes.length; from = ends.at(-1)!) {
    const feed = bytes.indexOf(lineFeed, from);
    ends.push(feed < 0 ? bytes.length : feed + 1);
  }
  return ends;
};

const withoutEnd = (bytes: Buffer, from: number, end: number): Buffer => {
  if (bytes[end - 1] !== lineFeed) return bytes.subarray(from, end);
  const hasReturn = end - 2 >= from && bytes[end - 2] === carriageReturn;
  return bytes.subarray(from, hasReturn ? end - 2 : end - 1);
};
