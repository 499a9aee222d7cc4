import { basename } from "node:path";
import { Writable } from "node:stream";
import type { KitError, RedisLike } from "@kit/core";
import { holdErrors, type MetricSample, newToken, resolve, textOption, withCaller } from "@kit/core/toolkit";
import { changedError, listFiles, type LocalFile, localFile, OpenFile, type SkippedLink } from "../bytes/files.js";
import { deleteChannel, dropConsumer, metricsOf, statusOf } from "../commands.js";
import { LogConnection } from "../connection.js";
import { damageOf, hasCode, isAboutContent } from "../errors.js";
import {
  consumerName,
  type FollowOptions,
  followRules,
  type ResolvedShipper,
  resolveShipper,
  sendRules,
  type ShipDirectoryOptions,
  shipDirectoryRules,
  type ShipOptions,
  type ShipperOptions,
  shipperRules,
  shipRules,
} from "../options.js";
import { LogObject } from "../log-object.js";
import type { ChannelStatus } from "../scripts/index.js";
import { linkedSignal } from "../signals.js";
import { changeChannel, endAbandoned } from "./commands.js";
import { followLog } from "./follow.js";
import { identityOf, type Looking } from "./identity.js";
import { type ByteSource, fileSource, type Source } from "./source.js";
import { type ShippedFile, type ShipProgress, transfer, type TransferEvents } from "./transfer.js";
import { writableTo } from "./writable.js";

/** The maximum number of tries for a file that is replaced each time. */
const mostTries = 5;

/** Events of a shipper. */
export interface ShipperEvents {
  /** Chunks were committed. */
  readonly progress: [fact: ShipProgress];
  /** The channel is at its limit: the file waits until consumers have freed space. Meanwhile the shipper sends one command every 10 s. */
  readonly waiting: [fact: { readonly file: string }];
  /** A consumer was removed from the channel because of `dropSilentMs`. */
  readonly dropped: [fact: { readonly consumer: string }];
  /** The channel already has another limit, which stays. */
  readonly mismatch: [fact: { readonly limitBytes: number; readonly storedLimitBytes: number }];
  /** A file was left out. Call `add()` to ship it. */
  readonly skipped: [fact: SkippedFile];
  /** A file was not shipped, or not completely, because of its content: see `onBadData`. In `follow`, this is a damaged gzip file. */
  readonly damaged: [fact: { readonly file: string; readonly error: KitError }];
  /**
   * kit ships a file that resembles another file. If it is a copy or an earlier state, consumers get its text up to `to` twice. Emitted if:
   *
   * - the file is equal to an existing file, starts with that file's shipped text, or equals its first KiB or more. `of` is the name of the
   *   existing file.
   * - the file has the same first 4 KiB as a longer file that no longer exists. A smaller file is compared by its first KiB, unless the
   *   first line is longer or more than eight files share that KiB. `of` is the identity of the longer file.
   * - the file starts with the whole text of a file that no longer exists: any text of a followed log, otherwise up to 4 KiB, such as a
   *   header. `of` is the identity of the old file.
   */
  readonly copy: [fact: { readonly file: string; readonly of: string; readonly to: number }];
  /**
   * A file is equal to a shipped file that no longer exists, so it counts as shipped. `of` is the identity of the shipped file, and `to` is
   * the length of its text. If the two are equal only by chance, consumers don't get the new file's lines. Not emitted for a compressed
   * file.
   */
  readonly moved: [fact: { readonly file: string; readonly of: string; readonly to: number }];
  /**
   * The server may drop keys when its memory is full. Under an `allkeys-…` policy it may drop chunks and the records of files: then lines
   * are lost or counted again. Under a `volatile-…` policy it may drop only chunks that are not committed yet. Emitted once per policy. If
   * the event has a listener, kit reads the policy in the background, and again after a lost connection. Nothing is emitted if INFO is
   * forbidden.
   */
  readonly evictable: [fact: { readonly policy: string }];
  /** An operation failed and is being retried. */
  readonly error: [error: KitError];
}

/** A file that a shipper left out: a link that leads out of the directory, or in `follow` a gzip file that is older than the channel. */
export interface SkippedFile {
  readonly file: string;
  /** Where the link leads; see `dereference`. Undefined for a gzip file. */
  readonly target?: string | undefined;
}

/** Ships files into a channel; see {@link createShipper}. */
export class Shipper extends LogObject<ShipperEvents> {
  readonly channel: string;
  readonly #resolved: ResolvedShipper;
  readonly #connection: LogConnection;
  /** The other limit for which `mismatch` was emitted. */
  #reportedLimit: number | undefined;

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
   * For a partly shipped file, kit first checks that the committed part is the same, then continues after it. A shipped file is not shipped
   * again. If two shippers ship one file, the later one continues and the earlier one rejects. The call continues through Redis outages.
   *
   * @throws {LogshipError} `KIT_LOGSHIP_CHANGED`: the file changed after a part of it was shipped; `KIT_LOGSHIP_FENCED`: another shipper
   * has it now; `KIT_LOGSHIP_CHANNEL_CLOSED`; `KIT_LOGSHIP_TOO_LARGE`.
   * @throws {BadDataError} the file is damaged gzip content. The file stays open for a retry, unless `onBadData` is `quarantine`.
   * @throws {KitUnavailableError} no server answered the first command within `deadlineMs`.
   * @throws the error of the file system; `signal.reason` if `signal` aborts.
   */
  async add(path: string, options: ShipOptions = {}): Promise<ShippedFile> {
    const { name = basename(path), ...how } = resolve("options", options, shipRules);
    const shipped = await this.#add(await localFile(path, name), how);
    if (!shipped) throw Object.assign(new Error(`ENOENT: no such file, ${path}`), { code: "ENOENT" });
    return shipped;
  }

  /** Resolves with undefined if the file no longer exists, or if another one has its name. */
  async #add(
    found: LocalFile,
    { id, passThrough, signal }: Pick<ShipOptions, "id" | "passThrough" | "signal">,
  ): Promise<ShippedFile | undefined> {
    const opened = await OpenFile.open(found, true);
    if (!opened) return undefined;
    const { name } = found;
    // Text that is written from now on belongs to the next call: the identity covers the text so far.
    const file = { ...found, ...opened.was };
    try {
      const codec = passThrough ? "member" : this.#resolved.codec;
      return await this.#ship(name, signal, async (linked) =>
        fileSource(
          file,
          opened,
          id ?? (await identityOf(this.#connection, file, opened, { signal: linked, ...this.#looking(name) }))!,
          codec,
        ),
      );
    } finally {
      await opened.close();
    }
  }

  /**
   * Ships the files of a directory, one after another. Skips files that have been shipped, and files that vanish meanwhile. Throws the
   * errors of `add`. With `onBadData: "quarantine"`, a file that cannot be shipped emits `damaged`, and the others are shipped.
   */
  async addDirectory(directory: string, options: ShipDirectoryOptions = {}): Promise<ShippedFile[]> {
    const { match, order, dereference, passThrough, signal } = resolve("options", options, shipDirectoryRules);
    const onSkipped = dereference ? undefined : (link: SkippedLink): void => this.emit("skipped", link);
    const shipped: ShippedFile[] = [];
    const list = async (only?: string): Promise<LocalFile[]> => {
      const report =
        onSkipped && ((link: SkippedLink): void => void ((only ?? link.file) === link.file && onSkipped(link)));
      return await listFiles(directory, match, order, report);
    };
    for (const { name, ...listed } of await list())
      try {
        let file: LocalFile | undefined = { name, ...listed };
        let done: ShippedFile | undefined;
        for (let tries = 0; file && !done; tries++) {
          if (tries === mostTries) throw changedError(name);
          done = await this.#add(file, { passThrough, signal });
          // Another file, or a link out of the directory, may have the name since.
          if (!done) file = (await list(name)).find((one) => one.name === name);
        }
        if (done) shipped.push(done);
      } catch (error) {
        if (this.#resolved.onBadData === "error" || !isAboutContent(error)) throw error;
        this.emit("damaged", damageOf(name, error));
      }
    return shipped;
  }

  /**
   * Ships the content of a stream, and resolves when it has ended and all of it is in the channel. The stream waits while the channel is at
   * its limit. Throws the errors of `add`, and the stream's error. If the stream fails, a file with an `id` stays open in the channel for
   * another call. A file without an `id` ends there, and receivers emit `damaged`.
   *
   * @throws {LogshipError} `KIT_LOGSHIP_INTERRUPTED`: a failover lost confirmed data, and a stream cannot be read again.
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
    holdErrors(source);
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
   * Ships a log as it grows, through rotations that rename its file, until `signal` aborts. It ships the rotated files first, oldest first,
   * and then everything that is written to the log. It recognizes a file under each of its names. When a file is rotated, kit ships its
   * tail and seals it before it starts the next file. Another call, even in another process, continues where this one stopped.
   *
   * A gzip file with the rest of an open file continues that file. kit leaves out a gzip file that is older than the channel and has no
   * record there, and emits `skipped`.
   *
   * @throws {LogshipError} `KIT_LOGSHIP_CHANGED`: the log was truncated or overwritten. For a rotated file this is an `error` event.
   * @throws all errors of `add`, except that it waits for a file at `path` if there is none.
   */
  async follow(path: string, options: FollowOptions = {}): Promise<never> {
    const { rotated, quietMs, dereference, signal: ended } = resolve("options", options, followRules);
    const skipped = new Set<string>();
    const onSkipped = (link: SkippedLink): void => {
      if (!skipped.has(link.file)) this.emit("skipped", link);
      skipped.add(link.file);
    };
    const log = { path, rotated, quietMs, onSkipped: dereference ? undefined : onSkipped };
    const { signal, unlink } = this.#connection.link(ended);
    const { codec } = this.#resolved;
    let isFurther = false;
    // Files after a known file of the channel belong to the log, even if the clocks disagree.
    let isBehind = false;
    try {
      for await (const { file, opened, isLive, endsAt, read } of followLog(log, signal)) {
        const { name } = file;
        const { isGzip } = opened;
        try {
          const find = async (): Promise<string | undefined> => {
            // In microseconds. A channel that does not exist yet is newer than any file.
            const [since] = await this.#connection.fields("channel", ["since"], signal);
            const isOld = isGzip && !isBehind && 1_000 * file.mtimeMs < Number(since ?? Infinity);
            const log = isLive ? "live" : isOld ? "continued" : "rotated";
            return await identityOf(this.#connection, file, opened, { signal, log, ...this.#looking(name) });
          };
          const id = await (isFurther ? this.#connection.persist(find, signal) : find());
          if (id === undefined) {
            this.emit("skipped", { file: name });
            continue;
          }
          const { wasShipped, textBytes } = await this.#ship(name, signal, () => {
            const source = isGzip
              ? fileSource(file, opened, id, codec)
              : { id, name, codec, totalBytes: undefined, read, isRepeatable: true };
            return { ...source, isFurther };
          });
          isFurther = true;
          isBehind ||= isGzip;
          if (wasShipped && isLive) throw changedError(name);
          // The file is complete, so it is not the live file, even if it was when kit opened it.
          if (!isGzip && !(await endsAt(textBytes)))
            this.emit("error", changedError(name, ` to byte ${String(textBytes)}`));
        } catch (error) {
          if (isGzip && !isLive && isAboutContent(error)) this.emit("damaged", damageOf(name, error));
          else if (!isLive && hasCode(error, "KIT_LOGSHIP_CHANGED")) this.emit("error", error);
          else throw withCaller(error);
        }
      }
      throw signal.reason as Error;
    } finally {
      unlink();
    }
  }

  /**
   * Returns a Node stream that ships everything written to it. The stream has finished when the file is sealed. Options and errors are the
   * same as for `send`.
   */
  writable(name: string, options: Omit<ShipOptions, "name" | "passThrough"> = {}): Writable {
    const { signal } = resolve("options", { signal: options.signal }, sendRules);
    return writableTo(async (source, destroyed) => {
      const linked = linkedSignal([signal, destroyed]);
      try {
        await this.send(name, source, { ...options, signal: linked.signal });
      } finally {
        linked.unlink();
      }
    });
  }

  /** Like `writable()`, as a web stream: closing it resolves when the file is sealed. */
  webWritable(
    name: string,
    options: Omit<ShipOptions, "name" | "passThrough"> = {},
  ): WritableStream<Uint8Array | string> {
    return Writable.toWeb(this.writable(name, options)) as WritableStream<Uint8Array | string>;
  }

  /** Changes the channel's limit for all shippers. A limit below the current use admits no chunks until enough memory has been freed. */
  async setLimit(limitBytes: number): Promise<void> {
    this.#connection.life.assertOpen();
    await changeChannel(this.#connection, shipperRules.limitBytes.check("limitBytes", limitBytes) as number);
  }

  /**
   * Closes the channel permanently: no more files can be opened, and receivers end after the last file. Open files can still be finished.
   */
  async closeChannel(): Promise<void> {
    this.#connection.life.assertOpen();
    await changeChannel(this.#connection, "");
  }

  /**
   * Deletes the channel with its files, its record of shipped files, and its consumers' results. Its shippers and receivers reject. Chunks
   * are deleted in steps. If this process dies before the last step, the channel stays closed, and another call finishes the deletion.
   */
  async deleteChannel(): Promise<void> {
    this.#connection.life.assertOpen();
    await deleteChannel(this.#connection);
  }

  /**
   * Removes a consumer from the channel permanently: no chunk waits for it any longer, and its results stay. Its process rejects with
   * `KIT_LOGSHIP_DROPPED`, and so does each later process with this name, because the results lack the unprocessed lines. Resolves with
   * whether there was such a consumer.
   */
  async removeConsumer(name: string): Promise<boolean> {
    this.#connection.life.assertOpen();
    return await dropConsumer(this.#connection, consumerName(name), 0);
  }

  /**
   * Ends open files to which nothing was committed for `silentMs` milliseconds. A stream without `id` leaves such a file when its process
   * dies. Receivers read the committed part, and emit `damaged`. A shipper that was only paused rejects with `KIT_LOGSHIP_FENCED`; you can
   * ship its source again as another file. Resolves with the names of the files.
   */
  async endAbandoned(silentMs: number): Promise<string[]> {
    this.#connection.life.assertOpen();
    return await endAbandoned(this.#connection, silentMs);
  }

  /** Returns the state of the channel, or null if it does not exist yet. */
  async status(): Promise<ChannelStatus | null> {
    return await statusOf(this.#connection);
  }

  /** Returns the channel as plain numbers, for `expose()` of `@kit/stats` or another exporter. */
  async metrics(): Promise<MetricSample[]> {
    return await metricsOf(this.#connection);
  }

  async #ship(
    file: string,
    outer: AbortSignal | undefined,
    sourceOf: (signal: AbortSignal) => Source | Promise<Source>,
  ): Promise<ShippedFile> {
    const facts = (): object => ({ channel: this.channel, file });
    return await this.#connection.task("logship.ship", facts, outer, async ({ signal }) => {
      signal.throwIfAborted();
      const how = { connection: this.#connection, settings: this.#resolved, signal };
      return await transfer(await sourceOf(signal), how, this.#eventsOf(file));
    });
  }

  #eventsOf(file: string): TransferEvents {
    return {
      opened: (limitBytes) => this.#compareLimit(limitBytes),
      progress: (fact) => this.emit("progress", fact),
      waiting: () => this.emit("waiting", { file }),
      dropped: (consumer) => this.emit("dropped", { consumer }),
    };
  }

  #looking(file: string): Omit<Looking, "signal" | "log"> {
    return {
      onCopy: (of, to) => this.emit("copy", { file, of, to }),
      onMoved: (of, to) => this.emit("moved", { file, of, to }),
    };
  }

  #compareLimit(storedLimitBytes: number): void {
    const { limitBytes, hasLimit } = this.#resolved;
    if (!hasLimit || storedLimitBytes === limitBytes || storedLimitBytes === this.#reportedLimit) return;
    this.#reportedLimit = storedLimitBytes;
    this.emit("mismatch", { limitBytes, storedLimitBytes });
  }
}

/**
 * Creates a shipper. It ships files and streams into a channel in Redis, under one memory limit for all of the channel's shippers. Each
 * consumer of the channel gets everything; see `createReceiver`.
 *
 * `redis` is a client from core's `connect()`, from ioredis, or from `fromNodeRedis()`. kit never closes it.
 *
 * @throws {TypeError | RangeError} `redis` or an option is invalid.
 * @throws {KitError} `KIT_NAME`: the name of the channel cannot be a key.
 *
 * @example
 * await using shipper = createShipper(redis, "web", { limitBytes: 64 * 1024 * 1024 });
 * await shipper.add("/var/log/nginx/access.log.1.gz");
 */
export const createShipper = (redis: RedisLike, channel: string, options: ShipperOptions = {}): Shipper =>
  new Shipper(redis, channel, options);
