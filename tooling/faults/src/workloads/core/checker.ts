import {
  checkWorker,
  judged,
  type Judge as AnyJudge,
  shared,
  stalledIn,
  type Verdict,
} from "../../common-invariants.js";
import { patience } from "../../patience.js";
import { callsOf, clockErrorMs, type DataLoss, type Span } from "../../records.js";
import { checkResumption, type Progress, type Work, workIn } from "../../work.js";
import type {
  ConfigCall,
  CounterCall,
  DurableCall,
  FlapRecord,
  LogRecord,
  RunHistory,
  ShowsRecord,
  Sight,
  Version,
  WorkerHistory,
} from "./history.js";

/**
 * The invariants that the checker judges a run by.
 *
 * - `D1` a write with the result `safe` survives every fault that the result covers
 * - `D2` reported counts are possible, and match the result
 * - `C1` of two compare-and-sets that expect the same version, at most one succeeds, with the next revision
 * - `C2` a reader shows only requested writes, and only moves forward while no data is lost
 * - `C3` two seconds after a heal every reader shows the newest entry; a component swaps seldom, and ends on the last
 * - `C4` a write has at most one revision; one that resolved is not lost, one that failed was not made
 * - `C5` a reader keeps its value: it never throws and never falls back; no call loses its connection
 * - `O1` an optimistic transaction sees all that succeeded before it began, two seconds after a failover at the latest, and a
 *   counter is the sum of what succeeded
 * - `U1` every promise settles by its deadline and 100 ms
 * - `U2` a durable write is made once, and not at all if it failed
 * - `U3` work goes on within a second after an outage, and after a failover as soon as there is a new master
 * - `U4` nothing is left: no rejection unhandled, nothing printed, no process that does not end, no key that stays
 * - `U5` every error is typed
 */
export type Invariant = (typeof invariants)[number];
export const invariants = ["D1", "D2", "C1", "C2", "C3", "C4", "C5", "O1", "U1", "U2", "U3", "U4", "U5"] as const;

type Judge = AnyJudge<Invariant>;

const newestMs = 2_000 * patience;

/** Checks a run against the invariants. The checks use the promises of core, not its implementation. */
export const verdictOn = (run: RunHistory): Verdict<Invariant> =>
  judged(invariants, (judge) => {
    for (const worker of run.workers) {
      checkWorker(worker, judge);
      checkReads(worker, judge);
    }
    checkDurable(run, judge);
    checkCounters(run, judge);
    const writes = writesOf(run);
    checkExpected(run, writes, judge);
    checkRevisions(run, writes, judge);
    checkSights(run, writes, judge);
    for (const worker of run.workers) checkReaders(run, worker, judge);
    checkResumption(run, workOf(run), judge);
    for (const heal of run.heals) for (const worker of run.workers) checkNewest(run, worker, heal, judge);
    checkFlaps(run, writes, judge);
    for (const what of run.leftovers) judge("U4", what);
  });

// ── losses of the server ────────────────────────────────────────────────────────────────────────────────────────────

const overlap = (one: Span, other: Span): boolean =>
  one.from - clockErrorMs <= other.to && other.from <= one.to + clockErrorMs;

const isInterrupted = (loss: DataLoss, written: Span): boolean =>
  loss.what === "all" ? written.from - clockErrorMs <= loss.to : overlap(loss, written);

/** Whether a write in a span may have been lost by `by`. */
const mayBeLost = ({ losses }: RunHistory, written: Span, by = Infinity): boolean =>
  losses.some((loss) => loss.from - clockErrorMs <= by && isInterrupted(loss, written));

// ── durable writes ──────────────────────────────────────────────────────────────────────────────────────────────────

const spanOf = ({ startedAt, settledAt }: { readonly startedAt: number; readonly settledAt: number }): Span => ({
  from: startedAt,
  to: settledAt,
});

/** Whether the result does not cover a loss of this kind. */
const isExcused = (run: RunHistory, call: DurableCall, loss: DataLoss): boolean => {
  const span = spanOf(call);
  if (!isInterrupted(loss, span)) return false;
  switch (loss.what) {
    case "all":
    case "newest":
      return true;
    case "unsynced":
      // A write that was sent under one fsync policy may have been judged under another.
      return call.wanted.fsync === "none" || run.policyChanges.some((at) => overlap(span, { from: at, to: at }));
    case "unreplicated":
      return (call.replicas ?? 0) < run.replicas;
  }
};

const checkDurable = (run: RunHistory, judge: Judge): void => {
  for (const worker of run.workers)
    for (const call of callsOf(worker)) {
      if (call.what !== "durable") continue;
      const { id, name, outcome, answer, wanted } = call;
      const count = run.effects.get(id) ?? 0;
      judge("U2", count > 1 && `${name}: ${id} was written ${String(count)} times`);
      if (outcome === "failed")
        judge("U2", count > 0 && `${name}: ${id} was reported as failed (${call.code ?? ""}), and is there`);
      if (outcome !== "ok") continue;
      checkCounts(run, call, judge);
      // On a server that loses nothing, `short` promises as much as `safe`.
      const isPromised = answer === "safe" || (run.losesNothing && answer === "short");
      if (!isPromised || run.losses.some((loss) => isExcused(run, call, loss))) continue;
      const asked = `${String(wanted.replicas)} replicas, fsync ${wanted.fsync}`;
      judge(
        "D1",
        count === 0 && `${name}: ${id} was answered ${answer} at ${call.settledAt.toFixed(0)} (${asked}), and is lost`,
      );
    }
};

const checkCounts = (run: RunHistory, call: DurableCall, judge: Judge): void => {
  const { id, name, answer, wanted, replicas = 0, fsync = { local: false, replicas: 0 } } = call;
  const finding = `${name}: ${id} was answered ${answer ?? "nothing"}`;
  judge("D2", replicas > run.replicas && `${finding} with ${String(replicas)} replicas of ${String(run.replicas)}`);
  judge("D2", fsync.replicas > replicas && `${finding} with more disks of replicas than replicas`);
  judge("D2", fsync.local && !run.hasFile && `${finding} with a disk that the server does not use`);
  const isReached = replicas >= wanted.replicas && (wanted.fsync === "none" || fsync.local);
  judge(
    "D2",
    answer === "safe" && !isReached && `${finding}, with ${String(replicas)} of ${String(wanted.replicas)} replicas`,
  );
  judge("D2", answer === "short" && isReached && `${finding}, but nothing was missing`);
};

// ── optimistic transactions ─────────────────────────────────────────────────────────────────────────────────────────

const countersIn = (run: RunHistory): (CounterCall & { readonly id: string })[] =>
  run.workers.flatMap(({ id, records }) =>
    records.flatMap((record) =>
      record.kind === "call" && (record.what === "add" || record.what === "see") ? [{ ...record, id }] : [],
    ),
  );

const checkCounters = (run: RunHistory, judge: Judge): void => {
  // No transaction sees a write that its server lost.
  if (!run.losesNothing) return;
  const calls = countersIn(run);
  // A killed worker may have added one more than it noted.
  const killed = run.workers.filter(({ killedAt }) => killedAt !== undefined).length;
  for (const [key, total] of run.counters) {
    const own = calls.filter(({ name }) => name === key);
    const adds = own.filter(({ what, outcome }) => what === "add" && outcome === "ok");
    const unknown = own.filter(({ what, outcome }) => what === "add" && outcome === "unknown").length + killed;
    const isSum = adds.length <= total && total <= adds.length + unknown;
    judge(
      "O1",
      !isSum && `${key}: ${String(adds.length)} or ${String(unknown)} more were added, and it is ${String(total)}`,
    );
    const ends = adds.map(({ settledAt }) => settledAt).toSorted((a, b) => a - b);
    let ended = 0;
    for (const { id, saw, startedAt } of own.toSorted((a, b) => a.startedAt - b.startedAt)) {
      while ((ends[ended] ?? Infinity) + clockErrorMs < startedAt) ended++;
      // A link that stayed with a former master may take two seconds to follow.
      const mayFollow = run.heals.some(
        ({ at, dueMs }) => dueMs !== undefined && at <= startedAt && startedAt <= at + newestMs,
      );
      const isOld = saw !== undefined && saw < ended && !mayFollow;
      judge(
        "O1",
        isOld && `${key}: ${id} saw ${String(saw)} after ${String(ended)} were added, at ${startedAt.toFixed(0)}`,
      );
    }
  }
};

// ── entries ─────────────────────────────────────────────────────────────────────────────────────────────────────────

/** One write, with all its attempts. */
interface Write {
  readonly op: string;
  readonly name: string;
  readonly isSet: boolean;
  readonly calls: ConfigCall[];
}

const writesOf = (run: RunHistory): ReadonlyMap<string, Write> => {
  const writes = new Map<string, Write>();
  for (const worker of run.workers)
    for (const call of callsOf(worker)) {
      if (call.what !== "set" && call.what !== "rollback") continue;
      const { op = "", name, what } = call;
      const write = writes.get(op) ?? { op, name, isSet: what === "set", calls: [] };
      writes.set(op, write);
      write.calls.push(call);
    }
  return writes;
};

const okOf = ({ calls }: Write): (ConfigCall & { readonly version: Version })[] =>
  calls.filter((call): call is ConfigCall & { readonly version: Version } => call.version !== undefined);

/** The span in which a write was made, if it was. */
const lifeOf = ({ calls }: Write): Span => ({
  from: Math.min(...calls.map(({ startedAt }) => startedAt)),
  to: Math.max(...calls.map(({ settledAt }) => settledAt)),
});

const textOf = ({ epoch, revision, at }: Version): string => `${epoch}:${String(revision)}:${at.toFixed(3)}`;

const isOneLost = (run: RunHistory, one: Write, other: Write): boolean =>
  mayBeLost(run, lifeOf(one), lifeOf(other).to) || mayBeLost(run, lifeOf(other), lifeOf(one).to);

const checkExpected = (run: RunHistory, writes: ReadonlyMap<string, Write>, judge: Judge): void => {
  const winners = new Map<string, Write>();
  for (const write of writes.values()) {
    const [first] = okOf(write);
    if (!first || first.expected === undefined) continue;
    const { expected, version } = first;
    const place = `${write.name}@${expected ? textOf(expected) : "none"}`;
    const winner = winners.get(place) ?? write;
    winners.set(place, winner);
    const isSecond = winner !== write && !isOneLost(run, winner, write);
    judge("C1", isSecond && `${place}: both ${winner.op} and ${write.op} were written where one was expected`);
    const isNext = expected
      ? version.epoch === expected.epoch && version.revision === expected.revision + 1
      : version.revision === 1;
    judge("C1", !isNext && `${place}: ${write.op} became ${textOf(version)}`);
  }
};

/** All values of entries that any reader, call or lab read, with their instants. */
const sightsOf = (run: RunHistory): (Sight & { readonly name: string; readonly seenAt: number })[] => [
  ...run.workers.flatMap(({ records }) =>
    records.flatMap((record) => {
      if (record.kind === "shows" && record.version)
        return [{ name: record.name, id: record.id, version: record.version, seenAt: record.at }];
      if (record.kind !== "call" || record.what !== "history") return [];
      return (record.seen ?? []).map((sight) => ({ ...sight, name: record.name, seenAt: record.settledAt }));
    }),
  ),
  ...run.entries.flatMap(({ name, kept }) => kept.map((sight) => ({ ...sight, name, seenAt: Infinity }))),
];

const checkRevisions = (run: RunHistory, writes: ReadonlyMap<string, Write>, judge: Judge): void => {
  const owners = new Map<string, Write>();
  const newest = new Map(run.entries.map(({ name, version }) => [name, version]));
  for (const write of writes.values())
    for (const { version, startedAt, settledAt } of okOf(write)) {
      const place = `${write.name} ${version.epoch}:${String(version.revision)}`;
      const owner = owners.get(place) ?? write;
      owners.set(place, owner);
      const isShared = owner !== write && !isOneLost(run, owner, write);
      judge("C4", isShared && `${place}: both ${owner.op} and ${write.op} have this revision`);
      if (mayBeLost(run, { from: startedAt, to: settledAt })) continue;
      const last = newest.get(write.name);
      const isLost = last === undefined || last.epoch !== version.epoch || last.revision < version.revision;
      judge("C4", isLost && `${place}: ${write.op} was written, and the last is ${last ? textOf(last) : "none"}`);
    }
};

/** The entry of each requested write, by operation. */
const askedOf = (run: RunHistory): ReadonlyMap<string, string> =>
  new Map(
    run.workers.flatMap(({ records }) =>
      records.flatMap((record) => (record.kind === "asks" ? [[record.op, record.name] as const] : [])),
    ),
  );

const checkSights = (run: RunHistory, writes: ReadonlyMap<string, Write>, judge: Judge): void => {
  const versions = new Map<string, Map<string, number>>();
  const add = (op: string, version: Version, at: number): void => {
    const found = versions.get(op) ?? new Map<string, number>();
    versions.set(op, found.set(textOf(version), at));
  };
  const owners = new Map<string, string>();
  for (const write of writes.values())
    for (const { version, settledAt } of okOf(write)) {
      add(write.op, version, settledAt);
      if (write.isSet) owners.set(`${write.name} ${textOf(version)}`, write.op);
    }
  const asked = askedOf(run);
  for (const { name, id, version, seenAt } of sightsOf(run)) {
    const write = writes.get(id);
    judge("C2", asked.get(id) !== name && `${name}: ${id} was shown and never requested`);
    const owner = owners.get(`${name} ${textOf(version)}`) ?? id;
    judge("C2", owner !== id && `${name}: ${textOf(version)} was written as ${owner} and seen as ${id}`);
    if (!write) continue;
    const isDenied = write.calls.every(({ outcome }) => outcome === "failed");
    judge("C4", isDenied && `${name}: ${id} was reported as failed (${write.calls[0]?.code ?? ""}), and was seen`);
    if (name !== run.rolledName) add(id, version, seenAt);
  }
  for (const call of run.workers.flatMap(callsOf))
    if (call.what === "get" && call.id !== undefined && call.id !== "default")
      judge(
        "C2",
        asked.get(call.id) !== call.name && `${call.name}: get returned ${call.id}, which was never requested`,
      );
  for (const [op, found] of versions) {
    const write = writes.get(op);
    const by = Math.max(...found.values());
    const isTwice = found.size > 1 && write !== undefined && !mayBeLost(run, lifeOf(write), by);
    judge("C4", isTwice && `${write.name}: ${op} was written as ${[...found.keys()].join(" and ")}`);
  }
};

// ── readers ─────────────────────────────────────────────────────────────────────────────────────────────────────────

const follows = (next: Version, known: Version): boolean =>
  next.epoch === known.epoch && next.revision > known.revision && next.at >= known.at;

const checkReaders = (run: RunHistory, { id, records }: WorkerHistory, judge: Judge): void => {
  const known = new Map<string, Version>();
  for (const record of records) {
    if (record.kind !== "shows" || !record.version) continue;
    const { name, version, at } = record;
    const before = known.get(name);
    known.set(name, version);
    if (!before || textOf(before) === textOf(version)) continue;
    const isForwards = follows(version, before) || mayBeLost(run, { from: before.at, to: before.at }, at);
    judge("C2", !isForwards && `${name}: ${id} showed ${textOf(version)} after ${textOf(before)}`);
  }
};

const checkReads = ({ id, records }: WorkerHistory, judge: Judge): void => {
  for (const record of records) {
    if (record.kind === "odd") judge("C5", `${record.name} of ${id}: ${record.what}`);
    if (record.kind === "reads") judge("C5");
  }
};

/** How much of the time in which a worker had to show the newest entry it or the machine stalled. */
const heldUp = ({ slow }: RunHistory, worker: WorkerHistory, from: number): number =>
  Math.max(stalledIn(worker, from, from + newestMs), shared(slow, from, from + newestMs));

/** The last instant at which a worker was certainly at work. */
const lastCallAt = (worker: WorkerHistory): number =>
  callsOf(worker).reduce((last, { settledAt }) => Math.max(last, settledAt), -Infinity);

const checkNewest = (run: RunHistory, worker: WorkerHistory, heal: RunHistory["heals"][number], judge: Judge): void => {
  const { id, records } = worker;
  const [began] = callsOf(worker);
  if (!began || began.startedAt > heal.at) return;
  for (const { name, version } of heal.entries) {
    const from = Math.max(heal.at, version.at);
    const dueAt = from + newestMs + heldUp(run, worker, from);
    if (lastCallAt(worker) < dueAt && !hasShown(records, name, version, dueAt)) continue;
    const late = `${name} of ${id} was old ${String(newestMs)} ms after ${heal.kind}, at ${dueAt.toFixed(0)}`;
    judge("C3", !hasShown(records, name, version, dueAt) && late);
    const isFresh = stateIn(records, name, heal.at, dueAt);
    if (isFresh || lastCallAt(worker) >= dueAt)
      judge(
        "C3",
        !isFresh && `${name} of ${id} was not fresh ${String(newestMs)} ms after ${heal.kind}, at ${dueAt.toFixed(0)}`,
      );
  }
};

const hasShown = (records: readonly LogRecord[], name: string, version: Version, by: number): boolean =>
  records.some(
    (record): record is ShowsRecord =>
      record.kind === "shows" && record.name === name && record.at <= by && (record.version?.at ?? 0) >= version.at,
  );

/** Whether a reader was fresh at any time in a span. */
const stateIn = (records: readonly LogRecord[], name: string, from: number, to: number): boolean => {
  let isFresh = false;
  for (const record of records) {
    if (record.kind !== "state" || record.name !== name) continue;
    if (record.at > to) break;
    // The state at the beginning of the span is that of the record before it.
    if (record.at > from && isFresh) return true;
    isFresh = record.state === "fresh";
  }
  return isFresh;
};

// ── flapping ────────────────────────────────────────────────────────────────────────────────────────────────────────

/** A component debounces for at most a second, so it swaps about once a second, and once more after the last write. */
const mostSwaps = ({ from, to }: Span): number => 2 * Math.ceil((to - from) / 1_000) + 2;

const checkFlaps = (run: RunHistory, writes: ReadonlyMap<string, Write>, judge: Judge): void => {
  const flaps = run.workers.flatMap(({ records }) => records.filter((record) => record.kind === "flapped"));
  for (const flap of flaps) for (const worker of run.workers) checkSwaps(run, worker, flap, writes, judge);
};

const checkSwaps = (
  run: RunHistory,
  worker: WorkerHistory,
  flap: FlapRecord,
  writes: ReadonlyMap<string, Write>,
  judge: Judge,
): void => {
  const { name, from, to, last } = flap;
  const { id, records } = worker;
  const swaps = records.filter((record) => record.kind === "swap");
  const during = swaps.filter(({ at }) => from <= at && at <= to).length;
  const most = mostSwaps(flap);
  judge("C3", during > most && `${name} of ${id} swapped ${String(during)} times in ${String(flap.writes)} writes`);
  const dueAt = to + newestMs + heldUp(run, worker, to);
  if (last === undefined || lastCallAt(worker) < dueAt || (swaps[0]?.at ?? Infinity) > from) return;
  const isLast = swaps.some((swap) => swap.at <= dueAt && (swap.id === last || lifeStart(writes, swap.id) > to));
  judge("C3", !isLast && `${name} of ${id} did not end on ${last}, the last of ${String(flap.writes)} writes`);
};

const lifeStart = (writes: ReadonlyMap<string, Write>, op: string): number => {
  const write = writes.get(op);
  return write ? lifeOf(write).from : -Infinity;
};

// ── resumption ──────────────────────────────────────────────────────────────────────────────────────────────────────

const otherCalls: readonly string[] = ["component", "close", "add", "see"];

/** Configuration and durable writes. */
export const progressIn = (record: LogRecord): readonly Progress[] => {
  if (record.kind !== "call" || record.outcome !== "ok" || otherCalls.includes(record.what)) return [];
  const { what, name, startedAt: from, settledAt: at } = record;
  if (what !== "durable") return [{ what: `config ${name}`, from, at }];
  return record.answer === "unknown" ? [] : [{ what: `durable ${name}`, from, at }];
};

/** After a failover work on each key has to go on, since slots fail alone; else any of it. */
export const workOf = (run: RunHistory): Work => {
  const named = (what: string): readonly string[] => [
    ...new Set(
      run.workers.flatMap((worker) => callsOf(worker).flatMap((call) => (call.what === what ? [call.name] : []))),
    ),
  ];
  // Only entries that workers use all the time.
  const each = [...named("get").map((name) => `config ${name}`), ...named("durable").map((name) => `durable ${name}`)];
  return {
    done: workIn(run, progressIn),
    dueAfter: ({ dueMs }) => (dueMs === undefined ? ["config", "durable"] : each),
    slow: run.slow,
  };
};
