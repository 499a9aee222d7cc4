import { KitClosedError, KitError } from "@kit/core";
import { asKitError, assertConnections, isReplyError, newToken, onAbort, pause } from "@kit/core/toolkit";
import type { Shared } from "../send/shared.js";
import type { LogKeys } from "../store/keys.js";
import { type Entry, entryOf, newestFirst } from "./entry.js";
import type { Level } from "./levels.js";

const tailPauseMs = 200;

/**
 * The entries that are stored in some levels of a log from now on, read on a dedicated connection. `first` gives the entries that
 * come before them, by the id of the last present entry of each level.
 */
export async function* tailOf(
  keys: LogKeys,
  levels: readonly Level[],
  { commands, events: { outage }, life }: Shared,
  signal: AbortSignal | undefined,
  first: (ids: ReadonlyMap<Level, string>) => Promise<readonly Entry[]>,
): AsyncGenerator<Entry, void, undefined> {
  assertConnections(life.context.client);
  const streams = levels.map((level) => keys.log(level));
  const last = await commands.lastIds(streams);
  const ids = new Map(levels.map((level, index) => [level, last[index] ?? "0-0"]));
  yield* await first(ids);
  const isOver = (): boolean => life.isClosed || signal?.aborted === true;
  const loop = `tailing ${newToken()}`;
  try {
    while (!isOver()) {
      try {
        const connection = await commands.tailConnection(streams[0] ?? "", signal);
        outage.connected(loop);
        const stop = (): void => connection.returnToPool(false);
        const stopListening = onAbort(signal, stop);
        const forget = onAbort(life.signal, stop);
        try {
          for (;;) {
            const found = await commands.entriesAfter(connection, streams, [...ids.values()]);
            outage.worked(loop);
            const entries = found.flatMap(([key, raw]) => {
              // The client may add its own prefix.
              const level = levels.find((_, index) => key.endsWith(streams[index] ?? "")) ?? "info";
              ids.set(level, raw.at(-1)?.id ?? ids.get(level) ?? "0-0");
              return raw.map((one) => entryOf(level, one));
            });
            yield* entries.toSorted(newestFirst).toReversed();
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
        if (life.context.executor.isEnded || (!KitError.is(error) && !isReplyError(error))) throw error;
        outage.failed(loop, asKitError(error, "A tail"));
        await pause(tailPauseMs, signal).catch(() => undefined);
      }
    }
  } finally {
    outage.ended(loop);
  }
}
