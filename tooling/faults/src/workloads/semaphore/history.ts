import type { Holder } from "../../lab/lease-lab.js";
import type { Hold, LeaseCall, LeaseRecord } from "../../lease-invariants.js";
import type { Run, WorkerHistory as AnyWorkerHistory } from "../../records.js";

/** A semaphore that the workers contend for. */
export interface Spec {
  readonly name: string;
  readonly permits: number;
  /** Undefined: the semaphore is no group. */
  readonly permitsPerTenant?: number | undefined;
  readonly tenants: number;
  /** The largest weight that workers request. */
  readonly weights: number;
  readonly hasPriorities: boolean;
  /** The largest limit that workers set during the run. Undefined: they never change it. */
  readonly resizedTo?: number | undefined;
}

/** A request, as stored in the server's keys. */
export interface PermitRecord {
  readonly text: string;
  readonly token: string;
  readonly weight: number;
  /** Empty: no tenant. */
  readonly tenant: string;
  readonly worker: string;
  readonly priority: number;
}

/** One write of a script. The steps of a history are in the order of the server. */
export type Step = {
  /** The server time that the script read, in epoch milliseconds with their fraction. */
  readonly at: number;
  readonly script: string;
  /** For an acquire of this permit record: the server time after which the script refuses it. 0: no such limit. */
  readonly notAfter?: number;
} & (
  | { readonly what: "add" | "set"; readonly permitRecord: PermitRecord; readonly endsAt: number }
  | { readonly what: "rem"; readonly permitRecord: PermitRecord; readonly isOwn: boolean }
  | { readonly what: "join" | "leave" | "suspend" | "resume"; readonly permitRecord: PermitRecord }
  | { readonly what: "permits" | "perTenant"; readonly limit: number }
);

export type PermitStep = Extract<Step, { readonly endsAt: number }>;

/** A worker's record of a grant. */
interface GrantFacts {
  readonly token: string;
  readonly weight: number;
  readonly tenant?: string | undefined;
}

/** A call of a worker, with the permit that it granted. */
export interface CallRecord extends LeaseCall, Partial<GrantFacts> {}

/** A permit that a worker held. */
export interface HoldRecord extends Hold, GrantFacts {}

/** A read of the server's data about a permit, right after its grant. */
export interface AccessRecord {
  readonly kind: "access";
  readonly name: string;
  readonly token: string;
  readonly from: number;
  readonly at: number;
  /** Whether the permit is held by the server's data. */
  readonly isKnown: boolean;
  /** `isHeld` of the permit object when the reply arrived. */
  readonly isHeld: boolean;
}

export type LogRecord = LeaseRecord | CallRecord | HoldRecord | AccessRecord;

export type WorkerHistory = AnyWorkerHistory<LogRecord>;

/** The server's reply to a second copy of an acquire. */
export interface Echoed {
  readonly name: string;
  readonly token: string;
  /** Server time, whole epoch milliseconds. */
  readonly at: number;
  /** Whether the reply was a refusal: neither granted nor queued. */
  readonly isDenied: boolean;
}

/** The permit of a killed worker. */
export type Death = Pick<Holder, "name" | "worker" | "endsAt">;

/** All records of one run. */
export interface RunHistory extends Run<LogRecord> {
  readonly specs: readonly Spec[];
  /** The steps of the scripts, by name. Empty where the server may have lost a part of the history. */
  readonly steps: ReadonlyMap<string, readonly Step[]>;
  readonly deaths: readonly Death[];
  readonly copiedAcquires: readonly Echoed[];
  /** Faults of the state after all workers had left. */
  readonly leftovers: readonly string[];
  /** The number of names that were inspected after all workers had left. */
  readonly lookedAt: number;
}

export const parsePermitRecord = (text: string): PermitRecord => {
  const [token = "", weight = "", tenant = "", holder = ""] = text.split("|");
  // The last part is the client's wall clock, which only the control `client-clock` reads.
  const [worker = "", priority = ""] = holder.split(".");
  return { text, token, weight: Number(weight), tenant, worker, priority: Number(priority) };
};

/** Parses the lines that recorder.lua wrote for one name. */
export const parseSteps = (lines: readonly string[]): Step[] => {
  const permitRecords = new Map<string, PermitRecord>();
  const permitRecordOf = (text: string): PermitRecord => {
    const permitRecord = permitRecords.get(text) ?? parsePermitRecord(text);
    permitRecords.set(text, permitRecord);
    return permitRecord;
  };
  return lines.map((line) => {
    const [micros, script = "", what, text = "", value, until = "-"] = line.split(" ");
    const common = {
      at: Number(micros) / 1_000,
      script,
      ...(until !== "-" && { notAfter: Number(until) }),
    };
    switch (what) {
      case "add":
      case "set":
        return { ...common, what, permitRecord: permitRecordOf(text), endsAt: Number(value) };
      case "rem":
        return { ...common, what, permitRecord: permitRecordOf(text), isOwn: value === "own" };
      case "join":
      case "leave":
      case "suspend":
      case "resume":
        return { ...common, what, permitRecord: permitRecordOf(text) };
      case "permits":
      case "perTenant":
        return { ...common, what, limit: Number(value) };
      default:
        throw new Error(`Not a line of the history: ${line}`);
    }
  });
};
