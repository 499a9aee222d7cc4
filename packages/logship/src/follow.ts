import { type FSWatcher, watch } from "node:fs";
import { basename, dirname } from "node:path";
import { onAbort } from "@kit/core/toolkit";
import { changedError, isMissing, listFiles, type LocalFile, localFile, matches, OpenFile, prefixOf } from "./files.js";

/** Events of the file system may be lost, and none come from another directory, where a symbolic link may lead. */
const lookEveryMs = 500;
const mostOfFirstLine = 1_024;

/** Tells that something in a directory may have changed: at an event of the file system, and in any case after half a second. */
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
      // From then on it looks after `lookEveryMs`.
      this.#watcher.on("error", () => this.close());
    } catch {
      this.#watcher = undefined;
    }
  }

  /** The number of events so far: to be taken before the directory is looked at. */
  mark(): number {
    return this.#changes;
  }

  async since(mark: number, mostMs: number, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    if (this.#changes !== mark) return;
    let timer: NodeJS.Timeout | undefined;
    let stop: () => void = () => undefined;
    await new Promise<void>((resolve) => {
      this.#wake = resolve;
      timer = setTimeout(resolve, Math.min(mostMs, lookEveryMs));
      stop = onAbort(signal, resolve);
    });
    clearTimeout(timer);
    stop();
    signal.throwIfAborted();
  }

  close(): void {
    this.#watcher?.close();
  }
}

/** A file of a log. */
export interface FollowedFile {
  readonly file: LocalFile;
  /** The same under each of its names: device, inode and the hash of its first line. */
  readonly id: string;
  /** Whether it is the one that is written. */
  readonly isLive: boolean;
  /** Bytes that it has now. */
  size(): Promise<number>;
  /** From its beginning on, as it grows; ends when it has been rotated away and nothing more comes. */
  read(): AsyncGenerator<Buffer, void, undefined>;
}

/** Which log, and when a file of it has ended. */
export interface FollowedLog {
  readonly path: string;
  readonly rotated: RegExp | undefined;
  readonly quietMs: number;
}

/**
 * The files of the log at `path`: those that have been rotated away, oldest first, then the one that is written, and the next one when that has been
 * rotated away and read to its end. Each can be read until the next is asked for. Gzip files are left out: they are copies of files that were plain.
 */
export async function* followLog(
  { path, rotated, quietMs }: FollowedLog,
  signal: AbortSignal,
): AsyncGenerator<FollowedFile, void, undefined> {
  const [directory, base] = [dirname(path), basename(path)];
  const watching = new DirectoryWatch(directory);
  /** With their stamps: another file may get the same inode. */
  const passed = new Set<string>();

  const liveFile = async (): Promise<LocalFile | undefined> =>
    await localFile(path, base).catch((error: unknown) => {
      if (!isMissing(error)) throw error;
      return undefined;
    });
  const isRotated = (name: string): boolean =>
    rotated ? matches(rotated, name) : name.startsWith(`${base}.`) || name.startsWith(`${base}-`);
  const rotatedFiles = async (live: LocalFile | undefined): Promise<LocalFile[]> => {
    const files = await listFiles(directory, undefined, "mtime").catch((error: unknown) => {
      if (!isMissing(error)) throw error;
      return [];
    });
    return files.filter(({ id, name }) => id !== live?.id && isRotated(name));
  };

  /** Resolves with whether more than `at` bytes are there, once they are or it is certain that they will not be. */
  const hasGrown = async (file: LocalFile, opened: OpenFile, at: number): Promise<boolean> => {
    for (let quietSince: number | undefined; ;) {
      const mark = watching.mark();
      const live = await liveFile();
      const isLive = live?.id === file.id;
      // A file that was rotated away later was written later.
      const others = isLive ? [] : await rotatedFiles(live);
      const index = others.findIndex(({ id }) => id === file.id);
      const isLast = index < 0 || index === others.length - 1;
      // The size is looked at last: what was written before is counted.
      const { size } = await opened.now();
      if (size < at) throw changedError(file.name);
      if (size > at) return true;
      if (!isLive) {
        quietSince ??= performance.now();
        if (!isLast || performance.now() - quietSince >= quietMs) return false;
      }
      await watching.since(mark, isLive ? lookEveryMs : quietMs, signal);
    }
  };

  /** The first line, or its first KiB; less, also nothing, only of a file that has ended. */
  const firstLine = async (file: LocalFile, opened: OpenFile): Promise<Buffer> => {
    for (;;) {
      let line = Buffer.alloc(0);
      for await (const block of opened.read(0)) {
        const feed = block.indexOf("\n");
        line = Buffer.concat([line, feed < 0 ? block : block.subarray(0, feed + 1)]).subarray(0, mostOfFirstLine);
        if (feed >= 0 || line.length === mostOfFirstLine) return line;
      }
      if (!(await hasGrown(file, opened, line.length))) return line;
    }
  };

  async function* read(file: LocalFile, opened: OpenFile): AsyncGenerator<Buffer, void, undefined> {
    let at = 0;
    do
      for await (const block of opened.read(at)) {
        at += block.length;
        yield block;
      }
    while (await hasGrown(file, opened, at));
  }

  try {
    for (;;) {
      const mark = watching.mark();
      const live = await liveFile();
      const file = (await rotatedFiles(live)).find(({ id, stamp }) => !passed.has(`${id} ${stamp}`)) ?? live;
      const opened = file && (await OpenFile.open(file));
      if (!file || !opened) {
        await watching.since(mark, lookEveryMs, signal);
        continue;
      }
      try {
        const line = opened.isGzip ? noBytes : await firstLine(file, opened);
        if (line.length > 0) {
          const id = `${file.id} line ${prefixOf(line)}`;
          const size = async (): Promise<number> => (await opened.now()).size;
          yield { file, id, isLive: file.id === live?.id, size, read: () => read(file, opened) };
        }
        passed.add(`${file.id} ${(await opened.now()).stamp}`);
      } finally {
        await opened.close();
      }
    }
  } finally {
    watching.close();
  }
}

const noBytes = Buffer.alloc(0);
