import type { Call, CommonRecord, Span, WorkerHistory as AnyWorkerHistory } from "../../records.js";

/** A queue of a run, and how its workers confirm. */
export interface Spec {
  readonly name: string;
  /** Whether its adds resolve only once all replicas, or the disk of a server without any, have them. */
  readonly isDurable: boolean;
  readonly work: {
    readonly concurrency: number;
    readonly maxCrashes: number;
    readonly strict?: boolean;
    readonly ack?: "each";
  };
}

/** Attempts that a job has. */
export const maxAttempts = 3;

/** One job of an add, by the key in its data; `fails` is how many attempts fail on purpose. */
interface Added {
  readonly key: string;
  readonly fails: number;
  readonly delayMs: number;
}

export interface AddCall extends Call {
  readonly what: "add" | "addAll" | "call";
  readonly jobs: readonly Added[];
  /** Of a `call`: whether it resolved with its own result; and what it learnt of a job that failed. */
  readonly isOwn?: boolean;
  readonly attempts?: number;
  readonly crashes?: number;
}

/** A handler began; by its key a job is the same whatever became of it. */
export interface AccessRecord {
  readonly kind: "access";
  readonly name: string;
  readonly key: string;
  readonly attempt: number;
  readonly crashes: number;
  /** Server time, whole ms. */
  readonly takenAt: number;
  readonly at: number;
}

/** A later event of a job at its worker: its handler ended, its signal aborted, the server took its end. */
export interface JobRecord {
  readonly kind: "ran" | "lost" | "done" | "dead";
  readonly name: string;
  readonly key: string;
  readonly attempt: number;
  readonly crashes: number;
  readonly at: number;
  /** Of `ran`: how it ended. */
  readonly how?: "ok" | "failed";
}

export type LogRecord = CommonRecord | AddCall | AccessRecord | JobRecord;
export type WorkerHistory = AnyWorkerHistory<LogRecord>;

/** A dead letter that was there in the end. */
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
  /** When its lease was to end, by the server. */
  readonly endsAt: number;
}

export interface Loss extends Span {
  readonly isTotal: boolean;
  /** Only what a durable add waits for can be lost otherwise: copies on replicas, or on the disk. */
  readonly sparesDurable: boolean;
}

export interface RunHistory {
  readonly leaseMs: number;
  readonly specs: readonly Spec[];
  readonly workers: readonly WorkerHistory[];
  readonly heals: readonly { readonly at: number; readonly dueMs?: number | undefined }[];
  readonly deaths: readonly Death[];
  readonly losses: readonly Loss[];
  /** The injected faults, and when they acted. */
  readonly outages: readonly (Span & { readonly kind: string })[];
  /** The server's clock jumped: no instant of it says anything. */
  readonly isShifted: boolean;
  /** By queue, when all that was left had been worked off. */
  readonly letters: ReadonlyMap<string, readonly Letter[]>;
  readonly leftovers: readonly string[];
  readonly echoes: number;
}
