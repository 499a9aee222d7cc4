import {
  booleanOption,
  choiceOption,
  clientOptionNames,
  integerOption,
  optionsObject,
  textOption,
} from "@kit/core/toolkit";
import type { FileOrder } from "./files.js";
import type { HubOptions } from "./hub.js";
import { nameOption } from "./keys.js";
import { lineNames, type LineOptions, resolveLines, type ResolvedLines } from "./lines.js";
import { flushNames, type FlushOptions, resolveFlush, type ResolvedFlush } from "./runner.js";

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

/** Settings of a job. */
export interface JobOptions extends HubOptions, DirectoryOptions, LineOptions, FlushOptions {
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

/** The options of these names, with every default filled in. */
type Resolved<Options, Name extends keyof Options> = { readonly [Own in Name]-?: Exclude<Options[Own], undefined> };

/** The options that jobs and receivers share, checked. */
interface ResolvedReading extends ResolvedFlush {
  readonly hub: HubOptions;
  readonly lines: ResolvedLines;
}

/** The options of a job, checked. */
export interface ResolvedJob
  extends ResolvedReading, Resolved<JobOptions, "directory" | "order" | "dereference" | "leaseMs" | "onBadData"> {
  readonly match: RegExp | undefined;
  readonly takesLast: boolean;
}

export const directoryNames: readonly string[] = ["match", "order", "dereference"];

/** @throws {TypeError} it is given and is no RegExp. */
export const regExpOption = (name: string, value: unknown): RegExp | undefined => {
  if (value === undefined || value instanceof RegExp) return value;
  throw new TypeError(`Expected \`${name}\` to be a RegExp`);
};

/** @throws {TypeError} an option is not what it should be. */
export const resolveDirectory = ({
  match,
  order = "natural",
  dereference = false,
}: DirectoryOptions): { match: RegExp | undefined; order: FileOrder; dereference: boolean } => ({
  match: regExpOption("match", match),
  order: typeof order === "function" ? order : choiceOption("order", order, ["natural", "mtime"]),
  dereference: booleanOption("dereference", dereference),
});

/** @throws {TypeError | RangeError} an option is not what it should be. */
export const resolveJob = (options: JobOptions): ResolvedJob => {
  const own = optionsObject<JobOptions>("options", options, [
    ...[...clientOptionNames, ...directoryNames, ...lineNames, ...flushNames],
    ...["directory", "leaseMs", "lastLine", "onBadData"],
  ]);
  const { directory, leaseMs = 10_000, lastLine = "take", onBadData = "error" } = own;
  return {
    hub: own,
    lines: resolveLines(own),
    ...resolveFlush(own),
    ...resolveDirectory(own),
    directory: textOption("directory", directory, 4_096),
    leaseMs: integerOption("leaseMs", leaseMs, 100, 86_400_000),
    takesLast: choiceOption("lastLine", lastLine, ["take", "leave"]) === "take",
    onBadData: choiceOption("onBadData", onBadData, ["error", "skip"]),
  };
};

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

/** @throws {TypeError | RangeError} an option is not what it should be. */
export const concurrencyOption = (concurrency = 1): number => integerOption("concurrency", concurrency, 1, 1_000);

/** Settings of a shipper. */
export interface ShipperOptions extends HubOptions {
  /**
   * The limit of memory in Redis for the chunks of the channel, in bytes: for those that some consumer still needs and those under way. The first
   * shipper of the channel sets it; a later one with another number gets a `mismatch` event. `setLimit()` changes it. At least two chunks.
   *
   * @default 268435456
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

/** The options of a shipper, checked. */
export interface ResolvedShipper extends Resolved<
  ShipperOptions,
  Exclude<keyof ShipperOptions, keyof HubOptions | "dropSilentMs">
> {
  readonly hub: HubOptions;
  /** Whether the caller has named a limit. */
  readonly hasLimit: boolean;
  readonly dropSilentMs: number | undefined;
}

/** A consumer's name as keys and records have it: without spaces. */
export const consumerName = (name: string): string => encodeURIComponent(nameOption("consumer", name, 200));

export const limitOption = (limitBytes: number): number => integerOption("limitBytes", limitBytes, 4_096);

/** @throws {TypeError | RangeError} an option is not what it should be. */
export const resolveShipper = (options: ShipperOptions): ResolvedShipper => {
  const own = optionsObject<ShipperOptions>("options", options, [
    ...clientOptionNames,
    ...["limitBytes", "codec", "gzipLevel", "chunkBytes", "maxInFlight", "leaseMs", "flushMs"],
    ...["consumers", "dropSilentMs", "onBadData"],
  ]);
  const { limitBytes = 268_435_456, codec = "gzip", gzipLevel = 1, chunkBytes = 131_060 } = own;
  const { maxInFlight = 16, leaseMs = 30_000, flushMs = 500, consumers = [], dropSilentMs, onBadData = "error" } = own;
  if (!Array.isArray(consumers)) throw new TypeError("Expected `consumers` to be an array of names");
  return {
    hub: own,
    limitBytes: limitOption(limitBytes),
    hasLimit: own.limitBytes !== undefined,
    codec: choiceOption("codec", codec, ["gzip", "none"]),
    gzipLevel: integerOption("gzipLevel", gzipLevel, 1, 9),
    chunkBytes: integerOption("chunkBytes", chunkBytes, 1_024, 8_388_608),
    maxInFlight: integerOption("maxInFlight", maxInFlight, 1, 256),
    leaseMs: integerOption("leaseMs", leaseMs, 100, 3_600_000),
    flushMs: integerOption("flushMs", flushMs, 1, 3_600_000),
    consumers: consumers.map(consumerName),
    dropSilentMs:
      dropSilentMs === undefined ? undefined : integerOption("dropSilentMs", dropSilentMs, 20_000, 31_536_000_000),
    onBadData: choiceOption("onBadData", onBadData, ["error", "setAside"]),
  };
};

/** Settings of a receiver. */
export interface ReceiverOptions extends HubOptions, LineOptions, FlushOptions {
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
   * @default 2097152 of framed chunks, 1048576 of others: more only fills the processor's caches
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

/** The options of a receiver, checked. */
export interface ResolvedReceiver
  extends ResolvedReading, Resolved<ReceiverOptions, "consumer" | "from" | "onBadData"> {
  readonly prefetchBytes: number | undefined;
}

/** @throws {TypeError | RangeError} an option is not what it should be. */
export const resolveReceiver = (options: ReceiverOptions): ResolvedReceiver => {
  const own = optionsObject<ReceiverOptions>("options", options, [
    ...clientOptionNames,
    ...lineNames,
    ...flushNames,
    ...["consumer", "from", "prefetchBytes", "onBadData"],
  ]);
  const { consumer, from = "start", prefetchBytes, onBadData = "error" } = own;
  return {
    hub: own,
    lines: resolveLines(own),
    ...resolveFlush(own),
    consumer: consumerName(consumer),
    from: choiceOption("from", from, ["start", "oldest", "now"]),
    prefetchBytes: prefetchBytes === undefined ? undefined : integerOption("prefetchBytes", prefetchBytes, 1),
    onBadData: choiceOption("onBadData", onBadData, ["error", "skip", "setAside"]),
  };
};
