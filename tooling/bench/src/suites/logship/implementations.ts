// The ways to carry and read logs, each behind the same small interface. Every upload reads a local file.
import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { createInterface } from "node:readline";
import { dirname } from "node:path";
import { promisify } from "node:util";
import { crc32 } from "node:zlib";
import { classicKeys, copyLogs, readBlocks } from "@tooling/classic";
import { connected } from "../../clients.js";
import { catalogOf, type Definition as AnyDefinition } from "../../implementation.js";

/** A file, alone in its directory. */
export interface Source {
  readonly path: string;
  readonly isGzip: boolean;
}

/** The settings of a case. */
export interface LogshipSetup {
  readonly codec: "gzip" | "none";
  /** Keeps the bytes of a gzip file as they are. */
  readonly passThrough: boolean;
  /** Holds everything up, half of it each way. @default 0 */
  readonly latencyMs?: number;
}

export interface Carrier {
  /** Resolves when all of it is in Redis. */
  upload?(source: Source): Promise<void>;
  /** Resolves with the number of bytes received. */
  download?(): Promise<number>;
  /** Reads by batches or callbacks. Resolves with the number of lines. */
  lines?(source: Source): Promise<number>;
  /** Reads one line at a time from an asynchronous iterator. Resolves with the number of lines. */
  eachLine?(source: Source): Promise<number>;
  /** As `lines`, with results committed every `flushLines` lines. Undefined: one commit at the end. */
  counted?(flushLines: number | undefined): Promise<number>;
}

type Definition = AnyDefinition<Carrier, LogshipSetup>;

const limitBytes = 4_294_967_296;

const kit: Definition = {
  id: "kit",
  settings:
    "chunks of 131,060 bytes, 16 written at once, 1 MiB fetched ahead; CRC-32 of chunks and text, SHA-256 of the text",
  open: async (url, { codec, passThrough }, connect) => {
    const { createReceiver, createShipper } = await import("@kit/logship");
    const redis = await connect(url);
    let [channel, consumer] = [0, 0];
    const name = (): string => `bench-${String(channel)}`;
    const receiving = (options = {}): ReturnType<typeof createReceiver> =>
      createReceiver(redis, name(), { consumer: `c${String(++consumer)}`, from: "start", ...options });
    const all = async (reader: "batches" | "lines" | "bytes"): Promise<number> => {
      // The shipper keeps the chunks of a consumer that has not read them, so the next round finds the same file.
      const receiver = receiving();
      let count = 0;
      for await (const file of receiver.files({ until: "empty" }))
        if (reader === "batches") for await (const { lines } of file.batches()) count += lines.length;
        else if (reader === "bytes") for await (const block of file.bytes()) count += block.length;
        else for await (const line of file.lines()) count += line.length >= 0 ? 1 : 0;
      await receiver.close();
      return count;
    };
    return {
      upload: async ({ path }) => {
        channel++;
        const shipper = createShipper(redis, name(), { limitBytes, codec });
        await shipper.add(path, { passThrough });
        await shipper.close();
      },
      download: () => all("bytes"),
      lines: () => all("batches"),
      eachLine: () => all("lines"),
      counted: async (flushLines) => {
        const [keeper, receiver] = [
          receiving(),
          receiving(
            flushLines === undefined ? { flushMs: 3_600_000, flushLines: 1e9, flushBytes: 1e12 } : { flushLines },
          ),
        ];
        // A second consumer holds the chunks, so that the case measures commits and not the freeing of memory.
        await keeper.files({ until: "empty" }).next();
        const { lines } = await receiver.run(
          (some, results) => {
            for (const line of some) {
              const status = line.indexOf('" ') + 2;
              results.increment("statuses", line.slice(status, status + 3));
            }
          },
          { until: "empty" },
        );
        await Promise.all([keeper.close(), receiver.close()]);
        return lines;
      },
    };
  },
};

const classic: Definition = {
  id: "classic",
  settings: "APPEND and GETRANGE of 131,072 bytes, one after the other; no checksum",
  open: async (url) => {
    const [redis, announced] = [await connected(url), await connected(url)];
    const keys = classicKeys("");
    let [channel, file] = [0, ""];
    return {
      upload: async ({ path }) => {
        const name = `bench-${String(++channel)}`;
        const stop = new AbortController();
        // `copyLogs` announces a file when all of it is in Redis, then waits for the consumer. The abort ends that wait.
        const copying = copyLogs(redis, dirname(path), name, { count: 1, limitBytes, signal: stop.signal });
        copying.catch(() => undefined);
        const [, found] = (await announced.blpop(keys.logNames(name, "0"), 0)) ?? [];
        file = keys.log(name, found ?? "");
        stop.abort();
      },
      download: async () => {
        let bytes = 0;
        for await (const block of readBlocks(redis, file)) bytes += block.length;
        return bytes;
      },
    };
  },
};

const [blockBytes, written, read] = [131_060, 16, 8];

const rawCommands = `SET of ${String(blockBytes)} bytes, ${String(written)} at once, and GETRANGE, ${String(read)} at once; no limit`;
const raw = (isChecked: boolean): Definition => ({
  id: isChecked ? "raw with checksums" : "raw SET and GETRANGE",
  peer: isChecked ? "raw with checksums" : "floor",
  settings: `${rawCommands}; ${isChecked ? "CRC-32 of each block both ways, SHA-256 of what is written" : "no checksum"}`,
  open: async (url) => {
    const redis = await connected(url);
    const check = isChecked ? (block: Buffer): unknown => crc32(block) : (): void => undefined;
    let [file, blocks] = [0, 0];
    const keyOf = (block: number): string => `file-${String(file)}-${String(block)}`;
    return {
      upload: async ({ path }) => {
        [file, blocks] = [file + 1, 0];
        const ahead: Promise<unknown>[] = [];
        const hash = isChecked ? createHash("sha256") : undefined;
        for await (const block of createReadStream(path, { highWaterMark: blockBytes })) {
          hash?.update(block as Buffer);
          check(block as Buffer);
          ahead.push(redis.set(keyOf(blocks++), block as Buffer));
          if (ahead.length >= written) await ahead.shift();
        }
        await Promise.all(ahead);
      },
      download: async () => {
        let bytes = 0;
        const ahead: Promise<Buffer>[] = [];
        for (let next = 0; next < blocks || ahead.length > 0;) {
          for (; next < blocks && ahead.length < read; next++) ahead.push(redis.getrangeBuffer(keyOf(next), 0, -1));
          const block = (await ahead.shift()) as Buffer;
          check(block);
          bytes += block.length;
        }
        return bytes;
      },
    };
  },
});

const readline: Definition = {
  id: "readline",
  settings: "the local file, without Redis: `line` events, or `for await`",
  open: () =>
    Promise.resolve({
      lines: async ({ path }) => {
        let count = 0;
        const reading = createInterface({ input: createReadStream(path), crlfDelay: Infinity });
        reading.on("line", () => count++);
        await new Promise<void>((resolve) => reading.once("close", resolve));
        return count;
      },
      eachLine: async ({ path }) => {
        let count = 0;
        for await (const line of createInterface({ input: createReadStream(path), crlfDelay: Infinity }))
          count += line.length >= 0 ? 1 : 0;
        return count;
      },
    }),
};

const zcat: Definition = {
  id: "zcat | wc -l",
  settings: "the local gzip file, without Redis: two processes",
  open: () =>
    Promise.resolve({
      lines: async ({ path }) => Number((await promisify(execFile)("sh", ["-c", 'zcat "$0" | wc -l', path])).stdout),
    }),
};

export const implementations = catalogOf<Carrier, LogshipSetup>([kit, classic, raw(false), raw(true), readline, zcat]);
