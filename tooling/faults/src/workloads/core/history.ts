import type { Call, CommonRecord, Mark, Run, Span, WorkerHistory as AnyWorkerHistory } from "../../records.js";

/** Identifies one write of an entry. */
export interface Version {
  readonly epoch: string;
  readonly revision: number;
  /** The server's time of the write, epoch milliseconds. */
  readonly at: number;
}

/** An entry as read: the write, and the id in its value. */
export interface Sight {
  readonly version: Version;
  readonly id: string;
}

/** A call about an entry. */
export interface ConfigCall extends Call {
  readonly what: "set" | "rollback" | "get" | "history" | "ready";
  /** The operation id of a write. Each value contains that of its own write. */
  readonly op?: string;
  /** The expected version; null: no entry. */
  readonly expected?: Version | null;
  /** The outcome of a write. */
  readonly version?: Version;
  /** The value that was read. */
  readonly id?: string;
  readonly seen?: readonly Sight[];
}

/** A call of `durable()`. */
export interface DurableCall extends Call {
  readonly what: "durable";
  /** The value that was written, which no other call writes. */
  readonly id: string;
  readonly wanted: { readonly replicas: number; readonly fsync: "none" | "local" };
  readonly answer?: "safe" | "short" | "unknown";
  readonly replicas?: number;
  readonly fsync?: { readonly local: boolean; readonly replicas: number };
  readonly why?: string;
}

/** An optimistic transaction on a counter, which it reads and perhaps makes larger by one. */
export interface CounterCall extends Call {
  readonly what: "add" | "see";
  /** The counter before. */
  readonly saw?: number;
}

/** A call with no result but its outcome. */
interface OtherCall extends Call {
  readonly what: "component" | "close";
}

/** Written before a worker requests a write. */
interface AskRecord {
  readonly kind: "asks";
  readonly name: string;
  readonly op: string;
}

/** A reader shows another write than before. Without a version it shows its default. */
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

/** A fault that a worker found: a reader threw or fell back, or a component closed a connection in use. */
interface OddRecord {
  readonly kind: "odd";
  readonly name: string;
  readonly what: string;
}

/** A component has a new generation, made from the write with this id. */
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
  /** The operation id of the last successful write. */
  readonly last?: string;
}

export type LogRecord =
  | Exclude<CommonRecord, Call>
  | ConfigCall
  | DurableCall
  | CounterCall
  | OtherCall
  | AskRecord
  | ShowsRecord
  | StateRecord
  | OddRecord
  | SwapRecord
  | FlapRecord
  | { readonly kind: "short" }
  | { readonly kind: "reads"; readonly count: number };

export type WorkerHistory = AnyWorkerHistory<LogRecord>;

export interface NamedVersion {
  readonly name: string;
  readonly version: Version;
}

/** A mark, with the newest version of each entry then. */
interface Heal extends Mark {
  readonly entries: readonly NamedVersion[];
}

/** The final state of an entry, and its history, the newest first. */
export interface Entry {
  readonly name: string;
  readonly version: Version | undefined;
  readonly kept: readonly Sight[];
}

/** All records of one run. */
export interface RunHistory extends Run<LogRecord> {
  readonly heals: readonly Heal[];
  /** When the fsync policy of the server was changed. */
  readonly policyChanges: readonly number[];
  /** The number of replicas without a fault. */
  readonly replicas: number;
  /** Whether the server has an append-only file. */
  readonly hasFile: boolean;
  /** The entry that is rolled back to earlier values. In all other entries each value is written once. */
  readonly rolledName: string;
  /** The number of times that each durable write exists at the end, by id. */
  readonly effects: ReadonlyMap<string, number>;
  /** The counters at the end. */
  readonly counters: ReadonlyMap<string, number>;
  readonly entries: readonly Entry[];
  readonly leftovers: readonly string[];
  /** When the lab's own PING, which no fault affects, had to wait, since the machine was too busy. */
  readonly slow: readonly Span[];
}
