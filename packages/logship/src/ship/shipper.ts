import { createHash } from "node:crypto";
import { basename } from "node:path";
import { Duplex, Writable } from "node:stream";
import type { KitError, RedisLike } from "@kit/core";
import {
  boolean,
  integer,
  integerOption,
  type MetricSample,
  newToken,
  onAbort,
  resolve,
  type RulesOf,
  signal as signalRule,
  text,
  textOption,
} from "@kit/core/toolkit";
import { deleteChannel, dropConsumer, epochOf, metricsOf, statusOf } from "../channel.js";
import { crcOf } from "../bytes/crc.js";
import { damageOf, isAboutContent, LogshipError } from "../errors.js";
import { changedError, listFiles, type LocalFile, localFile, OpenFile, type SkippedLink } from "../bytes/files.js";
import { identityOf } from "./identity.js";
import { followLog } from "./follow.js";
import { type Chunk, Framer } from "./framing.js";
import { readGzip } from "../bytes/gzip.js";
import { LogConnection } from "../connection.js";
import {
  consumerName,
  directoryRules,
  type DirectoryOptions,
  regExp,
  type ShipperOptions,
  type ResolvedShipper,
  resolveShipper,
  shipperRules,
} from "../options.js";
import { LogObject } from "../process/processor.js";
import { type ChannelStatus, type Codec, type Opened } from "../scripts/index.js";
import * as scripts from "../scripts/index.js";
import { linkedSignal, Watch } from "../signals.js";
import { RewindNeeded, Upload } from "./upload.js";

/** The progress of shipping a file. */
export interface ShipProgress {
  readonly file: string;
  /** Text bytes committed; 0 for passed-through gzip content. */
  readonly textBytes: number;
  /** Stored bytes committed. */
  readonly storedBytes: number;
  readonly lines: number;
  /** Committed bytes of the source, and its size; the size of a stream is not known. */
  readonly doneBytes: number;
  readonly totalBytes: number | undefined;
}

/** Events of a shipper. */
export interface ShipperEvents {
  /** Chunks were committed. */
  readonly progress: [fact: ShipProgress];
  /** The channel is at its limit: the file waits until consumers have freed space. No commands are sent meanwhile. */
  readonly waiting: [fact: { readonly file: string }];
  /** A consumer was removed from the channel because of `dropSilentMs`. */
  readonly dropped: [fact: { readonly consumer: string }];
  /** The channel already had another limit, which stays. */
  readonly mismatch: [fact: { readonly limitBytes: number; readonly storedLimitBytes: number }];
  /** A link leads out of the directory, to `target`, and is left out: see `dereference`. */
  readonly skipped: [link: SkippedLink];
  /** A file of a directory was left out because of `onBadData`. */
  readonly damaged: [fact: { readonly file: string; readonly error: KitError }];
  /**
   * A file is equal to another one that is there; or it has the first KiB of a longer one that is gone, and `of` is the identity of that. It is shipped,
   * too: if it is a copy, or an earlier state, consumers get its lines twice.
   */
  readonly copy: [fact: { readonly file: string; readonly of: string }];
  /**
   * The server may drop keys when its memory is full: any, and with them chunks and what is known of files, under an `allkeys-…` policy, so that
   * lines are lost or counted again; under a `volatile-…` one chunks that are not committed yet. Emitted once for each policy; asked in the
   * background, only while there is a listener, and again after a lost connection. Nothing is emitted where INFO is forbidden.
   */
  readonly evictable: [fact: { readonly policy: string }];
  /** An operation failed and is being retried. */
  readonly error: [error: KitError];
}

/** A file that is completely in the channel. */
export interface ShippedFile {
  readonly id: number;
  readonly name: string;
  /** Text bytes; 0 for passed-through gzip content. */
  readonly textBytes: number;
  readonly storedBytes: number;
  /** Line feeds; 0 for passed-through gzip content. */
  readonly lines: number;
  /** SHA-256 of the text, or of the stored bytes of passed-through gzip content; hexadecimal. */
  readonly sha256: string;
  /** Whether it had been shipped before this call. */
  readonly wasShipped: boolean;
}

/** Settings of shipping one source. */
export interface ShipOptions {
  /**
   * Name of the file in the channel.
   *
   * @default the file's own
   */
  readonly name?: string | undefined;
  /**
   * Identity of the source. With the same identity a call continues where an earlier one ended, or finds that the source has been shipped, also in
   * another process after a crash. A stream must give the same bytes from its beginning each time.
   *
   * @default of files device, inode and hash of the first KiB; of streams a new one
   */
  readonly id?: string | undefined;
  /**
   * Keeps the bytes of a gzip file unchanged, instead of inflating and framing them anew. The whole file must fit under the limit.
   *
   * @default false
   */
  readonly passThrough?: boolean | undefined;
  /** Ends the call: committed chunks stay, and the next call with the same identity continues behind them. */
  readonly signal?: AbortSignal | undefined;
}

export const shipRules = {
  name: text(4_096),
  id: text(1_024),
  passThrough: boolean(false),
  signal: signalRule,
} satisfies RulesOf<ShipOptions>;
export const sendRules = { id: shipRules.id, signal: signalRule };

/** Settings of shipping a directory. */
export interface ShipDirectoryOptions extends DirectoryOptions, Pick<ShipOptions, "passThrough" | "signal"> {}

export const shipDirectoryRules = {
  ...directoryRules,
  passThrough: shipRules.passThrough,
  signal: signalRule,
} satisfies RulesOf<ShipDirectoryOptions>;

/** Settings of following a log. */
export interface FollowOptions {
  /**
   * Names of its files after rotation.
   *
   * @default those that begin with the log's name and `.` or `-`
   */
  readonly rotated?: RegExp | undefined;
  /**
   * A rotated file has ended when nothing was written to it for this many milliseconds, or when another one has been rotated since: its writer may
   * keep it open for some time.
   *
   * @default 2000
   */
  readonly quietMs?: number | undefined;
  /**
   * Takes also rotated files outside the log's directory that links in it lead to; otherwise each is left out, with a `skipped` event. `path`
   * itself may be a link to anywhere.
   *
   * @default false
   */
  readonly dereference?: boolean | undefined;
  /** Ends the call: committed chunks stay, and the next call continues behind them. */
  readonly signal?: AbortSignal | undefined;
}

export const followRules = {
  rotated: regExp,
  quietMs: integer(0, 3_600_000, 2_000),
  dereference: boolean(false),
  signal: signalRule,
} satisfies RulesOf<FollowOptions>;

/** Any source of bytes, or of text, which is sent as UTF-8: a Node or web stream, a generator. */
export type ByteSource = AsyncIterable<Uint8Array | string> | ReadableStream<Uint8Array | string>;

/** One source, and how it is read from its beginning. */
interface Source {
  readonly id: string;
  readonly name: string;
  readonly codec: Codec;
  readonly totalBytes: number | undefined;
  read(): AsyncIterable<Uint8Array | string>;
  /** Whether `read` can be called again. */
  readonly isRepeatable: boolean;
  /** Whether its call has opened another source before: then the call waits out an outage even at the first command. */
  readonly isFurther?: boolean;
  /** Whether no other call can have the same identity. */
  readonly isNameless?: boolean;
  /** Bytes of the source that have been read, if the shipped text differs because the source is inflated. */
  readonly at?: () => number;
}

/** Puts files into a channel; see {@link createShipper}. */
export class Shipper extends LogObject<ShipperEvents> {
  readonly channel: string;
  readonly #resolved: ResolvedShipper;
  readonly #connection: LogConnection;
  #toldLimit: number | undefined;

  constructor(redis: RedisLike, channel: string, options: ShipperOptions = {}) {
    const resolved = resolveShipper(options);
    const connection = new LogConnection(redis, channel, resolved, "The shipper");
    super(connection);
    this.channel = channel;
    this.#resolved = resolved;
    this.#connection = connection;
  }

  /**
   * Ships the current content of a file, and resolves when all of it is in the channel. Waits while the channel is at its limit.
   *
   * A partly shipped file continues behind its committed part, once that part was read again and found to be the same. A shipped file is not shipped
   * again. Of two shippers of one file the later continues and the earlier rejects. Once begun, the call waits out outages of Redis.
   *
   * @throws {LogshipError} `KIT_LOGSHIP_CHANGED`: it is not what it was when a part of it was shipped; `KIT_LOGSHIP_FENCED`: another
   * shipper has it now; `KIT_LOGSHIP_CHANNEL_CLOSED`; `KIT_LOGSHIP_TOO_LARGE`.
   * @throws {BadDataError} it is gzip, and damaged. It stays open in the channel for a retry, unless `onBadData` is `setAside`.
   * @throws {KitUnavailableError} no server within `deadlineMs` at the beginning.
   * @throws the error of the file system; `signal.reason` if `signal` aborts.
   */
  async add(path: string, options: ShipOptions = {}): Promise<ShippedFile> {
    const { name = basename(path), id, passThrough, signal } = resolve("options", options, shipRules);
    const file = await localFile(path, name);
    const opened = await OpenFile.open(file);
    if (!opened) throw Object.assign(new Error(`ENOENT: no such file, ${path}`), { code: "ENOENT" });
    try {
      const codec = passThrough ? "member" : this.#resolved.codec;
      return await this.#ship(name, signal, async (linked) =>
        fileSource(
          file,
          opened,
          id ?? (await identityOf(this.#connection, file, opened, { signal: linked, onCopy: this.#copyOf(name) })),
          codec,
        ),
      );
    } finally {
      await opened.close();
    }
  }

  /**
   * Ships the files of a directory, one after another; files that have been shipped are skipped. Throws like `add`; with `onBadData: "setAside"` a
   * file that cannot be shipped is reported by a `damaged` event, and the others are shipped.
   */
  async addDirectory(directory: string, options: ShipDirectoryOptions = {}): Promise<ShippedFile[]> {
    const { match, order, dereference, passThrough, signal } = resolve("options", options, shipDirectoryRules);
    const onSkipped = dereference ? undefined : (link: SkippedLink): void => this.emit("skipped", link);
    const shipped: ShippedFile[] = [];
    for (const { path, name } of await listFiles(directory, match, order, onSkipped))
      try {
        shipped.push(await this.add(path, { passThrough, signal }));
      } catch (error) {
        if (this.#resolved.onBadData === "error" || !isAboutContent(error)) throw error;
        this.emit("damaged", damageOf(name, error));
      }
    return shipped;
  }

  /**
   * Ships the content of a stream, and resolves when it has ended and all of it is in the channel. The stream waits while the channel is at its
   * limit. Throws like `add`, and the error of the stream. If the stream fails, a file with an `id` stays open in the channel for another call; one
   * without ends there, and receivers emit `damaged`.
   *
   * @throws {LogshipError} `KIT_LOGSHIP_INTERRUPTED`: a failover lost what had been confirmed, and a stream cannot be read again.
   */
  async send(
    name: string,
    source: ByteSource,
    options: Omit<ShipOptions, "name" | "passThrough"> = {},
  ): Promise<ShippedFile> {
    const { id, signal } = resolve("options", options, sendRules);
    textOption("name", name, 4_096);
    if (typeof (source as Partial<AsyncIterable<unknown>> | undefined)?.[Symbol.asyncIterator] !== "function")
      throw new TypeError("Expected `source` to be a stream");
    const read = (): AsyncIterable<Uint8Array | string> => source as AsyncIterable<Uint8Array | string>;
    const { codec } = this.#resolved;
    const stream: Source = {
      id: id ?? newToken(),
      name,
      codec,
      totalBytes: undefined,
      read,
      isRepeatable: false,
      isNameless: id === undefined,
    };
    return await this.#ship(name, signal, () => stream);
  }

  /**
   * Ships a log as it grows, through rotations that rename its file: first the rotated files, oldest first, then everything that is written, until
   * `signal` aborts. A file is recognised under each of its names. Its tail is shipped before the next file begins, and then it is sealed. Another
   * call, also in another process, continues where this one ended. Gzip files are left out.
   *
   * @throws {LogshipError} `KIT_LOGSHIP_CHANGED`: the log was truncated or written over; for a file that was rotated away it is an `error` event.
   * @throws as `add`, but no file at `path` is waited for.
   */
  async follow(path: string, options: FollowOptions = {}): Promise<never> {
    const { rotated, quietMs, dereference, signal: ended } = resolve("options", options, followRules);
    const skipped = new Set<string>();
    const onSkipped = (link: SkippedLink): void => {
      if (!skipped.has(link.file)) this.emit("skipped", link);
      skipped.add(link.file);
    };
    const log = {
      path,
      rotated,
      quietMs,
      onSkipped: dereference ? undefined : onSkipped,
    };
    const { signal, unlink } = this.#connection.link(ended);
    const { codec } = this.#resolved;
    let isFurther = false;
    try {
      for await (const { file, id: line, opened, isLive, endsAt, read } of followLog(log, signal)) {
        const { name } = file;
        try {
          const { wasShipped, textBytes } = await this.#ship(name, signal, async (linked) => {
            const find = (): Promise<string> =>
              identityOf(this.#connection, file, opened, { signal: linked, line, onCopy: this.#copyOf(name) });
            const id = await (isFurther ? this.#connection.persist(find, linked) : find());
            const source = { id, name, codec, totalBytes: undefined, read, isRepeatable: true, isFurther };
            isFurther = true;
            return source;
          });
          if ((wasShipped && isLive) || !(await endsAt(textBytes))) throw changedError(name);
        } catch (error) {
          if (isLive || !(error instanceof LogshipError) || error.code !== "KIT_LOGSHIP_CHANGED") throw error;
          this.emit("error", error);
        }
      }
      throw signal.reason as Error;
    } finally {
      unlink();
    }
  }

  /** A Node stream that ships everything written to it: it has finished when the file is sealed. Options and errors are those of `send`. */
  writable(name: string, options: Omit<ShipOptions, "name" | "passThrough"> = {}): Writable {
    const { controller, signal, unlink } = linkedSignal([
      resolve("options", { signal: options.signal }, sendRules).signal,
    ]);
    const stream = Duplex.from(async (source: AsyncIterable<Uint8Array>) => {
      await this.send(name, source, { ...options, signal });
    });
    // One that is destroyed gives its reader no end.
    stream.once("close", () => {
      unlink();
      controller.abort(stream.errored ?? new Error("The stream was destroyed"));
    });
    return stream;
  }

  /** The same as a web stream: closed when the file is sealed. */
  webWritable(
    name: string,
    options: Omit<ShipOptions, "name" | "passThrough"> = {},
  ): WritableStream<Uint8Array | string> {
    return Writable.toWeb(this.writable(name, options)) as WritableStream<Uint8Array | string>;
  }

  /** Changes the limit of the channel, for all shippers. A limit below the current use admits nothing until enough has been freed. */
  async setLimit(limitBytes: number): Promise<void> {
    this.#connection.life.assertOpen();
    await this.#change(shipperRules.limitBytes.check("limitBytes", limitBytes) as number);
  }

  /** Closes the channel for good: no further file can be opened, and receivers end behind the last file. Open files can still be finished. */
  async closeChannel(): Promise<void> {
    this.#connection.life.assertOpen();
    await this.#change("");
  }

  /**
   * Deletes the channel with its files, and the results of its consumers. Its shippers and receivers reject. Chunks are deleted in steps; if this
   * process dies in between, the channel stays closed, and another call finishes the deletion. The record of shipped files is deleted, too.
   */
  async deleteChannel(): Promise<void> {
    this.#connection.life.assertOpen();
    await deleteChannel(this.#connection);
  }

  /**
   * Removes a consumer from the channel for good: nothing waits for it any longer, and its results stay. Its process rejects with
   * `KIT_LOGSHIP_DROPPED`, and so does each later one of this name, since the results lack the lines that it had not processed. Resolves with whether
   * there was such a consumer.
   */
  async removeConsumer(name: string): Promise<boolean> {
    this.#connection.life.assertOpen();
    return await dropConsumer(this.#connection, consumerName(name), 0);
  }

  /**
   * Ends open files to which nothing was committed for `silentMs`; a stream without `id` leaves one when its process dies. Receivers read the
   * committed part, and emit `damaged`. A shipper that was only paused rejects with `KIT_LOGSHIP_FENCED`; its source can be shipped again as another
   * file. Resolves with the names of the files.
   */
  async endAbandoned(silentMs: number): Promise<string[]> {
    this.#connection.life.assertOpen();
    integerOption("silentMs", silentMs, 0);
    const { events, files: facts } = this.#connection.keys;
    const how = { count: 0, sha256: "", fault: "KIT_LOGSHIP_FENCED", silentMs, events };
    const { files = [] } = (await this.#connection.run(scripts.status, { most: 0 })) ?? {};
    const names: string[] = [];
    for (const { id: file, name, isSealed } of files) {
      if (isSealed) continue;
      const fence = String(await this.#connection.read("HGET", [facts, `${String(file)}:fence`]));
      if ((await this.#connection.run(scripts.seal, { ...how, file, fence })) === "sealed") names.push(name);
    }
    return names;
  }

  /** The channel at one instant; null if there is none yet. */
  async status(): Promise<ChannelStatus | null> {
    return await statusOf(this.#connection);
  }

  /** The channel as plain numbers, for `expose()` of `@kit/stats` or another exporter. */
  async metrics(): Promise<MetricSample[]> {
    return await metricsOf(this.#connection);
  }

  async #change(limit: number | ""): Promise<void> {
    const { events } = this.#connection.keys;
    for (let isChanged = false; !isChanged;) {
      const known = await epochOf(this.#connection);
      // Without a channel there is nothing to close.
      if (known === null && limit === "") return;
      isChanged = await this.#connection.run(scripts.change, { limit, epoch: known ?? newToken(), events });
    }
  }

  async #ship(
    file: string,
    outer: AbortSignal | undefined,
    sourceOf: (signal: AbortSignal) => Source | Promise<Source>,
  ): Promise<ShippedFile> {
    const facts = (): object => ({ channel: this.channel, file });
    return await this.#connection.task("logship.ship", facts, outer, async ({ signal }) => {
      signal.throwIfAborted();
      return await this.#shipWhole(await sourceOf(signal), signal);
    });
  }

  #copyOf(file: string): (of: string) => void {
    return (of) => this.emit("copy", { file, of });
  }

  async #shipWhole(source: Source, signal: AbortSignal): Promise<ShippedFile> {
    for (let hasBegun = source.isFurther; ; hasBegun = true) {
      const upload = this.#uploadOf(source, signal);
      const open = (): Promise<Opened> => upload.open();
      const opened = await (hasBegun ? this.#connection.persist(open, signal) : open());
      this.#compareLimit(opened);
      if (opened.state === "done") return shippedBefore(source, opened);
      try {
        return await this.#shipFrom(source, upload, signal);
      } catch (error) {
        if (error instanceof RewindNeeded && source.isRepeatable) continue;
        const fault = this.#faultOf(source, error);
        if (fault !== undefined) await upload.breakOff(fault);
        if (!(error instanceof RewindNeeded)) throw error;
        const message = `Redis lost a part of ${JSON.stringify(source.name)}; a stream cannot be read again`;
        throw new LogshipError("KIT_LOGSHIP_INTERRUPTED", message, { file: source.name });
      } finally {
        await upload.leave();
      }
    }
  }

  async #shipFrom(source: Source, upload: Upload, signal: AbortSignal): Promise<ShippedFile> {
    const { name } = source;
    // A file keeps the codec with which it was begun, whatever the options are now.
    const { codec } = upload.opened;
    if ((codec === "member") !== (source.codec === "member")) throw changedError(name);
    const hash = createHash("sha256");
    const { fed, crc } = upload;
    const framer = new Framer(codec, this.#resolved, fed, crc);
    const compressing: Promise<Chunk[]>[] = [];
    const window = this.#resolved.maxInFlight;
    const drain = async (keep: number): Promise<void> => {
      while (compressing.length > keep) {
        // All chunks that are compressed by now are sent together.
        const some = await Promise.all(compressing.splice(0, Math.max(1, Math.min(compressing.length - keep, window))));
        await upload.add(some.flat());
      }
    };
    let missing = fed;
    let crcSeen = 0;
    for await (const given of timely(
      source.read(),
      this.#resolved.flushMs,
      () => framer.isHolding || compressing.length > 0,
      signal,
    )) {
      if (given === "late") {
        compressing.push(...framer.flush());
        await drain(0);
        await upload.settle();
        continue;
      }
      let bytes =
        typeof given === "string" ? utf8Of(given) : Buffer.from(given.buffer, given.byteOffset, given.byteLength);
      hash.update(bytes);
      if (missing > 0) {
        const known = bytes.subarray(0, missing);
        crcSeen = crcOf(known, crcSeen);
        missing -= known.length;
        if (missing === 0 && crcSeen !== crc) throw changedError(name);
        bytes = bytes.subarray(known.length);
        if (bytes.length === 0) continue;
      }
      // The source of a stream may reuse the memory.
      compressing.push(...framer.feed(source.isRepeatable || typeof given === "string" ? bytes : Buffer.from(bytes)));
      if (compressing.length >= 2 * window) await drain(window);
    }
    if (missing > 0) throw changedError(name);
    compressing.push(...framer.flush());
    await drain(0);
    const sha256 = hash.digest("hex");
    await upload.seal(sha256);
    const { textBytes, storedBytes, lines } = upload;
    return { id: upload.opened.id, name, textBytes, storedBytes, lines, sha256, wasShipped: false };
  }

  /** The reason to end the file where it is, so that it holds up nothing behind it; undefined if another call can continue it. */
  #faultOf({ isNameless }: Source, error: unknown): string | undefined {
    if (this.#resolved.onBadData === "setAside" && isAboutContent(error)) return error.code;
    // No other call can have the identity that was generated for it.
    return isNameless ? "KIT_LOGSHIP_INTERRUPTED" : undefined;
  }

  #uploadOf(source: Source, signal: AbortSignal): Upload {
    const { id, name, codec, totalBytes } = source;
    const events = {
      committed: ({ textBytes, storedBytes, lines, fed }: Upload): void =>
        this.emit("progress", {
          file: name,
          textBytes,
          storedBytes,
          lines,
          doneBytes: source.at?.() ?? fed,
          totalBytes,
        }),
      waiting: (): void => this.emit("waiting", { file: name }),
      dropped: (consumer: string): void => this.emit("dropped", { consumer }),
    };
    const total = codec === "member" ? (totalBytes ?? 0) : 0;
    return new Upload(this.#connection, this.#resolved, { source: id, name, codec, total }, events, signal);
  }

  #compareLimit({ limitBytes: storedLimitBytes }: Opened): void {
    const { limitBytes, hasLimit } = this.#resolved;
    if (!hasLimit || storedLimitBytes === limitBytes || storedLimitBytes === this.#toldLimit) return;
    this.#toldLimit = storedLimitBytes;
    this.emit("mismatch", { limitBytes, storedLimitBytes });
  }
}

const utf8Of = (text: string): Buffer => {
  // Node 20 has this method, but the type library does not.
  if (!(text as unknown as { isWellFormed(): boolean }).isWellFormed())
    throw new TypeError("Expected `source` to be well-formed text");
  return Buffer.from(text);
};

const shippedBefore = ({ name, totalBytes, at }: Source, opened: Opened): ShippedFile => {
  const { id, textBytes, storedBytes, lines, sha256, codec } = opened;
  const size = codec === "member" ? storedBytes : textBytes;
  // A grown file has other content under the same identity: reporting it as shipped would lose the rest.
  if (totalBytes !== undefined && !at && size !== totalBytes) throw changedError(name);
  return { id, name, textBytes, storedBytes, lines, sha256, wasShipped: true };
};

const fileSource = (file: LocalFile, opened: OpenFile, id: string, wanted: Codec): Source => {
  if (wanted === "member" && !opened.isGzip) throw new TypeError("Expected a gzip file to be passed through");
  let read = 0;
  async function* counted(): AsyncGenerator<Buffer, void, undefined> {
    read = 0;
    for await (const block of opened.read(0)) {
      read += block.length;
      yield block;
    }
  }
  const isInflated = opened.isGzip && wanted !== "member";
  return {
    id,
    name: file.name,
    codec: wanted,
    totalBytes: file.size,
    read: isInflated ? () => readGzip(counted(), { file: file.name }) : counted,
    isRepeatable: true,
    ...(isInflated ? { at: () => read } : {}),
  };
};

/** The values of a source, and `late` whenever none has arrived for `ms` while `isWanted()`. */
async function* timely<T>(
  source: AsyncIterable<T>,
  ms: number,
  isWanted: () => boolean,
  signal: AbortSignal,
): AsyncGenerator<T | "late", void, undefined> {
  const values = source[Symbol.asyncIterator]();
  const watch = new Watch();
  const stop = onAbort(signal, () => watch.fail(signal.reason));
  let isDone = false;
  try {
    for (;;) {
      const next = values.next();
      next.catch(() => undefined);
      let given = await watch.of(next, isWanted() ? ms : undefined);
      if (given === "late") {
        yield given;
        given = (await watch.of(next)) as IteratorResult<T, void>;
      }
      signal.throwIfAborted();
      if (given.done) {
        isDone = true;
        return;
      }
      yield given.value;
    }
  } finally {
    stop();
    if (!isDone) void Promise.resolve(values.return?.()).catch(() => undefined);
  }
}

/**
 * Makes a shipper: it puts files and streams into a channel in Redis, under a memory limit for all shippers of the channel together. Each consumer of
 * the channel gets everything; see `createReceiver`.
 *
 * `redis` is any ioredis `Redis` or `Cluster`, or what core's `connect()` gives. It is borrowed and never closed.
 *
 * @throws {TypeError | RangeError} `redis` or an option is not what it should be.
 * @throws {KitError} `KIT_NAME`: the name of the channel cannot be a key.
 *
 * @example
 * await using shipper = createShipper(redis, "web", { limitBytes: 64 * 1024 * 1024 });
 * await shipper.add("/var/log/nginx/access.log.1.gz");
 */
export const createShipper = (redis: RedisLike, channel: string, options: ShipperOptions = {}): Shipper =>
  new Shipper(redis, channel, options);
