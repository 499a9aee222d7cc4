import type { Call, CommonRecord, Run, WorkerHistory as AnyWorkerHistory } from "../../records.js";

/** A chat that the workers write to and read. All bodies have `bodyBytes`. */
export interface Spec {
  readonly name: string;
  readonly retain: { readonly count?: number; readonly bytes?: number; readonly readByAll?: boolean };
  readonly whenFull: "drop" | "refuse";
}

export const bodyBytes = 100;

/** The messages of one chat that a reader received, as `[sequence, time, body]`. */
export interface Given {
  readonly chat: string;
  readonly messages: readonly (readonly [seq: number, at: number, id: string])[];
  readonly gap?: { readonly from: number; readonly to: number; readonly reason: string };
  readonly reset?: string;
}

export interface SendCall extends Call {
  readonly what: "send";
  readonly from: string;
  /** The client id, which is also the body. */
  readonly id: string;
  readonly seq?: number;
  readonly at?: number;
}

interface ReadFacts {
  readonly member: string;
  /** Identifies a reader, whose pages follow each other. */
  readonly chain: string;
  readonly given?: readonly Given[];
}

interface FetchCall extends Call, ReadFacts {
  readonly what: "fetch";
  /** Whether the page was read without a token. */
  readonly isFirst: boolean;
  /** Whether this is the end of the messages of a reader that leaves. */
  readonly isLast?: boolean;
}

/**
 * Written before a call; `number` is that of the call's own record. If a call has no own record, its worker was killed
 * first, and the call may have taken effect.
 */
type BegunRecord = { readonly kind: "begun"; readonly at: number } & Pick<Call, "what" | "name"> & Numbered;

/** The messages that a listener received. */
interface HeardRecord extends Required<ReadFacts> {
  readonly kind: "heard";
  readonly at: number;
}

interface AckCall extends Call {
  readonly what: "ack";
  readonly member: string;
  readonly seq: number;
}

interface UnreadCall extends Call {
  readonly what: "unread";
  readonly member: string;
  readonly counts?: Readonly<Record<string, number>>;
}

export interface TakeCall extends Call {
  readonly what: "take";
  /** The largest number of messages requested. */
  readonly limit: number;
  readonly leaseMs: number;
  readonly taken?: readonly { readonly seq: number; readonly id: string; readonly deliveries: number }[];
}

export interface SettleCall extends Call {
  readonly what: "settle";
  readonly how: "ack" | "extend" | "release";
  readonly seq: number;
  readonly id: string;
  readonly deliveries: number;
  /** The lease that an `extend` requested. */
  readonly leaseMs: number;
  readonly isDone?: boolean;
}

/** The stored state of a chat at one instant of the server between `from` and `at`. */
export interface LookRecord {
  readonly kind: "access";
  readonly name: string;
  readonly from: number;
  readonly at: number;
  readonly head: number;
  readonly floor: number;
  /** The newest messages after the floor, up to a hundred. */
  readonly newest: { readonly count: number; readonly first: number; readonly last: number };
  readonly positions: Readonly<Record<string, number>>;
  /** The same positions by the members' own records. */
  readonly own: Readonly<Record<string, number>>;
}

interface Numbered {
  readonly number: number;
}

export type ChatCall = (SendCall | FetchCall | AckCall | UnreadCall | TakeCall | SettleCall) & Numbered;

export type LogRecord =
  | Exclude<CommonRecord, Call>
  | ChatCall
  | (Call & { readonly what: "create" | "join" | "wait" | "close" })
  | BegunRecord
  | HeardRecord
  | LookRecord;

export type WorkerHistory = AnyWorkerHistory<LogRecord>;

/** A chat after all workers had left. */
export interface End {
  readonly look: LookRecord;
  /** The messages after the floor. */
  readonly messages: Given["messages"];
  /** By member: the result of `unread`, and the number of messages that a fetch without a token returned. */
  readonly unread: Readonly<Record<string, number>>;
  readonly fetched: Readonly<Record<string, number>>;
}

/** All records of one run. */
export interface RunHistory extends Run<LogRecord> {
  readonly specs: readonly Spec[];
  readonly mailbox: string;
  /** Empty if the workers were stuck. */
  readonly ends: ReadonlyMap<string, End>;
  /** Messages that were left in the mailbox, by body. */
  readonly drained: readonly string[];
  /** Deliveries in replies to copies of a `take`, which no worker receives, as `body deliveries`. */
  readonly echoed: ReadonlySet<string>;
}
