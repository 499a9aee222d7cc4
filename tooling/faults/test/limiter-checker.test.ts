import { describe, expect, it } from "vitest";
import { type Invariant, verdictOn } from "../src/workloads/limiter/checker.js";
import type { LogRecord, RunHistory } from "../src/workloads/limiter/history.js";

type CallRecord = Extract<LogRecord, { readonly kind: "call" }>;

const epoch = 1_800_000_000_000;
const limit = {
  limiter: "exact",
  limit: { count: 3, perMs: 1_000, algorithm: "sliding-window" },
  most: 3,
} as const;

const call = (what: string, name: string, at: number, facts: Partial<CallRecord> = {}): CallRecord => ({
  kind: "call",
  what,
  name,
  startedAt: epoch + at,
  settledAt: epoch + at + 1,
  dueMs: 300,
  stalledMs: 0,
  outcome: "ok",
  ...facts,
});

const consume = (at: number, facts: Partial<CallRecord> = {}): CallRecord =>
  call("consume", "exact", at, { key: "a", allowed: true, ...facts });

/** Three calls a window, two that are counted exactly, and two waits at 100 a second. */
const records = (): LogRecord[] => [
  ...[0, 10, 20, 1_001, 1_011, 1_021].map((at) => consume(at)),
  { kind: "intends" },
  call("count", "ledger", 30),
  { kind: "intends" },
  call("count", "ledger", 40, { outcome: "unknown" }),
  call("wait", "queue", 50),
  call("wait", "queue", 50, { settledAt: epoch + 61 }),
  { kind: "left", open: [], stalledMs: 0 },
];

const runOf = (all: readonly LogRecord[], facts: Partial<RunHistory> = {}): RunHistory => ({
  leaseMs: 400,
  workers: [{ id: "w1", records: all, printed: "", end: "exit 0" }],
  heals: [],
  outages: [],
  losses: [],
  losesNothing: true,
  echoes: 0,
  limits: [limit],
  waitRate: 0.1,
  counted: 1,
  leftovers: [],
  ...facts,
});

const brokenIn = (run: RunHistory): Invariant[] => [
  ...new Set(verdictOn(run).violations.map(({ invariant }) => invariant)),
];

it("a run of a limiter that keeps every invariant has no violation", () => {
  const { violations, checked } = verdictOn(runOf(records()));
  expect(violations).toEqual([]);
  expect(checked).toMatchObject({ R1: 6, R2: 1, R3: 2 });
  expect(brokenIn(runOf(records(), { counted: 2 }))).toEqual([]);
});

describe("the checker of the limiter finds", () => {
  it("one call too many in a window", () => {
    expect(brokenIn(runOf([...records(), consume(500)]))).toEqual(["R1"]);
  });

  it("nothing in a call that was refused, of another key, or that may lie outside", () => {
    const more = [
      consume(500, { allowed: false }),
      consume(500, { key: "b" }),
      consume(2_010, { settledAt: epoch + 2_030 }),
    ];
    expect(brokenIn(runOf([...records(), ...more]))).toEqual([]);
  });

  it("nothing where the server lost data in that window", () => {
    const losses = [{ what: "newest", from: epoch + 100, to: epoch + 600 }] as const;
    expect(brokenIn(runOf([...records(), consume(500)], { losses }))).toEqual([]);
  });

  it("a call that was counted twice, and one that was not counted", () => {
    expect(brokenIn(runOf(records(), { counted: 3 }))).toEqual(["R2"]);
    expect(brokenIn(runOf(records(), { counted: 0 }))).toEqual(["R2"]);
    expect(brokenIn(runOf(records(), { counted: 3, echoes: 1 }))).toEqual([]);
  });

  it("a wait that started too soon", () => {
    expect(brokenIn(runOf([...records(), call("wait", "queue", 55)]))).toEqual(["R3"]);
  });

  it("a key that stays", () => {
    expect(brokenIn(runOf(records(), { leftovers: ["kit:limiter:{exact}:key:a stays for ever"] }))).toEqual(["U4"]);
  });
});
