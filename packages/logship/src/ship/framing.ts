import { promisify } from "node:util";
import { crc32, gzip } from "node:zlib";
import { crcOf, noteCrc } from "../bytes/crc.js";
import type { Codec } from "../scripts/index.js";

/** A chunk as stored. */
export interface Chunk {
  readonly bytes: Buffer;
  /** Text bytes in the chunk; 0 if gzip content is passed through. */
  readonly text: number;
  readonly lines: number;
  /** CRC-32 of `bytes`. */
  readonly crc: number;
  /** CRC-32 of all bytes that were fed, up to the end of this chunk. */
  readonly crcAfter: number;
  /** The number of bytes that were fed up to the end of this chunk. */
  readonly fedAfter: number;
}

const compress = promisify(gzip) as (bytes: Buffer, options: { level: number }) => Promise<Buffer>;
const lineFeed = 10;
/** A bound on text that compresses well, because a reader holds the text of a whole chunk in memory. */
const mostTextBytes = 1_048_576;

const countLines = (bytes: Buffer): number => {
  let count = 0;
  for (let at = bytes.indexOf(lineFeed); at >= 0; at = bytes.indexOf(lineFeed, at + 1)) count++;
  return count;
};

/** Bytes that were fed but are in no chunk yet, and the CRC-32 and length of everything that was fed up to their end. */
interface Piece {
  readonly bytes: Buffer;
  readonly crcBefore: number;
  readonly crcAfter: number;
  readonly fedAfter: number;
}

/** Makes chunks of at most `chunkBytes` stored bytes out of text. A gzip chunk ends after a line if a line ends in it. */
export class Framer {
  readonly #codec: Codec;
  readonly #chunkBytes: number;
  readonly #level: number;
  #waiting: Buffer[] = [];
  #waitingBytes = 0;
  #fed: number;
  #crc: number;
  /** Text bytes per stored byte, once known. */
  #ratio = 3;

  constructor(
    codec: Codec,
    { chunkBytes, gzipLevel }: { chunkBytes: number; gzipLevel: number },
    fed: number,
    crc: number,
  ) {
    this.#codec = codec;
    this.#chunkBytes = chunkBytes;
    this.#level = gzipLevel;
    this.#fed = fed;
    this.#crc = crc;
  }

  /** Whether text waits until a chunk is full. */
  get isHolding(): boolean {
    return this.#waitingBytes > 0;
  }

  /** Accepts text, and returns the chunks that are now full. Each promise is for a list that is still being compressed. */
  feed(bytes: Buffer): Promise<Chunk[]>[] {
    this.#waiting.push(bytes);
    this.#waitingBytes += bytes.length;
    const made: Promise<Chunk[]>[] = [];
    for (let size = this.#pieceBytes(); this.#waitingBytes >= size; size = this.#pieceBytes())
      made.push(this.#cut(size));
    return made;
  }

  /** Returns the rest. */
  flush(): Promise<Chunk[]>[] {
    return this.isHolding ? [this.#cut(this.#waitingBytes)] : [];
  }

  #pieceBytes(): number {
    if (this.#codec !== "gzip") return this.#chunkBytes;
    const wanted = Math.floor(this.#chunkBytes * this.#ratio * 0.9);
    return Math.max(Math.min(wanted, mostTextBytes), Math.ceil(this.#chunkBytes / 4));
  }

  #cut(size: number): Promise<Chunk[]> {
    const whole = this.#waiting.length === 1 ? this.#waiting[0]! : Buffer.concat(this.#waiting, this.#waitingBytes);
    const isAll = size === whole.length;
    const feed = this.#codec === "gzip" && !isAll ? whole.lastIndexOf(lineFeed, size - 1) : -1;
    const bytes = whole.subarray(0, feed < 0 ? size : feed + 1);
    this.#waiting = bytes.length < whole.length ? [whole.subarray(bytes.length)] : [];
    this.#waitingBytes = whole.length - bytes.length;
    const crcBefore = this.#crc;
    if (this.#codec !== "gzip") noteCrc(bytes, crc32(bytes));
    this.#fed += bytes.length;
    this.#crc = crcOf(bytes, crcBefore);
    const made = this.#frame({ bytes, crcBefore, crcAfter: this.#crc, fedAfter: this.#fed });
    // It is awaited later: until then a rejection must not count as unhandled.
    made.catch(() => undefined);
    return made;
  }

  async #frame({ bytes, crcBefore, crcAfter, fedAfter }: Piece): Promise<Chunk[]> {
    if (this.#codec !== "gzip") {
      const isText = this.#codec === "none";
      const [text, lines] = isText ? [bytes.length, countLines(bytes)] : [0, 0];
      return [{ bytes, text, lines, crc: crcOf(bytes, 0), crcAfter, fedAfter }];
    }
    const packed = await compress(bytes, { level: this.#level });
    this.#ratio = Math.max(0.5, Math.min(bytes.length / packed.length, this.#ratio * 2));
    if (packed.length <= this.#chunkBytes)
      return [{ bytes: packed, text: bytes.length, lines: countLines(bytes), crc: crc32(packed), crcAfter, fedAfter }];
    const middle = bytes.length >> 1;
    const feed = bytes.lastIndexOf(lineFeed, middle);
    const cut = feed < 0 ? middle : feed + 1;
    const [first, second] = [bytes.subarray(0, cut), bytes.subarray(cut)];
    const crc = crcOf(first, crcBefore);
    const halves = [
      await this.#frame({ bytes: first, crcBefore, crcAfter: crc, fedAfter: fedAfter - second.length }),
      await this.#frame({ bytes: second, crcBefore: crc, crcAfter, fedAfter }),
    ];
    return halves.flat();
  }
}
