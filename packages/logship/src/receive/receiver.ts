import { KitClosedError, type KitError, type RedisLike } from "@kit/core";
import { type MetricSample, onAbort, resolve } from "@kit/core/toolkit";
import { metricsOf, statusOf } from "../commands.js";
import { LogConnection } from "../connection.js";
import { damageOf, isAboutContent, LogshipError, RolledBack } from "../errors.js";
import {
  type FilesOptions,
  filesRules,
  type ReceiveOptions,
  receiveRules,
  type ReceiverOptions,
  receiverRules,
  type ResolvedReceiver,
} from "../options.js";
import { Processor } from "../process/processor.js";
import { type CommitOperands, type LinesHandler, type Padding, runFile, type RunSummary } from "../process/runner.js";
import type { ChannelStatus, SeenFile } from "../scripts/index.js";
import { shared, inParallel } from "../signals.js";
import { type ConsumerCommands, consumerCommands } from "./commands.js";
import { Download } from "./download.js";
import { ReceivedFile } from "./received.js";
import { filesAtOnce, type OnStored, Session } from "./session.js";

/** Events of a receiver. */
export interface ReceiverEvents {
  /** Results and position of a file were stored. */
  readonly progress: [
    fact: {
      readonly file: string;
      readonly offset: number;
      readonly lines: number;
      readonly totalBytes: number | undefined;
    },
  ];
  /** A new consumer with `from: "oldest"` starts within a file, after a line. `offset` text bytes before that point have been freed. */
  readonly trimmed: [fact: { readonly file: string; readonly offset: number }];
  /** Zero bytes before a line were dropped. */
  readonly padding: [fact: Padding & { readonly file: string }];
  /** This consumer is done with a file. */
  readonly done: [fact: { readonly file: string; readonly offset: number }];
  /**
   * A file was skipped or quarantined because of `onBadData`. Or its shipper ended it early, and the part in the channel has been
   * processed.
   */
  readonly damaged: [fact: { readonly file: string; readonly error: KitError }];
  /**
   * The server may drop keys when its memory is full. Under an `allkeys-…` policy it may drop positions, results and chunks: then lines are
   * lost or counted again. Under a `volatile-…` policy it may drop only chunks that are not committed yet. Emitted once per policy. If the
   * event has a listener, kit reads the policy in the background, and again after a lost connection. Nothing is emitted if INFO is
   * forbidden.
   */
  readonly evictable: [fact: { readonly policy: string }];
  /** An operation failed and is being retried. */
  readonly error: [error: KitError];
}

/** Reads a channel as one consumer; see {@link createReceiver}. */
export class Receiver extends Processor<ReceiverEvents> {
  readonly channel: string;
  readonly #resolved: ResolvedReceiver;
  readonly #connection: LogConnection;
  readonly #commands: ConsumerCommands;
  /** Removes the listeners of the last completed iteration. */
  #unlink: () => void = () => undefined;

  constructor(redis: RedisLike, channel: string, options: ReceiverOptions) {
    const resolved = resolve("options", options, receiverRules);
    const connection = new LogConnection(redis, channel, resolved, "The receiver");
    super(connection, connection.keys.channel, options.consumer);
    this.channel = channel;
    this.#resolved = resolved;
    this.#connection = connection;
    this.#commands = consumerCommands(connection, resolved, options.consumer, (name) => this.resultKey(name));
  }

  /**
   * Passes the lines of all files to a handler, and stores results and position together. Each line counts exactly once, even if this
   * process is killed at any point and restarted. Resolves when the channel is closed and everything is processed.
   *
   * Files arrive in the order in which shippers opened them, `concurrency` at a time. With 1, a file that is still being shipped holds up
   * the next ones. Once started, a run continues through Redis outages.
   *
   * @throws the error of the handler. Its lines count as not processed, and the next run starts with them.
   * @throws {LogshipError} `KIT_LOGSHIP_FENCED`: another process works as this consumer; `KIT_LOGSHIP_TRIMMED`; `KIT_LOGSHIP_RESET`;
   * `KIT_LOGSHIP_RESULT`.
   * @throws {BadDataError | LineError} with `onBadData: "error"`.
   * @throws {KitUnavailableError} no server answered the first command within `deadlineMs`.
   * @throws `signal.reason` if `signal` aborts; {KitClosedError} if the receiver is closed.
   *
   * @example
   * await receiver.run((lines, results) => { results.increment("total", "lines", lines.length); });
   */
  async run(handler: LinesHandler, options: ReceiveOptions = {}): Promise<RunSummary> {
    const own = resolve("options", options, receiveRules);
    const facts = (): object => ({ channel: this.channel });
    return await this.#connection.task("logship.receive", facts, own.signal, async ({ controller }) => {
      const summary = { files: 0, lines: 0 };
      const session = this.#sessionOf(controller);
      const seen = session.files(own.until);
      await inParallel(own.concurrency, controller, async () => {
        for await (const file of shared(seen)) await this.#process(file, handler, session, summary);
      });
      return summary;
    });
  }

  /**
   * Yields the files that this consumer is not done with, in the order in which shippers opened them, and waits for more. Read each file by
   * lines, batches or bytes, or as a stream, and call `commit()` when its results are safe. The next iteration delivers uncommitted text
   * again.
   *
   * You can read files after the iteration has ended. If you leave it early, reading its files fails with KitClosedError. Throws the errors
   * of `run`.
   *
   * @example
   * for await (const file of receiver.files()) {
   *   for await (const line of file.lines()) if (line.includes(" 500 ")) file.results.increment("errors", file.name);
   *   await file.commit();
   * }
   */
  async *files(options: FilesOptions = {}): AsyncGenerator<ReceivedFile, void, undefined> {
    const { signal: callers, until } = resolve("options", options, filesRules);
    const { controller, unlink } = this.#connection.link(undefined);
    const leave = onAbort(callers, () => controller.abort(callers?.reason));
    let why: unknown = new KitClosedError("The iteration");
    try {
      const session = this.#sessionOf(controller, callers);
      for await (const seen of session.files(until)) yield this.#received(seen, session);
      why = undefined;
    } catch (error) {
      why = error;
      throw error;
    } finally {
      leave();
      // Files may be read beyond the end of an iteration: `close()` ends that until the next one has ended. Leaving it early ends it at once.
      this.#unlink();
      this.#unlink = why === undefined ? unlink : () => undefined;
      if (why !== undefined) {
        unlink();
        controller.abort(why);
      }
    }
  }

  /**
   * Makes the next `run()` or `files()` retry the files in this consumer's quarantine, each after its last commit. Resolves with their
   * names. The call joins as this consumer, so an active run, here or in another process, rejects with `KIT_LOGSHIP_FENCED`.
   */
  async redo(): Promise<string[]> {
    const facts = (): object => ({ channel: this.channel });
    return await this.#connection.task("logship.redo", facts, undefined, async ({ controller }) => {
      const names: string[] = [];
      const session = this.#sessionOf(controller);
      for (let { after } = await session.join(); ;) {
        const { files } = await session.look(after, filesAtOnce);
        for (const seen of files) {
          after = seen.id;
          if (!seen.isQuarantined) continue;
          await this.#received(seen, session).takeUp();
          names.push(seen.name);
        }
        if (files.length < filesAtOnce) return names;
      }
    });
  }

  /** Returns the state of the channel, or null if it does not exist yet. */
  async status(): Promise<ChannelStatus | null> {
    return await statusOf(this.#connection);
  }

  /** Returns the channel as plain numbers, for `expose()` of `@kit/stats` or another exporter. */
  async metrics(): Promise<MetricSample[]> {
    return await metricsOf(this.#connection);
  }

  async #process(
    first: SeenFile,
    handler: LinesHandler,
    session: Session,
    summary: { files: number; lines: number },
  ): Promise<void> {
    for (let seen: SeenFile | undefined = first; seen && !seen.isDone;) {
      const file = this.#received(seen, session);
      try {
        const { seq, position } = file;
        const context = { file: file.name, signal: session.signal };
        const commit = async (operands: CommitOperands): Promise<void> => {
          await file.storeAndApply(operands);
          summary.lines += operands.lines;
        };
        const padded = (padding: Padding): void => this.emit("padding", { file: file.name, ...padding });
        await runFile({ reading: file.read(), position, seq, flush: this.#resolved, context, commit, padded }, handler);
        summary.files++;
        if (file.fault !== "") this.emit("damaged", { file: file.name, error: brokenOffError(file) });
        return;
      } catch (error) {
        const { onBadData } = this.#resolved;
        if (!(error instanceof RolledBack) && (onBadData === "error" || !isAboutContent(error))) throw error;
        seen = await session.again(seen);
        if (error instanceof RolledBack || !seen) continue;
        this.emit("damaged", damageOf(seen.name, error));
        const left = this.#received(seen, session);
        await (onBadData === "skip" ? left.giveUp() : left.quarantine(error));
        return;
      }
    }
  }

  #sessionOf(controller: AbortController, callers?: AbortSignal): Session {
    const onStored: OnStored = (file, { position: { offset }, lines, isDone }) => {
      const totalBytes = file.isSealed && file.codec !== "member" ? file.textBytes : undefined;
      this.emit("progress", { file: file.name, offset, lines, totalBytes });
      if (isDone) this.emit("done", { file: file.name, offset });
    };
    return new Session(this.#connection, this.#commands, onStored, controller, callers);
  }

  #received(seen: SeenFile, session: Session): ReceivedFile {
    const file = new ReceivedFile(new Download(session, this.#resolved.prefetchBytes, seen), this.#resolved, session);
    if (seen.seq === 0 && file.offset > 0) this.emit("trimmed", { file: file.name, offset: file.offset });
    return file;
  }
}

const brokenOffError = ({ name, fault }: ReceivedFile): LogshipError =>
  new LogshipError(
    "KIT_LOGSHIP_BROKEN_OFF",
    `File ${JSON.stringify(name)} is incomplete: its shipper stopped early (${fault})`,
    {
      file: name,
    },
  );

/**
 * Creates a receiver, which reads a channel as one consumer. Each consumer gets every file.
 *
 * `redis` is a client from core's `connect()`, from ioredis, or from `fromNodeRedis()`. kit never closes it.
 *
 * @throws {TypeError | RangeError} `redis` or an option is invalid.
 * @throws {KitError} `KIT_NAME`: the name of the channel cannot be a key.
 *
 * @example
 * await using receiver = createReceiver(redis, "web", { consumer: "status-codes" });
 * await receiver.run((lines, results) => { results.increment("total", "lines", lines.length); });
 */
export const createReceiver = (redis: RedisLike, channel: string, options: ReceiverOptions): Receiver =>
  new Receiver(redis, channel, options);
