import { type Judge } from "./common-invariants.js";
import { patience } from "./patience.js";
import { type Call, clockErrorMs, type CommonRecord, type Run, type Span } from "./records.js";

// The promises of every package with leases:
//
// - `L3` a signal aborts before its lease ends, on its holder's own monotonic clock
// - `L5` only its owner ends a lease, and no ended lease is revived

type LeaseInvariant = "L3" | "L5";

/** A call of a worker, with its facts about leases. */
export interface LeaseCall extends Call {
  /** The name of the lease in the package's log. */
  readonly lease?: string;
  /** The result of a release. */
  readonly result?: string;
}

/** A lease that a worker held. */
export interface Hold {
  readonly kind: "hold";
  readonly name: string;
  readonly grantedAt: number;
  /** The last end that the server confirmed: the sending of the request plus the granted time. */
  readonly endsAt?: number;
  /** When the worker first ran after that end while the signal had not aborted. */
  readonly missedAt?: number;
  readonly abortedAt?: number;
  readonly reason?: string;
  readonly endedAt: number;
}

/** The records of any worker with leases. */
export type LeaseRecord = Exclude<CommonRecord, Call>;

type LossyRun = Pick<Run, "leaseMs" | "losses">;

export const lostDataBetween = ({ losses }: Pick<Run, "losses">, from: number, to: number): boolean =>
  losses.some((loss) => from - clockErrorMs <= loss.to && loss.from <= to + clockErrorMs);

/** Shorter stalls are not recorded. */
const roundingMs = 30;

/** Checks that the holder's signal aborted in time and not too early. `which` describes the lease. */
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
  const lateAt = endsAt + roundingMs * patience;
  // A stall that began before the signal was late excuses it, but it must come before all else that the process then does.
  const isExcused =
    missedAt === undefined && stalls.some(({ from, to }) => from <= lateAt && endsAt <= to + roundingMs);
  const isLate = (missedAt !== undefined && missedAt < silentUntil) || (silentUntil > lateAt && !isExcused);
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

/**
 * Checks that no lease is renewed after its release or after the server replied that it is lost. `returns` are spans in
 * which the server had the lease again, as another check has proved.
 */
export const checkStaleCall = (
  run: LossyRun,
  id: string,
  call: LeaseCall,
  judge: Judge<LeaseInvariant>,
  returns: readonly Span[] = [],
): void => {
  const { what, name, startedAt, settledAt, outcome } = call;
  if (what !== "stale resume" && what !== "stale extend") return;
  const wasBack = returns.some(({ from, to }) => from <= settledAt + clockErrorMs && startedAt - clockErrorMs <= to);
  // If the server loses the data of a release, its lease is back.
  if (!wasBack && !lostDataBetween(run, startedAt - run.leaseMs, settledAt))
    judge("L5", outcome === "ok" && `${name}: a ${what} of ${id} succeeded`);
};
