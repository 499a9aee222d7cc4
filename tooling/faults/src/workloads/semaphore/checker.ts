import {
  checkWorker,
  judged,
  type Judge as AnyJudge,
  lateMs,
  resumeMs,
  stalledByAll,
  stallsOf,
  type Verdict as AnyVerdict,
  type Violation as AnyViolation,
} from "../../common-invariants.js";
import { checkHold, checkStaleCall, lostDataBetween } from "../../lease-invariants.js";
import { type Call, clockErrorMs, type Span } from "../../records.js";
import type {
  AccessRecord,
  CallRecord,
  PermitRecord,
  Death,
  Echoed,
  HoldRecord,
  LogRecord,
  PermitStep,
  RunHistory,
  Spec,
  Step,
  WorkerHistory,
} from "./history.js";
import { checkResumption, type Progress, type Work, workIn } from "../../work.js";
import { Replay } from "./replay.js";

/**
 * The invariants that the checker judges a run by.
 *
 * - `S1` at every instant of the server the held weights are within the limits; lowering a limit revokes nothing
 * - `S2` the permits of a killed holder are granted to waiters within its lease plus 10 % and 100 ms
 * - `S3` after all workers have left, nothing is in use, every permit can be acquired, and no key stays
 * - `S4` free permits are granted within 10 % of a lease and 100 ms, unless a fault was active then or in the second
 *   before
 * - `order` a grant goes to the longest waiter of the highest priority; tenants at their limit are skipped
 * - `held` permits that callers certainly hold are within the limits, and recorded on the server
 * - `L3` a signal aborts before its permit ends, on its holder's own monotonic clock
 * - `L5` only its owner ends a permit, and none is renewed after its end
 * - `U1` every promise settles by its deadline and 100 ms
 * - `U2` a repeated request has one effect and one answer
 * - `U3` work goes on within a second after an outage, and after a failover as soon as there is a new master
 * - `U4` nothing is left: no rejection unhandled, nothing printed, no process that does not end
 * - `U5` every error is typed
 */
export type Invariant = (typeof invariants)[number];
export const invariants = ["S1", "S2", "S3", "S4", "order", "held", "L3", "L5", "U1", "U2", "U3", "U4", "U5"] as const;

export type Violation = AnyViolation<Invariant>;
type Judge = AnyJudge<Invariant>;

/** Checks a run against the invariants. */
export const verdictOn = (run: RunHistory): AnyVerdict<Invariant> =>
  judged(invariants, (judge) => {
    for (const [name, steps] of run.steps) checkSteps(run, name, steps, judge);
    for (const spec of run.specs) checkHeld(run, spec, judge);
    checkResumption(run, workOf(run), judge);
    for (let name = 0; name < run.lookedAt; name++) judge("S3");
    for (const what of run.leftovers) judge("S3", what);
    for (const worker of run.workers) {
      checkWorker(worker, judge);
      const stalls = stallsOf(worker);
      for (const record of worker.records) checkRecord(run, worker, stalls, record, judge);
    }
  });

const checkRecord = (
  run: RunHistory,
  { id }: WorkerHistory,
  stalls: readonly Span[],
  record: LogRecord,
  judge: Judge,
): void => {
  switch (record.kind) {
    case "call":
      return checkStaleCall(run, id, record, judge, returnsOf(run, record));
    case "hold":
      return checkHold(run, stalls, record, `${id} with ${record.token}`, judge);
    case "access":
      return checkAccess(run, id, record, judge);
  }
};

// ── steps of the server ─────────────────────────────────────────────────────────────────────────────────────────────

const checkSteps = (run: RunHistory, name: string, steps: readonly Step[], judge: Judge): void => {
  const replay = new Replay();
  const idleness = new Idleness(run, replay, name);
  const handOver = new HandOver(run, replay, name, judge);
  for (const step of steps) {
    idleness.until(step.at);
    handOver.before(step);
    checkOwnership(name, replay, step, judge);
    if (step.what === "add") checkGrant(name, replay, step, judge);
    replay.apply(step);
    if (step.what === "add") checkLimits(name, replay, step, judge);
    idleness.after(step);
  }
  idleness.end(endOf(run));
  handOver.end(endOf(run));
  for (const { permitRecord, fate } of lateCopies(run, steps))
    judge("U2", fate === "kept" && `${name}: ${permitRecord.text} was granted again after its release, and kept`);
  checkEchoes(run, name, steps, judge);
  for (const death of run.deaths) if (death.name === name) checkRecovery(run, death, idleness.spans, judge);
};

/** Called after each grant, since only a grant raises the sum. */
const checkLimits = (name: string, replay: Replay, { at, permitRecord }: PermitStep, judge: Judge): void => {
  const { limit = Infinity, perTenant = Infinity } = replay;
  const used = replay.usedAt(at);
  judge("S1", used > limit && `${name}: with ${permitRecord.text} ${String(used)} are in use, of ${String(limit)}`);
  if (perTenant === Infinity) return;
  const usedByTenant = replay.usedAt(at, permitRecord.tenant);
  const isOver = usedByTenant > perTenant;
  judge(
    "S1",
    isOver && `${name}: with ${permitRecord.text} its tenant has ${String(usedByTenant)} of ${String(perTenant)}`,
  );
};

const checkGrant = (name: string, replay: Replay, { at, permitRecord, script }: PermitStep, judge: Judge): void => {
  const overtaken = replay.before(permitRecord, at);
  const skipped = overtaken.map(({ text }) => text).join();
  judge("order", overtaken.length > 0 && `${name}: ${script} granted ${permitRecord.text} before ${skipped}`);
};

const checkOwnership = (name: string, replay: Replay, step: Step, judge: Judge): void => {
  const { script, what, at } = step;
  if (script === "renew" && (what === "add" || what === "set"))
    judge(
      "L5",
      !replay.isLive(step.permitRecord, at) && `${name}: ${step.permitRecord.text} was renewed after its end`,
    );
  if (what !== "rem" || !replay.isLive(step.permitRecord, at)) return;
  const isOwn = script === "release" && step.isOwn;
  judge("L5", !isOwn && `${name}: ${script} removed ${step.permitRecord.text}, which its owner had not released`);
};

// ── copies ──────────────────────────────────────────────────────────────────────────────────────────────────────────

/** The fate of a grant to a permit record that had been released. */
type Fate = "released again" | "kept, of an acquire without a deadline" | "kept, worker out of reach" | "kept";

/**
 * Grants to permit records that had been released, because the network delivered a copy of their acquire late. The
 * worker has to release each of them again before it expires. A grant may stay if its request had no deadline, as the
 * first acquire of a connection has none.
 */
const lateCopies = (
  run: RunHistory,
  steps: readonly Step[],
): (Span & { readonly permitRecord: PermitRecord; readonly fate: Fate })[] => {
  const released = new Set<string>();
  const ends = new Map<string, number>();
  const open = new Map<string, PermitStep>();
  const found: (Span & { permitRecord: PermitRecord; fate: Fate })[] = [];
  const fateOf = (grant: PermitStep, end: Step): Fate => {
    if (end.script === "release") return "released again";
    if (ends.get(grant.permitRecord.text) === 0) return "kept, of an acquire without a deadline";
    return wasOut(run, grant) ? "kept, worker out of reach" : "kept";
  };
  for (const step of steps) {
    if (!("permitRecord" in step)) continue;
    const { what, permitRecord } = step;
    const { text } = permitRecord;
    if (step.notAfter !== undefined) ends.set(text, step.notAfter);
    if (what === "add" && released.has(text)) open.set(text, step);
    if (what !== "rem") continue;
    const grant = open.get(text);
    open.delete(text);
    if (grant) found.push({ permitRecord, fate: fateOf(grant, step), from: grant.at, to: step.at });
    if (step.script === "release" && step.isOwn) released.add(text);
  }
  return found;
};

/** When the server had a released permit again. A stale call within such a span finds it; `U2` judges how the span ends. */
const returnsOf = (run: RunHistory, { what, name, outcome, lease }: CallRecord): Span[] => {
  const steps = what.startsWith("stale ") && outcome === "ok" ? run.steps.get(name) : undefined;
  return lateCopies(run, steps ?? []).filter(({ permitRecord }) => permitRecord.token === lease);
};

/** Counts of remarkable events that break no invariant. */
export const remarksOn = (run: RunHistory): Record<string, number> => {
  const remarks: Record<string, number> = {};
  for (const steps of run.steps.values())
    for (const { fate } of lateCopies(run, steps)) {
      const remark = `late copies, ${fate}`;
      remarks[remark] = (remarks[remark] ?? 0) + 1;
    }
  return remarks;
};

/** A copy of an acquire finds its own permit. It is never refused because of that permit. */
const checkEchoes = (run: RunHistory, name: string, steps: readonly Step[], judge: Judge): void => {
  const echoes = new Map<string, Echoed[]>();
  for (const echo of run.copiedAcquires)
    if (echo.name === name) echoes.set(echo.token, [...(echoes.get(echo.token) ?? []), echo]);
  const since = new Map<string, PermitStep>();
  for (const step of steps) {
    if (step.what === "add") since.set(step.permitRecord.token, step);
    if (step.what !== "rem") continue;
    const { token } = step.permitRecord;
    const grant = since.get(token);
    if (!grant) continue;
    for (const { at, isDenied } of echoes.get(token) ?? []) {
      // A copy may run before its original. Within one millisecond their order is unknown.
      const isWithin = grant.at < at && at < Math.min(Math.floor(step.at), grant.endsAt);
      if (isWithin)
        judge("U2", isDenied && `${name}: the copy of an acquire was refused because of its own permit (${token})`);
    }
  }
};

/** Whether, during the life of a permit, its worker could not reach the server or had ended. */
const wasOut = ({ workers }: RunHistory, { permitRecord: { worker }, at, endsAt }: PermitStep): boolean => {
  const { killedAt = Infinity, records = [] } = workers.find(({ id }) => id === worker) ?? {};
  const isFailure = (record: LogRecord): boolean =>
    record.kind === "call" &&
    record.settledAt > at &&
    record.startedAt < endsAt &&
    (record.what === "close" || record.code === "KIT_UNAVAILABLE" || record.outcome === "unknown");
  return killedAt < endsAt || records.some(isFailure);
};

// ── dead holders ────────────────────────────────────────────────────────────────────────────────────────────────────

/** When the last call settled. */
const endOf = ({ workers }: RunHistory): number =>
  workers.reduce(
    (end, { records }) =>
      records.reduce((last, record) => (record.kind === "call" ? Math.max(last, record.settledAt) : last), end),
    0,
  );

const dueAfter = ({ leaseMs }: RunHistory): number => 0.1 * leaseMs + lateMs;

/** The spans in which a waiter waited for a free permit, near the ends of killed holders' permits. */
class Idleness {
  readonly spans: Span[] = [];
  readonly #replay: Replay;
  readonly #windows: readonly Span[];
  readonly #killedAt: ReadonlyMap<string, number>;
  #since: number | undefined;
  #at = -Infinity;

  constructor(run: RunHistory, replay: Replay, name: string) {
    this.#replay = replay;
    this.#windows = run.deaths
      .filter((death) => death.name === name)
      .map(({ endsAt }) => ({ from: endsAt - 1, to: endsAt + dueAfter(run) }));
    this.#killedAt = new Map(run.workers.map(({ id, killedAt = Infinity }) => [id, killedAt]));
  }

  /** Called before each step. Between two steps only the ends of permits change the state. */
  until(at: number): void {
    // A heartbeat leaves and joins the queue within one step of the server, so only the last state of an instant counts.
    if (at > this.#at && this.#since !== undefined && !this.#isWaitedFor(this.#at)) this.#close(this.#at);
    const isNear = this.#windows.some(({ from, to }) => this.#at <= to && from <= at);
    if (isNear && this.#since === undefined) {
      const ends = this.#replay.endings().filter((end) => end > this.#at && end <= at);
      this.#since = [this.#at, ...ends].find((instant) => this.#isWaitedFor(instant));
    }
    this.#at = at;
  }

  after({ what, at }: Step): void {
    if (what === "add" && this.#since !== undefined) this.#close(at);
  }

  /** Closes the open span at the end of the run. */
  end(at: number): void {
    this.until(at);
    if (this.#since !== undefined) this.#close(at);
  }

  #close(to: number): void {
    if (this.#since !== undefined) this.spans.push({ from: this.#since, to });
    this.#since = undefined;
  }

  #isWaitedFor(at: number): boolean {
    if (at === -Infinity || !this.#replay.next(at)) return false;
    for (const { worker } of this.#replay.waiting) if ((this.#killedAt.get(worker) ?? Infinity) > at) return true;
    return false;
  }
}

// ── from free to granted ────────────────────────────────────────────────────────────────────────────────────────────

/** The instant until which each worker could be granted a permit: its kill, or its call of `close`. */
const thereUntil = ({ workers }: RunHistory): ReadonlyMap<string, number> =>
  new Map(
    workers.map(({ id, killedAt = Infinity, records }) => {
      const leaving = records.find((record) => record.kind === "call" && record.what === "close") as Call | undefined;
      return [id, Math.min(killedAt, leaving?.startedAt ?? Infinity)];
    }),
  );

/** The longest part of a span in which no fault was active, nor in the second before. */
const calmIn = ({ outages }: RunHistory, { from, to }: Span): Span => {
  let calm: Span = { from, to: from };
  let at = from;
  for (const outage of [...outages.toSorted((a, b) => a.from - b.from), { from: to, to }]) {
    if (outage.to + resumeMs < from) continue;
    const end = Math.min(outage.from, to);
    if (end - at > calm.to - calm.from) calm = { from: at, to: end };
    at = Math.max(at, outage.to + resumeMs);
  }
  return calm;
};

/**
 * Judges whether free permits are granted. A script grants at once to waiters in the queue. A suspended waiter was out of
 * reach, and is granted as soon as a script can reach it.
 */
class HandOver {
  readonly #run: RunHistory;
  readonly #replay: Replay;
  readonly #name: string;
  readonly #judge: Judge;
  readonly #until: ReadonlyMap<string, number>;
  /** The instant since which a waiter could have been granted a permit. */
  #since: number | undefined;
  #at = -Infinity;

  constructor(run: RunHistory, replay: Replay, name: string, judge: Judge) {
    this.#run = run;
    this.#replay = replay;
    this.#name = name;
    this.#judge = judge;
    this.#until = thereUntil(run);
  }

  before({ at, what }: Step): void {
    if (what === "leave") this.#judge("S4");
    // All steps of a script share one instant. The state is judged after the last of them.
    if (at === this.#at) return;
    this.#look(at);
    this.#at = at;
  }

  end(at: number): void {
    this.#look(at);
    this.#close(at);
  }

  /** Judges the state from the last instant until this one. */
  #look(to: number): void {
    if (this.#at === -Infinity || !this.#replay.nextOfAll(this.#at, this.#isOwed)) this.#close(this.#at);
    // A worker that leaves in between is owed nothing.
    else if ([...this.#until.values()].some((until) => until > this.#at && until <= to)) this.#close(this.#at);
    else this.#since ??= this.#at;
  }

  /**
   * Whether a waiter must be served. After a loss of data the queue may hold waiters that were served or have left, so
   * only waiters with a heartbeat since then count.
   */
  readonly #isOwed = ({ worker }: PermitRecord, joinedAt: number): boolean =>
    (this.#until.get(worker) ?? 0) > this.#at &&
    !this.#run.losses.some((loss) => loss.from <= this.#at && joinedAt <= loss.to + clockErrorMs);

  #close(to: number): void {
    if (this.#since === undefined) return;
    const calm = calmIn(this.#run, { from: this.#since, to });
    this.#since = undefined;
    const lateBy = calm.to - calm.from - dueAfter(this.#run) - stalledByAll(this.#run.workers, calm.from, calm.to);
    const free = `${this.#name}: permits that were free at ${calm.from.toFixed(0)}, with waiters, were granted`;
    if (lateBy > 0) this.#judge("S4", `${free} ${lateBy.toFixed(0)} ms too late`);
  }
}

const checkRecovery = (
  run: RunHistory,
  { name, worker, endsAt }: Death,
  spans: readonly Span[],
  judge: Judge,
): void => {
  const dueAt = endsAt + dueAfter(run);
  for (const { from, to } of spans) {
    if (to < endsAt || from > dueAt) continue;
    const since = Math.max(from, endsAt);
    const lateBy = to - since - dueAfter(run) - stalledByAll(run.workers, since, to);
    const late = `${name}: after the death of ${worker} its permits were granted ${lateBy.toFixed(0)} ms too late`;
    judge("S2", lateBy > 0 && late);
  }
};

// ── permits that callers hold ───────────────────────────────────────────────────────────────────────────────────────

type CertainSpan = Span & Pick<PermitRecord, "weight" | "tenant">;

const holdsOf = ({ records }: WorkerHistory, name: string): HoldRecord[] =>
  records.filter((record) => record.kind === "hold" && record.name === name) as HoldRecord[];

/**
 * The spans in which each caller certainly held permits. A span begins with the reply; it ends with a release, a reported
 * loss or the earliest possible end.
 */
const certainlyHeld = (run: RunHistory, name: string): CertainSpan[] =>
  run.workers.flatMap((worker) => {
    const { records, killedAt } = worker;
    const holds = holdsOf(worker, name);
    const tokens = new Set(holds.map(({ token }) => token));
    // A killed worker wrote no record of the permits that it held.
    const cutOff = records.flatMap((record): CertainSpan[] => {
      if (killedAt === undefined || record.kind !== "call" || record.token === undefined) return [];
      if (record.name !== name || tokens.has(record.token)) return [];
      const { startedAt, settledAt, weight = 0, tenant = "" } = record;
      return [{ from: settledAt, to: Math.min(killedAt, startedAt + 0.98 * run.leaseMs), weight, tenant }];
    });
    const whole = holds.map(
      ({ grantedAt, endsAt = grantedAt, abortedAt = Infinity, endedAt, weight, tenant = "" }) => ({
        from: grantedAt,
        to: Math.min(endsAt, abortedAt, endedAt),
        weight,
        tenant,
      }),
    );
    return [...whole, ...cutOff];
  });

const checkHeld = (run: RunHistory, spec: Spec, judge: Judge): void => {
  const { name, permits, permitsPerTenant = Infinity, resizedTo = 0 } = spec;
  // A lowered limit revokes nothing, so permits granted under the highest limit may still be held.
  const most = Math.max(permits, resizedTo);
  const spans = certainlyHeld(run, name);
  const events = spans
    .filter(({ from, to }) => to - clockErrorMs > from + clockErrorMs)
    .flatMap((span) => [
      { at: span.from + clockErrorMs, sign: 1, span },
      { at: span.to - clockErrorMs, sign: -1, span },
    ])
    .toSorted((a, b) => a.at - b.at || a.sign - b.sign);
  const used = new Map<string, number>();
  let sum = 0;
  for (const { at, sign, span } of events) {
    const { weight, tenant } = span;
    const ofTenant = (used.get(tenant) ?? 0) + sign * weight;
    used.set(tenant, ofTenant);
    sum += sign * weight;
    // When the server loses data, a holder may keep its permit for up to a lease before it learns of the loss.
    if (sign < 0 || lostDataBetween(run, at - run.leaseMs, at)) continue;
    judge(
      "held",
      sum > most && `${name}: callers certainly held ${String(sum)} of ${String(most)} at ${at.toFixed(1)}`,
    );
    if (permitsPerTenant === Infinity) continue;
    const isOver = ofTenant > permitsPerTenant;
    judge("held", isOver && `${name}: ${tenant} certainly held ${String(ofTenant)} of ${String(permitsPerTenant)}`);
  }
};

const checkAccess = (run: RunHistory, id: string, access: AccessRecord, judge: Judge): void => {
  const { name, token, at, from, isKnown, isHeld } = access;
  if (!isHeld || lostDataBetween(run, from - run.leaseMs, at)) return;
  judge("held", !isKnown && `${name}: ${id} certainly held ${token}, which the server did not have`);
};

// ── resumption ──────────────────────────────────────────────────────────────────────────────────────────────────────

/** The grants that the server's data showed. */
export const progressIn = (record: LogRecord): readonly Progress[] =>
  record.kind === "access" && record.isKnown ? [{ what: record.name, from: record.from, at: record.at }] : [];

/** The semaphores whose limit the workers do not set to 0 for a while. */
export const lastingNames = (specs: readonly Spec[]): readonly string[] =>
  specs.filter(({ resizedTo }) => resizedTo === undefined).map(({ name }) => name);

/** A failover may concern one slot only, so after it each semaphore has to go on. */
export const workOf = (run: RunHistory): Work => ({
  done: workIn(run, progressIn),
  dueAfter: ({ name = "", dueMs }) => (name === "" && dueMs !== undefined ? lastingNames(run.specs) : [name]),
});

export const operationsOf = ({ workers }: RunHistory): number =>
  workers.reduce((sum, { records }) => sum + records.filter(({ kind }) => kind === "access").length, 0);
