import { JobCancelledError, JobLeaseLostError } from "../index.js";
import { notesKey } from "../job/keys.js";
import type { TakenJob } from "../work/taken.js";
import { closeNotes, note } from "../notes/scripts/index.js";
import { readNotes } from "../notes/scripts/readers.js";

/** How long the notes of an unfinished job stay after the last write. Dead letters have the same default. */
const openMs = 14 * 86_400_000;
/** The maximum number of lines of one job, and their maximum size in bytes. The oldest are dropped. */
const maxLines = 1_000;
const maxLineBytes = 65_536;

/** Notes that travel in one call. */
class Batch {
  /** JSON. Empty if it stays unchanged. */
  progress = "";
  checkpoint = "";
  lines: string[] = [];
  resolve: () => void = () => undefined;
  reject: (error: unknown) => void = () => undefined;
  readonly written = new Promise<void>((resolve, reject) => {
    this.resolve = resolve;
    this.reject = reject;
  });

  constructor() {
    // A handler does not need to wait for its notes.
    this.written.catch(() => undefined);
  }
}

/** The key of a job's notes, and the text that distinguishes it from another job of its id. */
const addressOf = ({ commands, id, addedAt }: TakenJob): { readonly key: string; readonly of: string } => ({
  key: notesKey(commands.head, id),
  of: addedAt.toString(36),
});

/**
 * Writes a handler's notes about one job. One call is in progress at a time. Notes that are made in the meantime travel with the next call.
 */
export class JobNotes {
  readonly #job: TakenJob;
  #next: Batch | undefined;
  #isSending = false;
  #last: Promise<void> | undefined;
  #number = 0;
  /** How long progress and lines stay after the job is done. */
  keepMs = 86_400_000;

  constructor(job: TakenJob) {
    this.#job = job;
  }

  /**
   * Resolves once the notes that were made so far are written, or have failed. Undefined if no call is in progress. The end of the job
   * waits for it.
   */
  get settled(): Promise<void> | undefined {
    return this.#last?.catch(() => undefined);
  }

  /** Resolves once the server has these notes, or later ones that replace them. Callers don't need to await it. */
  write(change: { readonly progress?: string; readonly checkpoint?: string; readonly line?: string }): Promise<void> {
    const batch = (this.#next ??= new Batch());
    const { progress, checkpoint, line } = change;
    if (progress !== undefined) batch.progress = progress;
    if (checkpoint !== undefined) batch.checkpoint = checkpoint;
    // The server would drop the first lines anyway.
    if (line !== undefined && batch.lines.push(line) > maxLines) batch.lines.shift();
    if (!this.#isSending) void this.#send();
    return (this.#last = batch.written);
  }

  /** The job is done and no longer needs its checkpoint. If this fails, the notes expire later. */
  close(): void {
    const { commands } = this.#job;
    const { key, of } = addressOf(this.#job);
    const { deadlineMs } = commands;
    void closeNotes
      .run(commands.context, { notes: key }, { of, keepMs: this.keepMs }, { deadlineMs })
      .catch(() => undefined);
  }

  async #send(): Promise<void> {
    this.#isSending = true;
    // Notes of the same turn of the event loop travel together.
    await Promise.resolve();
    for (let batch = this.#next; batch; batch = this.#next) {
      this.#next = undefined;
      try {
        await this.#call(batch);
        batch.resolve();
      } catch (error) {
        batch.reject(error);
      }
    }
    this.#isSending = false;
    this.#last = undefined;
  }

  async #call({ progress, checkpoint, lines }: Batch): Promise<void> {
    const { commands, member, name, id, stopReason } = this.#job;
    if (stopReason instanceof JobLeaseLostError || stopReason instanceof JobCancelledError) throw stopReason;
    const { deadlineMs, keys, context } = commands;
    const { key, of } = addressOf(this.#job);
    const args = {
      ...{ member, of, number: ++this.#number, keepMs: openMs, maxLines, maxBytes: maxLineBytes },
      ...{ progress, checkpoint, lines },
    };
    const outcome = await note.run(context, { ...keys, notes: key }, args, { deadlineMs });
    if (outcome === "cancelled") throw new JobCancelledError(name, id);
    if (outcome === "lost") throw new JobLeaseLostError(name, id);
  }
}

/** The checkpoint of a job as JSON. Empty if there is none. */
export const checkpointOf = async (job: TakenJob): Promise<string> => {
  const { commands } = job;
  const { key, of } = addressOf(job);
  const { deadlineMs } = commands;
  const args = { of, after: 0, count: 0 };
  return (await readNotes.run(commands.context, { notes: key }, args, { deadlineMs })).checkpoint;
};
