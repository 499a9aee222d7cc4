import type { Hold, LeaseCall, LeaseRecord, LeaseRun } from "../../lease-invariants.js";
import type { Span, WorkerHistory as AnyWorkerHistory } from "../../records.js";

/** A semaphore that the workers contend for. */
export interface Spec {
  readonly name: string;
  readonly permits: number;
  /** Undefined: no group. */
  readonly permitsPerTenant?: number | undefined;
  readonly tenants: number;
  /** The largest weight that is asked for. */
  readonly weights: number;
  readonly hasPriorities: boolean;
  /** The largest limit that workers set while it is in use; undefined: they leave it alone. */
  readonly resizedTo?: number | undefined;
}

/** A request, as the server's keys have it. */
export interface PermitRecord {
  readonly text: string;
  readonly token: string;
  readonly weight: number;
  /** Empty: none. */
  readonly tenant: string;
  readonly worker: string;
  readonly priority: number;
}

/** One thing that a script did, in the order in which the server did them. */
export type Step = {
  /** Server time, epoch milliseconds with their fraction: what the script went by. */
  readonly at: number;
  readonly script: string;
  /** By an acquire of the permit record itself: the server's instant after which it is refused; 0: it is not. */
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

/** A call of a worker, with what it said of permits. */
export interface CallRecord extends LeaseCall, Partial<GrantFacts> {}

/** A permit in a worker's hands. */
export interface HoldRecord extends Hold, GrantFacts {}

/** A look at what the server has of a permit, right after its grant. */
export interface AccessRecord {
  readonly kind: "access";
  readonly name: string;
  readonly token: string;
  readonly from: number;
  readonly at: number;
  /** Whether the server said that it is held. */
  readonly isKnown: boolean;
  /** The permit's own fields as the answer arrived. */
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
  /** Neither granted nor queued: it was full. */
  readonly isDenied: boolean;
}

/** A permit whose holder was killed. Instants are the server's, epoch milliseconds. */
export interface Death {
  readonly name: string;
  readonly worker: string;
  /** When it ran out. */
  readonly endsAt: number;
}

/** Nothing was in the way any more, or a failover began. */
export interface Heal {
  readonly at: number;
  /** Within how many milliseconds every semaphore had to go on; undefined: some of them, in the time that they all have. */
  readonly dueMs?: number | undefined;
}

/** All that is known of one run. */
export interface RunHistory extends LeaseRun {
  readonly specs: readonly Spec[];
  /** The work of the scripts, by name; empty where the server may have forgotten a part of it. */
  readonly steps: ReadonlyMap<string, readonly Step[]>;
  readonly workers: readonly WorkerHistory[];
  readonly deaths: readonly Death[];
  readonly heals: readonly Heal[];
  /** When a fault was on. */
  readonly outages: readonly Span[];
  readonly echoes: readonly Echoed[];
  /** How many names were looked at when all workers had left. */
  readonly lookedAt: number;
}

export const parsePermitRecord = (text: string): PermitRecord => {
  const [token = "", weight = "", tenant = "", holder = ""] = text.split("|");
  // The last part is what its clock said, which nobody may go by.
  const [worker = "", priority = ""] = holder.split(".");
  return { text, token, weight: Number(weight), tenant, worker, priority: Number(priority) };
};

/** The lines of the history of one name. */
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
