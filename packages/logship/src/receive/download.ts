import { promisify } from "node:util";
import { crc32, gunzip } from "node:zlib";
import { noteCrc } from "../bytes/crc.js";
import { BadDataError, isAboutContent, RolledBack } from "../errors.js";
import type { LogConnection } from "../connection.js";
import { inflatedText, type Position, Restarts, type Text } from "../bytes/reading.js";
import type { SeenFile } from "../scripts/index.js";

/** A chunk as its shipper recorded it. */
interface Descriptor {
  readonly ordinal: number;
  readonly part: string;
  readonly size: number;
  readonly text: number;
  readonly crc: number;
  readonly storedAt: number;
  readonly textAt: number;
}

/** A fetched chunk. Framed content is already inflated to text. */
interface Fetched {
  readonly descriptor: Descriptor;
  readonly bytes: Buffer;
}

/** A quarter of the largest chunk: no shipper frames more text in one chunk. */
const mostTextBytes = 2_097_152;

const inflate = promisify(gunzip) as (bytes: Buffer, options: object) => Promise<Buffer>;
/** A reader waits for these fetches, so there should be few of them. */
const descriptorsAtOnce = 256;

/** Bytes of the prefetch budget that a chunk uses. A framed chunk is held as text. */
const heldBytes = ({ size, text }: Descriptor): number => Math.max(size, text);

/** The access of a download to the channel. */
export interface DownloadSource {
  readonly connection: LogConnection;
  readonly signal: AbortSignal;
  /** Resolves with the file's current state when it has more chunks than `known`, or is sealed. */
  grown(file: SeenFile, known: number): Promise<SeenFile>;
  /** Throws the reason why the file's data may be missing, if it is not damage. */
  explainMissing(file: SeenFile): Promise<void>;
}

/** Fetches a file's chunks ahead of its reader, in order, and checks them. */
export class Download {
  readonly #source: DownloadSource;
  readonly #prefetchBytes: number | undefined;
  #file: SeenFile;
  readonly #fetching: { readonly size: number; readonly fetched: Promise<Fetched> }[] = [];
  #ahead: Descriptor[] = [];
  #aheadBytes = 0;
  #next: number;
  /** The last chunk whose descriptor was read. */
  #last: Descriptor | undefined;
  /** Chunks that positions may still need, in order. */
  readonly #places: Descriptor[] = [];

  constructor(source: DownloadSource, prefetchBytes: number | undefined, file: SeenFile) {
    this.#source = source;
    this.#prefetchBytes = prefetchBytes;
    this.#file = file;
    this.#next = file.chunk;
  }

  get file(): SeenFile {
    return this.#file;
  }

  /** The chunk in which reading from `stored` starts. Undefined if none was read. `stored` must ascend from call to call. */
  placeOf(stored: number): { readonly ordinal: number; readonly part: string } | undefined {
    while (this.#places.length > 1 && this.#places[1]!.storedAt <= stored) this.#places.shift();
    return this.#places[0];
  }

  /** The reason why reading failed. After a failover the data may no longer be a chunk of the file. */
  async explained(error: unknown): Promise<unknown> {
    if (!isAboutContent(error)) return error;
    try {
      await this.#described([]);
    } catch (found) {
      return found;
    }
    return error;
  }

  /** The file's text after a position. */
  text(position: Position): Text {
    if (this.#file.codec === "member") {
      const from = async function* (this: Download): AsyncGenerator<Buffer, void, undefined> {
        for await (const { descriptor, bytes } of this.#chunks())
          if (descriptor.storedAt + bytes.length > position.stored)
            yield bytes.subarray(Math.max(0, position.stored - descriptor.storedAt));
      };
      return inflatedText(() => from.call(this), position, this.#file.name);
    }
    const restarts = new Restarts(false);
    const blocks = async function* (this: Download): AsyncGenerator<Buffer, void, undefined> {
      for await (const { descriptor, bytes } of this.#chunks()) {
        restarts.note(descriptor.storedAt, descriptor.textAt);
        const done = Math.max(0, position.offset - descriptor.textAt);
        if (done < bytes.length) yield done > 0 ? bytes.subarray(done) : bytes;
      }
    };
    return { restarts, blocks: blocks.call(this) };
  }

  async *#chunks(): AsyncGenerator<Fetched, void, undefined> {
    for (;;) {
      await this.#fill();
      const first = this.#fetching.shift();
      if (!first) return;
      const fetched = await first.fetched;
      this.#aheadBytes -= first.size;
      this.#places.push(fetched.descriptor);
      yield fetched;
    }
  }

  /** Starts to fetch as much as the budget allows. If there is nothing to fetch, waits for the file to grow. */
  async #fill(): Promise<void> {
    const prefetchBytes = this.#prefetchBytes ?? (this.#file.codec === "gzip" ? 2_097_152 : 1_048_576);
    for (;;) {
      if (this.#ahead.length === 0 && this.#next < this.#file.chunks) await this.#describe();
      if (this.#ahead.length > 0) {
        // Two small chunks by one call: a call costs as much as copying a chunk.
        const sum = this.#ahead.slice(0, 2).reduce((bytes, descriptor) => bytes + heldBytes(descriptor), 0);
        const isPair = sum <= prefetchBytes / 4;
        const size = isPair ? sum : heldBytes(this.#ahead[0]!);
        if (this.#fetching.length > 0 && this.#aheadBytes + size > prefetchBytes) return;
        const some = this.#ahead.splice(0, isPair ? 2 : 1);
        this.#aheadBytes += size;
        const keys = some.map(({ part }) => this.#source.connection.keys.chunk(part));
        const stored = this.#read("MGET", keys, true) as Promise<(Buffer | null)[]>;
        for (const [index, descriptor] of some.entries()) {
          const fetched = this.#fetch(descriptor, stored, index);
          // It is awaited later: until then a rejection must not count as unhandled.
          fetched.catch(() => undefined);
          this.#fetching.push({ size: heldBytes(descriptor), fetched });
        }
      } else if (this.#fetching.length > 0 || (this.#file.isSealed && this.#next >= this.#file.chunks)) return;
      else this.#file = await this.#source.grown(this.#file, this.#next);
    }
  }

  async #describe(): Promise<void> {
    const last = Math.min(this.#file.chunks, this.#next + descriptorsAtOnce);
    const ordinals = Array.from({ length: last - this.#next }, (_, index) => this.#next + index);
    const entries = await this.#described(ordinals);
    for (const [index, ordinal] of ordinals.entries()) {
      const entry = entries[index];
      if (entry === null || entry === undefined) {
        if (index === 0) throw await this.#missing(ordinal, 0);
        break;
      }
      const [part = "", ...numbers] = entry.split(" ");
      const [size = 0, text = 0, crc = 0, , storedAt = 0, textAt = 0] = numbers.map(Number);
      this.#last = { ordinal, part, size, text, crc, storedAt, textAt };
      this.#ahead.push(this.#last);
      this.#next = ordinal + 1;
    }
  }

  /**
   * The descriptors of some chunks. Throws if the last descriptor before them has changed: a failover lost it, and the following chunks
   * were shipped again.
   */
  async #described(ordinals: readonly number[]): Promise<(string | null)[]> {
    const before = this.#last;
    const fields = [...(before ? [before.ordinal] : []), ...ordinals].map(
      (ordinal) => `${String(this.#file.id)} ${String(ordinal)}`,
    );
    if (fields.length === 0) return [];
    const entries = (await this.#read("HMGET", [this.#source.connection.keys.chunks, ...fields], false)) as (
      string | null
    )[];
    if (before && entries.shift()?.split(" ", 1)[0] !== before.part) {
      await this.#source.explainMissing(this.#file);
      throw new RolledBack(this.#file.name);
    }
    return entries;
  }

  async #fetch(descriptor: Descriptor, reply: Promise<(Buffer | null)[]>, index: number): Promise<Fetched> {
    const { ordinal, size, text, crc, storedAt } = descriptor;
    const stored = (await reply)[index];
    if (!stored) throw await this.#missing(ordinal, storedAt);
    const bad = (reason: string): BadDataError =>
      new BadDataError(reason, { file: this.#file.name, chunk: ordinal, offset: storedAt });
    if (stored.length !== size || crc32(stored) !== crc)
      throw bad("A chunk in Redis is damaged: it differs from the shipped bytes");
    if (this.#file.codec !== "gzip") {
      noteCrc(stored, crc);
      return { descriptor, bytes: stored };
    }
    if (!(text <= mostTextBytes)) throw bad("A chunk in Redis is damaged: its text size is too large");
    const bytes = await inflate(stored, { chunkSize: Math.max(text, 64), maxOutputLength: Math.max(text, 1) }).catch(
      () => undefined,
    );
    if (bytes?.length !== text) throw bad("A chunk in Redis is damaged: it does not decompress to the shipped text");
    // zlib has compared the text with the CRC at the end of the member.
    noteCrc(bytes, stored.readUInt32LE(size - 8));
    return { descriptor, bytes };
  }

  async #missing(ordinal: number, offset: number): Promise<unknown> {
    try {
      await this.#source.explainMissing(this.#file);
    } catch (error) {
      return error;
    }
    return new BadDataError("A chunk is missing in Redis: the server evicted it, or somebody deleted it", {
      file: this.#file.name,
      chunk: ordinal,
      offset,
    });
  }

  async #read(command: string, args: readonly string[], bytes: boolean): Promise<unknown> {
    const { connection, signal } = this.#source;
    return await connection.persist(() => connection.read(command, args, { signal, bytes }), signal);
  }
}
