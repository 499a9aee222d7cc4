import { type FSWatcher, watch } from "node:fs";
import { basename, dirname } from "node:path";
import { Deadline, inTime } from "@kit/core/toolkit";
import {
  changedError,
  isMissing,
  listFiles,
  type LocalFile,
  localFile,
  magicBytes,
  matches,
  OpenFile,
  type SkippedLink,
} from "../bytes/files.js";
import { textEnd } from "../bytes/lines.js";

/** File system events may be lost, and none arrive from the directory that a symbolic link leads to. */
const lookEveryMs = 500;

/** Reports possible changes in a directory: at a file system event, and at least every half second. */
class DirectoryWatch {
  #watcher: FSWatcher | undefined;
  #changes = 0;
  #wake: () => void = () => undefined;

  constructor(directory: string) {
    try {
      this.#watcher = watch(directory, { persistent: false }, () => {
        this.#changes++;
        this.#wake();
      });
      // After that it looks every `lookEveryMs`.
      this.#watcher.on("error", () => this.close());
    } catch {
      this.#watcher = undefined;
    }
  }

  /** The number of events so far. Read it before reading the directory. */
  mark(): number {
    return this.#changes;
  }

  async since(mark: number, mostMs: number, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    if (this.#changes !== mark) return;
    const changed = new Promise<void>((resolve) => (this.#wake = resolve));
    await inTime(changed, { deadline: Deadline.in(Math.min(mostMs, lookEveryMs)), signal });
  }

  close(): void {
    this.#watcher?.close();
  }
}

/** One file of a log. */
export interface FollowedFile {
  readonly file: LocalFile;
  /** Whether this is the file at `path`, which is being written. */
  readonly isLive: boolean;
  readonly opened: OpenFile;
  /** Whether the file has `length` bytes now. Zero bytes after them do not count. */
  endsAt(length: number): Promise<boolean>;
  /**
   * Reads the file from its start as it grows. Ends when the file has been rotated away and no longer grows. Zero bytes at its end are left
   * until something follows them: they may be space that is reserved for later lines.
   */
  read(): AsyncGenerator<Buffer, void, undefined>;
}

/** The log, and the rules for when one of its files is complete. */
export interface FollowedLog {
  readonly path: string;
  readonly rotated: RegExp | undefined;
  readonly quietMs: number;
  /** Receives rotated files that are links out of the directory, at each listing. Without it, these files are read. */
  readonly onSkipped: ((link: SkippedLink) => void) | undefined;
}

/**
 * The files of the log at `path`: first the rotated ones, oldest first, then the current one. The next file follows when the current one
 * has been rotated away and read to its end. Each can be read until the next one is requested. A gzip file is complete: it is yielded when
 * its plain form no longer exists.
 */
export async function* followLog(
  { path, rotated, quietMs, onSkipped }: FollowedLog,
  signal: AbortSignal,
): AsyncGenerator<FollowedFile, void, undefined> {
  const [directory, base] = [dirname(path), basename(path)];
  const watching = new DirectoryWatch(directory);
  /** With their stamps, because another file may get the same inode. */
  const passed = new Set<string>();

  const liveFile = async (): Promise<LocalFile | undefined> =>
    await localFile(path, base).catch((error: unknown) => {
      if (!isMissing(error)) throw error;
      return undefined;
    });
  const isRotated = (name: string): boolean =>
    rotated ? matches(rotated, name) : name.startsWith(`${base}.`) || name.startsWith(`${base}-`);
  const rotatedFiles = async (live: LocalFile | undefined): Promise<LocalFile[]> => {
    const onLink = onSkipped && ((link: SkippedLink): void => void (isRotated(link.file) && onSkipped(link)));
    const files = await listFiles(directory, undefined, "mtime", onLink).catch((error: unknown) => {
      if (!isMissing(error)) throw error;
      return [];
    });
    return files.filter(({ id, name }) => id !== live?.id && isRotated(name));
  };

  /**
   * Waits until the file has more than `at` bytes, or is certain never to have them. Resolves with whether it has them. The bytes up to
   * `zerosEnd` were zeros. They count only when other bytes follow them.
   */
  const hasGrown = async (file: LocalFile, opened: OpenFile, at: number, zerosEnd = at): Promise<boolean> => {
    for (let quietSince: number | undefined; ;) {
      const mark = watching.mark();
      const live = await liveFile();
      const isLive = live?.id === file.id;
      const others = isLive ? [] : await rotatedFiles(live);
      // The size is read last, so that earlier writes are counted.
      const { size, mtimeMs } = await opened.now();
      if (size < at) throw changedError(file.name);
      if (size > zerosEnd || (size > at && (await hasText(opened, at, 1)))) return true;
      if (!isLive) {
        quietSince ??= performance.now();
        // A newer file shows how long this one has been quiet, by the clock of the file system.
        const isQuiet = others.some((one) => one.mtimeMs - mtimeMs >= quietMs);
        if (isQuiet || performance.now() - quietSince >= quietMs) return false;
      }
      await watching.since(mark, isLive ? lookEveryMs : quietMs, signal);
    }
  };

  /** Waits for the first line, or the first KiB. Only a complete file may have less, or nothing. */
  const hasLine = async (file: LocalFile, opened: OpenFile): Promise<boolean> => {
    for (;;) {
      let length = 0;
      for await (const block of opened.read(0)) {
        length += block.length;
        if (block.includes("\n") || length >= 1_024) return true;
      }
      if (!(await hasGrown(file, opened, length))) return length > 0;
    }
  };

  async function* read(file: LocalFile, opened: OpenFile): AsyncGenerator<Buffer, void, undefined> {
    let [at, seen] = [0, 0];
    do {
      seen = at;
      for await (const block of opened.read(at)) {
        const end = seen + textEnd(block);
        if (end > seen) {
          for (let left = seen - at; left > 0; left -= zeros.length) yield zeros.subarray(0, left);
          yield block.subarray(0, end - seen);
          at = end;
        }
        seen += block.length;
      }
    } while (await hasGrown(file, opened, at, seen));
  }

  try {
    for (;;) {
      const mark = watching.mark();
      const live = await liveFile();
      const others = await rotatedFiles(live);
      const isNext = (file: LocalFile): boolean =>
        !passed.has(`${file.id} ${file.stamp}`) && !others.some((one) => `${one.name}.gz` === file.name);
      const next = others.filter(isNext);
      // There can be many, so the directory is listed again only after all of them, or when one is not as it was listed.
      for (const file of next.length > 0 ? next : [live]) {
        const opened = file && (await OpenFile.open(file));
        if (!file || !opened) {
          await watching.since(mark, lookEveryMs, signal);
          break;
        }
        try {
          const isGiven = opened.isGzip || (opened.container === undefined && (await hasLine(file, opened)));
          // It was opened before it had the bytes that show whether it is gzip.
          if (opened.was.size < magicBytes && (await opened.now()).size > opened.was.size) break;
          if (isGiven) {
            const endsAt = async (length: number): Promise<boolean> =>
              (await opened.now()).size >= length && !(await hasText(opened, length, Infinity));
            yield { file, opened, isLive: file.id === live?.id, endsAt, read: () => read(file, opened) };
          }
          // A gzip file that has changed since may have been opened while it was written.
          passed.add(`${file.id} ${(opened.isGzip ? opened.was : await opened.now()).stamp}`);
        } finally {
          await opened.close();
        }
      }
    }
  } finally {
    watching.close();
  }
}

const zeros = Buffer.alloc(65_536);

/** Whether any of the first `most` blocks after `at` has bytes other than zero. */
const hasText = async (opened: OpenFile, at: number, most: number): Promise<boolean> => {
  let count = 0;
  for await (const block of opened.read(at)) {
    if (textEnd(block) > 0) return true;
    if (++count >= most) break;
  }
  return false;
};
