import {
  checkWorker,
  judged,
  type Judge as AnyJudge,
  lateMs,
  resumeMs,
  stalledByAll as stalledByAllOf,
  stallsOf,
  type Verdict as AnyVerdict,
  type Violation as AnyViolation,
} from "../../common-invariants.js";
import { checkHold, checkStaleCall, lostDataBetween } from "../../lease-invariants.js";
import { linearizable } from "../../linearizable.js";
import type { Span } from "../../records.js";
import { checkResumption, type Work } from "../../work.js";
import { checkGrantOrder, grantsOf } from "./grants.js";
import { mutexWindows, mutexWithFence } from "./mutex.js";
import {
  type Access,
  type AccessRecord,
  type CallRecord,
  type Death,
  isLockName,
  type LogRecord,
  partOf,
  type RunHistory,
  type WorkerHistory,
} from "./history.js";
import { checkReadWrite } from "./read-write/checker.js";
import { checkSets, Forces } from "./several-names/checker.js";

/**
 * The invariants that the checker judges a run by.
 *
 * - `L1` fencing tokens strictly increase from grant to grant
 * - `L2` the register accepts no token older than the newest it saw, and loses no update
 * - `L3` a signal aborts before its lease ends, on its holder's own monotonic clock
 * - `L4` a killed holder's lock is granted to a waiter within its lease plus 10 % and 100 ms
 * - `L5` only its owner ends a lease, and no ended lease is revived
 * - `L6` a lock that is released while a caller waits is granted within 10 % of a lease and 100 ms, unless a fault was
 *   active then or in the second before
 * - `exclusion` while a lease is certainly held, no other caller holds the lock
 * - `linearizable` calls, as their callers saw them, are those of a mutex whose fencing tokens grow
 * - `sharing` nobody reads or writes a read/write lock while another writes
 * - `arrival` nobody is granted a read/write lock before a waiter that came earlier, unless its turn had come and no message reached it
 * - `whole` a set that is held has all of its names
 * - `rest` a set that is over has none of its names: without a fault as soon as it must have been released, in any case after a lease
 * - `U1` every promise settles by its deadline and 100 ms
 * - `U2` a repeated request has one effect and one answer
 * - `U3` work goes on within a second after an outage
 * - `U4` nothing is left: no rejection unhandled, nothing printed, no process that does not end, no key that stays
 * - `U5` every error is typed
 */
export type Invariant = (typeof invariants)[number];
export const invariants = [
  "L1",
  "L2",
  "L3",
  "L4",
  "L5",
  "L6",
  "exclusion",
  "linearizable",
  "sharing",
  "arrival",
  "whole",
  "rest",
  "U1",
  "U2",
  "U3",
  "U4",
  "U5",
] as const;

export type Violation = AnyViolation<Invariant>;
type Judge = AnyJudge<Invariant>;

/** Checks a run against the invariants. The checks use the promises of the lock, not its implementation. */
export const verdictOn = (run: RunHistory): AnyVerdict<Invariant> =>
  judged(invariants, (judge) => {
    for (const [name, accesses] of run.registers) checkRegister(name, accesses, judge);
    const locks = partOf(run, isLockName);
    checkGrantOrder(run, judge);
    checkEchoes(run, judge);
    checkMutex(locks, judge);
    for (const death of run.deaths) checkRecovery(locks, death, judge);
    checkHandOver(locks, judge);
    checkReadWrite(run, judge);
    checkSets(run, judge);
    const forced = new Forces(run);
    // Here a failover gets no more time than any fault.
    const heals = run.heals.filter(({ name }) => name === undefined).map(({ kind, at }) => ({ kind, at }));
    checkResumption({ ...run, heals }, workOf(run), judge);
    for (const what of run.leftovers) judge("U4", what);
    for (const worker of run.workers) {
      checkWorker(worker, judge);
      const stalls = stallsOf(worker);
      for (const record of worker.records) checkRecord(run, worker, stalls, record, forced, judge);
    }
  });

const checkRecord = (
  run: RunHistory,
  { id }: WorkerHistory,
  stalls: readonly Span[],
  record: LogRecord,
  forced: Forces,
  judge: Judge,
): void => {
  switch (record.kind) {
    case "call":
      return checkStaleCall(run, id, record, judge);
    case "hold":
      // Who ends a lease by force is not its owner.
      if (record.abortedAt !== undefined && forced.concern(record.name, record.abortedAt)) return;
      return checkHold(run, stalls, record, `${id} with ${record.set ?? record.token ?? record.fence}`, judge);
    case "access":
      return checkAccess(run, id, record, judge);
  }
};

// ── the register ────────────────────────────────────────────────────────────────────────────────────────────────────

const checkRegister = (name: string, accesses: readonly Access[], judge: Judge): void => {
  const tokens = new Map<bigint, string>();
  const fences = new Map<string, bigint>();
  let newest = 0n;
  let value = 0;
  for (const { action, fence, token, worker, op, base, accepted } of accesses) {
    const known = tokens.get(fence) ?? token;
    tokens.set(fence, known);
    judge("L1", known !== token && `${name}: two grants have the fencing token ${String(fence)} (${worker}, ${op})`);
    const first = fences.get(token) ?? fence;
    fences.set(token, first);
    judge(
      "U2",
      first !== fence && `${name}: one grant has the fencing tokens ${String(first)} and ${String(fence)} (${op})`,
    );
    if (!accepted) continue;
    const isStale = fence < newest;
    judge(
      "L2",
      isStale && `${name}: a ${action} with ${String(fence)} was taken after ${String(newest)} (${worker}, ${op})`,
    );
    if (!isStale) newest = fence;
    if (action === "read") continue;
    const isLost = base !== value;
    judge("L2", isLost && `${name}: a write based on ${String(base)} overwrote ${String(value)} (${worker}, ${op})`);
    value = base + 1;
  }
};

/** The number of late writes that were accepted, which is the damage of an unfenced register. */
export const staleWrites = (accesses: readonly Access[]): number => {
  let newest = 0n;
  let stale = 0;
  for (const { action, fence, accepted } of accesses) {
    if (action === "write" && accepted && fence < newest) stale++;
    if (fence > newest) newest = fence;
  }
  return stale;
};

// ── grants ──────────────────────────────────────────────────────────────────────────────────────────────────────────

/**
 * A copy of an acquire finds its own grant with the same fencing token, or another holder. Its own lease never refuses it. A process that
 * stood still for longer than the lease asks again for what it was granted too late: copies of its first request got the older token.
 */
const checkEchoes = (run: RunHistory, judge: Judge): void => {
  const fences = new Map<string, bigint>();
  for (const accesses of run.registers.values()) for (const { token, fence } of accesses) fences.set(token, fence);
  for (const { name, token, state, fence, owner } of run.copiedAcquires) {
    if (state === "other") {
      judge("U2", owner === token && `${name}: the copy of an acquire was refused because of its own lease`);
      continue;
    }
    const reported = BigInt(fence ?? 0);
    const known = fences.get(token) ?? reported;
    fences.set(token, known);
    const isOfAnOlderLease = known - reported >= BigInt(run.leaseMs) * 1_000n;
    judge(
      "U2",
      known !== reported &&
        !isOfAnOlderLease &&
        `${name}: an acquire that was sent twice got ${String(known)} and ${String(reported)}`,
    );
  }
};

const checkMutex = (run: RunHistory, judge: Judge): void => {
  // A loss of data ends leases early, at instants that the calls do not show.
  if (run.losses.length > 0) return;
  for (const { name, operations } of mutexWindows(run)) {
    const { isLinearizable } = linearizable(mutexWithFence, operations);
    // An undecided search counts neither as judged nor as broken.
    if (isLinearizable !== undefined)
      judge(
        "linearizable",
        !isLinearizable && `${name}: no order of ${String(operations.length)} calls is that of a mutex`,
      );
  }
};

// ── leases ──────────────────────────────────────────────────────────────────────────────────────────────────────────

const checkAccess = (run: RunHistory, id: string, access: AccessRecord, judge: Judge): void => {
  const { action, name, fence, op, verdict, owned, micros, isHeld } = access;
  if (isHeld !== true || verdict === "unknown") return;
  const at = Number(micros) / 1_000;
  // When the server loses data, a holder may keep its lease for up to a lease's length before it learns of the loss.
  if (lostDataBetween(run, at - run.leaseMs, at)) return;
  const isRefused = verdict === "refused";
  judge(
    "exclusion",
    isRefused && `${name}: a ${action} of ${id} with ${fence} was refused while its lease was certainly held (${op})`,
  );
  if (run.isRegisterBeside && !isRefused)
    judge(
      "exclusion",
      owned === 0 &&
        `${name}: ${id} with ${fence} certainly held a lock that was free or another's on the server (${op})`,
    );
};

// ── recovery ────────────────────────────────────────────────────────────────────────────────────────────────────────

const regrantDueAt = (run: RunHistory, { endsAt, waiting }: Death): number => {
  const dueAt = endsAt + 0.1 * run.leaseMs + lateMs;
  if (!run.isCluster) return dueAt;
  // On a Cluster subscribers may be on other nodes, so a dead waiter is not detected. Each may be granted one lease.
  const killedAt = new Map(run.workers.map((worker) => [worker.id, worker.killedAt ?? Infinity]));
  return waiting.reduce((due, id) => ((killedAt.get(id) ?? Infinity) < due ? due + run.leaseMs : due), dueAt);
};

/** Whether a live caller was in the wait queue for the whole time in which the lock had to be granted again. */
export const isWaitedFor = (run: RunHistory, death: Death): boolean => {
  const dueAt = regrantDueAt(run, death);
  // A request that was under way at that moment may have missed the queue.
  const queuedBy = death.seenAt - 20;
  return run.workers.some(({ records }) =>
    records.some(
      (record) =>
        record.kind === "call" &&
        record.what === "acquire" &&
        record.name === death.name &&
        record.startedAt < queuedBy &&
        (record.settledAt > dueAt || (record.fence !== undefined && BigInt(record.fence) > death.fence)),
    ),
  );
};

const stalledByAll = ({ workers }: RunHistory, from: number, to: number): number => stalledByAllOf(workers, from, to);

/** Checks when the lock was granted again. A fencing token is the server's time of its grant, in microseconds. */
const checkRecovery = (run: RunHistory, death: Death, judge: Judge): void => {
  if (!isWaitedFor(run, death)) return;
  const dueAt = regrantDueAt(run, death);
  const fences = [
    ...(run.registers.get(death.name) ?? []).map(({ fence }) => fence),
    ...(grantsOf(run).get(death.name) ?? []).map(({ fence }) => fence),
    // The next holder may have been killed before it logged its grant.
    ...run.deaths.filter(({ name }) => name === death.name).map(({ fence }) => fence),
  ];
  const next = fences.reduce((least, fence) => (fence > death.fence && fence < least ? fence : least), 2n ** 63n);
  const lateBy = Number(next) / 1_000 - dueAt - stalledByAll(run, death.endsAt, dueAt);
  const late = `${death.name}: after the death of ${death.worker} it was granted ${lateBy.toFixed(0)} ms too late`;
  judge("L4", lateBy > 0 && late);
};

interface Release {
  readonly name: string;
  readonly fence: bigint;
  readonly startedAt: number;
  readonly settledAt: number;
}

const releasesOf = (run: RunHistory): Release[] =>
  run.workers.flatMap(({ records }) =>
    records.flatMap((record) =>
      record.kind === "call" && record.lease !== undefined && record.result === "released"
        ? [{ name: record.name, fence: BigInt(record.lease), startedAt: record.startedAt, settledAt: record.settledAt }]
        : [],
    ),
  );

/** Every known fencing token, by name, in order. */
const fencesOf = (run: RunHistory): Map<string, bigint[]> => {
  const byName = new Map<string, Set<bigint>>();
  const add = (name: string, fence: bigint): void => void byName.set(name, (byName.get(name) ?? new Set()).add(fence));
  for (const [name, accesses] of run.registers) for (const { fence } of accesses) add(name, fence);
  for (const [name, grants] of grantsOf(run)) for (const { fence } of grants) add(name, fence);
  for (const { name, fence } of run.deaths) add(name, fence);
  return new Map(
    [...byName].map(([name, fences]) => [name, [...fences].toSorted((a, b) => (a < b ? -1 : a > b ? 1 : 0))]),
  );
};

/** Allowed for a request that was under way. */
const queuedWithinMs = 100;

/** Checks the time from free to granted, without faults only. During a fault a waiter may be out of reach. */
const checkHandOver = (run: RunHistory, judge: Judge): void => {
  if (!run.isClockTrue) return;
  const fences = fencesOf(run);
  const waits = run.workers.flatMap(({ records }) =>
    records.filter((record) => record.kind === "call" && record.what === "acquire"),
  ) as CallRecord[];
  for (const { name, fence, startedAt, settledAt } of releasesOf(run)) {
    const dueAt = settledAt + 0.1 * run.leaseMs + lateMs;
    if (run.outages.some(({ from, to }) => from <= dueAt && startedAt - queuedWithinMs <= to + resumeMs)) continue;
    const next = fences.get(name)?.find((other) => other > fence);
    const isWaitedFor = waits.some(
      (wait) =>
        wait.name === name &&
        wait.startedAt < startedAt - queuedWithinMs &&
        (wait.settledAt > dueAt || (wait.fence !== undefined && BigInt(wait.fence) === next)),
    );
    if (!isWaitedFor) continue;
    const grantedAt = next === undefined ? Infinity : Number(next) / 1_000;
    const lateBy = grantedAt - dueAt - stalledByAll(run, settledAt, dueAt);
    judge(
      "L6",
      lateBy > 0 && `${name}: released with ${String(fence)}, it was granted ${lateBy.toFixed(0)} ms too late`,
    );
  }
};

// ── resumption ──────────────────────────────────────────────────────────────────────────────────────────────────────

/** What the register accepted, since the grant of its lease. A reply that was under way during an outage does not count. */
export const workOf = (run: RunHistory): Work => ({
  done: [...run.registers].flatMap(([name, accesses]) => {
    const since = new Map<bigint, number>();
    return accesses.flatMap(({ fence, at, accepted }) => {
      const from = run.isClockTrue ? Number(fence) / 1_000 : (since.get(fence) ?? at);
      since.set(fence, from);
      return accepted ? [{ what: name, from, at }] : [];
    });
  }),
  dueAfter: ({ name = "" }) => [name],
});
