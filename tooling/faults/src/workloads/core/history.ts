import type { Loss } from "../../lab/lab.js";
import type { Call, CommonRecord, Span, WorkerHistory as AnyWorkerHistory } from "../../records.js";

/** Names one write of an entry for good. */
export interface Version {
  readonly epoch: string;
  readonly revision: number;
  /** When it was written, by the server's clock: epoch milliseconds. */
  readonly at: number;
}

/** An entry as somebody saw it: which write, and with whose value. */
export interface Sight {
  readonly version: Version;
  readonly id: string;
}

/** A call about an entry. */
export interface ConfigCall extends Call {
  readonly what: "set" | "rollback" | "get" | "history" | "ready";
  /** Of a write; a value carries that of the write which it was made for. */
  readonly op?: string;
  /** The value that had to be there; null: none. */
  readonly expected?: Version | null;
  /** The outcome of a write. */
  readonly version?: Version;
  /** The value that was read. */
  readonly id?: string;
  readonly seen?: readonly Sight[];
}

/** A write whose fate was asked about. */
export interface DurableCall extends Call {
  readonly what: "durable";
  /** The value that was written; nobody else writes the same. */
  readonly id: string;
  readonly wanted: { readonly replicas: number; readonly fsync: "none" | "local" };
  readonly answer?: "safe" | "short" | "unknown";
  readonly replicas?: number;
  readonly fsync?: { readonly local: boolean; readonly replicas: number };
  readonly why?: string;
}

/** A call that ended with nothing to say, but how. */
interface OtherCall extends Call {
  readonly what: "component" | "close";
}

/** A write is going to be asked for. */
interface AskRecord {
  readonly kind: "asks";
  readonly name: string;
  readonly op: string;
}

/** A reader shows another write than before; without a version it shows its default. */
export interface ShowsRecord {
  readonly kind: "shows";
  readonly name: string;
  readonly version?: Version;
  readonly id: string;
  readonly at: number;
}

interface StateRecord {
  readonly kind: "state";
  readonly name: string;
  readonly state: string;
  readonly at: number;
}

/** Faults of any policy: a reader threw or fell back, a component closed a connection in use. */
interface OddRecord {
  readonly kind: "odd";
  readonly name: string;
  readonly what: string;
}

/** A component has another generation than before: that of the write with this id. */
interface SwapRecord {
  readonly kind: "swap";
  readonly id: string;
  readonly at: number;
}

/** One worker's burst of writes to one entry. */
export interface FlapRecord {
  readonly kind: "flapped";
  readonly name: string;
  readonly from: number;
  readonly to: number;
  readonly writes: number;
  /** The operation of the last that went well. */
  readonly last?: string;
}

export type LogRecord =
  | Exclude<CommonRecord, Call>
  | ConfigCall
  | DurableCall
  | OtherCall
  | AskRecord
  | ShowsRecord
  | StateRecord
  | OddRecord
  | SwapRecord
  | FlapRecord
  | { readonly kind: "blocked"; readonly from: number; readonly to: number }
  | { readonly kind: "short" }
  | { readonly kind: "reads"; readonly count: number };

export type WorkerHistory = AnyWorkerHistory<LogRecord>;

/** When an outage had ended, and the newest version of each entry then. */
export interface Heal {
  readonly kind: string;
  readonly at: number;
  readonly dueMs?: number | undefined;
  readonly entries: readonly { readonly name: string; readonly version: Version }[];
}

export interface DataLoss extends Span {
  readonly what: Loss;
}

/** The final state of an entry, and its history, the newest first. */
export interface Entry {
  readonly name: string;
  readonly version: Version | undefined;
  readonly kept: readonly Sight[];
}

/** All records of one run. */
export interface RunHistory {
  readonly workers: readonly WorkerHistory[];
  readonly heals: readonly Heal[];
  readonly losses: readonly DataLoss[];
  /** When the server was set to sync less, or more. */
  readonly policyChanges: readonly number[];
  /** How many replicas there are when all is well. */
  readonly replicas: number;
  /** Whether the server keeps all acknowledged data. */
  readonly losesNothing: boolean;
  /** Whether the server has an append-only file. */
  readonly hasFile: boolean;
  /** The entry that goes back to earlier values; of all others each value is written once. */
  readonly rolledName: string;
  /** The final writes: how often each is there, by id. */
  readonly effects: ReadonlyMap<string, number>;
  readonly entries: readonly Entry[];
  readonly leftovers: readonly string[];
  /** When a bare PING of the lab, from no worker and through no fault, had to wait: the machine was too busy. */
  readonly slow: readonly Span[];
  /** Copies of requests that were answered. */
  readonly echoes: number;
}
