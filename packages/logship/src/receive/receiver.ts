import { KitClosedError, type KitError, type RedisLike } from "@kit/core";
import { asKitError, type MetricSample, newToken, onAbort, resolve } from "@kit/core/toolkit";
import { applyPending, freeChunks, metricsOf, statusOf } from "../channel.js";
import { Download, type DownloadSource } from "./download.js";
import { damageOf, fencedError, isAboutContent, LogshipError, resetError, resultError, RolledBack } from "../errors.js";
import { LogConnection } from "../connection.js";
import type { RunSummary } from "../job/job.js";
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
import { formatPosition } from "../bytes/reading.js";
import { ReceivedFile } from "./received.js";
import { type CommitOperands, type LinesHandler, type Padding, runFile } from "../process/runner.js";
import type { ChannelStatus, Joined, Look, SeenFile } from "../scripts/index.js";
import { deferred } from "../process/results.js";
import * as scripts from "../scripts/index.js";
import { shared, together } from "../signals.js";

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
  /** A new consumer with `from: "oldest"` begins within a file, behind a line: this many text bytes before it have been freed. */
  readonly trimmed: [fact: { readonly file: string; readonly offset: number }];
  /** Zero bytes before a line were dropped. */
  readonly padding: [fact: Padding & { readonly file: string }];
  /** This consumer is done with a file. */
  readonly done: [fact: { readonly file: string; readonly offset: number }];
  /** A file was skipped or set aside because of `onBadData`; or its shipper ended it early, and the part in the channel is processed. */
  readonly damaged: [fact: { readonly file: string; readonly error: KitError }];
  /**
   * The server may drop keys when its memory is full: any, and with them positions, results and chunks, under an `allkeys-…` policy, so that
   * lines are lost or counted again; under a `volatile-…` one chunks that are not committed yet. Emitted once for each policy; asked in the
   * background, only while there is a listener, and again after a lost connection. Nothing is emitted where INFO is forbidden.
   */
  readonly evictable: [fact: { readonly policy: string }];
  /** An operation failed and is being retried. */
  readonly error: [error: KitError];
}

type Session = Extract<Joined, { state: "joined" }>;

/** One run or iteration. Each joins by itself, so that of two on one receiver the later fences off the earlier, like another process. */
class Visit {
  readonly #controller: AbortController;
  readonly #callers: AbortSignal | undefined;
  readonly op: string = newToken();
  session: Promise<Session> | undefined;
  /** Files that were delivered, and those of them whose end is stored. */
  readonly given: Set<number> = new Set<number>();
  readonly ended: Set<number> = new Set<number>();
  /** How often the server lacked data that it had confirmed. */
  losses = 0;

  constructor(controller: AbortController, callers?: AbortSignal) {
    this.#controller = controller;
    this.#callers = callers;
  }

  /** Looks at the caller's signal, too: nothing listens to that any more when the iteration has ended. */
  get signal(): AbortSignal {
    if (this.#callers?.aborted) this.#controller.abort(this.#callers.reason);
    return this.#controller.signal;
  }
}

const filesAtOnce = 50;

/** Reads a channel as one consumer; see {@link createReceiver}. */
export class Receiver extends Processor<ReceiverEvents> {
  readonly channel: string;
  readonly #resolved: ResolvedReceiver;
  readonly #connection: LogConnection;
  /** Its name in errors. */
  readonly #who: string;
  #epoch: string | undefined;
  /** Takes the last iteration that has ended off its signals. */
  #unlink: () => void = () => undefined;

  constructor(redis: RedisLike, channel: string, options: ReceiverOptions) {
    const resolved = resolve("options", options, receiverRules);
    const connection = new LogConnection(redis, channel, resolved, "The receiver");
    super(connection, connection.keys.channel, options.consumer);
    this.channel = channel;
    this.#resolved = resolved;
    this.#connection = connection;
    this.#who = `Consumer ${JSON.stringify(options.consumer)} of channel ${JSON.stringify(channel)}`;
  }

  /**
   * Passes the lines of all files to a handler, and stores results and position together: each line counts exactly once, even when this process is
   * killed at any point and restarted. Resolves when the channel is closed and everything is processed.
   *
   * Files come in the order in which shippers opened them, `concurrency` at a time. With 1, a file that is still being shipped holds up the next
   * ones. Once a run has begun, it waits out outages of Redis.
   *
   * @throws the error of the handler. Its lines count as not processed; the next run begins with them.
   * @throws {LogshipError} `KIT_LOGSHIP_FENCED`: another process works as this consumer; `KIT_LOGSHIP_TRIMMED`; `KIT_LOGSHIP_RESET`;
   * `KIT_LOGSHIP_RESULT`.
   * @throws {BadDataError | LineError} with `onBadData: "error"`.
   * @throws {KitUnavailableError} no server within `deadlineMs` at the beginning.
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
      const visit = new Visit(controller);
      const seen = this.#seen(own.until, visit);
      await together(own.concurrency, controller, async () => {
        for await (const file of shared(seen)) await this.#process(file, handler, visit, summary);
      });
      return summary;
    });
  }

  /**
   * The files that this consumer is not done with, in the order in which shippers opened them; waits for more. For full control: read each file by
   * lines, batches, bytes or as a stream, and `commit()` when its results are safe. Uncommitted text is delivered again in the next iteration. Files
   * can be read beyond the end of the iteration; leaving it early ends their reading with KitClosedError. Throws as `run`.
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
      const visit = new Visit(controller, callers);
      for await (const seen of this.#seen(until, visit)) yield this.#received(seen, visit);
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
   * Has the next `run()` or `files()` retry the files that this consumer has set aside, each behind its last commit. Resolves with their names. It
   * joins as this consumer, so a run that is under way, here or in another process, ends with `KIT_LOGSHIP_FENCED`.
   */
  async redo(): Promise<string[]> {
    const facts = (): object => ({ channel: this.channel });
    return await this.#connection.task("logship.redo", facts, undefined, async ({ controller }) => {
      const names: string[] = [];
      const visit = new Visit(controller);
      for (let { after } = await this.#join(visit); ;) {
        const { files } = await this.#look(after, filesAtOnce, visit);
        for (const seen of files) {
          after = seen.id;
          if (!seen.isAside) continue;
          await this.#received(seen, visit).takeUp();
          names.push(seen.name);
        }
        if (files.length < filesAtOnce) return names;
      }
    });
  }

  /** The channel at one instant; null if there is none yet. */
  async status(): Promise<ChannelStatus | null> {
    return await statusOf(this.#connection);
  }

  /** The channel as plain numbers, for `expose()` of `@kit/stats` or another exporter. */
  async metrics(): Promise<MetricSample[]> {
    return await metricsOf(this.#connection);
  }

  async *#seen(until: "closed" | "empty", visit: Visit): AsyncGenerator<SeenFile, void, undefined> {
    const { signal, given, ended } = visit;
    const connection = this.#connection;
    connection.life.assertOpen();
    // The first call rejects if there is no server; later ones wait for it.
    const { after } = await this.#join(visit);
    const losses = (): number => visit.losses + connection.context.executor.connectionEpoch;
    /** This consumer has passed all files up to this id; a failover may undo that. */
    let floor = after;
    for (let known = losses(); ;) {
      const mark = connection.mark("data");
      if (losses() !== known) [floor, known] = [after, losses()];
      // Every `look` that is sent from now on shows that they have ended.
      for (const id of ended) given.delete(id);
      ended.clear();
      let [isClosed, isOpen, isContiguous] = [false, false, true];
      for (let from = floor; ;) {
        const seen = await connection.persist(() => this.#look(from, filesAtOnce, visit), signal);
        ({ isClosed } = seen);
        for (const file of seen.files) {
          from = file.id;
          const isPassed = file.isDone || file.isAside;
          isContiguous &&= isPassed;
          if (isContiguous) floor = file.id;
          if (isPassed || given.has(file.id)) continue;
          isOpen ||= !file.isSealed;
          if (until === "empty" && !file.isSealed) continue;
          given.add(file.id);
          yield file;
        }
        if (seen.files.length < filesAtOnce) break;
      }
      if (losses() !== known) continue;
      if (until === "empty" || (isClosed && !isOpen)) return;
      if (connection.mark("data") === mark) await connection.until("data", mark, signal);
    }
  }

  async #process(
    first: SeenFile,
    handler: LinesHandler,
    visit: Visit,
    summary: { files: number; lines: number },
  ): Promise<void> {
    for (let seen: SeenFile | undefined = first; seen && !seen.isDone;) {
      const file = this.#received(seen, visit);
      try {
        const { seq, position } = file;
        const context = { file: file.name, signal: visit.signal };
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
        seen = await this.#again(seen.id, visit);
        if (error instanceof RolledBack || !seen) continue;
        this.emit("damaged", damageOf(seen.name, error));
        const left = this.#received(seen, visit);
        await (onBadData === "skip" ? left.giveUp() : left.setAside(error));
        return;
      }
    }
  }

  #received(seen: SeenFile, visit: Visit): ReceivedFile {
    const download = this.#downloadOf(seen, visit);
    const file = new ReceivedFile(
      download,
      this.#resolved,
      (operands, chunk, place) => this.#advance(download.file, operands, { chunk, place }, visit),
      () => this.#applyPending(visit.signal),
    );
    if (seen.seq === 0 && file.offset > 0) this.emit("trimmed", { file: file.name, offset: file.offset });
    return file;
  }

  #downloadOf(seen: SeenFile, visit: Visit): Download {
    const source: DownloadSource = {
      connection: this.#connection,
      get signal() {
        return visit.signal;
      },
      prefetchBytes: this.#resolved.prefetchBytes,
      grown: async (known) => {
        for (;;) {
          const mark = this.#connection.mark("data");
          const file = await this.#again(seen.id, visit);
          if (!file) throw resetError("The file", seen.name);
          if (file.chunks > known || file.isSealed) return file;
          await this.#connection.until("data", mark, visit.signal);
        }
      },
      explainMissing: async () => {
        if (!(await this.#again(seen.id, visit))) throw resetError("The file", seen.name);
      },
    };
    return new Download(source, seen);
  }

  /** The current state of a file; undefined if it is gone. */
  async #again(id: number, visit: Visit): Promise<SeenFile | undefined> {
    const { files } = await this.#connection.persist(() => this.#look(id - 1, 1, visit), visit.signal);
    return files[0]?.id === id ? files[0] : undefined;
  }

  async #advance(
    file: SeenFile,
    operands: CommitOperands,
    where: { readonly chunk: number; readonly place: string },
    visit: Visit,
  ): Promise<void> {
    const { fence } = await this.#join(visit);
    const { seq, position, effects, pieces, isDone, aside = "" } = operands;
    const { consumer } = this.#resolved;
    const targets = pieces ? [this.#connection.keys.pending(consumer)] : effects.names.map((name) => this.resultKey(name));
    const args = {
      consumer,
      fence,
      file: file.id,
      seq,
      ...where,
      state: isDone ? "done" : aside === "" ? "open" : "aside",
      position: formatPosition(position),
      cause: aside,
      results: pieces ? deferred(pieces, `${String(file.id)} ${String(seq)}`) : effects.results,
    };
    const keys = { ...this.#connection.keys, targets };
    // An abort does not end a commit that was sent: we must know whether it is stored.
    const reply = await this.#connection.persist(() => this.#connection.run(scripts.advance, args, { keys }), visit.signal);
    if (reply.state === "refused") throw resultError(reply.fault, targets);
    if (reply.state === "gone") throw resetError("The file", file.name);
    if (reply.state === "fenced") this.#rejectTakeover(reply.by, fence, visit);
    if (reply.state !== "committed") {
      visit.losses++;
      throw new RolledBack(file.name);
    }
    if (args.state !== "open") visit.ended.add(file.id);
    const totalBytes = file.isSealed && file.codec !== "member" ? file.textBytes : undefined;
    this.emit("progress", { file: file.name, offset: position.offset, lines: operands.lines, totalBytes });
    if (isDone) this.emit("done", { file: file.name, offset: position.offset });
    await this.#free(reply.parts);
  }

  /** After a failure the chunks stay listed, and another call unlinks them. */
  async #free(parts: readonly string[]): Promise<void> {
    await freeChunks(this.#connection, parts).catch((error: unknown) =>
      this.emit("error", asKitError(error, "Freeing chunks")),
    );
  }

  async #look(after: number, most: number, visit: Visit): Promise<Extract<Look, { state: "seen" }>> {
    const { consumer } = this.#resolved;
    for (;;) {
      const { fence, epoch } = await this.#join(visit);
      const { signal } = visit;
      const reply = await this.#connection.run(scripts.look, { consumer, fence, after, most }, { signal });
      if (reply.state === "gone" || (reply.state === "seen" && reply.epoch !== epoch))
        throw resetError(`Channel ${JSON.stringify(this.channel)}`);
      if (reply.state === "seen") return reply;
      this.#rejectTakeover(reply.by, fence, visit);
    }
  }

  /** A lower fence than ours, or none, means that a failover lost our joining: then we join again. */
  #rejectTakeover(by: number, fence: string, visit: Visit): void {
    if (by > Number(fence)) throw fencedError(this.#who);
    visit.session = undefined;
    visit.losses++;
  }

  async #applyPending(signal: AbortSignal): Promise<void> {
    const pending = this.#connection.keys.pending(this.#resolved.consumer);
    await applyPending(this.#connection, { owner: this.#connection.keys.channel, pending }, (name) => this.resultKey(name), signal);
  }

  #join(visit: Visit): Promise<Session> {
    visit.session ??= this.#joinNow(visit).catch((error: unknown) => {
      visit.session = undefined;
      throw error;
    });
    return visit.session;
  }

  async #joinNow({ signal, op }: Visit): Promise<Session> {
    const { consumer, from } = this.#resolved;
    const reply = await this.#connection.run(scripts.join, { consumer, from, epoch: newToken(), op }, { signal });
    if (reply.state === "trimmed")
      throw new LogshipError("KIT_LOGSHIP_TRIMMED", `${this.#who} is new, and files were freed`);
    if (reply.state === "dropped") throw new LogshipError("KIT_LOGSHIP_DROPPED", `${this.#who} was removed`);
    const before = this.#epoch;
    this.#epoch = undefined;
    // This is another channel of the same name: the commits in the first one are gone. A further run may begin in this one.
    if (before !== undefined && before !== reply.epoch) throw resetError(`Channel ${JSON.stringify(this.channel)}`);
    this.#epoch = reply.epoch;
    await this.#applyPending(signal);
    await this.#free(reply.parts);
    return reply;
  }
}

const brokenOffError = ({ name, fault }: ReceivedFile): LogshipError =>
  new LogshipError("KIT_LOGSHIP_BROKEN_OFF", `File ${JSON.stringify(name)} ended before its end: ${fault}`, {
    file: name,
  });

/**
 * Makes a receiver: it reads a channel as one consumer. Each consumer gets every file; of several processes with the same consumer name only the
 * latest works, and the others are fenced off.
 *
 * `redis` is any ioredis `Redis` or `Cluster`, or what core's `connect()` gives. It is borrowed and never closed.
 *
 * @throws {TypeError | RangeError} `redis` or an option is not what it should be.
 * @throws {KitError} `KIT_NAME`: the name of the channel cannot be a key.
 *
 * @example
 * await using receiver = createReceiver(redis, "web", { consumer: "status-codes" });
 * await receiver.run((lines, results) => { results.increment("total", "lines", lines.length); });
 */
export const createReceiver = (redis: RedisLike, channel: string, options: ReceiverOptions): Receiver =>
  new Receiver(redis, channel, options);
