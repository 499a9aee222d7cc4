import { KitError, type RedisLike } from "@kit/core";
import { boolean, dated, resolve, withContext } from "@kit/core/toolkit";
import { checkedAddress, jobId } from "../store/address.js";
import type { StoredError } from "../job/failure.js";
import { parseRecord, type ParsedRecord } from "../history/record.js";
import { readRecord } from "../history/scripts/readers.js";
import { notesKey, type QueueAddress } from "../job/keys.js";
import { parseBlob } from "../job/payload.js";
import { noNotes, readNotes, type StoredNotes } from "../notes/scripts/readers.js";
import { dataOf, expiryOf, factsOf, type StoredFacts } from "../dead/facts.js";
import type { JobState } from "./scripts.js";
import { located } from "./search.js";
import { parsedJson } from "../workers/facts.js";
import { type RunningWorker, runsOf } from "./workers.js";

const reportRules = { withData: boolean(false), quick: boolean(false) };

/** A job without its data. Times are ISO text. */
export interface JobFacts extends Omit<StoredFacts, "error" | "addedAt" | "uniqueKey" | "group"> {
  readonly id: string;
  readonly addedAt: string | null;
  readonly error: StoredError | null;
  /** When the job expires if no worker has taken it. Null if it does not expire. */
  readonly expiresAt: string | null;
  /** The key of a job that was added with `unique`. */
  readonly uniqueKey: string | null;
  /** The group of the job. */
  readonly group: string | null;
  /**
   * When the job died, is due or has ended, or when its lease ends. Null in other states, and while the job waits for the active job with
   * its `unique` key.
   */
  readonly at: string | null;
  readonly bytes: number;
  /** The worker that has the job, if it is active. Its facts are null if the server has no record of the worker. */
  readonly worker: RunningWorker | null;
  /** When its handler started, for an active job. Null until the worker's next heartbeat, within 0.3 of `leaseMs`. */
  readonly startedAt: string | null;
}

/** One job, as `kit inspect job QUEUE ID --json` prints it. */
export interface JobReport extends JobFacts {
  readonly queue: string;
  /** `completed`: the job has ended, and the queue keeps a record of it; see `keepHistory()`. */
  readonly state: JobState | "completed";
  /** For a job that has ended: whether it is done, or expired without having run. */
  readonly outcome: "completed" | "expired" | null;
  /** For a job that has ended: when its worker took it. */
  readonly takenAt: string | null;
  /** How long its handler can run, in milliseconds. Null if there is no limit, or the job has ended. */
  readonly timeoutMs: number | null;
  /** The progress that its handler last reported, and when; see `@kit/queue/progress`. Null if there is none. */
  readonly progress: unknown;
  readonly progressAt: string | null;
  /** How many lines its log has; see {@link readLog}. */
  readonly logLines: number;
  /** Only with `withData`; bytes as base64. */
  readonly data?: unknown;
  /** Only with `withData`: the state that its handler saved for the next run, if any. */
  readonly checkpoint?: unknown;
  /** Only with `withData`, for a job that has ended and whose result is kept: what its handler returned, bytes as base64. */
  readonly result?: unknown;
}

export const jobFacts = (id: string, at: number | null, blob: Buffer, bytes: number, record: string): JobFacts => {
  const { error = null, uniqueKey = null, group = null, addedAt, ...facts } = factsOf(blob, record);
  return {
    id,
    ...facts,
    error,
    uniqueKey,
    group,
    addedAt: dated(addedAt || null),
    expiresAt: dated(expiryOf(blob)),
    at: dated(at),
    bytes,
    worker: null,
    startedAt: null,
  };
};

const shown = (data: unknown): unknown => (Buffer.isBuffer(data) ? data.toString("base64") : data);

/**
 * Reads where one job is, its attempts, crashes and last error, and its progress. With `withData` it also reads the job's data (bytes as
 * base64) and its checkpoint.
 *
 * It searches the leases and the waiting jobs for the job, unless the job is dead, delayed, or ready with a priority. Each call reads up to
 * 4,000 entries, which takes the server a few milliseconds. If the job moves during a search, the search runs again. `lost`: two searches
 * did not find the job; see {@link repairQueue}. With `quick` it reads up to 8,000 entries, and the ready jobs only if the queue has lost
 * jobs. If it has not found the job by then, it reports the job as `ready`. A job that has ended is `completed` if the queue keeps a record
 * of it, otherwise `none`.
 *
 * @throws {TypeError | RangeError} an argument is invalid.
 * @throws {KitUnavailableError} no server answered in time.
 */
export const inspectJob = async (
  redis: RedisLike,
  address: QueueAddress,
  id: string,
  options: { readonly withData?: boolean | undefined; readonly quick?: boolean | undefined } = {},
): Promise<JobReport> => {
  const { queue, head, keys } = checkedAddress(address);
  jobId(id);
  const { withData, quick } = resolve("options", options, reportRules);
  return await withContext(redis, async (context) => {
    const { state, at, blob, record, member } = await located(context, keys, id, quick);
    const [run] = await runsOf(context, keys, member === undefined ? [] : [member]);
    const notes = { notes: notesKey(head, id) };
    const noted = await readNotes.run(context, notes, { of: stampOf(blob), after: 0, count: 0 }).catch(withoutDamaged);
    const bytes = state === "none" ? 0 : blob.length - blob.indexOf(10) - 1;
    const { checkpoint } = noted;
    const kept = state === "none" ? await readRecord.run(context, keys, { id }) : undefined;
    if (kept) return { queue, ...endedJob(id, kept.at, kept.record, withData), ...progressOf(noted) };
    return {
      ...{
        queue,
        state,
        outcome: null,
        takenAt: null,
        timeoutMs: limitOf(blob),
        ...jobFacts(id, at, blob, bytes, record),
        ...run,
      },
      ...progressOf(noted),
      ...(withData && { data: shown(dataOf(blob)) }),
      ...(withData && checkpoint !== "" && { checkpoint: parsedJson(checkpoint) }),
    };
  });
};

/** Damaged notes must not hide the job that they are of. */
const withoutDamaged = (error: unknown): StoredNotes => {
  if (KitError.is(error) && error.code === "KIT_LAYOUT") return noNotes;
  throw error;
};

/** The time limit of a stored job. */
const limitOf = (blob: Buffer): number | null => {
  try {
    return parseBlob(blob).header.timeoutMs ?? null;
  } catch {
    return null;
  }
};

/** A job that has ended. */
const endedJob = (
  id: string,
  at: number,
  record: Buffer,
  withData: boolean,
): Pick<JobReport, "state" | "outcome" | "takenAt" | "timeoutMs" | "result" | keyof JobFacts> => {
  const parsed = parseRecord(record);
  return {
    state: "completed",
    ...{
      outcome: parsed.outcome,
      takenAt: dated(parsed.takenAt),
      timeoutMs: null,
      ...factsOfEnded(id, at, parsed, parsed.bytes),
    },
    ...(withData && parsed.hasResult && { result: shown(parsed.result) }),
  };
};

export const factsOfEnded = (id: string, at: number, { header, failures }: ParsedRecord, bytes: number): JobFacts => ({
  ...jobFacts(id, at, header, bytes, failures),
  expiresAt: null,
});

/** The stored text of when a job was added. Empty if there is none. */
const stampOf = (blob: Buffer): string => blob.toString("latin1").split(" ", 1)[0] ?? "";

const progressOf = ({
  progress,
  progressAt,
  kept,
}: StoredNotes): Pick<JobReport, "progress" | "progressAt" | "logLines"> => ({
  progress: parsedJson(progress) ?? null,
  progressAt: dated(progressAt || null),
  logLines: kept,
});
