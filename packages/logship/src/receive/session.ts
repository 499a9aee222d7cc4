import { newToken } from "@kit/core/toolkit";
import type { LogConnection } from "../connection.js";
import { resetError, resultError, RolledBack } from "../errors.js";
import type { CommitOperands } from "../process/runner.js";
import type { Look, SeenFile } from "../scripts/index.js";
import type { ChunkOperands, ConsumerCommands, Membership } from "./commands.js";
import type { DownloadSource } from "./download.js";

/** Called when results and position of a file were stored. */
export type OnStored = (file: SeenFile, operands: CommitOperands) => void;

export const filesAtOnce = 50;

/** One run or iteration. Each joins separately. If a receiver has two, the later fences off the earlier, like another process. */
export class Session implements DownloadSource {
  readonly connection: LogConnection;
  readonly #commands: ConsumerCommands;
  readonly #onStored: OnStored;
  readonly #controller: AbortController;
  readonly #callers: AbortSignal | undefined;
  readonly #op: string = newToken();
  #membership: Promise<Membership> | undefined;
  /** Files that were delivered, and the delivered files whose end is stored. */
  readonly #delivered = new Set<number>();
  readonly #ended = new Set<number>();
  /** How often the server lacked data that it had confirmed. */
  #losses = 0;

  constructor(
    connection: LogConnection,
    commands: ConsumerCommands,
    onStored: OnStored,
    controller: AbortController,
    callers?: AbortSignal,
  ) {
    this.connection = connection;
    this.#commands = commands;
    this.#onStored = onStored;
    this.#controller = controller;
    this.#callers = callers;
  }

  /** Also checks the caller's signal, because nothing listens to it any more when the iteration has ended. */
  get signal(): AbortSignal {
    if (this.#callers?.aborted) this.#controller.abort(this.#callers.reason);
    return this.#controller.signal;
  }

  /**
   * The files that this consumer is not done with, in the order in which they were opened. Each is yielded once, and again if a loss of
   * data undid its end.
   */
  async *files(until: "closed" | "empty"): AsyncGenerator<SeenFile, void, undefined> {
    const { connection, signal } = this;
    connection.life.assertOpen();
    // The first call rejects if there is no server; later ones wait for it.
    const { after } = await this.join();
    const losses = (): number => this.#losses + connection.context.executor.connectionEpoch;
    /** This consumer has passed all files up to this id. A failover may undo that. */
    let floor = after;
    for (let known = losses(); ;) {
      const mark = connection.mark("data");
      if (losses() !== known) [floor, known] = [after, losses()];
      // Every `look` that is sent from now on shows that they have ended.
      for (const id of this.#ended) this.#delivered.delete(id);
      this.#ended.clear();
      let [isClosed, isOpen, isContiguous] = [false, false, true];
      for (let from = floor; ;) {
        const seen = await connection.persist(() => this.look(from, filesAtOnce), signal);
        ({ isClosed } = seen);
        for (const file of seen.files) {
          from = file.id;
          const isPassed = file.isDone || file.isQuarantined;
          isContiguous &&= isPassed;
          if (isContiguous) floor = file.id;
          if (isPassed || this.#delivered.has(file.id)) continue;
          isOpen ||= !file.isSealed;
          if (until === "empty" && !file.isSealed) continue;
          this.#delivered.add(file.id);
          yield file;
        }
        if (seen.files.length < filesAtOnce) break;
      }
      if (losses() !== known) continue;
      if (until === "empty" || (isClosed && !isOpen)) return;
      if (connection.mark("data") === mark) await connection.until("data", mark, signal);
    }
  }

  /** Becomes the consumer, once. */
  join(): Promise<Membership> {
    this.#membership ??= this.#commands.join(this.#op, this.signal).catch((error: unknown) => {
      this.#membership = undefined;
      throw error;
    });
    return this.#membership;
  }

  /** Up to `most` files with an id above `after`. */
  async look(after: number, most: number): Promise<Extract<Look, { state: "seen" }>> {
    for (;;) {
      const { fence, epoch } = await this.join();
      const reply = await this.#commands.look(fence, after, most, this.signal);
      if (reply.state === "gone" || (reply.state === "seen" && reply.epoch !== epoch)) throw this.#commands.reset();
      if (reply.state === "seen") return reply;
      this.#rejectTakeover(reply.by, fence);
    }
  }

  /** The current state of a file, or undefined if it no longer exists. */
  async again({ id }: SeenFile): Promise<SeenFile | undefined> {
    const { files } = await this.connection.persist(() => this.look(id - 1, 1), this.signal);
    return files[0]?.id === id ? files[0] : undefined;
  }

  async grown(file: SeenFile, known: number): Promise<SeenFile> {
    for (;;) {
      const mark = this.connection.mark("data");
      const now = await this.again(file);
      if (!now) throw resetError("The file", file.name);
      if (now.chunks > known || now.isSealed) return now;
      await this.connection.until("data", mark, this.signal);
    }
  }

  async explainMissing(file: SeenFile): Promise<void> {
    if (!(await this.again(file))) throw resetError("The file", file.name);
  }

  /** Stores results and position of a file. */
  async commit(file: SeenFile, operands: CommitOperands, chunks: ChunkOperands): Promise<void> {
    const { fence } = await this.join();
    const { targets, send } = this.#commands.advance(fence, file, operands, chunks);
    // An abort does not end a commit that was sent: we must know whether it is stored.
    const reply = await this.connection.persist(send, this.signal);
    if (reply.state === "refused") throw resultError(reply.fault, targets);
    if (reply.state === "gone") throw resetError("The file", file.name);
    if (reply.state === "fenced") this.#rejectTakeover(reply.by, fence);
    if (reply.state !== "committed") {
      this.#losses++;
      throw new RolledBack(file.name);
    }
    if (operands.isDone || operands.cause) this.#ended.add(file.id);
    this.#onStored(file, operands);
    await this.#commands.free(reply.parts);
  }

  /** Applies the results that commits have stored in pieces. */
  async applyPending(): Promise<void> {
    await this.#commands.applyPending(this.signal);
  }

  /** A lower fence than ours, or none, means that a failover lost our join: then we join again. */
  #rejectTakeover(by: number, fence: string): void {
    if (by > Number(fence)) throw this.#commands.fenced();
    this.#membership = undefined;
    this.#losses++;
  }
}
