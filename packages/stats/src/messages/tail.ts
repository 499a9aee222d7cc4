import { KitClosedError, KitError } from "@kit/core";
import { asKitError, isReplyError, newToken, onAbort, pause } from "@kit/core/toolkit";
import type { LogKeys } from "../keys.js";
import type { RawEntry } from "../scripts/index.js";
import type { Shared } from "../shared.js";
import { type Entry, entryOf, newestFirst } from "./entry.js";
import type { Level } from "./levels.js";

const tailPauseMs = 200;

/** Follows the streams of some levels of a log, on a dedicated connection. */
export class Tail {
  readonly #levels: readonly Level[];
  readonly #streams: readonly string[];
  readonly #shared: Shared;
  readonly #signal: AbortSignal | undefined;
  /** The last entry that was read, or was there at the beginning. */
  readonly #ids = new Map<Level, string>();

  constructor(keys: LogKeys, wanted: readonly Level[], shared: Shared, signal: AbortSignal | undefined) {
    this.#levels = wanted;
    this.#streams = wanted.map((level) => keys.log(level));
    this.#shared = shared;
    this.#signal = signal;
  }

  /** Has the tail begin behind the present entries; resolves with the id of the last one of each level. */
  async begin(): Promise<ReadonlyMap<Level, string>> {
    const ids = await this.#shared.commands.lastIds(this.#streams);
    this.#levels.forEach((level, index) => this.#ids.set(level, ids[index] ?? "0-0"));
    return this.#ids;
  }

  async *entries(): AsyncGenerator<Entry, void, undefined> {
    const { commands, life, events } = this.#shared;
    const { outage } = events;
    const signal = this.#signal;
    const isOver = (): boolean => life.isClosed || signal?.aborted === true;
    const loop = `tailing ${newToken()}`;
    try {
      while (!isOver()) {
        try {
          const connection = await commands.tailConnection(this.#streams[0] ?? "", signal);
          outage.connected(loop);
          const stop = (): void => connection.returnToPool(false);
          const stopListening = onAbort(signal, stop);
          const forget = onAbort(life.signal, stop);
          try {
            for (;;) {
              const after = this.#levels.map((level) => this.#ids.get(level) ?? "0");
              const found = await commands.entriesAfter(connection, this.#streams, after);
              outage.worked(loop);
              yield* this.#read(found);
              if (isOver()) return;
            }
          } finally {
            stopListening();
            forget();
            connection.returnToPool(false);
          }
        } catch (error) {
          if (isOver() || error instanceof KitClosedError) return;
          // Waiting does not reconnect a client that its owner ended.
          if (commands.isEnded || (!KitError.is(error) && !isReplyError(error))) throw error;
          outage.failed(loop, asKitError(error, "A tail"));
          await pause(tailPauseMs, signal).catch(() => undefined);
        }
      }
    } finally {
      outage.ended(loop);
    }
  }

  #read(found: readonly (readonly [stream: string, entries: RawEntry[]])[]): Entry[] {
    const entries = found.flatMap(([key, raw]) => {
      // The client may put a prefix of its own in front.
      const level = this.#levels.find((_, index) => key.endsWith(this.#streams[index] ?? "")) ?? "info";
      const last = raw.at(-1);
      if (last) this.#ids.set(level, last.id);
      return raw.map((one) => entryOf(level, one));
    });
    return entries.toSorted(newestFirst).toReversed();
  }
}
