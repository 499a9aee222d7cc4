import type {
  Access,
  AccessRecord,
  CallRecord,
  Death,
  HoldRecord,
  LogRecord,
  RunHistory,
  WorkerHistory,
} from "./history.js";

/**
 * The laws that a run is held against.
 *
 * - `L1` fencing tokens strictly increase from grant to grant
 * - `L2` the register takes no older token than the newest it saw, and loses no update
 * - `L3` a signal aborts before its lease ends, on its holder's own monotonic clock
 * - `L4` a killed holder's lock is granted again within its lease and 10 % and 100 ms, where somebody waits
 * - `L5` nobody but its owner ends or revives a lease
 * - `exclusion` while a lease is surely held, nobody else holds the lock
 * - `U1` every promise settles by its deadline and 100 ms
 * - `U3` work goes on within a second after an outage
 * - `U4` nothing is left: no rejection unhandled, nothing printed, no process that does not end, no key that stays
 * - `U5` every error is typed
 */
export type Law = "L1" | "L2" | "L3" | "L4" | "L5" | "exclusion" | "U1" | "U3" | "U4" | "U5";

export interface Violation {
  readonly law: Law;
  readonly what: string;
}

type Report = (law: Law, what: string) => void;

const lateMs = 100;
const resumeMs = 1_000;
/** Processes and server read one clock of one machine, each through roundings of its own. */
const clockErrorMs = 2;

/** Everything in a run that no lock may do. It knows nothing of how the lock works, only what it promises. */
export const violationsOf = (run: RunHistory): Violation[] => {
  const found: Violation[] = [];
  const report: Report = (law, what) => void found.push({ law, what });
  for (const [name, accesses] of run.registers) checkRegister(name, accesses, report);
  checkGrantOrder(run, report);
  for (const death of run.deaths) checkRecovery(run, death, report);
  for (const healedAt of run.heals) checkResumption(run, healedAt, report);
  for (const what of run.leftovers) report("U4", what);
  for (const worker of run.workers) {
    const { id, records, killedAt, printed, end } = worker;
    if (printed !== "") report("U4", `${id} printed: ${printed.slice(0, 500)}`);
    if (killedAt === undefined && end !== "exit 0") report("U4", `${id} ended with ${end}`);
    if (killedAt === undefined && !records.some(({ kind }) => kind === "left"))
      report("U4", `${id} never came to its end`);
    for (const record of records) checkRecord(run, worker, record, report);
  }
  return found;
};

const checkRecord = (run: RunHistory, worker: WorkerHistory, record: LogRecord, report: Report): void => {
  const { id } = worker;
  switch (record.kind) {
    case "call":
      return checkCall(id, record, report);
    case "hold":
      return checkHold(run, worker, record, report);
    case "access":
      return checkAccess(run, id, record, report);
    case "crash":
      return report("U4", `${id}: ${record.error}`);
    case "background":
      return record.typed ? undefined : report("U5", `${id}: an error event without a type`);
    case "left":
      for (const what of record.open) report("U1", `${id}: ${what} never settled`);
  }
};

// ── the register ────────────────────────────────────────────────────────────────────────────────────────────────────

const checkRegister = (name: string, accesses: readonly Access[], report: Report): void => {
  const tokens = new Map<bigint, string>();
  let newest = 0n;
  let value = 0;
  for (const { action, fence, token, worker, op, base, accepted } of accesses) {
    const known = tokens.get(fence) ?? token;
    tokens.set(fence, known);
    if (known !== token) report("L1", `${name}: two grants have the fencing token ${String(fence)} (${worker}, ${op})`);
    if (!accepted) continue;
    if (fence < newest)
      report("L2", `${name}: a ${action} with ${String(fence)} was taken after ${String(newest)} (${worker}, ${op})`);
    else newest = fence;
    if (action === "read") continue;
    if (base !== value)
      report("L2", `${name}: a write based on ${String(base)} overwrote ${String(value)} (${worker}, ${op})`);
    value = base + 1;
  }
};

/** How many writes came too late and were taken all the same: what an unfenced register suffers. */
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

interface KnownGrant {
  readonly worker: string;
  readonly fence: bigint;
  readonly startedAt: number;
  readonly settledAt: number;
}

const grantsOf = (run: RunHistory): Map<string, KnownGrant[]> => {
  const byName = new Map<string, KnownGrant[]>();
  for (const { id, records } of run.workers)
    for (const record of records) {
      if (record.kind !== "call" || record.fence === undefined) continue;
      const { name, startedAt, settledAt } = record;
      const grants = byName.get(name) ?? [];
      byName.set(name, grants);
      grants.push({ worker: id, fence: BigInt(record.fence), startedAt, settledAt });
    }
  return byName;
};

/** What is asked for after another grant was known must get a larger token: as the callers tell it, not Redis. */
const checkGrantOrder = (run: RunHistory, report: Report): void => {
  for (const [name, grants] of grantsOf(run)) {
    const byEnd = grants.toSorted((a, b) => a.settledAt - b.settledAt);
    let newest = 0n;
    let ended = 0;
    for (const { worker, fence, startedAt } of grants.toSorted((a, b) => a.startedAt - b.startedAt)) {
      for (let next = byEnd[ended]; next && next.settledAt + clockErrorMs < startedAt; next = byEnd[++ended])
        if (next.fence > newest) newest = next.fence;
      if (fence <= newest)
        report("L1", `${name}: ${worker} was granted ${String(fence)} after ${String(newest)} was known`);
    }
  }
};

// ── leases ──────────────────────────────────────────────────────────────────────────────────────────────────────────

const lostDataBetween = ({ dataLosses }: RunHistory, from: number, to: number): boolean =>
  dataLosses.some((at) => from - clockErrorMs <= at && at <= to + clockErrorMs);

const checkHold = (run: RunHistory, worker: WorkerHistory, hold: HoldRecord, report: Report): void => {
  const { name, fence, grantedAt, endsAt, missedAt, abortedAt, reason, endedAt } = hold;
  const { id } = worker;
  if (endsAt === undefined) return;
  const silentUntil = abortedAt ?? endedAt;
  // After a stall the signal comes late, but before anything else that the process does at that hour.
  const isExcused = isStalledAt(worker, endsAt) && missedAt === undefined;
  if ((missedAt !== undefined && missedAt < silentUntil) || (silentUntil > endsAt + roundingMs && !isExcused)) {
    const how =
      abortedAt === undefined ? "never aborted" : `aborted ${(abortedAt - endsAt).toFixed(1)} ms after its end`;
    report(
      "L3",
      `${name}: the signal of ${id} with ${fence} ${how}, ${(endsAt - grantedAt).toFixed(1)} ms after its grant`,
    );
  }
  if (abortedAt === undefined || abortedAt >= endsAt) return;
  if ((reason === "expired" || reason === "taken") && !lostDataBetween(run, grantedAt, abortedAt)) {
    const left = (endsAt - abortedAt).toFixed(1);
    report("L5", `${name}: the lease of ${id} with ${fence} was ${reason}, ${left} ms before its confirmed end`);
  }
};

/** Shorter stalls are not recorded. */
const roundingMs = 30;

const isStalledAt = ({ records }: WorkerHistory, at: number): boolean =>
  records.some((record) => record.kind === "stall" && record.from <= at && at <= record.to + roundingMs);

const checkAccess = (run: RunHistory, id: string, access: AccessRecord, report: Report): void => {
  const { action, name, fence, op, verdict, owned, micros, isHeld } = access;
  if (isHeld !== true || verdict === "unknown") return;
  const at = Number(micros) / 1_000;
  // Whoever holds a lease of which the server knows nothing any more learns it within that lease.
  if (lostDataBetween(run, at - run.leaseMs, at)) return;
  if (verdict === "refused")
    report(
      "exclusion",
      `${name}: a ${action} of ${id} with ${fence} was refused while its lease was surely held (${op})`,
    );
  else if (run.isRegisterBeside && owned === 0)
    report(
      "exclusion",
      `${name}: ${id} with ${fence} surely held what the server had given to another, or to nobody (${op})`,
    );
};

// ── calls ───────────────────────────────────────────────────────────────────────────────────────────────────────────

const checkCall = (id: string, call: CallRecord, report: Report): void => {
  const { what, name, startedAt, settledAt, dueMs, stalledMs, outcome } = call;
  const tookMs = settledAt - startedAt;
  if (tookMs > dueMs + lateMs + stalledMs) {
    const facts = `${tookMs.toFixed(0)} ms, due within ${dueMs.toFixed(0)} ms, stalled for ${stalledMs.toFixed(0)} ms`;
    report("U1", `${name}: ${what} of ${id} (${outcome} ${call.code ?? ""}) took ${facts}`);
  }
  if (outcome === "untyped") report("U5", `${name}: ${what} of ${id} rejected with ${call.error ?? "nothing"}`);
  if (outcome === "ok" && (what === "stale resume" || what === "stale extend"))
    report("L5", `${name}: a ${what} of ${id} succeeded`);
};

// ── recovery ────────────────────────────────────────────────────────────────────────────────────────────────────────

const regrantDueAt = (run: RunHistory, { leaseEndsAt, waiting }: Death): number => {
  const dueAt = leaseEndsAt + 0.1 * run.leaseMs + lateMs;
  if (!run.isCluster) return dueAt;
  // Where subscribers may sit on other nodes nobody sees that a waiter is dead: each one may be given one lease.
  const killedAt = new Map(run.workers.map((worker) => [worker.id, worker.killedAt ?? Infinity]));
  return waiting.reduce((due, id) => ((killedAt.get(id) ?? Infinity) < due ? due + run.leaseMs : due), dueAt);
};

/** Whether some caller stood in line, alive, for all the time in which the lock had to be granted again. */
export const isWaitedFor = (run: RunHistory, death: Death): boolean => {
  const dueAt = regrantDueAt(run, death);
  // What was asked for in the very moment may have been on its way.
  const queuedBy = death.foundAt - 20;
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

/** For how much of a span no contender ran at all: the machine had no time for any of them. */
const stalledByAll = (run: RunHistory, from: number, to: number): number => {
  const stalls = run.workers
    .filter(({ killedAt = Infinity }) => killedAt > to)
    .filter(({ records }) => records.some((record) => record.kind === "call" && record.startedAt < from))
    .map(({ records }) =>
      records.reduce((sum, record) => {
        if (record.kind !== "stall") return sum;
        return sum + Math.max(0, Math.min(record.to, to) - Math.max(record.from, from));
      }, 0),
    );
  return stalls.length === 0 ? 0 : Math.min(...stalls);
};

/** A fencing token is the server's time of its grant, in microseconds. */
const checkRecovery = (run: RunHistory, death: Death, report: Report): void => {
  if (!isWaitedFor(run, death)) return;
  const dueAt = regrantDueAt(run, death);
  const fences = [
    ...(run.registers.get(death.name) ?? []).map(({ fence }) => fence),
    ...(grantsOf(run).get(death.name) ?? []).map(({ fence }) => fence),
    // Whoever got it may have died before anybody heard of it.
    ...run.deaths.filter(({ name }) => name === death.name).map(({ fence }) => fence),
  ];
  const next = fences.reduce((least, fence) => (fence > death.fence && fence < least ? fence : least), 2n ** 63n);
  const lateBy = Number(next) / 1_000 - dueAt - stalledByAll(run, death.leaseEndsAt, dueAt);
  if (lateBy > 0)
    report("L4", `${death.name}: after the death of ${death.worker} it was granted ${lateBy.toFixed(0)} ms too late`);
};

/** What was on its way through the outage is not work that goes on: a lock must have been granted since. */
const checkResumption = (run: RunHistory, healedAt: number, report: Report): void => {
  let first = Infinity;
  for (const accesses of run.registers.values())
    for (const { at, fence, accepted } of accesses)
      if (accepted && Number(fence) / 1_000 > healedAt) first = Math.min(first, at);
  const tookMs = first - healedAt;
  if (tookMs > resumeMs)
    report("U3", `work went on ${tookMs.toFixed(0)} ms after the outage that ended at ${healedAt.toFixed(0)}`);
};
