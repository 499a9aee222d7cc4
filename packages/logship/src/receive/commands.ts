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

/** The right to work as a consumer, until a newer one is given out. */
export type Membership = Extract<Joined, { state: "joined" }>;

/** The part of a commit that concerns chunks: the first one that is still needed, and the one in which the position lies. */
export interface ChunkOperands {
  readonly chunk: number;
  readonly place: string;
}

/** The commands of one consumer of a channel. */
export class ConsumerCommands {
  readonly #connection: LogConnection;
  readonly #settings: ResolvedReceiver;
  readonly #resultKey: (name: string) => string;
  /** The consumer's name in errors. */
  readonly #who: string;
  #epoch: string | undefined;

  constructor(
    connection: LogConnection,
    settings: ResolvedReceiver,
    consumer: string,
    resultKey: (name: string) => string,
  ) {
    this.#connection = connection;
    this.#settings = settings;
    this.#resultKey = resultKey;
    this.#who = `Consumer ${JSON.stringify(consumer)} of channel ${JSON.stringify(connection.name)}`;
  }

  /** Becomes the consumer, and completes what a process of it has left behind. `op` is repeated by each attempt. */
  async join(op: string, signal: AbortSignal): Promise<Membership> {
    const { consumer, from } = this.#settings;
    const reply = await this.#connection.run(scripts.join, { consumer, from, epoch: newToken(), op }, { signal });
    if (reply.state === "trimmed")
      throw new LogshipError("KIT_LOGSHIP_TRIMMED", `${this.#who} is new, and chunks were freed before it joined`);
    if (reply.state === "dropped") throw new LogshipError("KIT_LOGSHIP_DROPPED", `${this.#who} was removed`);
    const before = this.#epoch;
    this.#epoch = undefined;
    // This is another channel of the same name: the commits in the first one are gone. A further run may begin in this one.
    if (before !== undefined && before !== reply.epoch) throw this.reset();
    this.#epoch = reply.epoch;
    await this.applyPending(signal);
    await this.free(reply.parts);
    return reply;
  }

  /** At most `most` files with an id above `after`. */
  look(fence: string, after: number, most: number, signal: AbortSignal): Promise<Look> {
    const { consumer } = this.#settings;
    return this.#connection.run(scripts.look, { consumer, fence, after, most }, { signal });
  }

  /** The commit of results and position, as a call that can be repeated, and the keys of its results. */
  advance(
    fence: string,
    { id: file }: SeenFile,
    operands: CommitOperands,
    chunks: ChunkOperands,
  ): { readonly targets: readonly string[]; readonly send: () => Promise<Committed> } {
    const { seq, position, effects, pieces, isDone, cause = "" } = operands;
    const { consumer } = this.#settings;
    const { keys } = this.#connection;
    const targets = pieces ? [keys.pending(consumer)] : effects.names.map((name) => this.#resultKey(name));
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
    return { targets, send: () => this.#connection.run(scripts.advance, args, call) };
  }

  /** Applies the results of large commits that are stored, and not applied. */
  async applyPending(signal: AbortSignal): Promise<void> {
    const { keys } = this.#connection;
    const pending = keys.pending(this.#settings.consumer);
    await applyPending(this.#connection, { owner: keys.channel, pending, resultKey: this.#resultKey }, signal);
  }

  /** After a failure the chunks stay listed, and another call unlinks them. */
  async free(parts: readonly string[]): Promise<void> {
    await freeChunks(this.#connection, parts).catch((error: unknown) =>
      this.#connection.onError(asKitError(error, "Freeing chunks")),
    );
  }

  fenced(): LogshipError {
    return fencedError(this.#who);
  }

  reset(): LogshipError {
    return resetError(`Channel ${JSON.stringify(this.#connection.name)}`);
  }
}
