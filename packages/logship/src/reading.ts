import type { OpenFile } from "./files.js";
import { inflateMembers } from "./gzip.js";
import { type LineBatch, LineCutter, type LineTerms } from "./lines.js";
import { type Position, Restarts } from "./position.js";

/** Text from a position on, and the places where reading can begin again. */
export interface Text {
  readonly blocks: AsyncIterable<Buffer>;
  readonly restarts: Restarts;
}

/** Lines from a position on. */
export interface Reading {
  readonly batches: AsyncGenerator<LineBatch, void, undefined>;
  /** The position behind line number `count` of a batch. Batches and counts are asked for in ascending order. */
  positionOf(batch: LineBatch, count: number): Position;
}

/** The text of gzip content from a position on. `read` gives stored bytes from an offset on. */
export const inflatedText = (
  read: (stored: number) => AsyncIterable<Uint8Array>,
  { offset, stored, skip }: Position,
  file: string,
): Text => {
  const restarts = new Restarts(false);
  const memberAt = (from: number, text: number): void => restarts.note(stored + from, offset - skip + text);
  return { restarts, blocks: without(inflateMembers(read(stored), { file, offset: stored }, memberAt), skip) };
};

/** The text of a local file from a position on. */
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

/** Cuts a text into lines. With `keepsLast` false a last line without a line feed is left for another time. */
export const readingOf = (
  { blocks, restarts }: Text,
  position: Position,
  terms: LineTerms,
  keepsLast: boolean,
): Reading => {
  async function* batches(): AsyncGenerator<LineBatch, void, undefined> {
    const cutter = new LineCutter(terms, position.offset, position.crc);
    for await (const block of blocks) yield* cutter.cut(block);
    if (keepsLast) yield* cutter.end();
  }
  return {
    batches: batches(),
    positionOf: (batch, count) => restarts.at(batch.endOf(count), batch.crcOf(count)),
  };
};
