import { describe, expect, it } from "vitest";
import { verdictOn } from "../src/workloads/chat/checker.js";
import type { LogRecord, RunHistory } from "../src/workloads/chat/history.js";

// The marks that a killed worker leaves: a call that it had begun may have had its effect, and nothing else is excused.

const epoch = 1_700_000_000_000;
const leaseMs = 400;
let numbers = 0;

/** Instants are since the epoch of the run; without a second one the worker was killed before. */
const call = (what: string, from: number, to: number | undefined, facts: object): LogRecord[] => {
  const common = { what, name: "errands", number: ++numbers, ...facts };
  const begun = { kind: "begun", at: epoch + from, ...common };
  const times = { startedAt: epoch + from, settledAt: epoch + (to ?? 0), dueMs: 1_000, stalledMs: 0 };
  const ended = { kind: "call", outcome: "ok", ...common, ...times };
  return (to === undefined ? [begun] : [begun, ended]) as unknown as LogRecord[];
};

const take = (from: number, deliveries: number): LogRecord[] =>
  call("take", from, from + 5, { limit: 1, leaseMs, taken: [{ seq: 1, id: "m", deliveries }] });
const cutOff = (how: string): LogRecord[] =>
  call("settle", 90, undefined, { how, seq: 1, id: "m", deliveries: 1, leaseMs });
const lostTake = (from: number): LogRecord[] => call("take", from, undefined, { limit: 1, leaseMs });

/** A worker that is killed after 100 ms, and another. */
const brokenBy = (
  killed: readonly LogRecord[],
  other: readonly LogRecord[],
  heals: RunHistory["heals"] = [],
  outages: RunHistory["outages"] = [],
): string[] => {
  const left = { kind: "left", open: [], stalledMs: 0 } as const;
  const run: RunHistory = {
    losesNothing: true,
    specs: [],
    mailbox: "errands",
    leaseMs,
    workers: [
      { id: "w1", records: killed, killedAt: epoch + 100, printed: "", end: "SIGKILL" },
      { id: "w2", records: [...other, left], printed: "", end: "exit 0" },
    ],
    heals,
    outages,
    echoes: 0,
    echoed: new Set(),
    losses: [],
    ends: new Map(),
    drained: [],
  };
  return verdictOn(run).violations.map(({ invariant }) => invariant);
};

const heard = (at: number): LogRecord => ({ kind: "heard", member: "ear", chain: "w2.l.1", at: epoch + at, given: [] });
const send = (from: number): LogRecord[] =>
  call("send", from, from + 5, { name: "plain", from: "ann", id: String(from) });

describe("a listener after an outage", () => {
  // All other work goes on, and the specs of the run are empty, so no chat is looked for.
  const works = [0, 1_005, 4_000].flatMap((at) => [...send(at), ...call("fetch", at, at + 5, {})]);
  const taken = [0, 1_005, 4_000].flatMap((at) => call("take", at, at + 5, { limit: 1, leaseMs, taken: [] }));
  const heals = [{ kind: "an outage", at: epoch + 1_000 }];

  it.each([
    ["hears a message in time", [heard(100), heard(2_900)], []],
    ["hears nothing any more", [heard(100)], ["U3"]],
    ["hears a message too late", [heard(100), heard(3_900)], ["U3"]],
  ] as const)("%s", (_, records, broken) => {
    expect(brokenBy([], [...works, ...taken, ...records], heals)).toEqual(broken);
  });

  it("need not hear anything before the next outage", () => {
    const next = [{ kind: "link cut", from: epoch + 2_000, to: epoch + 2_500 }];
    expect(brokenBy([], [...works, ...taken, heard(100)], heals, next)).toEqual([]);
  });
});

describe("a message that a killed worker had", () => {
  const had = take(0, 1);

  it.each([
    ["comes again when its lease has ended", had, take(leaseMs + 5, 2), []],
    ["does not come before", had, take(200, 2), ["leases"]],
    ["comes at once where the worker may have given it back", [...had, ...cutOff("release")], take(110, 2), []],
    ["does not where it may only have asked for longer", [...had, ...cutOff("extend")], take(110, 2), ["leases"]],
    ["comes a second time after a delivery that the worker may have taken", lostTake(90), take(100 + leaseMs, 2), []],
    ["does not as long as that one lasts", lostTake(90), take(200, 2), ["mailbox"]],
    ["does not where the worker took nothing", [], take(100 + leaseMs, 2), ["mailbox"]],
    ["and one call explains one message", lostTake(90), [...take(600, 2), ...take(1_100, 4)], ["mailbox"]],
  ] as const)("%s", (_, killed, other, broken) => {
    expect(brokenBy(killed, other)).toEqual(broken);
  });
});
