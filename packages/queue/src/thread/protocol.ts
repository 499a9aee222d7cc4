import type { MessagePort } from "node:worker_threads";

/** How the thread connects. */
export interface Target {
  /** Some nodes of the Cluster. Undefined for a single server. */
  readonly nodes?: readonly object[];
  /** Options of ioredis. */
  readonly options: object;
}

/** The data that the thread gets at its start. */
export interface ThreadData {
  readonly port: MessagePort;
  /** Its only value: when the main loop last turned, in microseconds of `process.hrtime`, which all threads share. */
  readonly turnedAt: BigInt64Array;
  /** The path of ioredis. */
  readonly ioredis: string;
  /** The text of `heartbeat.lua`, and its hash. */
  readonly source: string;
  readonly sha: string;
}

/** A worker whose leases the thread renews while the main loop is blocked. */
export interface Registration {
  readonly target: Target;
  readonly keys: readonly string[];
  readonly leaseMs: number;
  readonly maxBlockedMs: number;
}

/** A message to the thread about the worker of this number. */
export type Request =
  | { readonly worker: number; readonly register: Registration }
  /** Members of `leases` that it holds now, one per line. `isAll`: it holds no others. */
  | { readonly worker: number; readonly members: string; readonly isAll: boolean }
  | { readonly worker: number; readonly leave: true };

/** From the thread: it has renewed the leases of a worker. */
export interface Renewal {
  readonly worker: number;
  /** When the call was sent, in milliseconds of `process.hrtime`. */
  readonly sentAt: number;
  /** The members that still existed, and the members whose jobs were cancelled, one per line. */
  readonly renewed: string;
  readonly cancelled: string;
}
