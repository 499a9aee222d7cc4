import { readdir, readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { Redis } from "ioredis";
import { classicKeys } from "./keys.js";

/** Bytes of one `APPEND`, and of one `GETRANGE`. */
const BLOCK_BYTES = 131_072;

const CLEAN_POLL_MS = 250;

/** Settings of {@link copyLogs}. */
export interface CopyLogsOptions {
  readonly prefix?: string;
  /** Consumers that must be done with a file before it is deleted; numbered from 0. */
  readonly count: number;
  readonly limitBytes?: number | undefined;
  readonly quitWhenDone?: boolean;
  /** Ends a wait for space; the original has no such option. */
  readonly signal?: AbortSignal;
}

/**
 * "Redis in Action", chapter 6: appends each file of a directory block by block to one key, and announces its name to the
 * consumers. It waits for room under a limit of bytes and deletes files that all consumers are done with. At last it
 * announces `:done`. A list for each consumer replaces the chat of the original.
 *
 * Known faults:
 *
 * - a restart appends a file a second time
 * - the limit is counted in this process
 * - a file above the limit waits for ever
 * - a file's name may equal the end mark
 */
export async function copyLogs(redis: Redis, path: string, channel: string, options: CopyLogsOptions): Promise<void> {
  const { prefix = "", count, limitBytes = 2 ** 30, quitWhenDone = true, signal } = options;
  const keys = classicKeys(prefix);
  const waiting: { readonly file: string; readonly size: number }[] = [];
  let held = 0;
  const announce = async (text: string): Promise<void> => {
    for (let id = 0; id < count; id++) await redis.rpush(keys.logNames(channel, String(id)), text);
  };
  const clean = async (): Promise<void> => {
    const [first] = waiting;
    if (first && (await redis.get(keys.logDone(channel, first.file))) === String(count)) {
      await redis.del(keys.log(channel, first.file), keys.logDone(channel, first.file));
      waiting.shift();
      held -= first.size;
    } else await sleep(CLEAN_POLL_MS, undefined, { signal });
  };
  for (const file of (await readdir(path)).toSorted()) {
    const { size } = await stat(join(path, file));
    while (held + size > limitBytes) await clean();
    const content = await readFile(join(path, file));
    for (let from = 0; from < content.length; from += BLOCK_BYTES)
      await redis.append(keys.log(channel, file), content.subarray(from, from + BLOCK_BYTES));
    await announce(file);
    held += size;
    waiting.push({ file, size });
  }
  if (quitWhenDone) await announce(":done");
  while (waiting.length > 0) await clean();
}

/** "Redis in Action", chapter 6: the blocks of a key by `GETRANGE`, then an empty block. */
export async function* readBlocks(redis: Redis, key: string): AsyncGenerator<Buffer, void, undefined> {
  for (let from = 0; ;) {
    const block = await redis.getrangeBuffer(key, from, from + BLOCK_BYTES - 1);
    yield block;
    if (block.length < BLOCK_BYTES) break;
    from += block.length;
  }
  yield Buffer.alloc(0);
}
