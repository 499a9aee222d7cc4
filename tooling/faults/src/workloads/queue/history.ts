import type { Call, CommonRecord, Run, Span, WorkerHistory as AnyWorkerHistory } from "../../records.js";

/** A queue of a run, and how its workers acknowledge. */
export interface Spec {
  readonly name: string;
  /** Whether adds wait for all replicas, or for the disk of a server without replicas. */
  readonly isDurable: boolean;
  /** Whether one of the workers pauses and resumes it, again and again. */
  readonly isPaused: boolean;
  /** Whether one of the workers changes its limits, again and again. */
  readonly isLimited: boolean;
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
  readonly expiresMs?: number;
  readonly group?: string;
  /** Of a job of a flow: the keys of the jobs for which it waits. */
  readonly children?: readonly string[];
}

/** The key of a unique job, and the add that wins. */
export interface Unique {
  readonly key: string;
  readonly mode: "keepFirst" | "keepLast";
}

export interface AddCall extends Call {
  readonly what: "add" | "addAll" | "addFlow" | "addOnce" | "call";
  readonly jobs: readonly Added[];
  /** Of `addOnce`, and what it resolved with. */
  readonly unique?: Unique;
  readonly id?: string;
  readonly isAdded?: boolean;
  readonly isReplaced?: boolean;
  /** Of a `call`: whether it resolved with the result of its own job. */
  readonly isOwn?: boolean;
  /** Of a `call` whose job failed: `attempts` and `crashes` as the caller received them. */
  readonly attempts?: number;
  readonly crashes?: number;
}

/** Changes of one job by another process. */
type Change = "cancel" | "remove" | "reschedule" | "promote" | "edit";

/** Pieces flow into the bucket of a queue: `count` per `perMs`, and it holds `burst` of them. */
export interface Rate {
  readonly count: number;
  readonly perMs: number;
  readonly burst: number;
}

/** The request of a change of the whole queue. */
interface QueueChange {
  readonly what: "pause" | "resume" | "limit" | "schedule";
  /** Only jobs of this name are concerned. @default all */
  readonly jobName?: string;
  /** Of `limit`; null removes a limit, and one that is not there stays as it is. */
  readonly concurrency?: number | null;
  readonly rate?: Rate | null;
  /** Of `schedule`. */
  readonly schedule?: string;
  readonly everyMs?: number;
}

/** A process is about to send a change of a job, or of the queue. */
export interface AskRecord extends Omit<QueueChange, "what"> {
  readonly kind: "asked";
  readonly what: Change | QueueChange["what"];
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
  /** The answer with which it resolved. */
  readonly said?: string;
}

export interface QueueChangeCall extends Call, Omit<QueueChange, "what"> {
  readonly what: QueueChange["what"];
}

/** The start of a handler. The key identifies a job across all its runs. */
export interface AccessRecord {
  readonly kind: "access";
  readonly name: string;
  /** @default job */
  readonly jobName?: string;
  readonly key: string;
  readonly attempt: number;
  readonly crashes: number;
  readonly snoozes: number;
  /** Server time, whole epoch milliseconds. */
  readonly takenAt: number;
  /** Of a job that was edited: which data it has. @default 1 */
  readonly version?: number;
  readonly at: number;
}

/**
 * A later event of a job at its worker: its handler ended, its signal aborted, somebody had cancelled it, or the server
 * acknowledged its end. `expired`: its handler never began.
 */
export interface JobRecord {
  readonly kind: "ran" | "lost" | "cancelled" | "done" | "dead" | "expired";
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

/** A handler blocked the main loop of a worker with a heartbeat thread. */
export interface BlockRecord extends Span {
  readonly kind: "blocked";
  readonly maxBlockedMs: number;
  /** The longest time in which not even the other threads can have run. */
  readonly stoppedMs: number;
}

/** The workers of a queue that a process has read, each with the age of its last sign of life by the server's clock. */
interface ListRecord {
  readonly kind: "listed";
  readonly name: string;
  readonly workers: readonly { readonly id: string; readonly silentMs: number }[];
}

export type LogRecord =
  | CommonRecord
  | BlockRecord
  | ListRecord
  | AddCall
  | AskRecord
  | ChangeCall
  | QueueChangeCall
  | AccessRecord
  | JobRecord;
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
  /** When the lab added the jobs of all runs of schedules that were due by then; undefined: there were no schedules. */
  readonly scheduledUntil: number | undefined;
  /** The takes in the replies to copies of steps. */
  readonly copiedTakes: readonly CopiedTake[];
}

export interface CopiedTake {
  /** The same for all copies of a step. */
  readonly fence: string;
  readonly entries: readonly string[];
}

/** Faults that cost no worker a lease, even when repeated. The jobs of a lost reply are handed back. */
export const isHarmless = (kind: string): boolean =>
  ["scripts flushed", "command connections killed", "replies lost", "requests repeated"].includes(kind);
