import { expect, it } from "vitest";
import { type Invariant, verdictOn } from "../src/workloads/lock/checker.js";
import type { CallRecord, LogRecord, RunHistory } from "../src/workloads/lock/history.js";
import { aCall, brokenIn, calmLocks, epoch, workerOf } from "./lease-runs.js";

// A run with one set that keeps every invariant; then one thing in it is put wrong, and the checker has to say which invariant
// that breaks.

const [name, set] = ["set-1+set-2", "w1.1"];

const granted = (from: number, fences: Readonly<Record<string, string>>): LogRecord =>
  aCall<CallRecord>({
    what: "acquire",
    name,
    startedAt: epoch + from,
    settledAt: epoch + from + 2,
    dueMs: 300,
    fences,
  });
const member = (isOwn: boolean, isHeld = true): LogRecord => ({
  kind: "member",
  name: "set-2",
  set,
  from: epoch + 19,
  at: epoch + 20,
  isOwn,
  isHeld,
});
const lost: LogRecord = {
  kind: "hold",
  name,
  fence: "",
  set,
  grantedAt: epoch + 2,
  endsAt: epoch + 402,
  abortedAt: epoch + 100,
  reason: "taken",
  endedAt: epoch + 101,
};
const rest = (left: number, lasting: number): LogRecord => ({
  kind: "rest",
  name,
  set,
  endedAt: epoch + 1_500,
  seenAt: epoch + 1_800,
  left,
  lasting,
});

const kept = [granted(0, { "set-1": "10", "set-2": "11" }), member(true), rest(0, 0)];

const runOf = (records: readonly LogRecord[], facts: Partial<RunHistory> = {}): RunHistory => ({
  ...calmLocks,
  workers: [workerOf("w1", records)],
  ...facts,
});

const brokenBy = (records: readonly LogRecord[], facts?: Partial<RunHistory>): Invariant[] =>
  brokenIn(verdictOn(runOf(records, facts)));

it("accepts a set that keeps every invariant, and judges each", () => {
  const { violations, checked } = verdictOn(runOf(kept));
  expect(violations).toEqual([]);
  expect(checked).toMatchObject({ L1: 2, whole: 1, rest: 2 });
});

it("sees a token of one name that does not grow", () => {
  expect(brokenBy([...kept, granted(50, { "set-2": "11" })])).toEqual(["L1"]);
  expect(brokenBy([...kept, granted(50, { "set-2": "12", "set-3": "9" })])).toEqual([]);
});

it("sees a set that is held without one of its names, unless the server lost data or that name was taken by force", () => {
  expect(brokenBy([member(false)])).toEqual(["whole"]);
  expect(brokenBy([member(false, false)])).toEqual([]);
  expect(brokenBy([member(false)], { losses: [{ from: epoch, to: epoch + 1, what: "all" }] })).toEqual([]);
  expect(brokenBy([member(false), { kind: "forced", name: "set-2", at: epoch + 10 }])).toEqual([]);
  expect(brokenBy([member(false), { kind: "forced", name: "set-1", at: epoch + 10 }])).toEqual(["whole"]);
  expect(brokenBy([member(false), { kind: "forced", name: "set-2", at: epoch + 30 }])).toEqual(["whole"]);
});

it("sees a lease that another ended, unless by force", () => {
  expect(brokenBy([lost])).toEqual(["L5"]);
  expect(brokenBy([lost, { kind: "forced", name: "set-1", at: epoch + 90 }])).toEqual([]);
  expect(brokenBy([lost, { kind: "forced", name: "set-3", at: epoch + 90 }])).toEqual(["L5"]);
});

it("sees names that stay with a set that is over: at once where no fault was near, else a lease later", () => {
  expect(brokenBy([rest(1, 0)])).toEqual(["rest"]);
  expect(brokenBy([rest(1, 1)])).toEqual(["rest"]);
  const stall: LogRecord = { kind: "stall", from: epoch + 1_400, to: epoch + 1_600 };
  expect(brokenBy([rest(1, 0), stall])).toEqual([]);
  expect(brokenBy([rest(1, 1), stall])).toEqual(["rest"]);
  for (const from of [600, 1_600]) {
    const outages = [{ kind: "link cut", from: epoch + from, to: epoch + from + 1 }];
    expect(brokenBy([rest(1, 0)], { outages })).toEqual([]);
    expect(brokenBy([rest(1, 1)], { outages })).toEqual(["rest"]);
  }
});
