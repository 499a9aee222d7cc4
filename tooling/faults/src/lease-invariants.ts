import { type Judge } from "./common-invariants.js";
import { type Call, clockErrorMs, type CommonRecord, type Span, type WorkerHistory } from "./records.js";

// The promises of every package whose callers hold something for a time:
//
// - `L3` a signal aborts before its lease ends, on its holder's own monotonic clock
// - `L5` nobody but its owner ends or revives a lease

type LeaseInvariant = "L3" | "L5";

/** A call of a worker, with its facts about leases. */
export interface LeaseCall extends Call {
  /** Of the lease that it was about, as the package's log names leases. */
  readonly lease?: string;
  /** The result of a release. */
  readonly result?: string;
}

/** A lease in a worker's hands. */
export interface Hold {
  readonly kind: "hold";
  readonly name: string;
  readonly grantedAt: number;
  /** The last end confirmed by the server: when the request was sent, plus the granted time. */
  readonly endsAt?: number;
  /** When the worker first ran after that end without the signal having aborted. */
  readonly missedAt?: number;
  readonly abortedAt?: number;
  readonly reason?: string;
  readonly endedAt: number;
}

/** The event loop was blocked in the middle of the work. */
interface BlockRecord {
  readonly kind: "blocked";
  readonly name: string;
  readonly from: number;
  readonly to: number;
}

/** The records of any worker that leases something. */
export type LeaseRecord = Exclude<CommonRecord, Call> | BlockRecord;

/** The facts of any run in which something is leased. */
export interface LeaseRun {
  readonly leaseMs: number;
  readonly workers: readonly WorkerHistory<{ readonly kind: string }>[];
  /** When acknowledged data was lost, or a jump of the clock ended leases. */
  readonly dataLosses: readonly Span[];
  /** The state when all workers had left. */
  readonly leftovers: readonly string[];
}

type LossyRun = Pick<LeaseRun, "leaseMs" | "dataLosses">;

export const lostDataBetween = ({ dataLosses }: LossyRun, from: number, to: number): boolean =>
  dataLosses.some((loss) => from - clockErrorMs <= loss.to && loss.from <= to + clockErrorMs);

/** Shorter stalls are not recorded. */
const roundingMs = 30;

/** Checks that the holder's signal aborted in time, and not too early. `which` is the lease, in words. */
export const checkHold = (
  run: LossyRun,
  stalls: readonly Span[],
  hold: Hold,
  which: string,
  judge: Judge<LeaseInvariant>,
): void => {
  const { name, grantedAt, endsAt, missedAt, abortedAt, reason, endedAt } = hold;
  if (endsAt === undefined) return;
  const silentUntil = abortedAt ?? endedAt;
  // After a stall the signal comes late, but before anything else that the process does at that hour.
  const isExcused =
    missedAt === undefined && stalls.some(({ from, to }) => from <= endsAt + clockErrorMs && endsAt <= to + roundingMs);
  const isLate =
    (missedAt !== undefined && missedAt < silentUntil) || (silentUntil > endsAt + roundingMs && !isExcused);
  const how = abortedAt === undefined ? "never aborted" : `aborted ${(abortedAt - endsAt).toFixed(1)} ms after its end`;
  const length = (endsAt - grantedAt).toFixed(1);
  judge("L3", isLate && `${name}: the signal of ${which} ${how}, ${length} ms after its grant`);
  if (abortedAt === undefined || abortedAt >= endsAt) return;
  const isEnded = reason === "expired" || reason === "taken";
  const left = (endsAt - abortedAt).toFixed(1);
  judge(
    "L5",
    isEnded &&
      !lostDataBetween(run, Math.min(grantedAt, endsAt - run.leaseMs), abortedAt) &&
      `${name}: the lease of ${which} was ${reason}, ${left} ms before its confirmed end`,
  );
};

/** A lease that was released, or lost by a reply of the server, must not be renewed. */
export const checkStaleCall = (run: LossyRun, id: string, call: LeaseCall, judge: Judge<LeaseInvariant>): void => {
  const { what, name, startedAt, settledAt, outcome } = call;
  // A release that the server lost brings its lease back.
  if ((what === "stale resume" || what === "stale extend") && !lostDataBetween(run, startedAt - run.leaseMs, settledAt))
    judge("L5", outcome === "ok" && `${name}: a ${what} of ${id} succeeded`);
};
