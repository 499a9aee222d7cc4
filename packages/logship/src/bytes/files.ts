import { createHash } from "node:crypto";
import { type BigIntStats, constants } from "node:fs";
import { type FileHandle, lstat, open, readdir, realpath, stat } from "node:fs/promises";
import { join, sep } from "node:path";
import { crc32 } from "node:zlib";
import { crcOf } from "./crc.js";
import { BadDataError, isAboutContent, LogshipError } from "../errors.js";
import { inflateMembers } from "./gzip.js";
import { textEnd } from "./lines.js";
import type { Position } from "./position.js";

/** The order of files: by number within names (`log.2` before `log.10`), by time of change, oldest first, or by a comparison. */
export type FileOrder = "natural" | "mtime" | ((one: LocalFile, other: LocalFile) => number);

/** A file of a directory. */
export interface LocalFile {
  readonly path: string;
  readonly name: string;
  /** Device and inode: the same after a rename. */
  readonly id: string;
  readonly size: number;
  readonly mtimeMs: number;
  /** Size, time of the last change and time of creation. A file with another stamp is read again. */
  readonly stamp: string;
  /** Whether a directory listed the path as a link, or the caller named the path. Otherwise, opening the file does not follow a link. */
  readonly mayBeLink: boolean;
}

type Facts = Omit<LocalFile, "path" | "name" | "mayBeLink">;

/** The default size of a chunk, so that a plain chunk needs no copying. A small file is read in one step. */
const firstReadBytes = 131_060;
/** Four chunks: reading each separately takes as long as computing its checksums. */
const readBytes = 4 * firstReadBytes;
/**
 * The number of first text bytes that distinguish a file from another one in the same inode, and that find the contents to compare. Enough
 * for a header of a few hundred columns, and no more than a copy has once its first page is written. Scripts know this number and the next.
 */
export const headBytes = 4_096;
/** Before this byte, each line ends a beginning. After it, only lines number 1, 2, 4, 8, … do. */
const nearBytes = 1_024;
/** The number of last counted bytes that a record describes. */
const tailMost = 1_024;

/** The number of first bytes that show how a content is compressed. */
export const magicBytes = 8;
/** Each read repeats this many bytes of the previous read. */
const overlapBytes = 256;
const noBytes: Buffer = Buffer.alloc(0);
const lineFeed = 10;
const collator = new Intl.Collator("en", { numeric: true });

/** `test()` of a global expression would start where the match in the previous name ended. */
export const matches = (expression: RegExp, name: string): boolean => name.search(expression) >= 0;

/** Whether there is no file at the path, or no longer. ELOOP: a link has replaced the file. ENXIO: a socket has. */
export const isMissing = (error: unknown): boolean =>
  ["ENOENT", "ENOTDIR", "ELOOP", "ENXIO"].includes(String((error as { code?: unknown } | null)?.code));

const unlessMissing = (error: unknown): undefined => {
  if (!isMissing(error)) throw error;
};

const factsOf = ({ dev, ino, size, mtimeNs, birthtimeNs }: BigIntStats): Facts => {
  const id = `${dev.toString(36)}-${ino.toString(36)}`;
  const stamp = `${String(size)}-${mtimeNs.toString(36)}-${birthtimeNs.toString(36)}`;
  return { id, size: Number(size), mtimeMs: Number(mtimeNs) / 1e6, stamp };
};

/** The creation time of a stamp's inode. A later inode with the same number is another file. */
export const bornOf = (stamp: string): string | undefined => stamp.split(/[- ]/)[2];

/** The facts of one path. */
export const localFile = async (path: string, name: string): Promise<LocalFile> => ({
  path,
  name,
  mayBeLink: true,
  ...factsOf(await stat(path, { bigint: true })),
});

/** A link in a directory that was left out, because it leads out of the directory. */
export interface SkippedLink {
  /** The link's name. */
  readonly file: string;
  /** The file that the link leads to, without links. */
  readonly target: string;
}

/**
 * The regular files of a directory whose names match, in order. Files that vanish meanwhile are left out. With `onSkipped`, links to files
 * outside the directory are left out as well, and passed to it.
 */
export const listFiles = async (
  directory: string,
  match: RegExp | undefined,
  order: FileOrder,
  onSkipped?: (link: SkippedLink) => void,
): Promise<LocalFile[]> => {
  const entries = await readdir(directory, { withFileTypes: true });
  const matching = entries.filter(
    (entry) => (entry.isFile() || entry.isSymbolicLink()) && (match === undefined || matches(match, entry.name)),
  );
  const inside = join(await realpath(directory), sep);
  const files: LocalFile[] = [];
  const byId = new Set<string>();
  for (let from = 0; from < matching.length; from += 64) {
    const some = matching.slice(from, from + 64).map(async (entry) => {
      const { name } = entry;
      const path = join(directory, name);
      const isLink = entry.isSymbolicLink();
      const target = isLink ? await realpath(path).catch(unlessMissing) : path;
      // A link may lead to a directory. No further link is followed: it may have been put there since.
      const stats = target === undefined ? undefined : await lstat(target, { bigint: true }).catch(unlessMissing);
      if (target === undefined || !stats?.isFile()) return;
      if (onSkipped && isLink && !target.startsWith(inside)) onSkipped({ file: name, target });
      else files.push({ path, name, mayBeLink: isLink, ...factsOf(stats) });
    });
    await Promise.all(some);
  }
  const sorted = files.sort(compareBy(order));
  // Two names of one inode are one file.
  return sorted.filter(({ id }) => !byId.has(id) && byId.add(id));
};

const compareBy = (order: FileOrder): ((one: LocalFile, other: LocalFile) => number) => {
  const byName = (one: LocalFile, other: LocalFile): number => collator.compare(one.name, other.name);
  if (order === "natural") return byName;
  if (order === "mtime") return (one, other) => one.mtimeMs - other.mtimeMs || byName(one, other);
  return order;
};

/** The first bytes of compressed formats that kit cannot read. */
const containers: Readonly<Record<string, string>> = {
  "28b52ffd": "zstd",
  fd377a585a00: "xz",
  "425a68": "bzip2",
  "504b0304": "zip",
  "04224d18": "lz4",
  "1f9d": "compress",
  "377abcaf271c": "7z",
  "5d0000": "lzma",
  "4c5a495001": "lzip",
  "526172211a07": "rar",
};

/** How the text of a file starts now. */
export interface Identity {
  /** The longest of the beginnings. A record that ends like this has no information about counted text. */
  readonly prefix: string;
  /**
   * Length and hash of each beginning, the longest first: the first 4 KiB (or whole lines if the file has less), and fewer lines, down to
   * the first one.
   */
  readonly beginnings: readonly string[];
  /** Whether it is the text that the record describes, including all its counted text. */
  readonly isSame: boolean;
  /** Whether it starts differently from the record. */
  readonly isReplaced: boolean;
}

/** An open file, read at any offset. The handle stays valid when the file is renamed or deleted. */
export class OpenFile {
  readonly #handle: FileHandle;
  readonly #name: string;
  /** The first byte that is not read: from here, the bytes were written after the file was identified. */
  readonly #limit: number;
  /** The first text bytes at the time of identification. */
  #beginning: Buffer = noBytes;
  /** The last bytes that were read, and where they end. */
  #last: Buffer = noBytes;
  #lastEnd = 0;
  /** Its size and stamp when it was opened. */
  readonly was: Pick<LocalFile, "size" | "stamp">;
  readonly isGzip: boolean;
  /** The name of a container that kit cannot read. Undefined if the content is plain or gzip. */
  readonly container: string | undefined;

  private constructor(
    handle: FileHandle,
    name: string,
    magic: string,
    was: Pick<LocalFile, "size" | "stamp">,
    isLimited: boolean,
  ) {
    this.#handle = handle;
    this.#name = name;
    this.was = was;
    // By its content, since a name proves nothing. The third byte is deflate, the only method there is.
    this.isGzip = magic.startsWith("1f8b08");
    this.#limit = isLimited && !this.isGzip ? was.size : Infinity;
    // One of the sixteen kinds of skippable frames may come before those of zstd.
    const start = magic.replace(/^5.2a4d18/, "28b52ffd");
    const known = Object.keys(containers).find((one) => start.startsWith(one));
    // A text can start with the same three letters. In bzip2, the size of a block and pi follow.
    this.container = known === "425a68" && !/^\d{2}314159/.test(magic.slice(6)) ? undefined : containers[known ?? ""];
  }

  /**
   * Resolves with undefined if the file no longer exists, or if another one has its name. With `isLimited`, a plain file is read only up to
   * its current end.
   */
  static async open(file: LocalFile, isLimited = false): Promise<OpenFile | undefined> {
    // Opening a pipe would wait for a writer, and hold a thread of the pool until then.
    const follow = file.mayBeLink ? 0 : constants.O_NOFOLLOW;
    const handle = await open(file.path, constants.O_RDONLY | constants.O_NONBLOCK | follow).catch(unlessMissing);
    if (!handle) return undefined;
    try {
      const was = factsOf(await handle.stat({ bigint: true }));
      if (was.id === file.id && bornOf(was.stamp) === bornOf(file.stamp)) {
        const { buffer, bytesRead } = await handle.read(Buffer.alloc(magicBytes), 0, magicBytes, 0);
        return new OpenFile(handle, file.name, buffer.toString("hex", 0, bytesRead), was, isLimited);
      }
    } catch (error) {
      await handle.close();
      throw error;
    }
    await handle.close();
    return undefined;
  }

  /** Its facts now. */
  async now(): Promise<Facts> {
    return factsOf(await this.#handle.stat({ bigint: true }));
  }

  /**
   * The bytes from `from` to the current end of the file. Each read repeats the last bytes of the previous read: while they are the same,
   * the text was not replaced.
   *
   * @throws {LogshipError} `KIT_LOGSHIP_CHANGED`: the text was replaced, or the file has a limit and has become shorter than the limit.
   */
  async *read(from: number): AsyncGenerator<Buffer, void, undefined> {
    for (let [at, size] = [from, firstReadBytes]; ; size = readBytes) {
      const last = this.#lastEnd === at ? this.#last : noBytes;
      const most = last.length + Math.min(size, this.#limit - at);
      if (most <= last.length) return;
      const { buffer, bytesRead } = await this.#handle.read(Buffer.allocUnsafe(most), 0, most, at - last.length);
      const block = buffer.subarray(last.length, Math.max(bytesRead, last.length));
      if (bytesRead < last.length || !buffer.subarray(0, last.length).equals(last)) throw changedError(this.#name);
      if (block.length === 0) return this.#limit < Infinity ? await this.#expectSize(at) : undefined;
      const known = this.isGzip ? noBytes : this.#beginning.subarray(at, at + block.length);
      if (!block.subarray(0, known.length).equals(known)) throw changedError(this.#name);
      // No earlier read overlaps this block, so compare the head: a new text would have another one.
      if (last.length === 0 && at > 0) await this.#expectBeginning();
      at += block.length;
      this.#remember(buffer.subarray(0, bytesRead), at);
      yield block;
    }
  }

  /** Rejects a file that was cut: a record of the rest would not describe the text that is written and counted after the cut. */
  async #expectSize(end: number): Promise<void> {
    if (end < this.was.size && (await this.now()).stamp !== this.was.stamp) throw changedError(this.#name);
  }

  async #expectBeginning(): Promise<void> {
    const { length } = this.#beginning;
    if (this.isGzip || length === 0) return;
    const { buffer, bytesRead } = await this.#handle.read(Buffer.alloc(length), 0, length, 0);
    if (bytesRead < length || !buffer.equals(this.#beginning)) throw changedError(this.#name);
  }

  /** Zeros at the end may be space that is reserved for later lines, so they may change. */
  #remember(bytes: Buffer, end: number): void {
    const last = bytes.subarray(Math.max(0, bytes.length - overlapBytes));
    [this.#last, this.#lastEnd] = [textEnd(last) < last.length ? noBytes : Buffer.from(last), end];
  }

  /**
   * The text. Gzip content is inflated.
   *
   * @throws {BadDataError} the content is compressed in another way.
   */
  text(): AsyncIterable<Buffer> {
    if (this.container !== undefined)
      throw new BadDataError(`logship cannot read ${this.container} content. Decompress the file first`, {
        file: this.#name,
        offset: 0,
      });
    return this.isGzip ? inflateMembers(this.read(0), { file: this.#name }, () => undefined) : this.read(0);
  }

  /** Whether this gzip file inflates to `length` bytes. */
  async inflatesTo(length: number, signal: AbortSignal): Promise<boolean> {
    const { buffer } = await this.#handle.read(Buffer.alloc(4), 0, 4, this.was.size - 4);
    // The file ends with the length of its last member, which is usually the only one.
    return buffer.readUInt32LE() === length >>> 0 || (await crcsOf(this.text(), [length + 1], signal)).end === length;
  }

  /**
   * Computes how the text starts, and whether a record describes this text: its beginning, and the last counted bytes. A record without
   * counted bytes describes no text.
   *
   * @throws {BadDataError} the content is damaged at its start, or compressed in an unsupported way.
   * @throws {LogshipError} `KIT_LOGSHIP_CHANGED`: the file was truncated after it was opened.
   */
  async identify(recorded: string): Promise<Identity> {
    const head = await this.#head();
    this.#beginning = head;
    const beginnings = beginningsOf(head);
    const [length, hash, counted = ""] = recorded.split("-");
    const [stored = 0, tailBytes = 0, tailCrc = 0] = counted.split(".").map(Number);
    const known = head.subarray(0, Number(length));
    const isReplaced = Number(length) > 0 && prefixOf(known) !== `${String(length)}-${String(hash)}`;
    const isSame = counted !== "" && !isReplaced && (await this.#endsLike(stored, tailBytes, tailCrc));
    return { prefix: `${beginnings[0]!}-`, beginnings, isSame, isReplaced };
  }

  /** Whether the file has `stored` bytes, and the last of them match the record. Anything can write a record. */
  async #endsLike(stored: number, tailBytes: number, tailCrc: number): Promise<boolean> {
    const isRecord = [stored, tailBytes].every(Number.isSafeInteger) && tailBytes >= 0 && tailBytes <= tailMost;
    if (!isRecord || stored < tailBytes || this.was.size < stored) return false;
    const { buffer, bytesRead } = await this.#handle.read(Buffer.alloc(tailBytes), 0, tailBytes, stored - tailBytes);
    if (bytesRead < tailBytes || crc32(buffer) !== tailCrc) return false;
    if (tailBytes > 0) this.#remember(buffer, stored);
    return true;
  }

  /**
   * Whether another plain file has the last bytes of this file in the same place. A copy of a file always does. `unlessPlain` is the answer
   * if one of the two is compressed.
   */
  async isWithin(other: LocalFile, unlessPlain = false): Promise<boolean> {
    const { size } = this.was;
    const length = Math.min(size, overlapBytes);
    const { buffer } = await this.#handle.read(Buffer.alloc(length), 0, length, size - length);
    const opened = await OpenFile.open(other);
    try {
      if (this.isGzip || opened?.isGzip) return unlessPlain;
      return opened !== undefined && (await opened.#endsLike(size, length, crc32(buffer)));
    } finally {
      await opened?.close();
    }
  }

  /** The record of a file that is counted up to a position, for `identify` to compare. */
  recordOf({ offset, stored }: Pick<Position, "offset" | "stored">, tail: Buffer = noBytes): string {
    const head = this.#beginning.subarray(0, offset);
    const last = this.isGzip ? noBytes : tail.subarray(Math.max(0, tail.length - tailMost));
    return `${prefixOf(head.subarray(0, endsOf(head).at(-1)))}-${String(stored)}.${String(last.length)}.${String(crc32(last))}`;
  }

  async #head(): Promise<Buffer> {
    const parts: Buffer[] = [];
    let length = 0;
    for await (const block of this.text()) {
      parts.push(block.subarray(0, headBytes - length));
      length += parts.at(-1)!.length;
      if (length >= headBytes) break;
    }
    const head = Buffer.concat(parts);
    if (!this.isGzip && length < headBytes) await this.#expectSize(length);
    // Zeros behind the text are space that is reserved for more of it.
    return head.subarray(0, textEnd(head) || head.length);
  }

  async close(): Promise<void> {
    await this.#handle.close();
  }
}

/** Length and hash of a file's first bytes. */
const prefixOf = (head: Buffer): string =>
  `${String(head.length)}-${createHash("sha256").update(head).digest("hex").slice(0, 24)}`;

/**
 * Where the beginnings of a head end: none depends on the text after it. Each is a whole number of lines, the first KiB, or all 4 KiB. If
 * there is no such beginning, the head is one.
 */
const endsOf = (head: Buffer): number[] => {
  const ends: number[] = [];
  let [far, next] = [0, 1];
  for (let end = 1; end <= head.length; end++) {
    const isLine = head[end - 1] === lineFeed;
    const isNext = isLine && end > nearBytes && ++far === next;
    if (isNext) next *= 2;
    if (isNext || (isLine && end < nearBytes) || end === nearBytes || end === headBytes) ends.push(end);
  }
  return ends.length > 0 ? ends : [head.length];
};

/** The prefixes of a head's beginnings, the longest first. */
const beginningsOf = (head: Buffer): string[] =>
  endsOf(head)
    .reverse()
    .map((end) => prefixOf(head.subarray(0, end)));

/** A content that was counted or shipped up to `offset`, in text bytes, and its CRC-32. */
export interface Known {
  readonly offset: number;
  readonly crc: number;
}

/**
 * The CRC-32 of a text's beginnings of these lengths, as far as the text reaches. `end` is the text's length if it is shorter than the
 * longest.
 */
const crcsOf = async (
  text: AsyncIterable<Buffer>,
  lengths: readonly number[],
  signal: AbortSignal,
): Promise<{ readonly crcs: ReadonlyMap<number, number>; readonly end: number | undefined }> => {
  const ends = [...lengths].sort((one, other) => one - other);
  const crcs = new Map([[0, 0]]);
  let [at, crc] = [0, 0];
  for await (const block of text) {
    signal.throwIfAborted();
    let from = 0;
    for (let end = ends[0]; end !== undefined && end <= at + block.length; [end] = ends) {
      crc = crcOf(block.subarray(from, (from = end - at)), crc);
      crcs.set(end, crc);
      ends.shift();
    }
    if (ends.length === 0) return { crcs, end: undefined };
    crc = crcOf(block.subarray(from), crc);
    at += block.length;
  }
  return { crcs: crcs.set(at, crc), end: at };
};

/** A known content, and another existing file that had it last. */
interface Candidate extends Known {
  readonly other: LocalFile | undefined;
}

/**
 * Finds the longest of some contents that the text starts with, if no other file has it, and whether the text has more. `held` is the
 * longest one, if another file has it. A file and its compressed form, as `gzip` names it, have one content.
 */
export const twinOf = async <T extends Candidate>(
  file: LocalFile,
  text: AsyncIterable<Buffer>,
  known: readonly T[],
  signal: AbortSignal,
): Promise<{
  twin?: T;
  hasMore: boolean;
  held?: T | undefined;
  crcs: ReadonlyMap<number, number>;
  end?: number | undefined;
}> => {
  const lengths = known.flatMap(({ offset }) => [offset, offset + 1]);
  const { crcs, end } = await crcsOf(text, lengths, signal);
  let held: T | undefined;
  const matching = known.filter(({ offset, crc, other }) => crcs.get(offset) === crc && (offset > 0 || !other));
  for (const twin of matching.sort((one, next) => next.offset - one.offset)) {
    const { offset, other } = twin;
    // The start of a text that another file has.
    if (held && offset < held.offset) break;
    if (!other || isPair(file, other) || !(await hasContent(other, twin, signal)))
      return { twin, hasMore: crcs.has(offset + 1), held, crcs, end };
    held ??= twin;
  }
  return { hasMore: false, held, crcs, end };
};

/** Whether one of two files is named as the compressed form of the other: `gzip` has not removed the other yet, or keeps it. */
export const isPair = ({ name }: LocalFile, { name: other }: LocalFile): boolean =>
  `${name}.gz` === other || `${other}.gz` === name;

/**
 * A longer content with the same beginning of a KiB or more that no file has any more. A text that ends at `end` may be an earlier state of
 * it. No checksum distinguishes that from a new text with the same beginning.
 */
export const longerOf = <T extends Candidate & { readonly isLike: boolean }>(
  known: readonly T[],
  end: number | undefined,
): T | undefined =>
  end !== undefined && end >= nearBytes
    ? known.find(({ offset, other, isLike }) => isLike && offset > end && !other)
    : undefined;

/** Whether a file exists, and starts with a content. */
export const hasContent = async (file: LocalFile, { offset, crc }: Known, signal: AbortSignal): Promise<boolean> => {
  const opened = await OpenFile.open(file);
  try {
    return opened !== undefined && (await crcsOf(opened.text(), [offset], signal)).crcs.get(offset) === crc;
  } catch (error) {
    // It is being written, or damaged.
    if (isAboutContent(error)) return false;
    throw error;
  } finally {
    await opened?.close();
  }
};

/** `rest` is the end of the message. */
export const changedError = (file: string, rest = ""): LogshipError =>
  new LogshipError(
    "KIT_LOGSHIP_CHANGED",
    `File ${JSON.stringify(file)} changed after part of it was processed or shipped${rest}`,
    { file },
  );
