import { integer, type Resolved, type RulesOf } from "@kit/core/toolkit";
import type { LineBatch } from "../bytes/lines.js";
import type { Position, Reached, Reading } from "../bytes/reading.js";
import { mostFields, Results, type Stored } from "./results.js";
import { Watch } from "../signals.js";

/** A handler's third argument. */
export interface LinesContext {
  /** The file's name. */
  readonly file: string;
  /** Text bytes before the first of these lines. */
  readonly offset: number;
  /** Aborts when another process takes over the file, or when the run must end. */
  readonly signal: AbortSignal;
}

/**
 * Receives lines in order and collects `results`, which are stored together with the position. After a crash it may be called again for the
 * same lines, but only if no result of the first call was stored.
 */
export type LinesHandler = (lines: readonly string[], results: Results, context: LinesContext) => void | Promise<void>;

/**
 * How often results and position are committed: at the first limit that is reached, and always at the end of a file. While a commit is in
 * flight, the handler receives more lines, up to four times these limits.
 */
export interface FlushOptions {
  /**
   * Commits after this many lines.
   *
   * @default 10000
   */
  readonly flushLines?: number | undefined;
  /**
   * Commits after this many bytes of text.
   *
   * @default 16777216 (16 MiB)
   */
  readonly flushBytes?: number | undefined;
  /**
   * Commits after this many milliseconds.
   *
   * @default 1000
   */
  readonly flushMs?: number | undefined;
}

export const flushRules = {
  flushLines: integer(1, undefined, 10_000),
  flushBytes: integer(1, undefined, 16_777_216),
  flushMs: integer(1, 3_600_000, 1_000),
} satisfies RulesOf<FlushOptions>;

type ResolvedFlush = Resolved<typeof flushRules>;

/** Zero bytes that were dropped before lines. */
export interface Padding {
  /** Text bytes before the lines. */
  readonly offset: number;
  readonly bytes: number;
}

/** One commit of results and position. */
export interface CommitOperands extends Stored {
  readonly seq: number;
  /** Has a tail if lines were read before it. */
  readonly position: Position & Partial<Reached>;
  readonly lines: number;
  readonly isDone: boolean;
  /** The code of the error that made a receiver quarantine the file. */
  readonly cause?: string;
}

/** The outcome of one run. */
export interface RunSummary {
  /** Files that this run processed to their end. */
  readonly files: number;
  /** Lines whose results this run stored. */
  readonly lines: number;
}

/** One run over one file. */
export interface FileRun {
  readonly reading: Reading;
  readonly position: Position;
  readonly seq: number;
  readonly flush: ResolvedFlush;
  readonly context: Omit<LinesContext, "offset">;
  /** Resolves when the commit is stored, and its pieces are applied. Its rejection ends the run. */
  commit(operands: CommitOperands): Promise<void>;
  padded(padding: Padding): void;
}

/** While a commit is in flight, the next one may grow to this many times the size, so that the handler need not wait for the reply. */
const mostAhead = 4;
/** A commit with more fields is stored in pieces. One batch may add `mostFields` to the fields that make a commit due. */
const mostAtOnce = 2 * mostFields;
/** After this many ms without further lines the results so far are committed, because a shipper may wait for the space. */
const idleMs = 50;

/**
 * Passes a file's lines to a handler and commits at intervals. The next lines are read and handled while a commit is in flight; there is
 * one commit at a time. Resolves with the number of lines when the end of the file is committed.
 *
 * @throws the error of the handler, the reading or the commit. Nothing after the last commit has had an effect.
 */
export const runFile = async (run: FileRun, handler: LinesHandler): Promise<number> => {
  const { reading, context, flush } = run;
  const { batches } = reading;
  let { seq } = run;
  let position: CommitOperands["position"] = run.position;
  let results = new Results();
  /** The last batch that was handled. A position costs a checksum, so it is computed only for a commit. */
  let handled: LineBatch | undefined;
  let [lines, total, offset, offsetBefore] = [0, 0, position.offset, position.offset];
  let committing: Promise<void> | undefined;
  let isCommitting = false;
  const watch = new Watch();
  let flushAt = Infinity;

  const commit = async (isDone: boolean): Promise<void> => {
    await committing;
    if (handled) position = reading.positionOf(handled, handled.lines.length);
    const operands = { seq: ++seq, position, lines, isDone, ...results.stored(mostAtOnce) };
    results = new Results();
    [lines, offsetBefore, flushAt] = [0, offset, Infinity];
    isCommitting = true;
    committing = run.commit(operands).then(() => {
      isCommitting = false;
    });
    committing.catch((error: unknown) => watch.fail(error));
  };
  const shareOf = (): number => Math.max(lines / flush.flushLines, (offset - offsetBefore) / flush.flushBytes);
  try {
    let next = batches.next();
    for (;;) {
      const isPending = offset > offsetBefore;
      const outcome = await watch.of(next, isPending ? Math.min(idleMs, flushAt - performance.now()) : undefined);
      context.signal.throwIfAborted();
      if (outcome === "late") {
        await commit(false);
        continue;
      }
      if (outcome.done) break;
      const batch: LineBatch = outcome.value;
      next = batches.next();
      // It is awaited above: until then a rejection must not count as unhandled.
      next.catch(() => undefined);
      if (batch.padding > 0) run.padded({ offset: batch.offset, bytes: batch.padding });
      if (batch.lines.length > 0) await handler(batch.lines, results, { ...context, offset: batch.offset });
      context.signal.throwIfAborted();
      [handled, offset] = [batch, batch.endOffset];
      lines += batch.lines.length;
      total += batch.lines.length;
      const now = performance.now();
      flushAt = Math.min(flushAt, now + flush.flushMs);
      const [share, isFull] = [shareOf(), results.size >= mostFields];
      const isDue = share >= 1 || isFull || now >= flushAt;
      if (isDue && (!isCommitting || isFull || share >= mostAhead)) await commit(false);
    }
    await commit(true);
    await committing;
    return total;
  } finally {
    // A reader in the middle of a read ends by itself.
    batches.return().catch(() => undefined);
    await Promise.resolve(committing).catch(() => undefined);
  }
};
