import type { Call, CommonRecord, Run, WorkerHistory as AnyWorkerHistory } from "../../records.js";

/** A queue of a run, and how its workers acknowledge. */
export interface Spec {
  readonly name: string;
  /** Whether adds wait for all replicas, or for the disk of a server without replicas. */
  readonly isDurable: boolean;
  /** Whether one of the workers pauses and resumes it, again and again. */
  readonly isPaused: boolean;
  readonly work: {
    readonly concurrency: number;
    readonly maxCrashes: number;
    readonly strict?: boolean;
    readonly ack?: "each";
  };
}

/** Attempts that a job has. */
export const maxAttempts = 3;

/** One job of an add, by the key in its data. `fails` is the number of attempts that fail on purpose. */
interface Added {
  readonly key: string;
  readonly fails: number;
  readonly delayMs: number;
}

export interface AddCall extends Call {
  readonly what: "add" | "addAll" | "call";
  readonly jobs: readonly Added[];
  /** Of a `call`: whether it resolved with the result of its own job. */
  readonly isOwn?: boolean;
  /** Of a `call` whose job failed: `attempts` and `crashes` as the caller received them. */
  readonly attempts?: number;
  readonly crashes?: number;
}

/** Changes of one job by another process. */
type Change = "cancel" | "remove" | "reschedule" | "promote";

/** A process is about to send a change of a job, or of the queue. */
export interface AskRecord {
  readonly kind: "asked";
  readonly what: Change | "pause" | "resume";
  readonly name: string;
  /** Of a job. */
  readonly key?: string;
  /** Of `reschedule`: the new delay. */
  readonly delayMs?: number;
  readonly at: number;
}

export interface ChangeCall extends Call {
  readonly what: Change;
  readonly key: string;
  readonly delayMs?: number;
  /** What it resolved with. */
  readonly said?: string;
}

export interface PauseCall extends Call {
  readonly what: "pause" | "resume";
}

/** The start of a handler. The key identifies a job across all its runs. */
export interface AccessRecord {
  readonly kind: "access";
  readonly name: string;
  readonly key: string;
  readonly attempt: number;
  readonly crashes: number;
  readonly snoozes: number;
  /** Server time, whole epoch milliseconds. */
  readonly takenAt: number;
  readonly at: number;
}

/**
 * A later event of a job at its worker: its handler ended, its signal aborted, somebody had cancelled it, or the server
 * acknowledged its end.
 */
export interface JobRecord {
  readonly kind: "ran" | "lost" | "cancelled" | "done" | "dead";
  readonly name: string;
  readonly key: string;
  readonly attempt: number;
  readonly crashes: number;
  readonly snoozes: number;
  readonly at: number;
  /** Of `ran`: how it ended. */
  readonly how?: "ok" | "failed" | "snoozed";
  /** Of `snoozed`: for how long. */
  readonly waitMs?: number;
}

export type LogRecord = CommonRecord | AddCall | AskRecord | ChangeCall | PauseCall | AccessRecord | JobRecord;
export type WorkerHistory = AnyWorkerHistory<LogRecord>;

/** A dead letter at the end of the run. */
export interface Letter {
  readonly key: string;
  readonly attempts: number;
  readonly crashes: number;
}

/** A job that a killed worker held. */
export interface Death {
  readonly name: string;
  readonly key: string;
  readonly worker: string;
  /** The end of its lease, according to the server. */
  readonly endsAt: number;
}

export interface RunHistory extends Run<LogRecord> {
  readonly specs: readonly Spec[];
  readonly deaths: readonly Death[];
  /** Whether the server's clock jumped, so that its instants cannot be compared. */
  readonly isShifted: boolean;
  /** By queue, after the lab has run all remaining jobs. */
  readonly letters: ReadonlyMap<string, readonly Letter[]>;
  readonly leftovers: readonly string[];
  /** What the copies of steps were told that they had taken. */
  readonly copiedTakes: readonly CopiedTake[];
}

export interface CopiedTake {
  /** The same for all copies of a step. */
  readonly fence: string;
  readonly entries: readonly string[];
}
