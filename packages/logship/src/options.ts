import {
  boolean,
  choice,
  type ClientOptions,
  clientRules,
  custom,
  integer,
  required,
  resolve,
  type Resolved,
  type Rule,
  type RulesOf,
  signal,
  text,
} from "@kit/core/toolkit";
import type { FileOrder } from "./bytes/files.js";
import { nameOption } from "./keys.js";
import { type LineOptions, lineRules } from "./bytes/lines.js";
import { type FlushOptions, flushRules } from "./process/runner.js";

/** A consumer's name as stored in keys and records: without spaces. */
export const consumerName = (name: string): string => encodeURIComponent(nameOption("consumer", name, 200));

const regExp: Rule<RegExp | undefined, RegExp> = custom((name, value) => {
  if (value instanceof RegExp) return value;
  throw new TypeError(`Expected \`${name}\` to be a RegExp`);
});

const orders = choice(["natural", "mtime"], "natural");

/** Settings that jobs, shippers and receivers share. */
export interface ConnectionOptions extends ClientOptions {
  /**
   * Works on a dedicated connection, with the given client's settings. Chunks are large: on a shared connection, other commands would wait
   * for them. `false` uses the client's connection.
   *
   * @default true
   */
  readonly isolate?: boolean | undefined;
}

const connectionRules = { ...clientRules, isolate: boolean(true) } satisfies RulesOf<ConnectionOptions>;

/**
 * What to do with a file that cannot be read. `error` ends the run. The other policies emit `damaged` and continue with the next file:
 * `skip` counts the rest of the file as done, and `quarantine` keeps the file for `redo()`.
 */
export type BadDataPolicy = "error" | "skip" | "quarantine";

/** The selection of files in a directory, and their order. */
export interface DirectoryOptions {
  /**
   * A pattern that file names must match.
   *
   * @default all
   */
  readonly match?: RegExp | undefined;
  /**
   * The order of files: by name with numbers compared as numbers (`natural`), by time of the last change (`mtime`), or by your comparison.
   *
   * @default "natural"
   */
  readonly order?: FileOrder | undefined;
  /**
   * Follows links that lead out of the directory. By default kit leaves out such a link and emits `skipped`. With `true`, anyone who can
   * write to the directory can have any file read.
   *
   * @default false
   */
  readonly dereference?: boolean | undefined;
}

const directoryRules = {
  match: regExp,
  order: custom(
    (name, order: FileOrder) => (typeof order === "function" ? order : orders.check(name, order)),
    "natural",
  ),
  dereference: boolean(false),
} satisfies RulesOf<DirectoryOptions>;

/** Settings of a job. */
export interface JobOptions extends ConnectionOptions, DirectoryOptions, LineOptions, FlushOptions {
  /** The directory whose files are processed, without its subdirectories. */
  readonly directory: string;
  /**
   * A worker that is silent for this many milliseconds loses its file to another worker, which continues after the last commit. A worker
   * renews its claim three times in this period.
   *
   * @default 10000
   */
  readonly leaseMs?: number | undefined;
  /**
   * What to do with the text after a file's last line feed. `take` makes it a line. `leave` waits for the rest of the line: use it for
   * files that grow.
   *
   * @default "take"
   */
  readonly lastLine?: "take" | "leave" | undefined;
  /**
   * What to do with a file that cannot be read, is damaged, has changed, or has a rejected line. `error` rejects after the other files are
   * done. `skip` emits `damaged`, continues with the other files, and retries the file in the next run.
   *
   * @default "error"
   */
  readonly onBadData?: "error" | "skip" | undefined;
}

export const jobRules = {
  ...connectionRules,
  ...directoryRules,
  ...lineRules,
  ...flushRules,
  directory: required(text(4_096)),
  leaseMs: integer(100, 86_400_000, 10_000),
  lastLine: choice(["take", "leave"], "take"),
  onBadData: choice(["error", "skip"], "error"),
} satisfies RulesOf<JobOptions>;

export type ResolvedJob = Resolved<typeof jobRules>;

/** Settings of a run. */
export interface RunOptions {
  /** Ends the run: uncommitted results are dropped, and the promise rejects with `signal.reason`. */
  readonly signal?: AbortSignal | undefined;
  /**
   * The number of files that are processed at the same time.
   *
   * @default 1
   */
  readonly concurrency?: number | undefined;
}

export const runRules = { signal, concurrency: integer(1, 1_000, 1) } satisfies RulesOf<RunOptions>;

/** Settings of a shipper. */
export interface ShipperOptions extends ConnectionOptions {
  /**
   * The memory limit in Redis for the channel's chunks, in bytes. It covers chunks that a consumer still needs, and chunks in flight. The
   * channel's first shipper sets the limit; a later shipper with another number gets a `mismatch` event. The limit must hold at least two
   * chunks; `setLimit()` changes it.
   *
   * @default 256 MiB (268435456)
   */
  readonly limitBytes?: number | undefined;
  /**
   * How chunks are stored: `gzip` stores each as a gzip member; `none` stores plain text.
   *
   * @default "gzip"
   */
  readonly codec?: "gzip" | "none" | undefined;
  /**
   * The gzip compression level, 1 to 9. Log text gains little above 1.
   *
   * @default 1
   */
  readonly gzipLevel?: number | undefined;
  /**
   * The maximum stored size of a chunk, in bytes. The default and 262128 are just under an allocation size class of Redis; 131072 would use
   * a quarter more memory.
   *
   * @default 131060
   */
  readonly chunkBytes?: number | undefined;
  /**
   * The number of chunks that are written at the same time. Each stays in memory until it is committed.
   *
   * @default 16
   */
  readonly maxInFlight?: number | undefined;
  /**
   * After this many milliseconds, kit frees the memory that a dead shipper reserved. A connection that needs longer for `maxInFlight`
   * chunks makes no progress.
   *
   * @default 30000
   */
  readonly leaseMs?: number | undefined;
  /**
   * The maximum time that text waits for a full chunk, in milliseconds. kit then ships a smaller chunk.
   *
   * @default 500
   */
  readonly flushMs?: number | undefined;
  /**
   * Consumers that must get every file, even files shipped before they join. No chunk is freed before they have processed it.
   *
   * @default []
   */
  readonly consumers?: readonly string[] | undefined;
  /**
   * While this shipper finds no space, it removes consumers that were silent for this many milliseconds. A waiting receiver reports every
   * 10 s, and a working receiver with each commit. Set a longer time than a handler ever needs. A removed consumer rejects with
   * `KIT_LOGSHIP_DROPPED`.
   *
   * @default never
   */
  readonly dropSilentMs?: number | undefined;
  /**
   * What to do with a source that is damaged, or has changed since a part of it was shipped. The call rejects in both cases. `error` leaves
   * the file open in the channel, where it holds up later files until another call continues it. `quarantine` ends the file there:
   * receivers read the committed part, emit `damaged`, and continue with the next file. You can ship the source again as another file.
   *
   * @default "error"
   */
  readonly onBadData?: "error" | "quarantine" | undefined;
}

export const shipperRules = {
  ...connectionRules,
  limitBytes: integer(4_096),
  codec: choice(["gzip", "none"], "gzip"),
  gzipLevel: integer(1, 9, 1),
  chunkBytes: integer(1_024, 8_388_608, 131_060),
  maxInFlight: integer(1, 256, 16),
  leaseMs: integer(100, 3_600_000, 30_000),
  flushMs: integer(1, 3_600_000, 500),
  consumers: custom((name, consumers: readonly string[]) => {
    if (!Array.isArray(consumers)) throw new TypeError(`Expected \`${name}\` to be an array of names`);
    return consumers.map(consumerName);
  }, []),
  dropSilentMs: integer(20_000, 31_536_000_000),
  onBadData: choice(["error", "quarantine"], "error"),
} satisfies RulesOf<ShipperOptions>;

export interface ResolvedShipper extends Omit<Resolved<typeof shipperRules>, "limitBytes"> {
  readonly limitBytes: number;
  /** Whether the caller set a limit. */
  readonly hasLimit: boolean;
}

/** @throws {TypeError | RangeError} an option is invalid. */
export const resolveShipper = (options: ShipperOptions): ResolvedShipper => {
  const own = resolve("options", options, shipperRules);
  return { ...own, limitBytes: own.limitBytes ?? 268_435_456, hasLimit: own.limitBytes !== undefined };
};

/** Settings of shipping one source. */
export interface ShipOptions {
  /**
   * The file's name in the channel.
   *
   * @default the file's own
   */
  readonly name?: string | undefined;
  /**
   * The identity of the source. A call with the same identity continues where an earlier one stopped, or finds that the source has been
   * shipped. This works in another process after a crash as well. A stream must yield the same bytes from its start each time.
   *
   * @default for a file, its device, inode and the hash of its first 4 KiB; for a stream, a new identity
   */
  readonly id?: string | undefined;
  /**
   * Keeps the bytes of a gzip file unchanged. By default kit inflates the file and compresses each chunk again. A passed-through file must
   * fit under the limit as a whole.
   *
   * @default false
   */
  readonly passThrough?: boolean | undefined;
  /** Ends the call. Committed chunks stay, and the next call with the same identity continues after them. */
  readonly signal?: AbortSignal | undefined;
}

export const shipRules = {
  name: text(4_096),
  id: text(1_024),
  passThrough: boolean(false),
  signal,
} satisfies RulesOf<ShipOptions>;
export const sendRules = { id: shipRules.id, signal: signal };

/** Settings of shipping a directory. */
export interface ShipDirectoryOptions extends DirectoryOptions, Pick<ShipOptions, "passThrough" | "signal"> {}

export const shipDirectoryRules = {
  ...directoryRules,
  passThrough: shipRules.passThrough,
  signal,
} satisfies RulesOf<ShipDirectoryOptions>;

/** Settings of following a log. */
export interface FollowOptions {
  /**
   * A pattern for the names of the log's rotated files.
   *
   * @default names that start with the log's name and `.` or `-`
   */
  readonly rotated?: RegExp | undefined;
  /**
   * A rotated file is complete after this many milliseconds without a write. Its writer may keep it open for some time.
   *
   * @default 2000
   */
  readonly quietMs?: number | undefined;
  /**
   * Follows links of rotated files that lead out of the log's directory. By default kit leaves out such a link and emits `skipped`. `path`
   * itself may be a link to anywhere.
   *
   * @default false
   */
  readonly dereference?: boolean | undefined;
  /** Ends the call. Committed chunks stay, and the next call continues after them. */
  readonly signal?: AbortSignal | undefined;
}

export const followRules = {
  rotated: regExp,
  quietMs: integer(0, 3_600_000, 2_000),
  dereference: boolean(false),
  signal,
} satisfies RulesOf<FollowOptions>;

/** Settings of a receiver. */
export interface ReceiverOptions extends ConnectionOptions, LineOptions, FlushOptions {
  /**
   * The consumer's name. Each consumer gets everything. If several processes use the same name, only the latest one works, and the others
   * reject with `KIT_LOGSHIP_FENCED`.
   */
  readonly consumer: string;
  /**
   * The first file for a consumer that is new to the channel. A known consumer continues at its position. With `start`, a new consumer gets
   * everything, and is rejected if a chunk has already been freed. With `oldest`, it gets everything that is still there; a partly freed
   * file starts at the position of the slowest consumer. With `now`, it gets the files that are opened after it joined.
   *
   * @default "start"
   */
  readonly from?: "start" | "oldest" | "now" | undefined;
  /**
   * How many bytes to fetch ahead of the reader. With the codec `gzip`, these are bytes of text.
   *
   * @default 2097152 with the codec `gzip`, otherwise 1048576
   */
  readonly prefetchBytes?: number | undefined;
  /**
   * What to do with a file that has damaged or missing data, or a rejected line. `error` ends the run, and each later run at the same
   * place. `skip` counts the rest of the file as done. `quarantine` keeps the file and its memory, and continues with the next files. Call
   * `redo()` to retry it.
   *
   * @default "error"
   */
  readonly onBadData?: BadDataPolicy | undefined;
}

export const receiverRules = {
  ...connectionRules,
  ...lineRules,
  ...flushRules,
  consumer: required({ ...text(200), check: (_name: string, consumer: string) => consumerName(consumer) }),
  from: choice(["start", "oldest", "now"], "start"),
  prefetchBytes: integer(1),
  onBadData: choice(["error", "skip", "quarantine"], "error"),
} satisfies RulesOf<ReceiverOptions>;

export type ResolvedReceiver = Resolved<typeof receiverRules>;

/** Settings of an iteration over a channel's files. */
export interface FilesOptions {
  /** Ends the iteration: it throws `signal.reason`. */
  readonly signal?: AbortSignal | undefined;
  /**
   * When the iteration ends. `closed` waits for further files until the channel is closed. `empty` ends when no completely shipped file is
   * left; it leaves out files that are still being shipped.
   *
   * @default "closed"
   */
  readonly until?: "closed" | "empty" | undefined;
}

/** Settings of a run over a channel. */
export interface ReceiveOptions extends RunOptions, Pick<FilesOptions, "until"> {}

export const filesRules = { signal, until: choice(["closed", "empty"], "closed") } satisfies RulesOf<FilesOptions>;
export const receiveRules = { ...runRules, until: filesRules.until } satisfies RulesOf<ReceiveOptions>;
