import {
  boolean,
  choice,
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
import { type ConnectionOptions, connectionRules } from "./connection.js";
import { nameOption } from "./keys.js";
import { type LineOptions, lineRules } from "./bytes/lines.js";
import { type FlushOptions, flushRules } from "./process/runner.js";

/** A consumer's name as keys and records have it: without spaces. */
export const consumerName = (name: string): string => encodeURIComponent(nameOption("consumer", name, 200));

export const regExp: Rule<RegExp | undefined, RegExp> = custom((name, value) => {
  if (value instanceof RegExp) return value;
  throw new TypeError(`Expected \`${name}\` to be a RegExp`);
});

const orders = choice(["natural", "mtime"], "natural");

/**
 * The handling of a file that cannot be read: `error` ends the run. The others emit `damaged` and continue with the next file: `skip` counts the rest
 * of the file as done; `setAside` keeps it, so that `redo()` can have it retried.
 */
export type BadDataPolicy = "error" | "skip" | "setAside";

/** The files of a directory that are taken, and their order. */
export interface DirectoryOptions {
  /**
   * Only files whose name matches.
   *
   * @default all
   */
  readonly match?: RegExp | undefined;
  /**
   * The order of files: by name with numbers compared as numbers (`natural`), by time of the last change (`mtime`), or by a comparison.
   *
   * @default "natural"
   */
  readonly order?: FileOrder | undefined;
  /**
   * Takes also files outside the directory that links in it lead to. Without it such a link is left out, with a `skipped` event: who can write to
   * the directory could otherwise have any file read.
   *
   * @default false
   */
  readonly dereference?: boolean | undefined;
}

export const directoryRules = {
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
   * A worker that is silent for this many milliseconds loses its file to others, which continue behind its last commit. The worker renews its claim
   * three times in that time.
   *
   * @default 10000
   */
  readonly leaseMs?: number | undefined;
  /**
   * The handling of the text behind the last line feed of a file: `take` makes it a line; `leave` waits for the rest of it, for files that grow.
   *
   * @default "take"
   */
  readonly lastLine?: "take" | "leave" | undefined;
  /**
   * The handling of a damaged file: `error` ends the run; `skip` emits `damaged`, continues with the other files, and retries it in the next run.
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
   * How many files are processed at a time.
   *
   * @default 1
   */
  readonly concurrency?: number | undefined;
}

export const runRules = { signal, concurrency: integer(1, 1_000, 1) } satisfies RulesOf<RunOptions>;

/** Settings of a shipper. */
export interface ShipperOptions extends ConnectionOptions {
  /**
   * The limit of memory in Redis for the chunks of the channel, in bytes: for those that some consumer still needs and those under way. The first
   * shipper of the channel sets it; a later one with another number gets a `mismatch` event. `setLimit()` changes it. At least two chunks.
   *
   * @default 256 MiB (268435456)
   */
  readonly limitBytes?: number | undefined;
  /**
   * How chunks are stored: `gzip` frames each as a gzip member; `none` keeps text as it is.
   *
   * @default "gzip"
   */
  readonly codec?: "gzip" | "none" | undefined;
  /**
   * Compression level of gzip, 1 to 9. Log text gains little above 1.
   *
   * @default 1
   */
  readonly gzipLevel?: number | undefined;
  /**
   * The largest chunk in stored bytes. The default and 262128 lie just under an allocation size class of Redis; 131072 would take a quarter more
   * memory.
   *
   * @default 131060
   */
  readonly chunkBytes?: number | undefined;
  /**
   * How many chunks are written at the same time; each is held in memory until it is committed.
   *
   * @default 16
   */
  readonly maxInFlight?: number | undefined;
  /**
   * The reservation of a shipper that died ends after this many milliseconds. A connection that needs longer for `maxInFlight` chunks makes no
   * progress.
   *
   * @default 30000
   */
  readonly leaseMs?: number | undefined;
  /**
   * Text is shipped after this many milliseconds at the latest, even if it is less than a chunk.
   *
   * @default 500
   */
  readonly flushMs?: number | undefined;
  /**
   * Consumers that must get every file, even before they have joined: no chunk is freed before they have passed it.
   *
   * @default []
   */
  readonly consumers?: readonly string[] | undefined;
  /**
   * While this shipper finds no space, it removes consumers that gave no sign of life for this long. A waiting receiver gives a sign every 10 s, a
   * working one with each commit, so this must be longer than its handler ever needs. A removed consumer rejects with `KIT_LOGSHIP_DROPPED`.
   *
   * @default never
   */
  readonly dropSilentMs?: number | undefined;
  /**
   * The handling of a source that is damaged, or has changed since a part of it was shipped. The call rejects in both cases. `error` leaves the file
   * open in the channel, where it holds up those behind it until another call continues it. `setAside` ends it there: receivers read the committed
   * part, emit `damaged`, and continue with the next file; the source can be shipped again as another file.
   *
   * @default "error"
   */
  readonly onBadData?: "error" | "setAside" | undefined;
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
  onBadData: choice(["error", "setAside"], "error"),
} satisfies RulesOf<ShipperOptions>;

export interface ResolvedShipper extends Omit<Resolved<typeof shipperRules>, "limitBytes"> {
  readonly limitBytes: number;
  /** Whether the caller has named a limit. */
  readonly hasLimit: boolean;
}

/** @throws {TypeError | RangeError} an option is not what it should be. */
export const resolveShipper = (options: ShipperOptions): ResolvedShipper => {
  const own = resolve("options", options, shipperRules);
  return { ...own, limitBytes: own.limitBytes ?? 268_435_456, hasLimit: own.limitBytes !== undefined };
};

/** Settings of a receiver. */
export interface ReceiverOptions extends ConnectionOptions, LineOptions, FlushOptions {
  /**
   * Name of the consumer. Each consumer gets everything; of several processes with the same name only the latest works, and the others are fenced
   * off.
   */
  readonly consumer: string;
  /**
   * The first file of a consumer that is new to the channel. With `start` it gets everything, and is refused if a chunk has already been freed. With
   * `oldest` it gets everything that is still there; a partly freed file begins at the position of the slowest consumer. With `now` it gets the files
   * that are opened after it joined. A known consumer continues at its position.
   *
   * @default "start"
   */
  readonly from?: "start" | "oldest" | "now" | undefined;
  /**
   * Bytes that are fetched ahead of the reader; for framed chunks bytes of text.
   *
   * @default for framed chunks 2097152, for others 1048576: more only fills the processor's caches
   */
  readonly prefetchBytes?: number | undefined;
  /**
   * The handling of a file with damaged or missing data, or with a refused line: `error` ends the run, and each later one at the same place. `skip`
   * counts the rest of the file as done. `setAside` keeps the file, and the memory that it takes, and continues with the files behind it; `redo()`
   * has it retried.
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
  onBadData: choice(["error", "skip", "setAside"], "error"),
} satisfies RulesOf<ReceiverOptions>;

export type ResolvedReceiver = Resolved<typeof receiverRules>;
