import { readdir, readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { constants, createInflateRaw, type InflateRaw } from "node:zlib";
import type { ChainableCommander, Redis } from "ioredis";
import { classicKeys } from "./keys.js";
import { execute } from "./transaction.js";

/** Bytes of one `APPEND`, and of one `GETRANGE`. */
export const BLOCK_BYTES = 131_072;
const CLEAN_POLL_MS = 250;
const FETCH_POLL_MS = 100;
const LINES_PER_PROGRESS = 1_000;

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

/**
 * "Redis in Action", chapter 6: takes names from the list and reads each file by blocks and lines. The callback gets each
 * line and, at the end of a file, undefined. Then the consumer counts itself as done with the file.
 *
 * Known faults:
 *
 * - the names are removed from the list before the first file is read, so that a crash loses files
 * - results that a callback stored before a crash are stored again when the file is repeated
 */
export async function processLogs(
  redis: Redis,
  channel: string,
  id: string,
  callback: (line: string | undefined) => Promise<void>,
  prefix = "",
): Promise<void> {
  const keys = classicKeys(prefix);
  const names = keys.logNames(channel, id);
  for (;;) {
    const [[, fetched]] = (await redis.multi().lrange(names, 0, -1).del(names).exec()) as [[null, string[]], unknown];
    for (const file of fetched) {
      if (file === ":done") return;
      const blocks = readBlocks(redis, keys.log(channel, file));
      for await (const line of readLines(file.endsWith(".gz") ? inflateBlocks(blocks) : blocks)) await callback(line);
      await callback(undefined);
      await redis.incr(keys.logDone(channel, file));
    }
    if (fetched.length === 0) await sleep(FETCH_POLL_MS);
  }
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

/**
 * "Redis in Action", chapter 6: cuts blocks into lines; an empty block ends them.
 *
 * Known faults: searches all held text again for each block; yields an empty last line; treats an empty block in the
 * middle as the end.
 */
export async function* readLines(blocks: AsyncIterable<Uint8Array>): AsyncGenerator<string, void, undefined> {
  let held = "";
  for await (const block of blocks) {
    held += Buffer.from(block).toString("latin1");
    const end = held.lastIndexOf("\n");
    if (end >= 0) {
      yield* held.slice(0, end).split("\n");
      held = held.slice(end + 1);
    }
    if (block.length === 0) {
      yield held;
      return;
    }
  }
}

/**
 * "Redis in Action", chapter 6: parses the header of a gzip file itself and inflates the rest, with one block of output
 * for each block of input.
 *
 * Known faults:
 *
 * - only the first member is read
 * - neither CRC nor length is checked
 * - content with a truncated header yields nothing
 * - output is not bounded
 */
export async function* inflateBlocks(blocks: AsyncIterable<Uint8Array>): AsyncGenerator<Buffer, void, undefined> {
  let head = Buffer.alloc(0);
  let decoder: InflateRaw | undefined;
  for await (const given of blocks) {
    let block = Buffer.from(given);
    if (!decoder) {
      head = Buffer.concat([head, block]);
      const at = headerEnd(head);
      if (at === undefined) continue;
      block = head.subarray(at);
      decoder = createInflateRaw();
      if (block.length === 0) continue;
    }
    yield await inflated(decoder, block);
    if (block.length === 0) return;
  }
}

/** The end of the header; undefined while it is incomplete. */
const headerEnd = (head: Buffer): number | undefined => {
  if (head.length < 10) return undefined;
  if (head.readUIntBE(0, 3) !== 0x1f8b08) throw new Error("invalid gzip data");
  const flags = head[3]!;
  let at = 10;
  if (flags & 4) {
    if (head.length < at + 2) return undefined;
    at += 2 + head.readUInt16LE(at);
  }
  for (const flag of [8, 16])
    if (flags & flag) {
      const end = head.indexOf(0, at);
      if (end < 0) return undefined;
      at = end + 1;
    }
  if (flags & 2) at += 2;
  return at > head.length ? undefined : at;
};

/** The text of one more block; empty after the end of the first member. */
const inflated = async (decoder: InflateRaw, block: Buffer): Promise<Buffer> => {
  const parts: Buffer[] = [];
  const collect = (part: Buffer): void => void parts.push(part);
  decoder.on("data", collect);
  await new Promise<void>((resolve, reject) => {
    decoder.once("error", reject);
    decoder.once("end", resolve);
    if (decoder.readableEnded || block.length === 0) resolve();
    else decoder.write(block, () => decoder.flush(constants.Z_SYNC_FLUSH, resolve));
  });
  decoder.off("data", collect);
  return Buffer.concat(parts);
};

/**
 * "Redis in Action", chapter 6: counts lines `address day …` by day and country in this process. Called without a line,
 * it writes the counts by `ZADD` and starts again from zero.
 *
 * Known faults:
 *
 * - each flush overwrites the day
 * - an unknown address throws, and so does a line without a day
 * - an empty line means flush
 */
export function dailyCountryAggregate(
  redis: Redis,
  locate: (address: string) => readonly string[] | undefined,
  prefix = "",
): (line: string | undefined) => Promise<void> {
  const aggregates = new Map<string, Map<string, number>>();
  return async (line) => {
    if (line) {
      const [address, day] = line.split(/\s+/);
      const country = locate(address!)![2]!;
      const counts = aggregates.get(day!) ?? new Map<string, number>();
      aggregates.set(day!, counts);
      counts.set(country, (counts.get(country) ?? 0) + 1);
      return;
    }
    for (const [day, counts] of aggregates)
      await redis.zadd(
        classicKeys(prefix).dailyCountry(day),
        ...[...counts].flatMap(([country, sum]) => [sum, country]),
      );
    aggregates.clear();
  };
}

/**
 * "Redis in Action", chapter 4: calls back for each line of the files of a directory, with a transaction to write into.
 * Every 1,000 lines and at the end of each file, the transaction is sent with the file's name and the offset.
 *
 * Known faults:
 *
 * - the offset is added to itself
 * - a stored offset is text, to which lengths are appended
 * - all jobs share one pair of keys
 */
export async function processDirectory(
  redis: Redis,
  path: string,
  callback: (transaction: ChainableCommander, line: string) => void,
  prefix = "",
): Promise<void> {
  const { progressFile, progressPosition } = classicKeys(prefix);
  let [current, offset]: [string | null, string | number | null] = (await redis.mget(
    progressFile,
    progressPosition,
  )) as [string | null, string | null];
  for (const file of (await readdir(path)).toSorted()) {
    if (current !== null && file < current) continue;
    const content = await readFile(join(path, file));
    const from = file === current ? Number(offset) : 0;
    if (file !== current) offset = 0;
    current = null;
    let transaction = redis.multi();
    const update = async (): Promise<void> => {
      transaction.mset(progressFile, file, progressPosition, String(offset));
      await execute(transaction);
      transaction = redis.multi();
    };
    const lines = content
      .subarray(from)
      .toString("latin1")
      .split(/(?<=\n)/);
    for (const [number, line] of lines.entries()) {
      callback(transaction, line);
      // With text on the left `+` appends.
      offset = (offset as number) + (Number(offset) + line.length);
      if ((number + 1) % LINES_PER_PROGRESS === 0) await update();
    }
    await update();
  }
}
