import { createHash } from "node:crypto";
import type { BigIntStats } from "node:fs";
import { type FileHandle, open, readdir, stat } from "node:fs/promises";
import { join } from "node:path";
import { LogshipError } from "./errors.js";
import { inflateMembers } from "./gzip.js";

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
  /** Size and time of the last change: a file with another stamp is read again. */
  readonly stamp: string;
}

/** The default size of a chunk: a plain chunk needs no copying. Small files are read at once. */
const firstReadBytes = 131_060;
/** Four chunks: reading each alone takes as long as computing its checksums. */
const readBytes = 4 * firstReadBytes;
/** How many of the first text bytes distinguish a file from another one in the same inode. */
const prefixBytes = 1_024;
const lineFeed = 10;
const collator = new Intl.Collator("en", { numeric: true });

/** Like `test()`, which with a global expression would begin where the match in the previous name ended. */
export const matches = (expression: RegExp, name: string): boolean => name.search(expression) >= 0;

export const isMissing = (error: unknown): boolean =>
  ["ENOENT", "ENOTDIR", "ELOOP"].includes(String((error as { code?: unknown } | null)?.code));

const factsOf = ({ dev, ino, size, mtimeNs }: BigIntStats): Omit<LocalFile, "path" | "name"> => {
  const id = `${dev.toString(36)}-${ino.toString(36)}`;
  const stamp = `${String(size)}-${mtimeNs.toString(36)}`;
  return { id, size: Number(size), mtimeMs: Number(mtimeNs) / 1e6, stamp };
};

/** The facts of one path. */
export const localFile = async (path: string, name: string): Promise<LocalFile> => ({
  path,
  name,
  ...factsOf(await stat(path, { bigint: true })),
});

/** The regular files of a directory whose names match, in order. Files that vanish meanwhile are left out. */
export const listFiles = async (
  directory: string,
  match: RegExp | undefined,
  order: FileOrder,
): Promise<LocalFile[]> => {
  const entries = await readdir(directory, { withFileTypes: true });
  const names = entries
    .filter(
      (entry) => (entry.isFile() || entry.isSymbolicLink()) && (match === undefined || matches(match, entry.name)),
    )
    .map((entry) => entry.name);
  const files: LocalFile[] = [];
  const byId = new Set<string>();
  for (let from = 0; from < names.length; from += 64) {
    const some = names.slice(from, from + 64).map(async (name) => {
      const path = join(directory, name);
      const stats = await stat(path, { bigint: true }).catch((error: unknown) => {
        if (!isMissing(error)) throw error;
      });
      // A symbolic link may lead to a directory.
      if (stats?.isFile()) files.push({ path, name, ...factsOf(stats) });
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

/** An open file, read at any offset. The handle stays valid when the file is renamed or deleted. */
export class OpenFile {
  readonly #handle: FileHandle;
  readonly isGzip: boolean;

  private constructor(handle: FileHandle, isGzip: boolean) {
    this.#handle = handle;
    this.isGzip = isGzip;
  }

  /** Resolves with undefined if the file is gone, or if another one has its name. */
  static async open(file: LocalFile): Promise<OpenFile | undefined> {
    const handle = await open(file.path).catch((error: unknown) => {
      if (!isMissing(error)) throw error;
    });
    if (!handle) return undefined;
    try {
      if (factsOf(await handle.stat({ bigint: true })).id === file.id) {
        const { buffer, bytesRead } = await handle.read(Buffer.alloc(3), 0, 3, 0);
        // By its content, since a name proves nothing. The third byte is deflate, the only method there is.
        return new OpenFile(handle, bytesRead === 3 && buffer.readUIntBE(0, 3) === 0x1f8b08);
      }
    } catch (error) {
      await handle.close();
      throw error;
    }
    await handle.close();
    return undefined;
  }

  /** Its size and stamp now. */
  async now(): Promise<Pick<LocalFile, "size" | "stamp">> {
    return factsOf(await this.#handle.stat({ bigint: true }));
  }

  /** The bytes from `from` to the current end of the file. */
  async *read(from: number): AsyncGenerator<Buffer, void, undefined> {
    for (let [at, size] = [from, firstReadBytes]; ; size = readBytes) {
      const { buffer, bytesRead } = await this.#handle.read(Buffer.allocUnsafe(size), 0, size, at);
      if (bytesRead === 0) return;
      at += bytesRead;
      yield buffer.subarray(0, bytesRead);
    }
  }

  /**
   * Length and hash of the first text bytes, 1 KiB at most; and whether the file still begins with an earlier prefix, which may be shorter, since
   * files grow.
   *
   * @throws {BadDataError} it is gzip, and damaged at its beginning.
   */
  async identify(recorded: string): Promise<{ readonly prefix: string; readonly isSame: boolean }> {
    const head = await this.#head();
    const isSame = prefixOf(head.subarray(0, Number.parseInt(recorded, 10) || 0)) === recorded;
    return { prefix: prefixOf(head), isSame };
  }

  /** The prefixes that the file may be known by: the current one, and those from when it had fewer lines. */
  async prefixes(): Promise<string[]> {
    const head = await this.#head();
    const prefixes = [prefixOf(head)];
    for (let end = head.length - 1; end > 0; end--)
      if (head[end - 1] === lineFeed) prefixes.push(prefixOf(head.subarray(0, end)));
    return prefixes;
  }

  async #head(): Promise<Buffer> {
    const parts: Buffer[] = [];
    let length = 0;
    const blocks = this.isGzip ? inflateMembers(this.read(0), {}, () => undefined) : this.read(0);
    for await (const block of blocks) {
      parts.push(block.subarray(0, prefixBytes - length));
      length += parts.at(-1)!.length;
      if (length >= prefixBytes) break;
    }
    return Buffer.concat(parts);
  }

  async close(): Promise<void> {
    await this.#handle.close();
  }
}

/** Length and hash of the first bytes of a file. */
export const prefixOf = (head: Buffer): string =>
  `${String(head.length)}-${createHash("sha256").update(head).digest("hex").slice(0, 24)}`;

export const changedError = (file: string): LogshipError =>
  new LogshipError(
    "KIT_LOGSHIP_CHANGED",
    `File ${JSON.stringify(file)} is not what it was: truncated, or written over`,
    {
      file,
    },
  );
