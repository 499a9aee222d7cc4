import { dropSilent, freeChunks } from "../commands.js";
import type { Opened } from "../scripts/index.js";
import type { Shipping, UploadCommands } from "./commands.js";

/** How far ahead a shipper reserves, in windows of chunks, and the largest share of the limit. */
const windowsAhead = 2;
const mostOfLimit = 4;

/** Called while an upload waits for space. */
export interface SpaceEvents {
  readonly waiting: () => void;
  readonly dropped: (consumer: string) => void;
}

/** Space in the channel that one upload has reserved for its uncommitted chunks. It expires unless it is renewed; each commit renews it. */
export class Reservation {
  readonly #how: Shipping;
  readonly #commands: UploadCommands;
  readonly #events: SpaceEvents;
  #bytes = 0;
  /** Memory that the largest chunk uses in Redis; 0 until a reply reports it. */
  #unit = 0;
  #endsAt = 0;
  #renewedAt = -Infinity;
  /** How many times the server has set it. */
  #renewals = 0;

  constructor(how: Shipping, commands: UploadCommands, events: SpaceEvents) {
    this.#how = how;
    this.#commands = commands;
    this.#events = events;
  }

  /** The server's time in ms at which it ends. */
  get endsAt(): number {
    return this.#endsAt;
  }

  /** How many more chunks fit into it, in addition to `written` ones. */
  roomBeside(written: number): number {
    return Math.max(0, Math.floor(this.#bytes / this.#unit) - written);
  }

  /** The number of bytes to reserve in a channel of this limit. */
  want({ limitBytes }: Opened): number {
    const { maxInFlight, chunkBytes } = this.#how.settings;
    const ahead = windowsAhead * maxInFlight * (this.#unit || chunkBytes);
    return Math.max(this.#unit, Math.min(ahead, Math.floor(limitBytes / mostOfLimit)));
  }

  /** The server has set it by a call that was sent at `sentAt`. */
  renewed({ bytes, endsAt }: { readonly bytes: number; readonly endsAt: number }, sentAt: number): void {
    this.#bytes = bytes;
    this.#endsAt = endsAt;
    this.#renewedAt = sentAt;
    this.#renewals++;
  }

  /** It may have ended: nothing is written before it is renewed. */
  lapse(): void {
    this.#bytes = 0;
  }

  /**
   * Waits until a chunk can be written. If `written` chunks are in flight, waits only until the reservation is fresh: their commit may
   * bring space.
   */
  async ensure(file: Opened, written: number): Promise<void> {
    const { connection, settings, signal } = this.#how;
    for (;;) {
      const isFresh = performance.now() - this.#renewedAt < settings.leaseMs / 2;
      if (isFresh && (written > 0 || this.#bytes >= this.#unit) && this.#unit > 0) return;
      const mark = connection.mark("space");
      const sentAt = performance.now();
      const renewals = this.#renewals;
      const reply = await this.#commands.reserve(file, this.want(file));
      this.#unit = reply.unit;
      // A commit was answered meanwhile: this reply may be the older one, and still have the bytes of its chunks.
      if (this.#renewals !== renewals) continue;
      if (reply.state === "reserved") {
        this.renewed(reply, sentAt);
        return;
      }
      if (reply.limitBytes < reply.unit)
        throw this.#commands.tooLarge(
          `A chunk is larger than the channel's limit of ${String(reply.limitBytes)} bytes. Raise it with setLimit()`,
        );
      if (await this.#makeSpace(reply.parts)) continue;
      this.#events.waiting();
      await connection.until("space", mark, signal, reply.msLeft < 0 ? undefined : reply.msLeft + 1);
    }
  }

  /** Frees the listed chunks. If there are none, drops silent consumers, by policy. Resolves with whether there may be space now. */
  async #makeSpace(parts: readonly string[]): Promise<boolean> {
    const { connection, settings } = this.#how;
    if (parts.length > 0) {
      await freeChunks(connection, parts);
      return true;
    }
    const { dropSilentMs } = settings;
    const dropped = dropSilentMs === undefined ? [] : await dropSilent(connection, dropSilentMs);
    for (const consumer of dropped) this.#events.dropped(consumer);
    return dropped.length > 0;
  }
}
