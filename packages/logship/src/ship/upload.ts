import { Deadline, isReplyError, newToken, serverError } from "@kit/core/toolkit";
import { dropSilent, freeChunks } from "../channel.js";
import { fencedError, LogshipError } from "../errors.js";
import type { Chunk } from "./framing.js";
import type { LogConnection } from "../connection.js";
import type { ResolvedShipper } from "../options.js";
import type { Codec, Opened } from "../scripts/index.js";
import * as scripts from "../scripts/index.js";

/** A source and how it is stored. */
export interface UploadSource {
  /** Its identity: the same source continues where an earlier upload ended. */
  readonly source: string;
  readonly name: string;
  readonly codec: Codec;
  /** Stored bytes of passed-through gzip content; otherwise 0. */
  readonly total: number;
}

/** Called while an upload runs. */
export interface UploadEvents {
  readonly committed: (upload: Upload) => void;
  readonly waiting: () => void;
  readonly dropped: (consumer: string) => void;
}

/** A chunk that is not known to be committed. */
interface Held {
  readonly chunk: Chunk;
  readonly part: string;
}

/** How far ahead a shipper reserves, in windows of chunks, and the largest share of the limit. */
const windowsAhead = 2;
const mostOfLimit = 4;

/** The server lacks chunks that it had confirmed: the missing part must be read again. */
export class RewindNeeded extends Error {}

/**
 * One source on its way into the channel: reserves space, writes chunks, commits them in order. Chunks are kept until they are committed, so
 * that a lost reply, an expired reservation or a failover costs only writing them again.
 */
export class Upload {
  readonly #connection: LogConnection;
  readonly #resolved: ResolvedShipper;
  readonly #what: UploadSource;
  readonly #events: UploadEvents;
  readonly #signal: AbortSignal;
  /** The op of the next opening. Every attempt repeats it, so that neither a late copy nor a retry fences off this shipper. */
  #op: string = newToken();
  #opened!: Opened;
  #isSealed = false;
  /** Chunks that wait for their commit, in order. */
  #held: Held[] = [];
  /** How many of these chunks are written. */
  #written = 0;
  #committing: Promise<void> = Promise.resolve();
  /** The commit before the current one. */
  #before: Promise<void> = Promise.resolve();
  #reserved = 0;
  #unit = 0;
  #endsAt = 0;
  #renewedAt = -Infinity;
  chunks = 0;
  fed = 0;
  crc = 0;
  textBytes = 0;
  storedBytes = 0;
  lines = 0;

  constructor(connection: LogConnection, resolved: ResolvedShipper, what: UploadSource, events: UploadEvents, signal: AbortSignal) {
    this.#connection = connection;
    this.#resolved = resolved;
    this.#what = what;
    this.#events = events;
    this.#signal = signal;
  }

  get opened(): Opened {
    return this.#opened;
  }

  /** Opens the file, or finds that it has been shipped. */
  async open(): Promise<Opened> {
    await this.#open("");
    const { chunks, textBytes, storedBytes, crc, lines, codec } = this.#opened;
    this.chunks = chunks;
    this.textBytes = textBytes;
    this.storedBytes = storedBytes;
    this.crc = crc;
    this.lines = lines;
    this.fed = codec === "member" ? storedBytes : textBytes;
    return this.#opened;
  }

  /** Writes and commits chunks; resolves when the last ones are under way. */
  async add(chunks: readonly Chunk[]): Promise<void> {
    for (const chunk of chunks) this.#held.push(this.#heldOf(chunk));
    await this.#surviving(() => this.#write());
  }

  /** Resolves when everything is committed: without further chunks nothing else would notice that a commit failed. */
  async settle(): Promise<void> {
    await this.#surviving(async () => {
      await this.#write();
      await this.#committing;
    });
  }

  #heldOf(chunk: Chunk): Held {
    return { chunk, part: `${String(this.#opened.id)}-${this.#opened.fence}-${newToken()}` };
  }

  /** Ends the file, once everything is committed. */
  async seal(sha256: string): Promise<void> {
    await this.#surviving(async () => {
      await this.#write();
      await this.#committing;
      this.#signal.throwIfAborted();
      if (this.#isSealed) return;
      const state = await this.#seal(this.chunks, sha256, "");
      if (state === "fenced") throw fencedError("The file", this.#what.name);
      if (state === "gone") throw this.#lost();
      if (state === "moved") throw new RewindNeeded();
    });
  }

  /** Ends the file as it is in the channel, since its source cannot be read to its end. Best effort: the file may stay open. */
  async breakOff(fault: string): Promise<void> {
    await this.#committing.catch(() => undefined);
    await this.#seal(0, "", fault).catch(() => undefined);
  }

  async #seal(count: number, sha256: string, fault: string): Promise<"sealed" | "fenced" | "moved" | "gone"> {
    const { id, fence } = this.#opened;
    const { events } = this.#connection.keys;
    return await this.#connection.run(scripts.seal, { file: id, fence, count, sha256, fault, silentMs: -1, events });
  }

  /** Returns the reservation, so that others need not wait for its expiry. Best effort. */
  async leave(): Promise<void> {
    const { keys } = this.#connection;
    await this.#committing.catch(() => undefined);
    const { id, fence } = this.#opened;
    const written = this.#held.slice(0, 500).map(({ part }) => keys.chunk(part));
    const args = { lease: `${String(id)} ${fence}`, events: keys.events };
    await this.#connection.run(scripts.leave, args, { keys: { ...keys, written } }).catch(() => undefined);
  }

  /** Runs a step; after a transient error it opens the file again and compares. */
  async #surviving(step: () => Promise<void>): Promise<void> {
    let isBroken = false;
    await this.#connection.persist(async () => {
      try {
        if (isBroken) await this.#recover();
        await step();
      } catch (error) {
        isBroken = true;
        throw error;
      }
    }, this.#signal);
  }

  /** After this only chunks that the server does not have are held. */
  async #recover(): Promise<void> {
    await this.#committing.catch(() => undefined);
    this.#committing = Promise.resolve();
    this.#before = this.#committing;
    this.#written = 0;
    this.#reserved = 0;
    const before = this.#opened;
    await this.#open(before.fence);
    if (this.#opened.state === "done") {
      // Sealed by our own call, whose reply was lost, or by a shipper that took over and shipped all of it.
      if (this.#held.length > 0) throw fencedError("The file", this.#what.name);
      this.#isSealed = true;
      return;
    }
    const isSame = this.#opened.epoch === before.epoch && this.#opened.id === before.id;
    if (!isSame || this.#opened.chunks < this.chunks) throw new RewindNeeded();
    while (this.#opened.chunks > this.chunks) {
      const [first] = this.#held;
      if (!first) throw fencedError("The file", this.#what.name);
      this.#passed([first]);
    }
    if (this.#opened.crc !== this.crc) throw fencedError("The file", this.#what.name);
    // Chunks get new names, so that a late copy of an old write belongs to no file.
    this.#held = this.#held.map(({ chunk }) => this.#heldOf(chunk));
  }

  async #open(mine: string): Promise<void> {
    const op = this.#op;
    const { limitBytes: limit, consumers: expected, chunkBytes } = this.#resolved;
    const { events } = this.#connection.keys;
    const args = { ...this.#what, mine, limit, epoch: newToken(), events, op, chunkBytes, expected };
    const opened = await this.#connection.run(scripts.open, args, { op, signal: this.#signal });
    const { name: file } = this.#what;
    if (opened.state === "fenced") throw fencedError("The file", file);
    if (opened.state === "closed") {
      const message = `Channel ${JSON.stringify(this.#connection.name)} is closed`;
      throw new LogshipError("KIT_LOGSHIP_CHANNEL_CLOSED", message, { file });
    }
    if (opened.state === "large") {
      const message = `File ${JSON.stringify(file)} does not fit under the limit as a whole`;
      throw new LogshipError("KIT_LOGSHIP_TOO_LARGE", message, { file });
    }
    if (opened.state === "open" || opened.state === "done") this.#opened = opened;
    this.#op = newToken();
  }

  /** Half of the window is sent at once, so that the source is read and the other half written while the server works. */
  async #write(): Promise<void> {
    const half = Math.ceil(this.#resolved.maxInFlight / 2);
    while (this.#written < this.#held.length) {
      await this.#before;
      await this.#reserve();
      const fits = Math.min(half, Math.max(0, Math.floor(this.#reserved / this.#unit) - this.#written));
      const some = this.#held.slice(this.#written, this.#written + fits);
      // Uncommitted chunks take all of the reservation: their commit brings more.
      if (some.length === 0) {
        await this.#committing;
        continue;
      }
      this.#written += some.length;
      const stored = Promise.all(some.map((held) => this.#store(held)));
      this.#before = this.#committing;
      this.#committing = this.#commitStored(stored, this.#before, some);
      this.#committing.catch(() => undefined);
    }
  }

  async #commitStored(stored: Promise<unknown>, before: Promise<void>, some: readonly Held[]): Promise<void> {
    await Promise.all([stored, before]);
    await this.#commit(some);
  }

  /** Makes sure that a chunk can be written, or that a commit is under way which may bring space. */
  async #reserve(): Promise<void> {
    const { chunkBytes, leaseMs } = this.#resolved;
    for (;;) {
      const isFresh = performance.now() - this.#renewedAt < leaseMs / 2;
      if (isFresh && (this.#written > 0 || this.#reserved >= this.#unit) && this.#unit > 0) return;
      const mark = this.#connection.mark("space");
      const { id, fence } = this.#opened;
      const args = { file: id, fence, want: this.#want(), chunkBytes, leaseMs };
      const askedAt = performance.now();
      const reply = await this.#connection.run(scripts.reserve, args, { signal: this.#signal });
      if (reply.state === "fenced") throw fencedError("The file", this.#what.name);
      if (reply.state === "gone") throw this.#lost();
      this.#unit = reply.unit;
      if (reply.state === "reserved") {
        this.#reserved = reply.bytes;
        this.#endsAt = reply.endsAt;
        this.#renewedAt = askedAt;
        return;
      }
      if (reply.limitBytes < reply.unit)
        throw new LogshipError(
          "KIT_LOGSHIP_TOO_LARGE",
          `A chunk does not fit under the limit of ${String(reply.limitBytes)} bytes`,
          {
            file: this.#what.name,
          },
        );
      if (reply.parts.length > 0) {
        await freeChunks(this.#connection, reply.parts);
        continue;
      }
      const { dropSilentMs } = this.#resolved;
      const dropped = dropSilentMs === undefined ? [] : await dropSilent(this.#connection, dropSilentMs);
      for (const consumer of dropped) this.#events.dropped(consumer);
      if (dropped.length > 0) continue;
      this.#events.waiting();
      await this.#connection.until("space", mark, this.#signal, reply.msLeft < 0 ? undefined : reply.msLeft + 1);
    }
  }

  #want(): number {
    const { maxInFlight, chunkBytes } = this.#resolved;
    const ahead = windowsAhead * maxInFlight * (this.#unit || chunkBytes);
    return Math.max(this.#unit, Math.min(ahead, Math.floor(this.#opened.limitBytes / mostOfLimit)));
  }

  /** The server has no such file: every consumer was done with it, or the server lost data. Opening it again shows which. */
  #lost(): LogshipError {
    return new LogshipError("KIT_LOGSHIP_RESET", "The file is not in Redis any more", {
      file: this.#what.name,
      retryable: true,
    });
  }

  async #store({ chunk, part }: Held): Promise<void> {
    const key = this.#connection.keys.chunk(part);
    // NX: a late write must neither replace a committed chunk nor give it an expiry.
    const args = [key, chunk.bytes, "PXAT", this.#endsAt, "NX"];
    const deadline = Deadline.in(Math.max(this.#connection.deadlineMs, this.#resolved.leaseMs / 2));
    const call = { what: `SET of ${key}`, mutates: true, idempotent: true, deadline, signal: this.#signal };
    await this.#connection.context.executor.run("SET", args, call).catch((error: unknown) => {
      throw isReplyError(error) ? serverError(error, call.what) : error;
    });
  }

  async #commit(some: readonly Held[]): Promise<void> {
    const { keys } = this.#connection;
    const { chunkBytes, leaseMs } = this.#resolved;
    const { id, fence } = this.#opened;
    const facts = some.map(({ chunk, part }) => ({ ...chunk, part, size: chunk.bytes.length }));
    const crcs = { crcBefore: this.crc, crcAfter: String(some.at(-1)!.chunk.crcAfter) };
    const written = some.map(({ part }) => keys.chunk(part));
    const sizes = { first: this.chunks, want: this.#want(), chunkBytes, leaseMs };
    const args = { file: id, fence, ...sizes, events: keys.events, ...crcs, facts };
    const askedAt = performance.now();
    const reply = await this.#connection.run(scripts.commit, args, { keys: { ...keys, written } });
    if (reply.state === "fenced") throw fencedError("The file", this.#what.name);
    if (reply.state === "gone") throw this.#lost();
    if (reply.state !== "committed")
      throw new LogshipError("KIT_LOGSHIP_EXPIRED", "A reservation ended too early", {
        file: this.#what.name,
        retryable: true,
      });
    this.#reserved = reply.bytes;
    this.#endsAt = reply.endsAt;
    this.#renewedAt = askedAt;
    this.#written -= some.length;
    this.#passed(some);
    // After a failure the chunks stay listed, and another call unlinks them.
    await freeChunks(this.#connection, reply.parts).catch(() => undefined);
  }

  /** The first of the held chunks are committed. */
  #passed(some: readonly Held[]): void {
    this.#held.splice(0, some.length);
    for (const { chunk } of some) {
      this.chunks++;
      this.textBytes += chunk.text;
      this.storedBytes += chunk.bytes.length;
      this.lines += chunk.lines;
      this.crc = chunk.crcAfter;
      this.fed = chunk.fedAfter;
    }
    this.#events.committed(this);
  }
}
