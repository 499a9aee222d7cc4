import { Readable } from "node:stream";
import { crcOf } from "../bytes/crc.js";
import { BadDataError, LogshipError } from "../errors.js";
import type { LineBatch, ResolvedLines } from "../bytes/lines.js";
import { parsePosition, type Position, type Reading, readingOf, start } from "../bytes/reading.js";
import { mostFields, noEffects, Results } from "../process/results.js";
import type { CommitOperands } from "../process/runner.js";
import type { SeenFile } from "../scripts/index.js";
import type { ChunkOperands } from "./commands.js";
import type { Download } from "./download.js";

/** Where the commits of a file are stored. */
interface Commits {
  commit(file: SeenFile, operands: CommitOperands, chunks: ChunkOperands): Promise<void>;
  /** Applies the results that commits have stored in pieces. */
  applyPending(): Promise<void>;
}

/**
 * A file of a channel, read once from the consumer's position: by lines, batches of lines, or bytes. Reading acknowledges nothing;
 * `commit()` stores results and position together. A file that is still being shipped is read as it arrives.
 */
export class ReceivedFile {
  /** The file's number in its channel. */
  readonly id: number;
  readonly name: string;
  /** Text bytes that this consumer has committed before. Reading starts after them. */
  readonly offset: number;
  /** The results that `commit()` stores with the position. Results collected after the call belong to the next commit. */
  readonly results: Results = new Results();
  readonly #download: Download;
  readonly #resolved: ResolvedLines;
  readonly #commits: Commits;
  readonly #start: Position;
  #isRead = false;
  #seq: number;
  /** The last batch, and how many of its lines were delivered. A closure per batch would keep the garbage collector busy. */
  #delivered: { readonly reading: Reading; batch: LineBatch; count: number } | undefined;
  /** The position after the delivered bytes, if any. */
  #at: Position;
  #committed: Position;
  /** The last commit in flight; there is one at a time. */
  #storing: Promise<void> = Promise.resolve();
  #lines = 0;
  #isAtEnd = false;

  constructor(download: Download, resolved: ResolvedLines, commits: Commits) {
    const { id, name, position, seq } = download.file;
    this.id = id;
    this.name = name;
    this.#download = download;
    this.#resolved = resolved;
    this.#commits = commits;
    this.#start = position === undefined ? start : parsePosition(position);
    this.offset = this.#start.offset;
    this.#seq = seq;
    this.#at = this.#start;
    this.#committed = this.#start;
  }

  /** The code of the error that made the shipper end the file early; empty if there is none, or it is unknown. */
  get fault(): string {
    return this.#download.file.fault;
  }

  /** Yields batches of lines, as they are cut from a chunk. This is the fastest way to read. */
  async *batches(): AsyncGenerator<LineBatch, void, undefined> {
    const reading = this.read();
    try {
      for await (const batch of reading.batches) {
        this.#deliver(reading, batch, batch.lines.length);
        this.#lines += batch.lines.length;
        yield batch;
      }
      this.#isAtEnd = true;
    } finally {
      await reading.batches.return();
    }
  }

  /** Yields lines, one by one. `commit()` includes the lines that were delivered, even in the middle of a chunk. */
  lines(): AsyncIterableIterator<string> {
    const reading = this.read();
    const { batches } = reading;
    // Not a generator, which takes three promises for each line although most lines are already there.
    let lines: readonly string[] = [];
    let delivered = { count: 0 };
    let [isOver, isLeft, waiting] = [false, false, 0];
    let last: Promise<unknown> = Promise.resolve();
    const end = { done: true, value: undefined } as const;
    const take = (): IteratorResult<string> => {
      this.#lines++;
      return { done: false, value: lines[delivered.count++]! };
    };
    const further = async (): Promise<IteratorResult<string>> => {
      while (!isOver && delivered.count >= lines.length) {
        isOver = true;
        const { done, value } = await batches.next();
        isOver = done === true;
        if (done) this.#isAtEnd = !isLeft;
        else [lines, delivered] = [value.lines, this.#deliver(reading, value, 0)];
      }
      return isOver ? end : take();
    };
    return {
      next: () => {
        if (waiting === 0 && delivered.count < lines.length) return Promise.resolve(take());
        waiting++;
        const mine = last.then(further).finally(() => waiting--);
        last = mine.catch(() => undefined);
        return mine;
      },
      return: async () => {
        [isOver, isLeft, lines] = [true, true, []];
        await batches.return();
        return end;
      },
      [Symbol.asyncIterator]() {
        return this;
      },
    };
  }

  /** Yields the text as bytes. Gzip content is inflated, and lines are not cut. */
  async *bytes(): AsyncGenerator<Buffer, void, undefined> {
    this.#begin();
    const { blocks, restarts } = this.#download.text(this.#start);
    let { offset, crc } = this.#start;
    try {
      for await (const block of blocks) {
        offset += block.length;
        crc = crcOf(block, crc);
        this.#at = restarts.at(offset, crc);
        yield block;
      }
      this.#checkWhole({ offset, crc });
    } catch (error) {
      throw await this.#download.explained(error);
    }
    this.#isAtEnd = true;
  }

  /** Returns the bytes as a Node stream. `commit()` includes the bytes that the stream has read ahead, so call it at the end. */
  readable(): Readable {
    return Readable.from(this.bytes(), { objectMode: false });
  }

  /** Returns the bytes as a web stream; otherwise like `readable()`. */
  webReadable(): ReadableStream<Uint8Array> {
    return Readable.toWeb(this.readable()) as ReadableStream<Uint8Array>;
  }

  /**
   * Stores `results` and the position after the delivered text in one step. At the end of the file, the commit marks the file as done. A
   * commit is idempotent: kit sends it again after a lost reply. More than 5,000 results are stored in that step, and applied in pieces
   * before the call resolves. After a crash, the next process of this consumer applies the remaining pieces first.
   *
   * @throws {LogshipError} `KIT_LOGSHIP_FENCED`: another process works as this consumer; `KIT_LOGSHIP_RESULT`; `KIT_LOGSHIP_RESET`.
   */
  async commit(): Promise<void> {
    const [lines, isDone] = [this.#lines, this.#isAtEnd];
    const { reading, batch, count = 0 } = this.#delivered ?? {};
    const position = batch && reading ? reading.positionOf(batch, count) : this.#at;
    const taken = this.results.take();
    const what = taken.stored(mostFields);
    this.#lines = 0;
    // After a failed commit, the commits that wait for it fail as well: their positions are after results that were not stored.
    const storing = this.#storing.then(async () => {
      const seq = ++this.#seq;
      try {
        await this.store({ seq, position, lines, isDone, ...what });
      } catch (error) {
        // Nothing was stored: with other results the commit can be retried under the same number.
        if (error instanceof LogshipError && error.code === "KIT_LOGSHIP_RESULT") this.#seq--;
        throw error;
      }
      this.#committed = position;
    });
    const applying = what.pieces ? storing.then(() => this.#commits.applyPending()) : storing;
    this.#storing = applying;
    try {
      await storing;
    } catch (error) {
      this.results.putBack(taken);
      this.#lines += lines;
      throw error;
    } finally {
      // A failure to apply is only this call's failure: the results are stored.
      await applying.catch(() => undefined);
      if (this.#storing === applying) this.#storing = Promise.resolve();
    }
    await applying;
  }

  /**
   * Marks the file as done for this consumer and skips the text after its last commit, like `onBadData: "skip"`. Throws the errors of
   * `commit`.
   */
  async giveUp(): Promise<void> {
    await this.#leave(true);
  }

  /**
   * Quarantines the file, because it cannot be read now, like `onBadData: "quarantine"`. `redo()` makes the next run retry the file after
   * its last commit. Throws the errors of `commit`.
   */
  async quarantine(error: { readonly code: string }): Promise<void> {
    await this.#leave(false, error.code);
  }

  /** Makes the next run retry a quarantined file. */
  async takeUp(): Promise<void> {
    await this.#leave(false);
  }

  async #leave(isDone: boolean, cause = ""): Promise<void> {
    await this.#storing.catch(() => undefined);
    await this.store({ seq: ++this.#seq, position: this.#committed, lines: 0, effects: noEffects, isDone, cause });
  }

  /** One commit of a run over lines. */
  async storeAndApply(operands: CommitOperands): Promise<void> {
    await this.store(operands);
    if (operands.pieces) await this.#commits.applyPending();
  }

  async store(operands: CommitOperands): Promise<void> {
    const { file } = this.#download;
    const place = this.#download.placeOf(operands.position.stored);
    const chunk = operands.isDone ? file.chunks : (place?.ordinal ?? file.chunk);
    const chunks = { chunk, place: place ? `${String(place.ordinal)} ${place.part}` : "" };
    await this.#commits.commit(file, operands, chunks);
  }

  get seq(): number {
    return this.#seq;
  }

  get position(): Position {
    return this.#start;
  }

  /** Lines, and the positions after them. Checks the whole file at its end. */
  read(): Reading {
    this.#begin();
    const reading = readingOf(this.#download.text(this.#start), this.#start, this.#resolved, "all");
    const checked = async function* (this: ReceivedFile): AsyncGenerator<LineBatch, void, undefined> {
      let last: LineBatch | undefined;
      try {
        for await (const batch of reading.batches) {
          last = batch;
          yield batch;
        }
        const { offset, crc } = last ? { offset: last.endOffset, crc: last.crcOf(last.lines.length) } : this.#start;
        this.#checkWhole({ offset, crc });
      } catch (error) {
        throw await this.#download.explained(error);
      }
    };
    return { batches: checked.call(this), positionOf: (batch, count) => reading.positionOf(batch, count) };
  }

  #deliver(reading: Reading, batch: LineBatch, count: number): { count: number } {
    this.#delivered ??= { reading, batch, count };
    [this.#delivered.batch, this.#delivered.count] = [batch, count];
    return this.#delivered;
  }

  #begin(): void {
    if (this.#isRead) throw new TypeError("You can read a received file only once");
    this.#isRead = true;
  }

  /**
   * Checks that the text of all chunks is the text that the shipper read. In passed-through content, gzip itself has checked each member.
   */
  #checkWhole({ offset, crc }: { readonly offset: number; readonly crc: number }): void {
    const { codec, textBytes, crc: whole, name, storedBytes } = this.#download.file;
    if (codec === "member" || (offset === textBytes && crc === whole)) return;
    throw new BadDataError("The received text differs from the shipped file", {
      file: name,
      offset: storedBytes,
    });
  }
}
