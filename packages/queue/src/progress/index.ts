import { integer, resolve, type RulesOf } from "@kit/core/toolkit";
import type { Job } from "../index.js";
import type { TakenJob } from "../work/taken.js";
import { checkpointOf, JobNotes } from "./notes.js";

/** The most bytes of a value of progress and of a checkpoint as JSON. */
const maxProgressBytes = 1_024;
const maxCheckpointBytes = 65_536;
/** Longer lines are cut. A UTF-16 unit takes at most three bytes. */
const maxLineLength = 1_024;

/** How long notes stay. */
export interface NoteOptions {
  /**
   * How long progress and log lines stay after the job is done, in milliseconds, 0 to 1,209,600,000 (14 days). Of several values that were
   * given for one job the last one holds; without any it is a day. Until the job is done, and if it is a dead letter, they stay 14 days after
   * the last note.
   */
  readonly keepMs?: number | undefined;
}

const noteRules = { keepMs: integer(0, 14 * 86_400_000) } satisfies RulesOf<NoteOptions>;

const takenJob = (job: unknown): TakenJob => {
  const { commands } = Object(job) as Partial<TakenJob>;
  if (commands === undefined) throw new TypeError("Expected `job` to be the object that the handler got, not a copy");
  return job as TakenJob;
};

const notesOf = (job: Job, options: NoteOptions = {}): JobNotes => {
  const taken = takenJob(job);
  const { keepMs } = resolve("options", options, noteRules);
  const notes = (taken.notes ??= new JobNotes(taken)) as JobNotes;
  if (keepMs !== undefined) notes.keepMs = keepMs;
  return notes;
};

const jsonOf = (what: string, value: unknown, maxBytes: number): string => {
  const text = JSON.stringify(value) as string | undefined;
  if (text === undefined) throw new TypeError(`Expected \`${what}\` to be a value that JSON can hold`);
  const bytes = Buffer.byteLength(text);
  if (bytes > maxBytes)
    throw new RangeError(`Expected \`${what}\` of at most ${String(maxBytes)} bytes as JSON, got ${String(bytes)}`);
  return text;
};

/**
 * Stores how far a job is: any JSON value of at most 1 KiB, in place of the one before. Front ends read it by `inspectJob()` of
 * `@kit/queue/manage`, until the notes expire.
 *
 * A handler need not wait for it. A value that is reported while another is on its way replaces those that still wait, so a loop that
 * does not wait costs one call at a time. The end of the job waits until its notes are written. A promise for which nobody waits raises no
 * unhandled rejection.
 *
 * Only the worker that has the lease writes; notes of a stale one change nothing.
 *
 * @returns a promise that resolves once the server has this value, or a later one.
 * @throws {TypeError | RangeError} at once: `job` did not come from a worker, the value cannot be JSON or is too large, or an option is not
 * what it should be.
 * @throws {JobLeaseLostError} the lease of the job is lost, or the job has ended.
 * @throws {JobCancelledError} the job was cancelled.
 * @throws {KitUnavailableError | KitUnknownOutcomeError} as every command, by the `deadlineMs` of the queue.
 *
 * @example
 * void reportProgress(job, { done: 3, of: 10 });
 */
export const reportProgress = (job: Job, value: unknown, options?: NoteOptions): Promise<void> =>
  notesOf(job, options).write({ progress: jsonOf("value", value, maxProgressBytes) });

/**
 * Adds a line to the log of a job; front ends read it by `readLog()` of `@kit/queue/manage`. The last 1,000 lines stay, of 64 KiB together. A
 * line is cut after 1,024 characters. Lines that are written while a call is under way travel with the next one, in order;
 * of more than 1,000 only the last, so that the others get no number.
 *
 * @returns a promise that resolves once the server has the line, as that of {@link reportProgress}.
 * @throws the errors of {@link reportProgress}. The lines of a call that failed are not written later.
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
 * Stores a state from which the next run of this job can go on, in place of the one before: any JSON value of at most 64 KiB. It stays
 * over failed attempts, crashes, snoozes, deploys, and while the job is a dead letter, 14 days from the last note; and is
 * deleted when the job is done. Wait for it before you rely on it.
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
 * Reads the state that an earlier run of this job saved last, in one round trip; undefined: there is none. It is not checked: it may come from
 * an older version of the program.
 *
 * @throws {TypeError} `job` did not come from a worker.
 * @throws {KitUnavailableError} no server answered in time.
 *
 * @example
 * const { nextPage } = (await readCheckpoint<{ nextPage: number }>(job)) ?? { nextPage: 0 };
 */
export const readCheckpoint = async <State = unknown>(job: Job): Promise<State | undefined> => {
  const text = await checkpointOf(takenJob(job));
  return text === "" ? undefined : (JSON.parse(text) as State);
};
