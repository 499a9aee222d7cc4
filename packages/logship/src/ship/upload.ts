import { newToken } from "@kit/core/toolkit";
import { freeChunks } from "../commands.js";
import type { Opened } from "../scripts/index.js";
import { type Held, type Shipping, type UploadCommands, uploadCommands, type UploadSource } from "./commands.js";
import type { Chunk } from "./framing.js";
import { Reservation, type SpaceEvents } from "./reservation.js";

/** Called while an upload runs. */
export interface UploadEvents extends SpaceEvents {
  readonly committed: (part: CommittedPart) => void;
}

/** The server lacks chunks that it had confirmed: the missing part must be read again. */
export class RewindNeeded extends Error {}

/** The part of a source that is committed. */
export interface CommittedPart {
  chunks: number;
  textBytes: number;
  storedBytes: number;
  lines: number;
  /** Bytes of the source that were framed into this part, and their CRC-32. */
  fed: number;
  crc: number;
}

/**
 * Uploads one source into the channel: it writes chunks under a reservation, and commits them in order. Chunks are kept until they are
 * committed. So after a lost reply, an expired reservation or a failover they are only written again.
 */
export class Upload {
  readonly #how: Shipping;
  readonly #commands: UploadCommands;
  readonly #reservation: Reservation;
  readonly #events: UploadEvents;
  /** Half of the window is sent at the same time. So the source is read and the other half written while the server works. */
  readonly #half: number;
  #opened!: Opened;
  #committed!: CommittedPart;
  #isSealed = false;
  /** Chunks that wait for their commit, in order. */
  #held: Held[] = [];
  /** How many of these chunks are written. */
  #written = 0;
  #committing: Promise<void> = Promise.resolve();
  /** The commit before the current one. */
  #before: Promise<void> = Promise.resolve();

  constructor(how: Shipping, source: UploadSource, events: UploadEvents) {
    this.#how = how;
    this.#commands = uploadCommands(how, source);
    this.#reservation = new Reservation(how, this.#commands, events);
    this.#events = events;
    this.#half = Math.ceil(how.settings.maxInFlight / 2);
  }

  get opened(): Opened {
    return this.#opened;
  }

  get committed(): CommittedPart {
    return this.#committed;
  }

  /** Opens the file, or finds that it has been shipped. */
  async open(): Promise<Opened> {
    this.#opened = await this.#commands.open("");
    const { codec, storedBytes, textBytes } = this.#opened;
    this.#committed = { ...this.#opened, fed: codec === "member" ? storedBytes : textBytes };
    return this.#opened;
  }

  /** Writes and commits chunks. Resolves when the last ones are in flight. */
  async add(chunks: readonly Chunk[]): Promise<void> {
    for (const chunk of chunks) this.#held.push(this.#heldOf(chunk));
    await this.#surviving(() => this.#write());
  }

  /** Resolves when everything is committed. Without further chunks, nothing else would notice a failed commit. */
  async settle(): Promise<void> {
    await this.#surviving(async () => {
      await this.#write();
      await this.#committing;
    });
  }

  /** Ends the file when everything is committed. */
  async seal(sha256: string): Promise<void> {
    await this.#surviving(async () => {
      await this.#write();
      await this.#committing;
      this.#how.signal.throwIfAborted();
      if (this.#isSealed) return;
      const state = await this.#commands.seal(this.#opened, this.#committed.chunks, sha256);
      if (state === "moved") throw new RewindNeeded();
      if (state !== "gone") return;
      // Sealed by this call, whose reply was lost, and every consumer is done with it. Or the server lost it.
      this.#opened = await this.#commands.open(this.#opened.fence);
      if (this.#opened.state !== "done") throw this.#commands.gone();
    });
  }

  /** Ends the file with its current chunks, because its source cannot be read to its end. Best effort: the file may stay open. */
  async breakOff(fault: string): Promise<void> {
    await this.#committing.catch(() => undefined);
    await this.#commands.breakOff(this.#opened, fault);
  }

  /** Returns the reservation, so that other shippers need not wait for its expiry. Best effort. */
  async leave(): Promise<void> {
    await this.#committing.catch(() => undefined);
    await this.#commands.leave(this.#opened, this.#held);
  }

  #heldOf(chunk: Chunk): Held {
    return { chunk, part: `${String(this.#opened.id)}-${this.#opened.fence}-${newToken()}` };
  }

  /** Runs a step. After a transient error it opens the file again and compares. */
  async #surviving(step: () => Promise<void>): Promise<void> {
    let isBroken = false;
    const { connection, signal } = this.#how;
    await connection.persist(async () => {
      try {
        if (isBroken) await this.#recover();
        await step();
      } catch (error) {
        isBroken = true;
        throw error;
      }
    }, signal);
  }

  /** After this, the upload holds only chunks that the server does not have. */
  async #recover(): Promise<void> {
    await this.#committing.catch(() => undefined);
    this.#committing = Promise.resolve();
    this.#before = this.#committing;
    this.#written = 0;
    this.#reservation.lapse();
    const before = this.#opened;
    this.#opened = await this.#commands.open(before.fence);
    if (this.#opened.state === "done") {
      // Sealed by our own call, whose reply was lost, or by a shipper that took over and shipped all of it.
      if (this.#held.length > 0) throw this.#commands.fenced();
      this.#isSealed = true;
      return;
    }
    const isSame = this.#opened.epoch === before.epoch && this.#opened.id === before.id;
    if (!isSame || this.#opened.chunks < this.#committed.chunks) throw new RewindNeeded();
    while (this.#opened.chunks > this.#committed.chunks) {
      const [first] = this.#held;
      if (!first) throw this.#commands.fenced();
      this.#passed([first]);
    }
    if (this.#opened.crc !== this.#committed.crc) throw this.#commands.fenced();
    // Chunks get new names, so that a late repeat of an old write belongs to no file.
    this.#held = this.#held.map(({ chunk }) => this.#heldOf(chunk));
  }

  async #write(): Promise<void> {
    while (this.#written < this.#held.length) {
      await this.#before;
      await this.#reservation.ensure(this.#opened, this.#written);
      const fits = Math.min(this.#half, this.#reservation.roomBeside(this.#written));
      const some = this.#held.slice(this.#written, this.#written + fits);
      // Uncommitted chunks take all of the reservation: their commit brings more.
      if (some.length === 0) {
        await this.#committing;
        continue;
      }
      this.#written += some.length;
      const { endsAt } = this.#reservation;
      const stored = Promise.all(some.map((held) => this.#commands.store(held, endsAt)));
      this.#before = this.#committing;
      this.#committing = this.#commit(some, stored, this.#before);
      this.#committing.catch(() => undefined);
    }
  }

  /** Commits chunks when they are stored and the previous commit has finished. */
  async #commit(some: readonly Held[], stored: Promise<unknown>, before: Promise<void>): Promise<void> {
    await Promise.all([stored, before]);
    const { chunks: first, crc: crcBefore } = this.#committed;
    const sentAt = performance.now();
    const want = this.#reservation.want(this.#opened);
    const reply = this.#commands.committed(await this.#commands.commit(this.#opened, some, { first, crcBefore, want }));
    this.#reservation.renewed(reply, sentAt);
    this.#written -= some.length;
    this.#passed(some);
    // After a failure the chunks stay listed, and another call unlinks them.
    await freeChunks(this.#how.connection, reply.parts).catch(() => undefined);
  }

  /** The first of the held chunks are committed. */
  #passed(some: readonly Held[]): void {
    this.#held.splice(0, some.length);
    const part = this.#committed;
    for (const { chunk } of some) {
      part.chunks++;
      part.textBytes += chunk.text;
      part.storedBytes += chunk.bytes.length;
      part.lines += chunk.lines;
      part.crc = chunk.crcAfter;
      part.fed = chunk.fedAfter;
    }
    this.#events.committed(part);
  }
}
