import { KitError } from "@kit/core";
import { integer, resolve, type RulesOf } from "@kit/core/toolkit";
import type { Job } from "../index.js";
import { takenJob } from "../work/taken-job.js";
import { checkpointOf, JobNotes } from "./notes.js";

/** The maximum size of a progress value and of a checkpoint, in bytes as JSON. */
const maxProgressBytes = 1_024;
const maxCheckpointBytes = 65_536;
/** Longer lines are cut. A UTF-16 unit takes up to three bytes. */
const maxLineLength = 1_024;

/** Options of `reportProgress()` and `writeLog()`. */
export interface NoteOptions {
  /**
   * How long progress and log lines stay after the job is done, in milliseconds: 0 to 1,209,600,000 (14 days). If you pass several values
   * for one job, the last one applies. Without a value it is a day. Before the job is done, and while it is a dead letter, they stay for 14
   * days after the last note.
   */
  readonly keepMs?: number | undefined;
}

const noteRules = { keepMs: integer(0, 14 * 86_400_000) } satisfies RulesOf<NoteOptions>;

const notesOf = (job: Job, options: NoteOptions = {}): JobNotes => {
  const taken = takenJob(job);
  const { keepMs } = resolve("options", options, noteRules);
  const notes = (taken.notes ??= new JobNotes(taken)) as JobNotes;
  if (keepMs !== undefined) notes.keepMs = keepMs;
  return notes;
};

const jsonOf = (what: string, value: unknown, maxBytes: number): string => {
  const text = JSON.stringify(value) as string | undefined;
  if (text === undefined) throw new TypeError(`Expected \`${what}\` to be a JSON value`);
  const bytes = Buffer.byteLength(text);
  if (bytes > maxBytes)
    throw new RangeError(
      `Expected \`${what}\` to have at most ${String(maxBytes)} bytes as JSON, got ${String(bytes)}`,
    );
  return text;
};

/**
 * Stores the progress of a job: any JSON value up to 1 KiB, which replaces the previous one. Front ends read it with `inspectJob()` of
 * `@kit/queue/manage`, until the notes expire.
 *
 * You don't need to await it. A value that you report while another call is in progress replaces the values that still wait, so a loop
 * without `await` costs one call at a time. The job ends only after its notes are written. A rejected promise that you don't await causes
 * no unhandled rejection.
 *
 * Only the worker that has the lease can write. Notes of a worker that lost the lease change nothing.
 *
 * @returns a promise that resolves once the server has this value, or a later one.
 * @throws {TypeError | RangeError} synchronously: `job` did not come from a worker, the value cannot be JSON or is too large, or an option
 *   is invalid.
 * @throws {JobLeaseLostError} the lease of the job is lost, or the job has ended.
 * @throws {JobCancelledError} the job was cancelled.
 * @throws {KitUnavailableError | KitUnknownOutcomeError} as for every command, within the queue's `deadlineMs`.
 *
 * @example
 * void reportProgress(job, { done: 3, of: 10 });
 */
export const reportProgress = (job: Job, value: unknown, options?: NoteOptions): Promise<void> =>
  notesOf(job, options).write({ progress: jsonOf("value", value, maxProgressBytes) });

/**
 * Adds a line to a job's log. Front ends read it with `readLog()` of `@kit/queue/manage`. The log keeps the last 1,000 lines, up to 64 KiB
 * together. A line is cut after 1,024 characters. Lines that you write while a call is in progress travel with the next call, in order. If
 * more than 1,000 lines wait, only the last 1,000 are sent; the others get no number.
 *
 * @returns a promise that resolves once the server has the line. You don't need to await it, see {@link reportProgress}.
 * @throws the errors of {@link reportProgress}. The lines of a failed call are not written later.
 *
 * @example
 * void writeLog(job, `encoded ${String(frames)} frames`);
 */
export const writeLog = (job: Job, line: string, options?: NoteOptions): Promise<void> => {
  if (typeof line !== "string") throw new TypeError(`Expected \`line\` to be a string, got ${typeof line}`);
  const text = line.length > maxLineLength ? `${line.slice(0, maxLineLength - 1)}…` : line;
  return notesOf(job, options).write({ line: text });
};

/**
 * Stores a state from which the next run of this job can continue: any JSON value up to 64 KiB, which replaces the previous one. It
 * survives failed attempts, crashes, snoozes and deploys, and stays while the job is a dead letter, until 14 days after the last note. It
 * is deleted when the job is done. Await it before you rely on it.
 *
 * @returns a promise that resolves once the server has this state, or a later one.
 * @throws the errors of {@link reportProgress}.
 *
 * @example
 * await saveCheckpoint(job, { nextPage: 7 });
 */
export const saveCheckpoint = (job: Job, state: unknown): Promise<void> =>
  notesOf(job).write({ checkpoint: jsonOf("state", state, maxCheckpointBytes) });

/**
 * Reads the state that an earlier run of this job last saved, in one round trip. Undefined if there is none. The state is not checked: it
 * may come from an older version of the program.
 *
 * @throws {TypeError} `job` did not come from a worker.
 * @throws {KitUnavailableError} no server answered in time.
 * @throws {KitError} `KIT_LAYOUT`: the stored state is damaged.
 *
 * @example
 * const { nextPage } = (await readCheckpoint<{ nextPage: number }>(job)) ?? { nextPage: 0 };
 */
export const readCheckpoint = async <State = unknown>(job: Job): Promise<State | undefined> => {
  const text = await checkpointOf(takenJob(job));
  try {
    return text === "" ? undefined : (JSON.parse(text) as State);
  } catch {
    // No cause: it would quote the stored text.
    throw new KitError("KIT_LAYOUT", `The checkpoint of the job ${JSON.stringify(job.id)} is damaged`);
  }
};
