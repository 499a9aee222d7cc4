import { KitError, type RedisLike } from "@kit/core";
import { type CloseOptions, newToken, optionsObject, TypedEmitter } from "@kit/core/toolkit";
import { fencedError, isAboutContent, LogshipError, resultError } from "./errors.js";
import { changedError, listFiles, type LocalFile, OpenFile } from "./files.js";
import { Hub } from "./hub.js";
import { concurrencyOption, type JobOptions, type JobTerms, jobTerms, type RunOptions } from "./options.js";
import { formatPosition, parsePosition, type Position } from "./position.js";
import { fileText, readingOf } from "./reading.js";
import { deleteJob, hashOf } from "./removal.js";
import { noEffects } from "./results.js";
import { type CommitOperands, type LinesHandler, runFile } from "./runner.js";
import * as scripts from "./scripts/index.js";
import { linkedSignal, type LinkedSignal, together } from "./signals.js";
import { type CounterSink, type ForwardOptions, ResultStore } from "./sink.js";

/** What a job tells while it runs. */
export interface JobEvents {
  /** A file was taken, to be processed from `offset` on. */
  readonly file: [fact: { readonly file: string; readonly offset: number; readonly bytes: number }];
  /** Results and position were stored. */
  readonly progress: [fact: { readonly file: string; readonly offset: number; readonly lines: number }];
  /** A file is processed to its end. */
  readonly done: [fact: { readonly file: string; readonly offset: number; readonly lines: number }];
  /** A file went to another worker: this one was not heard of for `leaseMs`, or Redis lost data. It is processed there. */
  readonly lost: [fact: { readonly file: string }];
  /** A file was skipped, as `onBadData` says. */
  readonly damaged: [fact: { readonly file: string; readonly error: KitError }];
  /** Something failed in the background and is being tried again. */
  readonly error: [error: KitError];
}

/** What one run did. */
export interface RunSummary {
  /** Files that it processed to their end. */
  readonly files: number;
  /** Lines whose results it stored. */
  readonly lines: number;
}

/** Progress of one file of a job. */
export interface JobFile {
  readonly name: string;
  readonly isDone: boolean;
  /** Bytes of the file when it was last taken, or done. */
  readonly bytes: number;
  /** Text bytes whose results are stored. */
  readonly offset: number;
  readonly lines: number;
}

/** A worker's right to a file. */
interface Claimed {
  readonly file: LocalFile;
  readonly fence: string;
  readonly seq: number;
  readonly position: Position;
}

const lookUpFiles = 500;

/** A named job over the files of a directory; see {@link createLogJob}. */
export class LogJob extends TypedEmitter<JobEvents> {
  readonly name: string;
  readonly #terms: JobTerms;
  readonly #hub: Hub;
  readonly #results: ResultStore;

  constructor(redis: RedisLike, name: string, options: JobOptions) {
    super();
    this.name = name;
    this.#terms = jobTerms(options);
    this.#hub = new Hub(redis, name, this.#terms.hub, "The job", (error) => this.emit("error", error));
    this.#results = new ResultStore(this.#hub, this.#hub.keys.job);
  }

  /**
   * Processes every file of the directory that is not done, and resolves when all are, whoever did them: several processes may run the same job
   * at once, each file is with one of them at a time.
   *
   * The results of a line are stored exactly once, together with the position. After a crash at any point another run goes on behind the last
   * commit. A file that has grown since it was done is processed from there on. Outages of Redis are waited out once the run has begun.
   *
   * @throws what the handler throws. Its lines count as not processed; the next run begins with them.
   * @throws {BadDataError | LineError | LogshipError} a file is damaged, a line is refused by policy, a file is not what it was
   * (`KIT_LOGSHIP_CHANGED`), or a result cannot be stored (`KIT_LOGSHIP_RESULT`).
   * @throws {KitUnavailableError} no server within `deadlineMs` at the beginning.
   * @throws `signal.reason` if `signal` aborts; {KitClosedError} if the job is closed.
   *
   * @example
   * await job.run((lines, results) => {
   *   for (const line of lines) results.increment("by-status", line.split(" ")[8] ?? "none");
   * });
   */
  async run(handler: LinesHandler, options: RunOptions = {}): Promise<RunSummary> {
    const { signal, concurrency } = optionsObject<RunOptions>("options", options, ["signal", "concurrency"]);
    const count = concurrencyOption(concurrency);
    const facts = (): object => ({ job: this.name });
    return await this.#hub.task("logship.run", facts, signal, (link) => this.#run(handler, count, link));
  }

  /** The files that the job knows, by name. */
  async files(): Promise<JobFile[]> {
    this.#hub.assertOpen();
    const flat = await hashOf(this.#hub, this.#hub.keys.progress);
    const byId = new Map<string, Map<string, string>>();
    for (const [field, value] of flat) {
      const colon = field.indexOf(":");
      const id = field.slice(0, colon);
      let facts = byId.get(id);
      if (!facts) byId.set(id, (facts = new Map<string, string>()));
      facts.set(field.slice(colon + 1), value);
    }
    const files = [...byId.values()].map((facts) => ({
      name: facts.get("name") ?? "",
      isDone: facts.get("state") === "done",
      bytes: Number.parseInt(facts.get("stamp") ?? "0", 10),
      offset: parsePosition(facts.get("position") ?? "").offset,
      lines: Number(facts.get("lines")),
    }));
    return files.sort((one, other) => (one.name < other.name ? -1 : 1));
  }

  /** The fields of the result hash `name`; sums are numbers as text. */
  async results(name: string): Promise<Map<string, string>> {
    return await this.#results.read(name);
  }

  /**
   * Moves the sums of the result `name` to a sink, each exactly once whatever crashes: they stay in Redis until the sink has them, and an addition that
   * may have been made is repeated under its number. Resolves with how many fields it moved, once none is left. Call it when it suits, from any
   * process. `results(name)` then has what came since.
   *
   * @throws what the sink throws: its sums come again in the next call.
   */
  async forward(name: string, sink: CounterSink, options: ForwardOptions = {}): Promise<number> {
    return await this.#results.forward(name, sink, options);
  }

  /** The key of the result `name`, for other commands. */
  resultKey(name: string): string {
    return this.#results.key(name);
  }

  /**
   * Deletes the job: how far it is, and its results. Another run begins all files anew. Another process that is paused in a run of the deleted job
   * can store nothing any more.
   *
   * @throws {LogshipError} `KIT_LOGSHIP_BUSY`: a worker has a file; after a crash, until its lease has ended.
   */
  async delete(): Promise<void> {
    this.#hub.assertOpen();
    await deleteJob(this.#hub);
  }

  /** Ends what runs, as an abort does, and waits for it for at most `timeoutMs` (10 s by default). Idempotent. */
  async close(options: CloseOptions = {}): Promise<void> {
    await this.#hub.close(options);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  async #run(handler: LinesHandler, count: number, { controller, signal }: LinkedSignal): Promise<RunSummary> {
    const skipped = new Set<string>();
    const state = { files: 0, lines: 0, skipped };
    // The first look tells whether there is a server at all; later ones wait for it.
    await this.#look(await this.#list(), signal);
    await together(count, controller, () => this.#work(handler, signal, state));
    return { files: state.files, lines: state.lines };
  }

  async #work(
    handler: LinesHandler,
    signal: AbortSignal,
    state: { files: number; lines: number; readonly skipped: Set<string> },
  ): Promise<void> {
    for (;;) {
      const mark = this.#hub.mark("file");
      const files = (await this.#list()).filter(({ id, stamp }) => !state.skipped.has(`${id} ${stamp}`));
      const records = await this.#hub.persist(() => this.#look(files, signal), signal);
      let [hasWorked, nearestMs] = [false, Infinity];
      for (const [index, file] of files.entries()) {
        const record = records[index]!;
        if (record.isDone && record.stamp === file.stamp) continue;
        if (record.msLeft > 0) {
          nearestMs = Math.min(nearestMs, record.msLeft);
          continue;
        }
        const outcome = await this.#take(file, record.prefix, handler, signal);
        if (outcome === "skipped") state.skipped.add(`${file.id} ${file.stamp}`);
        else if (typeof outcome === "number") {
          state.files++;
          state.lines += outcome;
        }
        hasWorked ||= outcome !== "taken";
        if (outcome === "taken") nearestMs = Math.min(nearestMs, this.#terms.leaseMs);
      }
      if (hasWorked) continue;
      if (nearestMs === Infinity) return;
      await this.#hub.until("file", mark, signal, nearestMs + 1);
    }
  }

  /** The number of lines once the file is done; or why it is not. */
  async #take(
    file: LocalFile,
    recorded: string,
    handler: LinesHandler,
    signal: AbortSignal,
  ): Promise<number | "taken" | "lost" | "skipped"> {
    let opened: OpenFile | undefined;
    try {
      opened = await OpenFile.open(file);
      if (!opened) return "lost";
      const claimed = await this.#claim(file, opened, recorded, signal);
      if (claimed === undefined) return "taken";
      return await this.#process(claimed, opened, handler, signal);
    } catch (error) {
      if (this.#terms.onBadData === "error" || !isAboutContent(error)) throw error;
      this.emit("damaged", { file: file.name, error: error as KitError });
      return "skipped";
    } finally {
      await opened?.close();
    }
  }

  async #claim(file: LocalFile, opened: OpenFile, recorded: string, signal: AbortSignal): Promise<Claimed | undefined> {
    const { context, keys, deadlineMs } = this.#hub;
    let prefix = await opened.prefix(recorded);
    // Another file than the one that was recorded for this inode.
    if (recorded !== "" && prefix !== recorded) prefix = await opened.prefix("");
    const { name, id, stamp } = file;
    const op = newToken();
    const args = { file: id, seen: recorded, prefix, name, stamp, leaseMs: this.#terms.leaseMs, op };
    const reply = await this.#hub.persist(
      () => scripts.claim.run(context, keys, args, { deadlineMs, signal, op }),
      signal,
    );
    if (reply.state !== "claimed") return undefined;
    return { file, fence: reply.fence, seq: reply.seq, position: parsePosition(reply.position) };
  }

  async #process(
    claimed: Claimed,
    opened: OpenFile,
    handler: LinesHandler,
    outer: AbortSignal,
  ): Promise<number | "lost"> {
    const { file, position } = claimed;
    const { leaseMs, lines: lineTerms, takesLast } = this.#terms;
    const { controller, signal, unlink } = linkedSignal([outer]);
    const renewal = setInterval(() => {
      this.#renew(claimed, leaseMs, signal).catch((error: unknown) => controller.abort(error));
    }, leaseMs / 3);
    let isDone = false;
    let sum = 0;
    try {
      if ((await opened.now()).size < position.stored) throw changedError(file.name);
      this.emit("file", { file: file.name, offset: position.offset, bytes: file.size });
      const reading = readingOf(fileText(opened, position, file.name), position, lineTerms, takesLast);
      const lines = await runFile(
        {
          reading,
          position,
          seq: claimed.seq,
          flush: this.#terms,
          context: { file: file.name, signal },
          commit: async (operands) => {
            await this.#commit(claimed, operands, operands.isDone ? file.stamp : "", signal);
            sum += operands.lines;
            isDone = operands.isDone;
            const fact = { file: file.name, offset: operands.position.offset, lines: sum };
            this.emit("progress", fact);
            if (isDone) this.emit("done", fact);
          },
        },
        handler,
      );
      return lines;
    } catch (error) {
      if (outer.aborted || !isLoss(error)) throw error;
      this.emit("lost", { file: file.name });
      return "lost";
    } finally {
      clearInterval(renewal);
      unlink();
      if (!isDone) await this.#releaseClaim(claimed);
    }
  }

  async #commit(claimed: Claimed, operands: CommitOperands, doneStamp: string, signal: AbortSignal): Promise<void> {
    const { seq, position, lines, effects } = operands;
    const targets = effects.names.map((name) => this.resultKey(name));
    const facts = { seq, position: formatPosition(position), lines, doneStamp, results: effects.results };
    // Once it is sent an abort does not end it: whether it is stored must be known.
    const reply = await this.#hub.persist(() => this.#send(claimed, this.#terms.leaseMs, facts, targets), signal);
    if (reply.state === "refused") throw resultError(reply.fault, targets);
    if (reply.state !== "committed") throw fencedError("The file", claimed.file.name);
  }

  async #renew(claimed: Claimed, leaseMs: number, signal: AbortSignal): Promise<void> {
    try {
      const { state } = await this.#send(claimed, leaseMs);
      if (state === "fenced" && !signal.aborted) throw fencedError("The file", claimed.file.name);
    } catch (error) {
      // What can be tried again is: at the next renewal.
      if (!KitError.is(error) || !error.retryable) throw error;
      if (!signal.aborted) this.emit("error", error);
    }
  }

  /** Best effort: the lease ends by itself. */
  async #releaseClaim(claimed: Claimed): Promise<void> {
    await this.#send(claimed, 0).catch(() => undefined);
  }

  async #send(
    { file, fence }: Claimed,
    leaseMs: number,
    facts: {
      seq: number;
      position: string;
      lines: number;
      doneStamp: string;
      results: string;
    } = nothing,
    targets: readonly string[] = [],
  ): Promise<scripts.Committed> {
    const { context, keys, deadlineMs } = this.#hub;
    const args = { file: file.id, fence, leaseMs, events: keys.events, ...facts };
    return await scripts.progress.run(context, { ...keys, targets }, args, { deadlineMs });
  }

  async #list(): Promise<LocalFile[]> {
    return await listFiles(this.#terms.directory, this.#terms.match, this.#terms.order);
  }

  async #look(files: readonly LocalFile[], signal: AbortSignal): Promise<scripts.FileRecord[]> {
    const { context, keys, deadlineMs } = this.#hub;
    const found: scripts.FileRecord[] = [];
    for (let from = 0; from === 0 || from < files.length; from += lookUpFiles) {
      const ids = files.slice(from, from + lookUpFiles).map(({ id }) => id);
      found.push(...(await scripts.records.run(context, keys, { files: ids }, { deadlineMs, signal })));
    }
    return found;
  }
}

const nothing = { seq: 0, position: "", lines: 0, doneStamp: "", results: noEffects.results };

const isLoss = (error: unknown): boolean => error instanceof LogshipError && error.code === "KIT_LOGSHIP_FENCED";

/**
 * Makes a job object: a name, a directory, and a record in Redis of how far each of its files is processed. Objects of one name, in any
 * process with access to the same directory, share the work.
 *
 * `redis` is any ioredis `Redis` or `Cluster`, or what core's `connect()` gives. It is borrowed and never closed.
 *
 * @throws {TypeError | RangeError} `redis` or an option is not what it should be.
 * @throws {KitError} `KIT_NAME`: the name cannot be a key.
 *
 * @example
 * await using job = createLogJob(redis, "status-codes", { directory: "/var/log/nginx", match: /^access/ });
 * await job.run((lines, results) => { results.increment("total", "lines", lines.length); });
 */
export const createLogJob = (redis: RedisLike, name: string, options: JobOptions): LogJob =>
  new LogJob(redis, name, options);
