import {
  checkWorker,
  judged,
  type Judge as AnyJudge,
  resumeMs,
  type Verdict as AnyVerdict,
} from "../../common-invariants.js";
import { checkResumption, type Progress, type Work, workIn } from "../../work.js";
import { type Call, clockErrorMs } from "../../records.js";
import { lostDataBetween } from "../../lease-invariants.js";
import { checkListeners } from "./listeners.js";
import {
  bodyBytes,
  type ChatCall,
  type End,
  type Given,
  type LogRecord,
  type LookRecord,
  type RunHistory,
  type SendCall,
  type SettleCall,
  type Spec,
  type TakeCall,
  type WorkerHistory,
} from "./history.js";

/**
 * The invariants that the checker judges a run by.
 *
 * - `order` all readers of a chat receive the same messages in the same order; every hole is reported as a gap
 * - `kept` a message that was acknowledged to its sender exists, and each reader receives it
 * - `positions` positions move forward only, up to acknowledged messages; the chat and the member's record agree
 * - `unread` counts of unread messages are right: those of others after the position
 * - `retention` no message is dropped that the chat's settings protect
 * - `leases` a message of the mailbox is with one worker at a time, and with none after its acknowledgement
 * - `mailbox` no message of the mailbox is lost, and each repeated delivery has a reason
 * - `U1` every promise settles by its deadline and 100 ms
 * - `U2` a repeated request has one effect and one answer
 * - `U3` work goes on within two seconds after an outage, and after a failover as soon as there is a new master; every
 *   listener hears of it
 * - `U4` nothing is left: no rejection unhandled, nothing printed, no process that does not end
 * - `U5` every error is typed
 */
export type Invariant = (typeof invariants)[number];
export const invariants = [
  "order",
  "kept",
  "positions",
  "unread",
  "retention",
  "leases",
  "mailbox",
  "U1",
  "U2",
  "U3",
  "U4",
  "U5",
] as const;

type Judge = AnyJudge<Invariant>;
type Message = Given["messages"][number];

/** Checks a run against the invariants. */
export const verdictOn = (run: RunHistory): AnyVerdict<Invariant> =>
  judged(invariants, (judge) => {
    for (const worker of run.workers) checkWorker(worker, judge);
    checkResumption(run, workOf(run), judge);
    const sends = callsOf(run, "send");
    for (const [chain, given] of chainsOf(run)) checkChain(run, chain, given, judge);
    checkLeases(run, judge);
    // The other invariants hold only for a server that keeps its data.
    if (!run.losesNothing) return;
    checkListeners(run, judge);
    checkIdentity(run, sends, judge);
    for (const look of looksOf(run)) checkLook(run, look, judge);
    for (const [name, end] of run.ends) checkEnd(run, name, end, judge);
    for (const [name, end] of run.ends) checkKept(name, end, sends, judge);
    checkMailbox(run, sends, judge);
    for (const { name } of run.specs) checkPositions(run, name, sends, judge);
    for (const call of allCalls(run))
      if (call.outcome !== "ok") judge("kept", isGone(call) && `${call.name}: ${call.what} found ${call.code ?? ""}`);
  });

const allCalls = (run: RunHistory): readonly Call[] => {
  let calls = knownCalls.get(run);
  if (!calls) knownCalls.set(run, (calls = run.workers.flatMap(callsBy)));
  return calls;
};

const knownCalls = new WeakMap<RunHistory, readonly Call[]>();

/** The calls of a worker, including those that its kill cut off. They may have taken effect. */
const callsBy = ({ records, killedAt = Infinity }: WorkerHistory): Call[] => {
  const calls = records.filter((record) => record.kind === "call");
  const settled = new Set((calls as readonly (Call | ChatCall)[]).map((call) => "number" in call && call.number));
  const cutOff = records.flatMap((record): Call[] => {
    if (record.kind !== "begun" || settled.has(record.number)) return [];
    const { at: startedAt, ...facts } = record;
    return [{ ...facts, kind: "call", startedAt, settledAt: killedAt, dueMs: 0, stalledMs: 0, outcome: "unknown" }];
  });
  return [...calls, ...cutOff];
};

const callsOf = <W extends ChatCall["what"]>(run: RunHistory, what: W): Extract<ChatCall, { what: W }>[] =>
  (allCalls(run) as readonly (Call | ChatCall)[]).filter(
    (call): call is Extract<ChatCall, { what: W }> => call.what === what,
  );

const looksOf = ({ workers }: RunHistory): LookRecord[] =>
  workers.flatMap(({ records }) => records.filter((record) => record.kind === "access"));

/** Whether a call found no chat or no member, although all are created before the workers begin. */
const isGone = ({ what, code = "" }: Call): boolean =>
  what !== "create" && what !== "join" && ["KIT_CHAT_UNKNOWN", "KIT_CHAT_NOT_MEMBER"].includes(code);

// ── readers ─────────────────────────────────────────────────────────────────────────────────────────────────────────

/** The pages that each reader received, in order. */
const chainsOf = ({ workers }: RunHistory): Map<string, Given[]> => {
  const chains = new Map<string, Given[]>();
  for (const { records } of workers)
    for (const record of records) {
      const isRead = record.kind === "heard" || (record.kind === "call" && record.what === "fetch");
      if (!isRead || !record.given) continue;
      chains.set(record.chain, [...(chains.get(record.chain) ?? []), ...record.given]);
    }
  return chains;
};

const checkChain = (run: RunHistory, chain: string, all: readonly Given[], judge: Judge): void => {
  for (const name of new Set(all.map(({ chat }) => chat))) {
    const given = all.filter(({ chat }) => chat === name);
    for (const life of livesOf(given, run.losesNothing)) {
      const has = new Set(life.flatMap(({ messages }) => messages.map(([seq]) => seq)));
      for (const { gap } of life) for (let seq = gap?.from ?? 1; seq <= (gap?.to ?? 0); seq++) has.add(seq);
      const [low, high] = [Math.min(...has), Math.max(...has)];
      for (let seq = low; seq <= high; seq++)
        judge("order", !has.has(seq) && `${name}: ${chain} was not given ${String(seq)}`);
    }
    const seqs = given.flatMap(({ messages }) => messages.map(([seq]) => seq));
    const odd = given.find(({ gap, reset }) => (gap && gap.reason !== "retention") || reset);
    if (run.losesNothing) {
      const back = seqs.find((seq, index) => index > 0 && seq <= (seqs[index - 1] ?? 0));
      judge("order", back !== undefined && `${name}: ${chain} was given ${String(back)} after a later one`);
      judge("order", odd !== undefined && `${name}: ${chain} got the report ${JSON.stringify(odd?.gap ?? odd?.reset)}`);
      continue;
    }
    // After a loss, new messages get the numbers of lost ones. No message that stayed may be skipped.
    const end = run.ends.get(name);
    if (!end || name !== "plain") continue;
    const ids = new Set(given.flatMap(({ messages }) => messages.map(([, , id]) => id)));
    const places = end.messages.flatMap(([, , id], index) => (ids.has(id) ? [index] : []));
    for (const [seq, , id] of end.messages.slice(places[0] ?? Infinity, (places.at(-1) ?? 0) + 1)) {
      const wasOrdered = given.some(({ gap }) => gap && gap.from <= seq && seq <= gap.to);
      judge(
        "order",
        !ids.has(id) && !wasOrdered && `${name}: ${chain} was never given ${id}, which is ${String(seq)} now`,
      );
    }
  }
};

/** Splits a reader's pages by the lives of the chat. A chat that the server lost begins again at 1. */
const livesOf = (given: readonly Given[], isWhole: boolean): Given[][] => {
  if (isWhole) return [[...given]];
  const lives: Given[][] = [];
  let last = Infinity;
  for (const one of given) {
    const first = one.gap?.from ?? one.messages[0]?.[0] ?? last + 1;
    const isNew = first <= last || one.reset !== undefined;
    if (isNew) lives.push([]);
    lives.at(-1)?.push(one);
    last = Math.max(lastOf(one), isNew ? 0 : last);
  }
  return lives;
};

/** Checks that in all records each sequence has one message and each message one sequence. */
const checkIdentity = (run: RunHistory, sends: readonly SendCall[], judge: Judge): void => {
  const bySeq = new Map<string, string>();
  const byId = new Map<string, string>();
  const note = (name: string, [seq, at, id]: Message): void => {
    const place = `${name} ${String(seq)}`;
    const message = `${id} of ${String(at)}`;
    const known = bySeq.get(place) ?? message;
    judge("order", known !== message && `${place} is ${known}, and ${message}`);
    const knownPlace = byId.get(id) ?? place;
    judge("U2", knownPlace !== place && `${id} is ${knownPlace}, and ${place}`);
    bySeq.set(place, message);
    byId.set(id, place);
  };
  for (const { name, seq, at, id } of sends) if (seq !== undefined && at !== undefined) note(name, [seq, at, id]);
  for (const given of chainsOf(run).values())
    for (const { chat, messages } of given) for (const message of messages) note(chat, message);
  for (const [name, { messages }] of run.ends) for (const message of messages) note(name, message);
};

/**
 * Checks that a message whose sender received its sequence exists in the end or was dropped, and that each reader that
 * read to the end received it.
 */
const checkKept = (name: string, { look, messages }: End, sends: readonly SendCall[], judge: Judge): void => {
  const there = new Map(messages.map(([seq, , id]) => [seq, id]));
  for (const send of sends) {
    if (send.name !== name || send.seq === undefined || send.seq <= look.floor) continue;
    judge(
      "kept",
      there.get(send.seq) !== send.id && `${name}: ${send.id} is missing, which was sent as ${String(send.seq)}`,
    );
  }
  const refused = new Set(sends.filter(({ outcome }) => outcome === "failed").map(({ id }) => id));
  for (const { id, outcome } of sends) if (outcome !== "failed") refused.delete(id);
  for (const [seq, , id] of messages)
    judge("kept", refused.has(id) && `${name}: ${id} was refused, and is ${String(seq)}`);
};

const checkEnd = (run: RunHistory, name: string, { look, messages, unread, fetched }: End, judge: Judge): void => {
  const seqs = messages.map(([seq]) => seq);
  const senders = new Map(callsOf(run, "send").map(({ id, from }) => [id, from]));
  const isDense = seqs.length === look.head - look.floor && seqs.every((seq, index) => seq === look.floor + index + 1);
  if (run.losesNothing)
    judge("order", !isDense && `${name} is not dense from ${String(look.floor)} to ${String(look.head)}`);
  for (const [member, position] of Object.entries(look.positions)) {
    const said = unread[member];
    const after = messages.filter(([seq]) => seq > position);
    const left = after.filter(([, , id]) => senders.get(id) !== member).length;
    const isExact = said === left && fetched[member] === after.length;
    judge(
      "unread",
      !isExact &&
        `${name}: ${member} has ${String(left)} left, unread says ${String(said)}, fetch ${String(fetched[member])}`,
    );
  }
  // A reader that read to the end has received all messages that had been sent by then.
  const chains = chainsOf(run);
  const sent = new Highest(
    callsOf(run, "send").flatMap(({ name: to, settledAt, seq }) =>
      to === name && seq !== undefined ? [{ at: settledAt, value: seq }] : [],
    ),
  );
  for (const { chain, startedAt, isLast } of callsOf(run, "fetch")) {
    if (isLast !== true) continue;
    const seen = Math.max(0, ...(chains.get(chain) ?? []).filter(({ chat }) => chat === name).map(lastOf));
    const [least, finding] = [sent.before(startedAt), `${name}: ${chain} read to its end and saw ${String(seen)}`];
    if (seen > 0) judge("kept", seen < least && `${finding} of ${String(least)}`);
  }
};

const lastOf = ({ messages, gap }: Given): number => Math.max(messages.at(-1)?.[0] ?? 0, gap?.to ?? 0);

// ── positions, unread, retention ────────────────────────────────────────────────────────────────────────────────────

const checkLook = (run: RunHistory, look: LookRecord, judge: Judge): void => {
  const { name, head, floor, newest, positions, own } = look;
  const what = JSON.stringify({ head, floor, newest, positions, own });
  const isDense =
    newest.count === 0 ? head === floor : newest.last === head && newest.last - newest.first + 1 === newest.count;
  judge("order", !isDense && `${name}: the newest messages are not dense: ${what}`);
  const isSame = Object.entries(own).every(([member, position]) => positions[member] === position);
  judge("positions", !isSame && `${name}: positions differ: ${what}`);
  const {
    count = Infinity,
    bytes = Infinity,
    readByAll = name === run.mailbox,
  } = run.specs.find((spec) => spec.name === name)?.retain ?? {};
  const slowest = readByAll ? Math.min(...Object.values(positions)) : 0;
  // The highest sequence that the settings allow the chat to drop.
  const most = Math.max(
    slowest,
    readByAll ? 0 : head - count,
    bytes === Infinity ? 0 : head - Math.floor(bytes / bodyBytes),
  );
  judge(
    "retention",
    floor > Math.max(0, most) && `${name}: dropped up to ${String(floor)}, allowed is ${String(most)}: ${what}`,
  );
};

/** Finds the highest value of all entries before an instant. */
class Highest {
  readonly #entries: readonly { readonly at: number; readonly value: number }[];

  constructor(entries: readonly { readonly at: number; readonly value: number }[]) {
    let highest = 0;
    const sorted = entries.toSorted((one, other) => one.at - other.at);
    this.#entries = sorted.map(({ at, value }) => ({ at, value: (highest = Math.max(highest, value)) }));
  }

  before(at: number): number {
    let [low, high] = [0, this.#entries.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.#entries[middle]?.at ?? 0) < at) low = middle + 1;
      else high = middle;
    }
    return this.#entries[low - 1]?.value ?? 0;
  }
}

/** The bounds of a member's position: at least by confirmed acknowledgements, at most by those that had begun. */
const boundsOf = (
  run: RunHistory,
  { name, there, sends }: Conversation,
  member: string,
): { low: Highest; high: Highest; own: ReadonlySet<string> } => {
  const acks = callsOf(run, "ack").filter((ack) => ack.name === name && ack.member === member);
  const own = new Set(sends.flatMap(({ id, from }) => (from === member ? [id] : [])));
  const heard = run.workers.flatMap(({ records }) =>
    records.flatMap((one) =>
      one.kind === "heard" && one.member === member
        ? one.given.flatMap((given) => (given.chat === name ? [{ at: one.at, value: lastOf(given) }] : []))
        : [],
    ),
  );
  return {
    own,
    low: new Highest([
      ...acks.flatMap(({ settledAt, outcome, seq }) => (outcome === "ok" ? [{ at: settledAt, value: seq }] : [])),
      ...looksOf(run).flatMap((look) =>
        look.name === name ? [{ at: look.at, value: look.positions[member] ?? 0 }] : [],
      ),
    ]),
    high: new Highest([
      ...acks.map(({ startedAt, seq }) => ({ at: startedAt, value: seq })),
      ...there.flatMap(([seq, at, id]) => (own.has(id) ? [{ at, value: seq }] : [])),
      ...heard,
    ]),
  };
};

/** A chat, the messages sent to it, and the messages that any reader received. */
interface Conversation {
  readonly name: string;
  readonly sends: readonly SendCall[];
  readonly there: readonly Message[];
}

const checkPositions = (run: RunHistory, name: string, all: readonly SendCall[], judge: Judge): void => {
  const looks = looksOf(run).filter((look) => look.name === name);
  const sends = all.filter((send) => send.name === name);
  const there = [
    ...sends.flatMap(({ seq, at, id }): Message[] => (seq === undefined || at === undefined ? [] : [[seq, at, id]])),
    ...Array.from(chainsOf(run).values(), (chain) => chain.filter(({ chat }) => chat === name)).flatMap((chain) =>
      chain.flatMap(({ messages }) => messages),
    ),
    ...(run.ends.get(name)?.messages ?? []),
  ];
  // The server's own time of each message is known even if its sender got no reply.
  const heads = new Highest(there.map(([seq, at]) => ({ at, value: seq })));
  const retain = run.specs.find((spec) => spec.name === name)?.retain;
  // Exact only if no message is dropped unread. Then a reader received each message, or it exists in the end.
  const isExact = run.ends.has(name) && (retain?.readByAll === true || (retain?.count ?? 0) > 1_000);
  for (const member of Object.keys(looks[0]?.positions ?? {})) {
    const { low, high, own } = boundsOf(run, { name, there, sends }, member);
    const theirs = new Set(there.flatMap(([seq, , id]) => (own.has(id) ? [] : [seq])));
    const between = (from: number, to: number): number => [...theirs].filter((seq) => seq > from && seq <= to).length;
    for (const { from, at, positions } of looks) {
      const position = positions[member] ?? 0;
      const [least, most] = [low.before(from), high.before(at + clockErrorMs)];
      const finding = `${name}: ${member} is at ${String(position)}, and was from ${String(least)} to ${String(most)}`;
      judge("positions", (position < least || position > most) && finding);
    }
    for (const { member: who, counts, startedAt, settledAt } of isExact ? callsOf(run, "unread") : []) {
      if (who !== member || !counts) continue;
      const count = counts[name] ?? 0;
      const least = between(high.before(settledAt + clockErrorMs), heads.before(startedAt - clockErrorMs));
      const most = between(low.before(startedAt), heads.before(settledAt + clockErrorMs));
      const finding = `${name}: ${member} has ${String(count)} unread, which are ${String(least)} to ${String(most)}`;
      judge("unread", (count < least || count > most) && finding);
    }
  }
};

// ── the mailbox ─────────────────────────────────────────────────────────────────────────────────────────────────────

interface Delivery {
  readonly call: TakeCall;
  readonly worker: WorkerHistory;
  readonly id: string;
  readonly seq: number;
  readonly deliveries: number;
}

const deliveriesOf = ({ workers }: RunHistory): Delivery[] =>
  workers.flatMap((worker) =>
    worker.records.flatMap((call): Delivery[] =>
      call.kind === "call" && call.what === "take" ? (call.taken ?? []).map((one) => ({ ...one, call, worker })) : [],
    ),
  );

const byMessage = <T extends { readonly id: string }>(all: readonly T[]): Map<string, T[]> => {
  const found = new Map<string, T[]>();
  for (const one of all) {
    const some = found.get(one.id);
    if (some) some.push(one);
    else found.set(one.id, [one]);
  }
  return found;
};

const checkLeases = (run: RunHistory, judge: Judge): void => {
  const settles = byMessage(callsOf(run, "settle"));
  const unknown: { readonly at: number; readonly finding: string }[] = [];
  for (const [id, some] of byMessage(deliveriesOf(run))) {
    const sorted = some.toSorted((one, other) => one.deliveries - other.deliveries);
    const own = settles.get(id) ?? [];
    const acked = own.find(({ how, isDone }) => how === "ack" && isDone === true);
    for (const [index, next] of sorted.entries()) {
      const { call, seq, worker, deliveries } = next;
      const finding = `${String(seq)} (${id})`;
      if (acked && !lostDataBetween(run, acked.startedAt, call.settledAt))
        judge("leases", call.startedAt > acked.settledAt && `${worker.id} received ${finding}, which was acknowledged`);
      const before = sorted[index - 1];
      const since = before?.call.startedAt ?? 0;
      if (deliveries === 1 && !before) continue;
      // After a loss of data the delivery counts start again.
      if (lostDataBetween(run, Math.min(since, call.startedAt), Math.max(since, call.settledAt))) continue;
      if (before?.deliveries === deliveries)
        judge("mailbox", run.losesNothing && `${finding} was handed out twice for the ${String(deliveries)}. time`);
      else if (before?.deliveries === deliveries - 1) judge("leases", takenTooEarly(before, next, own));
      for (let missing = (before?.deliveries ?? 0) + 1; missing < deliveries; missing++)
        if (!run.echoed.has(`${id} ${String(missing)}`))
          unknown.push({ at: call.settledAt, finding: `${finding} came for the ${String(deliveries)}. time` });
    }
  }
  checkUnknown(run, unknown, judge);
};

/** Checks that deliveries without a record fit the calls of `take` without a reply, each of which lasted a lease. */
const checkUnknown = (
  run: RunHistory,
  unknown: readonly { readonly at: number; readonly finding: string }[],
  judge: Judge,
): void => {
  const lost = callsOf(run, "take").flatMap(({ outcome, startedAt, settledAt, limit, leaseMs }) => {
    // A `take` that was sent again after its lease had ended took other messages the second time.
    const times = (outcome === "ok" ? 0 : 1) + Math.floor((settledAt - startedAt) / leaseMs);
    return times > 0 ? [{ from: startedAt + leaseMs - clockErrorMs, room: times * limit }] : [];
  });
  for (const [index, { at, finding }] of unknown.toSorted((one, other) => one.at - other.at).entries()) {
    const room = lost.reduce((sum, take) => sum + (take.from <= at ? take.room : 0), 0);
    judge("mailbox", index >= room && `${finding}, without an earlier delivery`);
  }
};

const takenTooEarly = (
  before: Delivery,
  { call, seq, worker }: Delivery,
  own: readonly SettleCall[],
): string | false => {
  const theirs = own.filter(({ deliveries }) => deliveries === before.deliveries);
  const by = call.settledAt + clockErrorMs;
  const isGivenBack = theirs.some(({ how, startedAt }) => how !== "extend" && startedAt < by);
  // An extension replaces the rest of the lease; without a reply its effect is unknown. An extension that was refused as
  // too late may have shortened the lease before, if its first reply was lost and it was sent again.
  const extensions = theirs.filter((one) => one.how === "extend" && one.startedAt < call.settledAt);
  const ends = extensions.map(({ startedAt, leaseMs }) => startedAt + leaseMs);
  const isSure = extensions.length > 0 && extensions.every(({ isDone }) => isDone);
  const endsAt = isSure ? Math.min(...ends) : Math.min(before.call.startedAt + before.call.leaseMs, ...ends);
  const earlyBy = endsAt - call.settledAt - clockErrorMs;
  return (
    !isGivenBack &&
    earlyBy > 0 &&
    `${worker.id} was given ${String(seq)} ${earlyBy.toFixed(1)} ms before the lease of ${before.worker.id} ended`
  );
};

const checkMailbox = (run: RunHistory, sends: readonly SendCall[], judge: Judge): void => {
  if (run.ends.size === 0) return;
  const acked = callsOf(run, "settle").flatMap(({ how, id }) => (how === "ack" ? [id] : []));
  const handled = new Set([...run.drained, ...acked]);
  for (const { name, id, outcome } of sends)
    if (name === run.mailbox && outcome === "ok")
      judge("mailbox", !handled.has(id) && `${id} was sent and never delivered`);
};

// ── resumption ──────────────────────────────────────────────────────────────────────────────────────────────────────

/** The kinds of work that must go on. */
export const kindsOf = (specs: readonly Spec[]): readonly string[] => [
  "fetch",
  "take",
  ...specs.map(({ name }) => `send ${name}`),
];

/** A refusal by a full chat counts as work. */
export const progressIn = (record: LogRecord): readonly Progress[] => {
  if (record.kind !== "call" || (record.outcome !== "ok" && record.code !== "KIT_CHAT_FULL")) return [];
  const { what, name, startedAt: from, settledAt: at } = record;
  return [{ what: what === "send" ? `send ${name}` : what, from, at }];
};

/** After a loss of data chats are created again first. */
export const workOf = (run: RunHistory): Work => ({
  done: workIn(run, progressIn),
  dueAfter: () => kindsOf(run.specs),
  dueMs: (run.losesNothing ? 2 : 3) * resumeMs,
});

/** Counts of remarkable events that break no invariant. */
export const remarksOn = (run: RunHistory): Record<string, number> => {
  const remarks: Record<string, number> = {};
  for (const given of chainsOf(run).values())
    for (const { gap, reset } of given)
      for (const remark of [gap && `gap, ${gap.reason}`, reset && `reset, ${reset}`])
        if (remark !== undefined) remarks[remark] = (remarks[remark] ?? 0) + 1;
  return remarks;
};
