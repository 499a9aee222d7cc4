import { KitError, type RedisLike } from "@kit/core";
import { newToken, resolve } from "@kit/core/toolkit";
import { damageOf, hasCode, isAboutContent } from "../errors.js";
import { agreementOf, type Agreement, keyOf, retryMs } from "./agreement.js";
import { type Claimed, type JobCommands, jobCommands, type Listed } from "./commands.js";
import { bornOf, listFiles, type LocalFile, OpenFile, type SkippedLink } from "../bytes/files.js";
import { LogConnection } from "../connection.js";
import { type JobOptions, jobRules, type ResolvedJob, type RunOptions, runRules } from "../options.js";
import { Processor } from "../process/processor.js";
import { fileText, parsePosition, readingOf } from "../bytes/reading.js";
import { type CommitOperands, type LinesHandler, type Padding, runFile, type RunSummary } from "../process/runner.js";
import type * as scripts from "../scripts/index.js";
import { linkedSignal, type LinkedSignal, inParallel } from "../signals.js";

/** Events of a job. */
export interface JobEvents {
  /** A worker claimed a file and processes it from text byte `offset`. */
  readonly file: [fact: { readonly file: string; readonly offset: number; readonly bytes: number }];
  /** Results and position of a file were stored. */
  readonly progress: [fact: { readonly file: string; readonly offset: number; readonly lines: number }];
  /** A file was processed to its end. */
  readonly done: [fact: { readonly file: string; readonly offset: number; readonly lines: number }];
  /** Another worker took over the file: this worker was silent for `leaseMs`, or Redis lost data. */
  readonly lost: [fact: { readonly file: string }];
  /** A link leads out of the directory, to `target`, and was left out: see `dereference`. Emitted once per run. */
  readonly skipped: [link: SkippedLink];
  /** A file was skipped because of `onBadData`. */
  readonly damaged: [fact: { readonly file: string; readonly error: KitError }];
  /**
   * A file was truncated and rewritten, and no file of the directory has its previous content. Text bytes up to `from` are counted. The
   * file had `to` bytes at the last check. The bytes after `from`, and everything written since that check, are lost.
   */
  readonly gap: [fact: { readonly file: string; readonly from: number; readonly to: number }];
  /**
   * The job processes a file that resembles the file `of`: the file is equal to an existing file, or has the same first 4 KiB as a longer
   * file that no longer exists. A smaller file is compared by its first KiB, unless the first line is longer or more than eight files share
   * that KiB. If the file is a copy or an earlier state, its text up to `to` counts twice.
   */
  readonly copy: [fact: { readonly file: string; readonly of: string; readonly to: number }];
  /**
   * A file has the same text, up to `to`, as a file that no longer exists. `of` is the name of the other file. Text up to `to` does not
   * count again. This happens when a file is replaced by an equal file or moved to another disk. If two files are equal only by chance, the
   * new file's lines up to `to` are left out. Not emitted for a compressed file.
   */
  readonly moved: [fact: { readonly file: string; readonly of: string; readonly to: number }];
  /**
   * A file has the name and first line of a file that no longer exists, but another text. `to` text bytes of the previous file were
   * counted. The new file counts from its start: if it is the edited previous file, its lines count again. Emitted at the end of a run.
   */
  readonly again: [fact: { readonly file: string; readonly to: number }];
  /** Zero bytes before a line were dropped. A file starts with zero bytes if it is truncated while its writer continues at its old offset. */
  readonly padding: [fact: Padding & { readonly file: string }];
  /**
   * The server may drop keys when its memory is full. Under an `allkeys-…` policy it may drop positions and results: then lines are lost or
   * counted again. Under a `volatile-…` policy it drops nothing of a job, because a job's keys have no expiry. Emitted once per policy. If
   * the event has a listener, kit reads the policy in the background, and again after a lost connection. Nothing is emitted if INFO is
   * forbidden.
   */
  readonly evictable: [fact: { readonly policy: string }];
  /** A background operation failed and is being retried. */
  readonly error: [error: KitError];
}

/** Progress of one file of a job. */
export interface JobFile {
  readonly name: string;
  readonly isDone: boolean;
  /** Bytes of the file when a worker last claimed it, or when it was done. */
  readonly bytes: number;
  /** Text bytes whose results are stored. */
  readonly offset: number;
  readonly lines: number;
}

type Refused = Extract<scripts.Claim, { state: "refused" }>;

/** The state of one run. */
interface Run {
  readonly handler: LinesHandler;
  readonly signal: AbortSignal;
  files: number;
  lines: number;
  /** The first error about a file. The run rejects with it, after the other files. */
  failed: { readonly error: unknown } | undefined;
  readonly skipped: Set<string>;
  /** When each file that resembles another existing file was first seen in that state. */
  readonly alike: Map<string, number>;
  /** Contents that a file had before it was truncated. */
  readonly former: { readonly file: LocalFile; readonly content: string; readonly from: number; readonly to: number }[];
  /** Contents that another file of the same name had. */
  readonly named: { readonly file: string; readonly content: string }[];
}

/** A named job over the files of a directory; see {@link createLogJob}. */
export class LogJob extends Processor<JobEvents> {
  readonly name: string;
  readonly #resolved: ResolvedJob;
  readonly #connection: LogConnection;
  readonly #commands: JobCommands;

  constructor(redis: RedisLike, name: string, options: JobOptions) {
    const resolved = resolve("options", options, jobRules);
    const connection = new LogConnection(redis, name, resolved, "The job");
    super(connection, connection.keys.job);
    this.name = name;
    this.#resolved = resolved;
    this.#connection = connection;
    this.#commands = jobCommands(connection, (result) => this.resultKey(result));
  }

  /**
   * Processes every file of the directory that is not done, and resolves when all are done. Several processes can run the same job at the
   * same time. Each file has one worker at a time.
   *
   * The results of a line are stored exactly once, together with the position. After a crash at any point, another run continues after the
   * last commit. If a file has grown since it was done, the job processes the rest. Once started, a run continues through Redis outages.
   *
   * If a file cannot be read, the run processes the other files, and then rejects with the first such error. The next run tries again.
   *
   * @throws the error of the handler. Its lines count as not processed, and the next run starts with them.
   * @throws {BadDataError | LineError | LogshipError} a file is damaged, a policy rejects a line, a file has changed
   * (`KIT_LOGSHIP_CHANGED`), or a result cannot be stored (`KIT_LOGSHIP_RESULT`).
   * @throws {KitUnavailableError} no server answered the first command within `deadlineMs`.
   * @throws `signal.reason` if `signal` aborts; {KitClosedError} if the job is closed.
   *
   * @example
   * await job.run((lines, results) => {
   *   for (const line of lines) results.increment("by-status", line.split(" ")[8] ?? "none");
   * });
   */
  async run(handler: LinesHandler, options: RunOptions = {}): Promise<RunSummary> {
    const { signal, concurrency: count } = resolve("options", options, runRules);
    const facts = (): object => ({ job: this.name });
    return await this.#connection.task("logship.run", facts, signal, (link) => this.#run(handler, count, link));
  }

  /** Returns the files of which the job has a record, sorted by name. */
  async files(): Promise<JobFile[]> {
    this.#connection.life.assertOpen();
    const byId = new Map<string, Map<string, string>>();
    for (const [field, value] of await this.#connection.hash(this.#connection.keys.progress)) {
      const colon = field.indexOf(":");
      if (colon < 0) continue;
      const id = field.slice(0, colon);
      let facts = byId.get(id);
      if (!facts) byId.set(id, (facts = new Map<string, string>()));
      facts.set(field.slice(colon + 1), value);
    }
    const contents = [...byId].filter(([, facts]) => facts.has("position"));
    const files = contents.map(([id, facts]) => ({
      name: facts.get("name") ?? "",
      isDone: facts.get("state") === "done",
      bytes: Number.parseInt(byId.get(facts.get("file") ?? id)?.get("stamp") ?? "0", 10),
      offset: parsePosition(facts.get("position") ?? "").offset,
      lines: Number(facts.get("lines")),
    }));
    return files.sort((one, other) => (one.name < other.name ? -1 : 1));
  }

  /**
   * Deletes the job's progress and its results. Another run starts all files again. A process that is paused in a run of the deleted job
   * can no longer store anything.
   *
   * @throws {LogshipError} `KIT_LOGSHIP_BUSY`: a worker has a file. After a crash, wait until its lease has ended.
   */
  async delete(): Promise<void> {
    this.#connection.life.assertOpen();
    await this.#commands.delete();
  }

  async #run(handler: LinesHandler, count: number, { controller, signal }: LinkedSignal): Promise<RunSummary> {
    const skipped = new Set<string>();
    const run: Run = {
      handler,
      signal,
      files: 0,
      lines: 0,
      failed: undefined,
      skipped,
      alike: new Map(),
      former: [],
      named: [],
    };
    // The first call rejects if there is no server; later ones wait for it.
    await this.#list(signal, (link) => this.emit("skipped", link));
    await this.#commands.applyPending(signal);
    await inParallel(count, controller, () => this.#work(run));
    for (const { file, content, from, to } of run.former) {
      const [last] = await this.#connection.persist(() => this.#commands.facts([`${content}:file`], signal), signal);
      if (last === file.id) this.emit("gap", { file: file.name, from, to });
    }
    if (run.named.length > 0) await this.#reportAgain(run);
    if (run.failed) throw run.failed.error;
    return { files: run.files, lines: run.lines };
  }

  /** Emits `again` for each file with the name of an earlier one, if no file has that earlier text any more. */
  async #reportAgain({ named, signal }: Run): Promise<void> {
    const listed = await this.#connection.persist(() => this.#list(signal, () => undefined), signal);
    const there = new Set(listed.map((one) => one.file.id));
    for (const { file, content } of named) {
      const facts = (...fields: string[]): Promise<(string | null)[]> =>
        this.#connection.persist(() => this.#commands.facts(fields, signal), signal);
      const [last, position] = await facts(`${content}:file`, `${content}:position`);
      const [held] = await facts(`${last ?? content}:content`);
      const { offset: to } = parsePosition(position ?? "");
      const isThere = there.has(last ?? content) && held === content;
      if (!isThere && to > 0) this.emit("again", { file, to });
    }
  }

  async #work(run: Run): Promise<void> {
    const { signal, skipped } = run;
    for (;;) {
      const mark = this.#connection.mark("file");
      const files = await this.#connection.persist(() => this.#list(signal, () => undefined), signal);
      let [hasWorked, nearestMs] = [false, Infinity];
      for (const listed of files) {
        const { file, stamp } = listed;
        if (stamp === file.stamp || skipped.has(keyOf(file))) continue;
        const outcome = await this.#take(listed, files, run);
        if (typeof outcome === "object") nearestMs = Math.min(nearestMs, outcome.msLeft);
        else hasWorked = true;
        if (outcome === "skipped") skipped.add(keyOf(file));
        if (typeof outcome !== "number") continue;
        run.files++;
        run.lines += outcome;
      }
      if (hasWorked) continue;
      if (nearestMs === Infinity) return;
      await this.#connection.until("file", mark, signal, nearestMs + 1);
    }
  }

  /** Resolves with the number of lines when the file is done, or with the reason why it is not. It is refused if another worker has it. */
  async #take(listed: Listed, files: readonly Listed[], run: Run): Promise<number | Refused | "lost" | "skipped"> {
    const { prefix: seen, stamp: before } = listed;
    const { id, name } = listed.file;
    let opened: OpenFile | undefined;
    try {
      opened = await OpenFile.open(listed.file, true);
      if (!opened) return "lost";
      const file = { ...listed.file, ...opened.was };
      const { stamp } = file;
      const known = await opened.identify(bornOf(before) === bornOf(stamp) ? seen : "");
      const { beginnings: beginning } = known;
      const op = newToken();
      const { leaseMs } = this.#resolved;
      const facts = { file: id, seen, name, stamp, leaseMs, op, beginning } as const;
      let { isSame, prefix } = { isSame: known.isSame, prefix: known.isSame ? seen : known.prefix };
      const comparison = { ...run, files, facts: this.#commands.facts };
      let agreement: Agreement = { content: "", position: "", from: "" };
      for (let others = ""; ;) {
        const { content, position, from, copy, moved } = agreement;
        const likeness = isSame ? 1 : known.isReplaced ? -1 : 0;
        const claimed = await this.#commands.claim(
          { ...facts, prefix, likeness, others, content, position, from },
          run.signal,
        );
        if (claimed.state === "refused") return claimed;
        if (claimed.state === "claimed") {
          if (copy) this.emit("copy", { file: name, ...copy });
          if (moved !== undefined) this.emit("moved", { file: name, of: moved, to: parsePosition(from).offset });
          return await this.#process(file, claimed, opened, run);
        }
        const found = await agreementOf(file, opened, claimed.contents, { ...comparison, isSame });
        if ("state" in found) return found;
        [agreement, { others }] = [found, claimed];
        if (isSame && found.content === "") [isSame, prefix] = [false, known.prefix];
        // A record without counted bytes describes no text.
        if (found.from !== "")
          prefix = found.from.startsWith("0:") ? known.prefix : opened.recordOf(parsePosition(found.from));
      }
    } catch (error) {
      // The text was replaced while it was read: the file is identified again.
      if (hasCode(error, "KIT_LOGSHIP_CHANGED")) return { state: "refused", msLeft: retryMs };
      if (!isAboutContent(error)) throw error;
      if (this.#resolved.onBadData === "error") run.failed ??= { error };
      else this.emit("damaged", damageOf(name, error));
      return "skipped";
    } finally {
      await opened?.close();
    }
  }

  async #process(
    file: LocalFile,
    claimed: Claimed,
    opened: OpenFile,
    { handler, signal: outer, former, named }: Run,
  ): Promise<number | "lost"> {
    const position = parsePosition(claimed.position);
    const { seq, formerStamp: stamp } = claimed;
    // A file may be claimed again within a run.
    const isKnown = former.some((one) => one.content === claimed.former);
    if (claimed.former !== "" && !isKnown && bornOf(stamp) === bornOf(file.stamp)) {
      const { offset: from } = parsePosition(claimed.formerPosition);
      former.push({ file, content: claimed.former, from, to: Math.max(from, Number.parseInt(stamp, 10)) });
    }
    if (claimed.named !== "" && claimed.former === "") named.push({ file: file.name, content: claimed.named });
    const { leaseMs, lastLine } = this.#resolved;
    const { controller, signal, unlink } = linkedSignal([outer]);
    const renewal = setInterval(() => {
      this.#commands.renew(claimed, file, leaseMs).catch((error: unknown) => {
        if (signal.aborted) return;
        // The next renewal repeats it; a takeover ends the work on this file.
        if (KitError.is(error) && error.retryable) this.emit("error", error);
        else controller.abort(error);
      });
    }, leaseMs / 3);
    let isDone = false;
    let sum = 0;
    try {
      // Results that an earlier worker stored come first.
      if (seq > 0) await this.#commands.applyPending(signal);
      this.emit("file", { file: file.name, offset: position.offset, bytes: file.size });
      const reading = readingOf(
        fileText(opened, position, file.name),
        position,
        this.#resolved,
        lastLine === "take" ? "line" : "none",
      );
      const context = { file: file.name, signal };
      const padded = (padding: Padding): void => this.emit("padding", { file: file.name, ...padding });
      const commit = async (operands: CommitOperands): Promise<void> => {
        const { position: at } = operands;
        const prefix = at.tail ? opened.recordOf(at, at.tail) : "";
        await this.#commands.commit(claimed, file, leaseMs, { ...operands, prefix }, signal);
        if (operands.pieces) await this.#commands.applyPending(signal);
        sum += operands.lines;
        ({ isDone } = operands);
        const fact = { file: file.name, offset: operands.position.offset, lines: sum };
        this.emit("progress", fact);
        if (isDone) this.emit("done", fact);
      };
      return await runFile({ reading, position, seq, flush: this.#resolved, context, commit, padded }, handler);
    } catch (error) {
      if (outer.aborted || !hasCode(error, "KIT_LOGSHIP_FENCED")) throw error;
      this.emit("lost", { file: file.name });
      return "lost";
    } finally {
      clearInterval(renewal);
      unlink();
      // Best effort: the lease ends by itself.
      if (!isDone) await this.#commands.renew(claimed, file, 0).catch(() => undefined);
    }
  }

  async #list(signal: AbortSignal, onSkipped: (link: SkippedLink) => void): Promise<Listed[]> {
    const { directory, match, order, dereference } = this.#resolved;
    const files = await listFiles(directory, match, order, dereference ? undefined : onSkipped);
    return await this.#commands.listed(files, signal);
  }
}

/**
 * Creates a job object: a name, a directory, and a record in Redis of the progress in each file. Objects with the same name, in any process
 * with access to the same directory, share the work.
 *
 * `redis` is a client from core's `connect()`, from ioredis, or from `fromNodeRedis()`. kit never closes it.
 *
 * @throws {TypeError | RangeError} `redis` or an option is invalid.
 * @throws {KitError} `KIT_NAME`: the name cannot be a key.
 *
 * @example
 * await using job = createLogJob(redis, "status-codes", { directory: "/var/log/nginx", match: /^access/ });
 * await job.run((lines, results) => { results.increment("total", "lines", lines.length); });
 */
export const createLogJob = (redis: RedisLike, name: string, options: JobOptions): LogJob =>
  new LogJob(redis, name, options);
