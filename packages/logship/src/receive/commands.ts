import { asKitError, newToken } from "@kit/core/toolkit";
import { freeChunks } from "../commands.js";
import { formatPosition } from "../bytes/reading.js";
import type { LogConnection } from "../connection.js";
import { fencedError, LogshipError, resetError } from "../errors.js";
import type { ResolvedReceiver } from "../options.js";
import { applyPending } from "../process/commands.js";
import { deferred } from "../process/results.js";
import type { CommitOperands } from "../process/runner.js";
import type { Committed, Joined, Look, SeenFile } from "../scripts/index.js";
import * as scripts from "../scripts/index.js";

/** The right to work as a consumer, until a newer one is granted. */
export type Membership = Extract<Joined, { state: "joined" }>;

/** The part of a commit about chunks: the first chunk that is still needed, and the chunk that contains the position. */
export interface ChunkOperands {
  readonly chunk: number;
  readonly place: string;
}

export type ConsumerCommands = ReturnType<typeof consumerCommands>;

/** The commands of one consumer of a channel. */
export const consumerCommands = (
  connection: LogConnection,
  { consumer, from }: ResolvedReceiver,
  name: string,
  resultKey: (name: string) => string,
) => {
  const { keys } = connection;
  const channel = `Channel ${JSON.stringify(connection.name)}`;
  const named = `Consumer ${JSON.stringify(name)} of channel ${JSON.stringify(connection.name)}`;
  let epoch: string | undefined;

  const reset = (): LogshipError => resetError(channel);
  /** Applies the results of large commits that are stored but not applied yet. */
  const applyResults = (signal: AbortSignal): Promise<void> =>
    applyPending(connection, { owner: keys.channel, pending: keys.pending(consumer), resultKey }, signal);
  /** After a failure the chunks stay listed, and another call unlinks them. */
  const free = (parts: readonly string[]): Promise<void> =>
    freeChunks(connection, parts).catch((error: unknown) => connection.onError(asKitError(error, "Freeing chunks")));

  return {
    reset,
    applyPending: applyResults,
    free,
    fenced: (): LogshipError => fencedError(named),

    /** Becomes the consumer, and completes the work that one of its processes has left. Every attempt repeats the op. */
    join: async (op: string, signal: AbortSignal): Promise<Membership> => {
      const reply = await connection.run(scripts.join, { consumer, from, epoch: newToken(), op }, { signal });
      if (reply.state === "trimmed")
        throw new LogshipError(
          "KIT_LOGSHIP_TRIMMED",
          `${named} joined after chunks were freed. Choose another \`from\``,
        );
      if (reply.state === "dropped")
        throw new LogshipError("KIT_LOGSHIP_DROPPED", `${named} was removed from the channel`);
      const before = epoch;
      epoch = undefined;
      // This is another channel with the same name: the commits in the first one are gone. Another run may start in this one.
      if (before !== undefined && before !== reply.epoch) throw reset();
      ({ epoch } = reply);
      await applyResults(signal);
      await free(reply.parts);
      return reply;
    },

    /** Up to `most` files with an id above `after`. */
    look: (fence: string, after: number, most: number, signal: AbortSignal): Promise<Look> =>
      connection.run(scripts.look, { consumer, fence, after, most }, { signal }),

    /** The commit of results and position, as a call that can be repeated, and the keys of its results. */
    advance: (
      fence: string,
      { id: file }: SeenFile,
      { seq, position, effects, pieces, isDone, cause = "" }: CommitOperands,
      chunks: ChunkOperands,
    ): { readonly targets: readonly string[]; readonly send: () => Promise<Committed> } => {
      const targets = pieces ? [keys.pending(consumer)] : effects.names.map((name) => resultKey(name));
      const args = {
        consumer,
        fence,
        file,
        seq,
        ...chunks,
        state: isDone ? "done" : cause === "" ? "open" : "quarantined",
        position: formatPosition(position),
        cause,
        results: pieces ? deferred(pieces, `${String(file)} ${String(seq)}`) : effects.results,
      };
      const call = { keys: { ...keys, targets } };
      return { targets, send: () => connection.run(scripts.advance, args, call) };
    },
  };
};
