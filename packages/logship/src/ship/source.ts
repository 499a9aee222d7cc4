import { readGzip } from "../bytes/gzip.js";
import type { LocalFile, OpenFile } from "../bytes/files.js";
import type { Codec } from "../scripts/index.js";

/** Any source of bytes or text: a Node or web stream, or a generator. Text is sent as UTF-8. */
export type ByteSource = AsyncIterable<Uint8Array | string> | ReadableStream<Uint8Array | string>;

/** One source, and how to read it from its start. */
export interface Source {
  readonly id: string;
  readonly name: string;
  readonly codec: Codec;
  readonly totalBytes: number | undefined;
  read(): AsyncIterable<Uint8Array | string>;
  /** Whether `read` can be called again. */
  readonly isRepeatable: boolean;
  /** Whether its call has opened another source before: then the call waits out an outage even for the first command. */
  readonly isFurther?: boolean;
  /** Whether it has no identity, so that a later call cannot continue it. */
  readonly isNameless?: boolean;
  /** The gzip file, if it is inflated. */
  readonly gzip?: OpenFile;
  /** Bytes of the source that have been read; only if the shipped text differs because the source is inflated. */
  readonly at?: () => number;
}

/** A local file as a source. It is inflated, unless its bytes are passed through. */
export const fileSource = (file: LocalFile, opened: OpenFile, id: string, wanted: Codec): Source => {
  if (wanted === "member" && !opened.isGzip) throw new TypeError("Expected `passThrough` only for a gzip file");
  let read = 0;
  async function* counted(): AsyncGenerator<Buffer, void, undefined> {
    read = 0;
    for await (const block of opened.read(0)) {
      read += block.length;
      yield block;
    }
  }
  const isInflated = opened.isGzip && wanted !== "member";
  return {
    id,
    name: file.name,
    codec: wanted,
    totalBytes: file.size,
    read: isInflated ? () => readGzip(counted(), { file: file.name }) : counted,
    isRepeatable: true,
    ...(isInflated && { at: () => read, gzip: opened }),
  };
};

/** The bytes of one value of a source, in the same memory if possible. */
export const bytesOf = (given: Uint8Array | string): Buffer =>
  typeof given === "string" ? utf8Of(given) : Buffer.from(given.buffer, given.byteOffset, given.byteLength);

const utf8Of = (text: string): Buffer => {
  // Node 20 has this method, but the type library does not.
  if (!(text as unknown as { isWellFormed(): boolean }).isWellFormed())
    throw new TypeError("Expected `source` to be well-formed Unicode");
  return Buffer.from(text);
};
