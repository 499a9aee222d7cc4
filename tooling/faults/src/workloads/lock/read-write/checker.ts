import { type Judge as AnyJudge, lateMs, resumeMs, stalledByAll } from "../../../common-invariants.js";
import { lostDataBetween } from "../../../lease-invariants.js";
import { clockErrorMs } from "../../../records.js";
import { type Contacts, contactsOf, wasInReach } from "../contacts.js";
import type { RunHistory, ShareRecord } from "../history.js";
import type { Caller, Step } from "./history.js";
import { type Effect, Replay, type Waiter } from "./replay.js";

/** As in the scripts: how long a waiter has to answer, and how long it counts as alive after a heartbeat, in milliseconds. */
const silentMs = 2_000;
const aliveMs = 15_000;

type Judge = AnyJudge<"L1" | "L5" | "L6" | "sharing" | "arrival">;

/** Checks the read/write locks of a run: by the history that their scripts wrote, and by what their callers saw. */
export const checkReadWrite = (run: RunHistory, judge: Judge): void => {
  for (const [name, steps] of run.readWriteSteps) checkSteps(run, name, steps, judge);
  checkShares(run, judge);
};

// ── steps of the server ─────────────────────────────────────────────────────────────────────────────────────────────

const checkSteps = (run: RunHistory, name: string, steps: readonly Step[], judge: Judge): void => {
  const replay = new Replay();
  const contacts = contactsOf(run);
  let before = steps[0]?.at ?? 0;
  for (const step of steps) {
    checkHandOver(run, name, replay, contacts, before, step.at, judge);
    const known = replay.newestToken;
    const effect = replay.apply(step);
    checkTokens(name, step, known, effect, judge);
    checkSharing(name, step, replay, effect, judge);
    const isUndisturbed = isCalm(run, step.at, step.at);
    const silent = silentAmong(replay.waiting(step.at), step.at);
    for (const caller of effect.granted) {
      const passed = passedBy(caller, step, replay, effect).filter(
        (waiter) =>
          !(isDue(waiter, effect) || silent.has(waiter)) || (isUndisturbed && isReachable(waiter, contacts, step.at)),
      );
      const texts = passed.map((waiter) => waiter.caller.text).join();
      judge("arrival", passed.length > 0 && `${name}: ${step.script} granted ${caller.text} before ${texts}`);
    }
    before = step.at;
  }
};

const checkTokens = (name: string, { writes }: Step, known: bigint, effect: Effect, judge: Judge): void => {
  const newWriter = [...effect.granted, ...effect.changed].find(({ isWriter }) => isWriter);
  const stored = writes.find((write) => write.what === "fence");
  const token = stored?.token ?? 0n;
  if (newWriter) judge("L1", token <= known && `${name}: ${newWriter.text} got the token ${String(token)}`);
};

const checkSharing = (name: string, { at, script }: Step, replay: Replay, effect: Effect, judge: Judge): void => {
  const held = replay.held(at).map(({ caller }) => caller);
  for (const caller of [...effect.granted, ...effect.changed]) {
    const others = held.filter((other) => other.text !== caller.text && (caller.isWriter || other.isWriter));
    const texts = others.map(({ text }) => text).join();
    judge("sharing", others.length > 0 && `${name}: ${script} let ${caller.text} in beside ${texts}`);
  }
  for (const { text } of effect.revived) judge("L5", `${name}: ${text} was extended after its end`);
  judge("L5", effect.taken.length > 0 && `${name}: ${script} ended ${effect.taken.map(({ text }) => text).join()}`);
};

/** The living waiters that came before a caller, and wait on after its grant. */
const passedBy = ({ text }: Caller, { at }: Step, replay: Replay, { tickets }: Effect): Waiter[] => {
  const ticket = tickets.get(text) ?? Infinity;
  return replay.waiting(at).filter((waiter) => waiter.caller.text !== text && waiter.ticket < ticket);
};

/** The waiters that were asked for a heartbeat two seconds before, and have sent none; and those that share their inbox. */
const silentAmong = (waiting: readonly Waiter[], at: number): ReadonlySet<Waiter> => {
  const askedBy = new Map(
    waiting.filter(({ asked }) => asked > 0 && asked + silentMs <= at).map(({ inbox, asked }) => [inbox, asked]),
  );
  return new Set(waiting.filter(({ inbox, aliveUntil }) => aliveUntil - aliveMs < (askedBy.get(inbox) ?? 0)));
};

/**
 * Whether the turn of a waiter has come: the leases beside which the step ran permit one of its mode. Then it is passed if it
 * cannot be notified. A waiter whose turn has not come is passed only if it is silent.
 */
const isDue = ({ caller }: Waiter, { beside }: Effect): boolean =>
  beside.length === 0 || (!caller.isWriter && beside.every(({ isWriter }) => !isWriter));

const isReachable = ({ caller, inbox }: Waiter, contacts: Contacts, at: number): boolean =>
  inbox !== "-" && wasInReach(contacts, caller.worker, at, at);

/** Whether no fault was active, nor in the second before. A killed worker keeps no other one from its messages. */
const isCalm = ({ outages }: RunHistory, from: number, to: number): boolean =>
  !outages.some((outage) => outage.kind !== "worker killed" && outage.from <= to && from <= outage.to + resumeMs);

/** Judges whether the first waiter that can be notified is granted once the leases permit it, also when they end by themselves. */
const checkHandOver = (
  run: RunHistory,
  name: string,
  replay: Replay,
  contacts: Contacts,
  from: number,
  to: number,
  judge: Judge,
): void => {
  if (to - from < 0.1 * run.leaseMs + lateMs) return;
  const waiting = replay.waiting(to);
  const head = waiting.findIndex((waiter) => isReachable(waiter, contacts, to));
  const first = waiting[head];
  if (!first) return;
  // A waiter that cannot be notified is passed only when its own turn has come.
  const sharesWithReaders = !first.caller.isWriter && head === 0;
  const inItsWay = replay.held(from).filter(({ caller }) => caller.isWriter || !sharesWithReaders);
  const since = Math.max(from, ...inItsWay.map(({ endsAt }) => endsAt));
  if (!isCalm(run, since, to)) return;
  const lateBy = to - since - 0.1 * run.leaseMs - lateMs - stalledByAll(run.workers, since, to);
  const late = `${name}: ${first.caller.text}, which could have the lock, was granted ${lateBy.toFixed(0)} ms too late`;
  judge("L6", lateBy > 0 && late);
};

// ── leases that callers hold ────────────────────────────────────────────────────────────────────────────────────────

const sharesOf = (run: RunHistory): Map<string, (ShareRecord & { readonly worker: string })[]> => {
  const byName = new Map<string, (ShareRecord & { readonly worker: string })[]>();
  for (const { id, records } of run.workers)
    for (const record of records) {
      if (record.kind !== "share") continue;
      byName.set(record.name, [...(byName.get(record.name) ?? []), { ...record, worker: id }]);
    }
  return byName;
};

const checkShares = (run: RunHistory, judge: Judge): void => {
  for (const [name, shares] of sharesOf(run)) {
    let lastWrite = -Infinity;
    let last = -Infinity;
    for (const { mode, from, to, worker } of shares.toSorted((a, b) => a.from - b.from)) {
      const isWriter = mode === "write";
      const freeAt = isWriter ? last : lastWrite;
      // When the server loses data, a holder may keep its lease for up to a lease's length before it learns of the loss.
      if (!lostDataBetween(run, from - run.leaseMs, to))
        judge(
          "sharing",
          freeAt - clockErrorMs > from && `${name}: at ${from.toFixed(1)} ${worker} could ${mode} beside another`,
        );
      last = Math.max(last, to);
      if (isWriter) lastWrite = Math.max(lastWrite, to);
    }
  }
};
