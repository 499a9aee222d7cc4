import { choiceOption, clientOptionNames, integerOption, optionsObject, textOption } from "@kit/core/toolkit";
import type { FileOrder } from "./files.js";
import type { HubOptions } from "./hub.js";
import { nameOption } from "./keys.js";
import { lineNames, type LineOptions, resolveLines, type ResolvedLines } from "./lines.js";
import { flushNames, type FlushOptions, resolveFlush, type ResolvedFlush } from "./runner.js";

/**
 * How a file that cannot be read is treated: `error` ends the run. The others emit `damaged` and go on: `skip` counts the rest of the file
 * as done; `setAside` keeps it, so that `redo()` can have it tried again.
 */
export type BadDataPolicy = "error" | "skip" | "setAside";

/** Which files of a directory, and in which order. */
export interface DirectoryOptions {
  /**
   * Only files whose name matches.
   *
   * @default all
   */
  readonly match?: RegExp | undefined;
  /**
   * Which file comes first: by name with numbers as numbers (`natural`), by time of the last change (`mtime`), or a comparison.
   *
   * @default "natural"
   */
  readonly order?: FileOrder | undefined;
}

/** Settings of a job. */
export interface JobOptions extends HubOptions, DirectoryOptions, LineOptions, FlushOptions {
  /** The directory whose files are processed; its subdirectories are not. */
  readonly directory: string;
  /**
   * A worker that is silent for so many milliseconds loses its file to others, which go on behind its last commit. It is renewed three times in that time.
   *
   * @default 10000
   */
  readonly leaseMs?: number | undefined;
  /**
   * The text behind the last line feed of a file: `take` makes it a line; `leave` waits for the rest, for files that grow.
   *
   * @default "take"
   */
  readonly lastLine?: "take" | "leave" | undefined;
  /**
   * How a damaged file is treated: `error` ends the run; `skip` emits `damaged`, goes on with the others, and tries it again in the next run.
   *
   * @default "error"
   */
  readonly onBadData?: "error" | "skip" | undefined;
}

/** Options of these names, with every default filled in. */
type Resolved<Options, Name extends keyof Options> = { readonly [Own in Name]-?: Exclude<Options[Own], undefined> };

/** The options that jobs and receivers share, checked. */
interface ResolvedReading extends ResolvedFlush {
  readonly hub: HubOptions;
  readonly lines: ResolvedLines;
}

/** The options of a job, checked. */
export interface ResolvedJob
  extends ResolvedReading, Resolved<JobOptions, "directory" | "order" | "leaseMs" | "onBadData"> {
  readonly match: RegExp | undefined;
  readonly takesLast: boolean;
}

const directoryNames = ["match", "order"];

/** @throws {TypeError} it is given, and no RegExp. */
export const regExpOption = (name: string, value: unknown): RegExp | undefined => {
  if (value === undefined || value instanceof RegExp) return value;
  throw new TypeError(`Expected \`${name}\` to be a RegExp`);
};

/** @throws {TypeError} an option is not what it should be. */
export const resolveDirectory = ({
  match,
  order = "natural",
}: DirectoryOptions): { match: RegExp | undefined; order: FileOrder } => ({
  match: regExpOption("match", match),
  order: typeof order === "function" ? order : choiceOption("order", order, ["natural", "mtime"]),
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
  /** Ends the run: what is not committed is given up, and the promise rejects with `signal.reason`. */
  readonly signal?: AbortSignal | undefined;
  /**
   * So many files at once.
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
   * Memory in Redis for the chunks of the channel, in bytes: those that no consumer has passed, and those under way. Set by the first
   * shipper of the channel; a later one with another number gets a `mismatch` event, `setLimit()` changes it. At least two chunks.
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
   * Effort of gzip, 1 to 9. Log text gains little above 1.
   *
   * @default 1
   */
  readonly gzipLevel?: number | undefined;
  /**
   * Largest chunk, stored bytes. The default and 262128 lie just under an allocator class of Redis; 131072 would take a quarter more memory.
   *
   * @default 131060
   */
  readonly chunkBytes?: number | undefined;
  /**
   * Chunks written at the same time; each is held in memory until it is committed.
   *
   * @default 16
   */
  readonly maxInFlight?: number | undefined;
  /**
   * The reservation of a shipper that died ends after so many milliseconds. A connection that needs longer than this for `maxInFlight` chunks makes
   * no progress.
   *
   * @default 30000
   */
  readonly leaseMs?: number | undefined;
  /**
   * Text that is there goes out after so many milliseconds at the latest, also if it is less than a chunk.
   *
   * @default 500
   */
  readonly flushMs?: number | undefined;
  /**
   * Consumers that must get every file, also if they have not joined yet: nothing is freed before they have passed it.
   *
   * @default []
   */
  readonly consumers?: readonly string[] | undefined;
  /**
   * While this shipper finds no space, it takes consumers off the channel that gave no sign for so long. A receiver that waits gives a sign every
   * 10 s, one that works with each commit: this must be longer than its handler ever needs. Such a consumer rejects with `KIT_LOGSHIP_DROPPED`.
   *
   * @default never
   */
  readonly dropSilentMs?: number | undefined;
  /**
   * How a source is treated that is damaged, or has changed since a part of it was shipped. The call rejects in both cases. `error` leaves the file open
   * in the channel, where it holds up those behind it until another call goes on with it. `setAside` ends it there: receivers read what is committed, emit
   * `damaged`, and go on; the source can be shipped again, as another file.
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
  /** Name of the consumer. Each consumer gets everything; of several processes with one name the latest works, the others are fenced off. */
  readonly consumer: string;
  /**
   * A consumer that is new to the channel gets: with `start` everything, and is refused if something has been freed already; with `oldest` what is
   * still there, of a partly freed file from where the slowest consumer is; with `now` files that are opened after it joined. A known consumer goes on where it was.
   *
   * @default "start"
   */
  readonly from?: "start" | "oldest" | "now" | undefined;
  /**
   * Bytes that are fetched ahead of the reader; of framed chunks their text.
   *
   * @default 2097152 of framed chunks, 1048576 of others: more only fills the processor's caches
   */
  readonly prefetchBytes?: number | undefined;
  /**
   * How a file with damaged or missing data, or with a line that is refused, is treated: `error` ends the run, and each later one there. `skip` counts
   * the file as done from there on. `setAside` keeps it, and the memory that it takes, and goes on with those behind it; `redo()` has it tried again.
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
