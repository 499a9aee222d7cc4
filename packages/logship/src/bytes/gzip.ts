import { crc32, createInflateRaw, inflateRawSync } from "node:zlib";
import { crcOf, noteCrc } from "./crc.js";
import { BadDataError } from "../errors.js";

/** Settings of `readGzip`. */
export interface GzipOptions {
  /** The file's name, for errors. */
  readonly file?: string | undefined;
  /**
   * Stored bytes before the first block, for errors.
   *
   * @default 0
   */
  readonly offset?: number | undefined;
}

/** Called at each start of a member, with the stored bytes and the text bytes before it. */
export type OnMember = (stored: number, text: number) => void;

/** The size of inflated pieces. Never more is held in memory, however well the content was compressed. */
const outputBytes = 131_072;
/** A member whose compressed bytes are among this many is inflated in one step: an engine costs ten times as much. */
const smallBytes = 1_024;
/** One in this many members is inflated by an engine, which lets the event loop run. */
const turnEvery = 64;
const settings = {
  info: true,
  chunkSize: smallBytes,
  maxOutputLength: outputBytes,
  finishFlush: 2, // Z_SYNC_FLUSH: a member that is longer is no error
};
const [id1, id2, deflate] = [0x1f, 0x8b, 8];
const [hasCrc, hasExtra, hasName, hasComment] = [2, 4, 8, 16];

/** The return value of zlib with the option `info`. */
interface Small {
  readonly buffer: Buffer;
  readonly engine: { readonly bytesWritten: number };
}

/** Reads blocks byte by byte, across block boundaries. */
class Bytes {
  readonly #blocks: AsyncIterator<Uint8Array>;
  #block: Buffer = Buffer.alloc(0);
  /** The number of bytes that were taken. */
  offset = 0;

  constructor(blocks: AsyncIterable<Uint8Array>) {
    this.#blocks = blocks[Symbol.asyncIterator]();
  }

  /** The bytes available now, at least one; undefined at the end. */
  async some(): Promise<Buffer | undefined> {
    while (this.#block.length === 0) {
      const { done, value } = await this.#blocks.next();
      if (done) return undefined;
      this.#block = Buffer.from(value.buffer, value.byteOffset, value.byteLength);
    }
    return this.#block;
  }

  take(count: number): void {
    this.#block = this.#block.subarray(count);
    this.offset += count;
  }

  /** Takes the next `count` bytes. Undefined if the content ends before. */
  async exactly(count: number): Promise<Buffer | undefined> {
    const first = await this.some();
    if (first && first.length >= count) {
      this.take(count);
      return first.subarray(0, count);
    }
    const parts: Buffer[] = [];
    for (let missing = count; missing > 0;) {
      const block = await this.some();
      if (!block) return undefined;
      const part = block.subarray(0, missing);
      this.take(part.length);
      parts.push(part);
      missing -= part.length;
    }
    return Buffer.concat(parts);
  }

  async close(): Promise<void> {
    await this.#blocks.return?.();
  }
}

/**
 * Reads gzip content of one or more members, and yields the text in blocks of at most 128 KiB. It reads at most one block of output ahead,
 * so highly compressed content needs no extra memory.
 *
 * It checks the CRC-32 and length of each member. Zero bytes after the last member are padding; anything else there is an error. Empty
 * content yields no text.
 *
 * @throws {BadDataError} the content is damaged, or ends within a member. The text before the damage has been yielded. If a member's CRC
 *   is wrong, this includes all of its text.
 *
 * @example
 * for await (const block of readGzip(createReadStream("access.log.gz"))) size += block.length;
 */
export const readGzip = (
  blocks: AsyncIterable<Uint8Array>,
  options: GzipOptions = {},
): AsyncGenerator<Buffer, void, undefined> => inflateMembers(blocks, options, () => undefined);

/** Like `readGzip`, but calls `onMember` at each start of a member. `stored` and `text` are counted from the first block. */
export async function* inflateMembers(
  blocks: AsyncIterable<Uint8Array>,
  { file, offset = 0 }: GzipOptions,
  onMember: OnMember,
): AsyncGenerator<Buffer, void, undefined> {
  const bytes = new Bytes(blocks);
  const bad = (reason: string): BadDataError => new BadDataError(reason, { file, offset: offset + bytes.offset });
  let text = 0;
  try {
    for (let count = 1; await bytes.some(); count++) {
      if (bytes.offset > 0 && (await isPadding(bytes, bad))) return;
      onMember(bytes.offset, text);
      await skipHeader(bytes, bad);
      let crc = 0;
      let length = 0;
      const small = count % turnEvery > 0 && (await inflateSmall(bytes));
      for await (const block of small ? [small] : inflateMember(bytes, bad)) {
        if (block.length === 0) continue;
        noteCrc(block, crc32(block));
        crc = crcOf(block, crc);
        length += block.length;
        text += block.length;
        yield block;
      }
      const trailer = await bytes.exactly(8);
      if (!trailer) throw bad("The gzip content ends early");
      if (trailer.readUInt32LE(0) !== crc) throw bad("The CRC-32 of a gzip member is wrong");
      if (trailer.readUInt32LE(4) !== length % 2 ** 32) throw bad("The length of a gzip member is wrong");
    }
  } finally {
    await bytes.close();
  }
}

/** Whether only zeros are left. Reads them all. */
const isPadding = async (bytes: Bytes, bad: (reason: string) => BadDataError): Promise<boolean> => {
  let block = await bytes.some();
  if (block?.[0] !== 0) return false;
  for (; block; block = await bytes.some()) {
    if (block.some((byte) => byte !== 0)) throw bad("Other data follows the gzip content");
    bytes.take(block.length);
  }
  return true;
};

const skipHeader = async (bytes: Bytes, bad: (reason: string) => BadDataError): Promise<void> => {
  const isFirst = bytes.offset === 0;
  const need = async (count: number): Promise<Buffer> => {
    const found = await bytes.exactly(count);
    if (!found) throw bad("The gzip content ends early");
    return found;
  };
  const skipText = async (): Promise<void> => {
    for (let byte = 1; byte !== 0;) [byte = 0] = await need(1);
  };
  const magic = await need(2);
  if (magic[0] !== id1 || magic[1] !== id2)
    throw bad(isFirst ? "The content is not gzip" : "Other data follows the gzip content");
  const [method, flags = 0] = await need(8);
  if (method !== deflate || (flags & 0xe0) !== 0) throw bad("The header of a gzip member is damaged");
  if (flags & hasExtra) await need((await need(2)).readUInt16LE(0));
  if (flags & hasName) await skipText();
  if (flags & hasComment) await skipText();
  if (flags & hasCrc) await need(2);
};

/** The text of a small member, whose compressed bytes it takes. Undefined if the member is longer or damaged. */
const inflateSmall = async (bytes: Bytes): Promise<Buffer | undefined> => {
  const some = (await bytes.some())?.subarray(0, smallBytes);
  try {
    const { buffer, engine } = inflateRawSync(some!, settings) as unknown as Small;
    // Bytes are unused only if the member has ended: its trailer follows.
    if (engine.bytesWritten < some!.length) {
      bytes.take(engine.bytesWritten);
      return buffer;
    }
  } catch {
    // The engine's error names the problem.
  }
  return undefined;
};

/** Yields the text of one member, and takes exactly its compressed bytes. */
async function* inflateMember(
  bytes: Bytes,
  bad: (reason: string) => BadDataError,
): AsyncGenerator<Buffer, void, undefined> {
  const engine = createInflateRaw({ chunkSize: outputBytes, highWaterMark: outputBytes } as object);
  let fed = 0;
  const feed = async (): Promise<void> => {
    for (;;) {
      const block = await bytes.some();
      if (!block) throw bad("The gzip content ends early");
      fed += block.length;
      // The callback is called when all output of this block has been read.
      await new Promise<void>((resolve, reject) => {
        engine.once("close", resolve);
        engine.write(block, (error) => {
          engine.off("close", resolve);
          if (error) reject(error);
          else resolve();
        });
      });
      if (engine.destroyed && !engine.readableEnded) return;
      const unused = fed - engine.bytesWritten;
      bytes.take(block.length - unused);
      // The engine leaves bytes unused only after the end of the member, where at least the trailer follows.
      if (unused > 0) return;
    }
  };
  const feeding = feed().catch((error: unknown) => {
    engine.destroy(error as Error);
  });
  try {
    for await (const block of engine) yield block as Buffer;
  } catch (error) {
    throw error instanceof BadDataError ? error : isZlib(error) ? bad("The gzip content is damaged") : error;
  }
  await feeding;
}

const isZlib = (error: unknown): boolean =>
  error instanceof Error && String((error as { code?: unknown }).code).startsWith("Z_");
