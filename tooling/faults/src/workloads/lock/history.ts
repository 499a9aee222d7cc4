import type { Holder as AnyHolder } from "../../lab/lease-lab.js";
import type { Hold, LeaseCall, LeaseRecord } from "../../lease-invariants.js";
import type { Run, Span, WorkerHistory as AnyWorkerHistory } from "../../records.js";
import type { Step } from "./read-write/history.js";

/** The names of read/write locks. */
export const documents: readonly string[] = ["document-1", "document-2"];

/** The names of locks that are taken several at once. A set is named by its names. */
export const setNames: readonly string[] = ["set-1", "set-2", "set-3", "set-4", "set-5"];

export const isLockName = (name: string): boolean => !documents.includes(name) && !name.startsWith("set-");

/** One line of the register's history, in the order in which the server saw it. */
export interface Access {
  /** Server time, epoch milliseconds with their fraction. */
  readonly at: number;
  readonly action: "read" | "write";
  readonly fence: bigint;
  readonly token: string;
  readonly worker: string;
  readonly op: string;
  /** The value that the worker had read before its write. */
  readonly base: number;
  /** The value of the register before. */
  readonly value: number;
  readonly accepted: boolean;
  /** Whether the lock's own key held this lease at that moment. False if the register is on another server. */
  readonly owned: boolean;
}

/** A call of a worker, with its facts about leases. Leases are named by their tokens. */
export interface CallRecord extends LeaseCall {
  /** The fencing token of the granted lease. */
  readonly fence?: string;
  /** Of a set: each name with its fencing token. */
  readonly fences?: Readonly<Record<string, string>>;
}

/** A lease that a worker held. */
export interface HoldRecord extends Hold {
  readonly fence: string;
  /** Of a read/write lock: the lease itself. A reader has no fencing token. */
  readonly token?: string;
  /** Of a set: its holder, which has no other lease. */
  readonly set?: string;
}

/** A reply of the register, with the state of the lease when the reply arrived. */
export interface AccessRecord {
  readonly kind: "access";
  readonly action: "read" | "write";
  readonly name: string;
  readonly fence: string;
  readonly op: string;
  readonly verdict: "accepted" | "refused" | "unknown";
  readonly owned?: number;
  /** Server time, epoch microseconds. */
  readonly micros?: string;
  readonly isHeld?: boolean;
}

/** A span in which a worker certainly held a read/write lock. */
export interface ShareRecord extends Span {
  readonly kind: "share";
  readonly name: string;
  readonly mode: "read" | "write";
}

/** A read of the server's data about one name of a set. */
interface MemberRecord {
  readonly kind: "member";
  readonly name: string;
  readonly set: string;
  /** When the read was sent, and when its reply arrived. */
  readonly from: number;
  readonly at: number;
  /** Whether the set has the name by the server's data. */
  readonly isOwn: boolean;
  /** `isHeld` of the set when the reply arrived. */
  readonly isHeld: boolean;
}

/** What was left of a set that was over. */
export interface RestRecord {
  readonly kind: "rest";
  readonly name: string;
  readonly set: string;
  readonly endedAt: number;
  readonly seenAt: number;
  /** How many names it had when all must have been released; and when every lease that nobody renews had ended. */
  readonly left: number;
  readonly lasting: number;
}

/** From here on the worker ends the lease of a name by force, whoever has it. */
interface ForcedRecord {
  readonly kind: "forced";
  readonly name: string;
  readonly at: number;
}

type SetRecord = MemberRecord | RestRecord | ForcedRecord;

export type LogRecord = LeaseRecord | CallRecord | HoldRecord | AccessRecord | ShareRecord | SetRecord;

export type WorkerHistory = AnyWorkerHistory<LogRecord>;

/** The server's reply to a second copy of an acquire. */
export interface Echoed {
  readonly name: string;
  readonly token: string;
  readonly state: "granted" | "other";
  /** The fencing token, if granted. */
  readonly fence?: string;
  /** The other holder, if refused. */
  readonly owner?: string;
}

export interface Holder extends AnyHolder {
  readonly fence: bigint;
}

/** The lease of a killed worker. It was seen when the worker was certainly dead. */
export type Death = Omit<Holder, "token">;

/** All records of one run. */
export interface RunHistory extends Run<LogRecord> {
  readonly isCluster: boolean;
  /** Whether the server's clock was unchanged, so that a fencing token shows when it was granted. */
  readonly isClockTrue: boolean;
  /** Whether the register is on the lock's own server, so that `owned` is known. */
  readonly isRegisterBeside: boolean;
  readonly registers: ReadonlyMap<string, readonly Access[]>;
  readonly deaths: readonly Death[];
  readonly copiedAcquires: readonly Echoed[];
  /** The steps of the read/write locks' scripts, by name. Empty where the server may have lost a part of the history. */
  readonly readWriteSteps: ReadonlyMap<string, readonly Step[]>;
  /** Faults of the state after all workers had left. */
  readonly leftovers: readonly string[];
}

export const parseAccess = (line: string): Access => {
  const [micros, action, fence, token, worker, op, base, value, verdict, owned] = line.split(" ");
  if (owned === undefined || (action !== "read" && action !== "write"))
    throw new Error(`Not a line of the register: ${line}`);
  return {
    at: Number(micros) / 1_000,
    action,
    fence: BigInt(fence ?? ""),
    token: token ?? "",
    worker: worker ?? "",
    op: op ?? "",
    base: Number(base),
    value: Number(value),
    accepted: verdict === "accepted",
    owned: owned === "1",
  };
};

/** A run with only the records of some names: for example of the locks alone. */
export const partOf = (run: RunHistory, isOfPart: (name: string) => boolean): RunHistory => ({
  ...run,
  workers: run.workers.map((worker) => ({
    ...worker,
    records: worker.records.filter((record) => !("name" in record) || isOfPart(record.name)),
  })),
});
