import { integer, stored } from "@kit/core/toolkit";
import type { OpenFile } from "./files.js";
import { inflateMembers } from "./gzip.js";
import { type LineBatch, LineCutter, type ResolvedLines, type Rest } from "./lines.js";
import type { Position } from "./position.js";

export type { Position };

/** A position up to which lines were read. */
export interface Reached extends Position {
  /** The last text bytes before it, as read: at most the bytes of one batch. */
  readonly tail: Buffer;
}

const noBytes: Buffer = Buffer.alloc(0);

export const start: Position = { offset: 0, stored: 0, skip: 0, crc: 0 };

export const formatPosition = ({ offset, stored, skip, crc }: Position): string =>
  `${String(offset)}:${String(stored)}:${String(skip)}:${String(crc)}`;

const count = integer(0);
const positionRules = { offset: count, stored: count, skip: count, crc: integer(0, 0xff_ff_ff_ff) };

/** @throws {KitError} `KIT_LAYOUT`: the text is not a position. */
export const parsePosition = (text: string): Position => {
  const [offset = 0, at = 0, skip = 0, crc = 0] = text.split(":").map(Number);
  return stored("a position", { offset, stored: at, skip, crc }, positionRules);
};

/**
 * Finds where reading can restart for each text offset: at the last recorded place before it. In plain content every byte is such a place.
 * In gzip content it is each start of a member.
 */
export class Restarts {
  readonly #isPlain: boolean;
  #places: { readonly stored: number; readonly text: number }[] = [];

  constructor(isPlain: boolean) {
    this.#isPlain = isPlain;
  }

  note(stored: number, text: number): void {
    if (this.#isPlain) return;
    // Of members without text only the last counts.
    if (this.#places.at(-1)?.text === text) this.#places.pop();
    this.#places.push({ stored, text });
  }

  /** The position at `offset`. Offsets must ascend. */
  at(offset: number, crc: number): Position {
    if (this.#isPlain) return { offset, stored: offset, skip: 0, crc };
    let last = 0;
    while (this.#places[last + 1] && this.#places[last + 1]!.text <= offset) last++;
    this.#places.splice(0, last);
    const [place = { stored: 0, text: 0 }] = this.#places;
    return { offset, stored: place.stored, skip: offset - place.text, crc };
  }
}

/** Text after a position, and the places where reading can restart. */
export interface Text {
  readonly blocks: AsyncIterable<Buffer>;
  readonly restarts: Restarts;
}

/** Lines after a position. */
export interface Reading {
  readonly batches: AsyncGenerator<LineBatch, void, undefined>;
  /** The position after line number `count` of a batch. Batches and counts must ascend. */
  positionOf(batch: LineBatch, count: number): Reached;
}

/** The text of gzip content after a position. `read` returns the stored bytes after an offset. */
export const inflatedText = (
  read: (stored: number) => AsyncIterable<Uint8Array>,
  { offset, stored, skip }: Position,
  file: string,
): Text => {
  const restarts = new Restarts(false);
  const memberAt = (from: number, text: number): void => restarts.note(stored + from, offset - skip + text);
  return { restarts, blocks: without(inflateMembers(read(stored), { file, offset: stored }, memberAt), skip) };
};

/** The text of a local file after a position. */
export const fileText = (file: OpenFile, position: Position, name: string): Text =>
  file.isGzip
    ? inflatedText((stored) => file.read(stored), position, name)
    : { restarts: new Restarts(true), blocks: file.read(position.offset) };

/** Blocks without their first `skip` bytes. */
async function* without(blocks: AsyncIterable<Buffer>, skip: number): AsyncGenerator<Buffer, void, undefined> {
  let missing = skip;
  for await (const block of blocks) {
    if (missing < block.length) yield missing > 0 ? block.subarray(missing) : block;
    missing = Math.max(0, missing - block.length);
  }
}

/** Cuts a text into lines. `rest` controls the text after the last line feed. Text that is not used is left for a later run. */
export const readingOf = (
  { blocks, restarts }: Text,
  position: Position,
  resolved: ResolvedLines,
  rest: Rest,
): Reading => {
  async function* batches(): AsyncGenerator<LineBatch, void, undefined> {
    const cutter = new LineCutter(resolved, position.offset, position.crc);
    for await (const block of blocks) yield* cutter.cut(block);
    if (rest !== "none") yield* cutter.end(rest);
  }
  return {
    batches: batches(),
    positionOf: (batch, count) => ({
      ...restarts.at(batch.endOf(count), batch.crcOf(count)),
      // Bytes of a line that is too long may be missing.
      tail:
        batch.bytes.length === batch.endOffset - batch.offset
          ? batch.bytes.subarray(0, batch.endOf(count) - batch.offset)
          : noBytes,
    }),
  };
};
