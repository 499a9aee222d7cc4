import { describe, expect, it } from "vitest";
import { lateMs } from "../src/common-invariants.js";
import type { Call, WorkerHistory } from "../src/records.js";
import {
  type FileTruth,
  type Invariant,
  type LogRecord,
  type RunHistory,
  verdictOn,
} from "../src/workloads/logship/checker.js";

// A run that keeps every invariant; then one thing in it is put wrong, and the checker has to say which invariant that breaks.

type Mutable<T> = { -readonly [K in keyof T]: T[K] };
interface Had {
  consumer: string;
  chains: Record<string, { offset: number; sha256: string }>;
  words: Record<string, number>;
  lines: Record<string, number>;
}
interface Draft extends Mutable<Omit<RunHistory, "workers" | "had">> {
  worker: Mutable<Omit<WorkerHistory, "records">> & { records: LogRecord[] };
  had: Had[];
}

const epoch = 1_700_000_000_000;
const truth: readonly FileTruth[] = [
  { name: "one.log", chain: { offset: 120, sha256: "aa" }, words: { GET: 3, PUT: 1 }, lines: 4 },
  { name: "two.log.gz", chain: { offset: 80, sha256: "bb" }, words: { GET: 2 }, lines: 2 },
];
/** The job has processed one of them. */
const processed = truth.slice(0, 1);
const hadBy = (consumer: string): Had => ({
  consumer,
  chains: { "one.log": { offset: 120, sha256: "aa" }, "two.log.gz": { offset: 80, sha256: "bb" } },
  words: { GET: 5, PUT: 1 },
  lines: { "one.log": 4, "two.log.gz": 2 },
});
const hadByJob = (): Had => ({
  consumer: "job",
  chains: { "one.log": { offset: 120, sha256: "aa" } },
  words: { GET: 3, PUT: 1 },
  lines: { "one.log": 4 },
});
const failed: Call = {
  ...{ kind: "call", what: "ship", name: "one.log", outcome: "failed", dueMs: 1_000, stalledMs: 0 },
  ...{ startedAt: epoch, settledAt: epoch + 500 },
};

const aRun = (): Draft => ({
  leaseMs: 400,
  outages: [],
  losses: [],
  limitBytes: 1_000,
  losesNothing: true,
  worker: {
    id: "w1",
    records: [
      failed,
      { kind: "access", what: "commit", at: epoch + 600 },
      { kind: "shipped", name: "one.log", sha256: "aa" },
      { kind: "left", open: [], stalledMs: 0 },
    ],
    printed: "",
    end: "exit 0",
  },
  looks: [{ at: epoch + 300, used: 700, reserved: 300, memory: 700, chunks: 4 }],
  heals: [{ kind: "scripts flushed", at: epoch + 100 }],
  shipped: truth,
  processed,
  had: [hadBy("mail"), hadBy("search"), hadByJob()],
  unsealed: [],
  leftovers: [],
  odd: [],
  echoes: 0,
});

const verdictAfter = (spoil: (draft: Draft) => void): ReturnType<typeof verdictOn> => {
  const draft = aRun();
  spoil(draft);
  return verdictOn({ ...draft, workers: [draft.worker] });
};
const brokenBy = (spoil: (draft: Draft) => void): Invariant[] => [
  ...new Set(verdictAfter(spoil).violations.map(({ invariant }) => invariant)),
];

it("A run of logship that keeps every invariant passes, and each of them was judged", () => {
  const { violations, checked } = verdictAfter(() => undefined);
  expect(violations).toEqual([]);
  const unjudged = Object.entries(checked).filter(([name, count]) => count === 0 && name !== "U1");
  expect(unjudged).toEqual([]);
});

describe("The checker of logship finds", () => {
  it.each<[string, Invariant, (draft: Draft) => void]>([
    ["lines that are missing", "content", ({ had }) => void (had[0]!.chains["one.log"]!.offset = 90)],
    ["lines in another order", "content", ({ had }) => void (had[1]!.chains["two.log.gz"]!.sha256 = "bc")],
    ["a file that the job never had", "content", ({ had }) => void delete had[2]!.chains["one.log"]],
    ["a file that was counted again when it was compressed", "once", ({ had }) => void (had[2]!.lines["one.log"] = 8)],
    ["a line that was counted twice", "sums", ({ had }) => void had[0]!.words["GET"]!++],
    ["a word that was not counted", "sums", ({ had }) => void delete had[2]!.words["PUT"]],
    ["a word that is nowhere", "sums", ({ had }) => void (had[1]!.words["DELETE"] = 1)],
    [
      "results ahead of their position",
      "atomic",
      ({ worker }) => void worker.records.push({ kind: "odd", what: "one.log is at 90, its results at 120" }),
    ],
    ["the same at the end", "atomic", (draft) => void (draft.odd = ["two.log.gz is behind"])],
    [
      "a channel above its limit",
      "limit",
      (draft) => void (draft.looks = draft.looks.map((look) => ({ ...look, reserved: 301 }))),
    ],
    [
      "chunks that take more than is counted",
      "limit",
      (draft) => void (draft.looks = draft.looks.map((look) => ({ ...look, used: 100, memory: 401 }))),
    ],
    ["acknowledged text that is gone", "kept", (draft) => void (draft.unsealed = ["one.log"])],
    ["a chunk that stays", "end", (draft) => void (draft.leftovers = ["chunk 7"])],
    [
      "a call that settles late",
      "U1",
      ({ worker }) => void worker.records.push({ ...failed, settledAt: epoch + 1_001 + lateMs }),
    ],
    ["a worker that ended badly", "U4", ({ worker }) => void (worker.end = "exit 1")],
    ["an error without a type", "U5", ({ worker }) => void worker.records.push({ kind: "background", typed: false })],
  ])("%s (%s)", (_, invariant, spoil) => {
    expect(brokenBy(spoil)).toEqual([invariant]);
  });
});

it("The checker of logship excuses text that a server without persistence lost", () => {
  expect(brokenBy((draft) => Object.assign(draft, { losesNothing: false, unsealed: ["one.log"] }))).toEqual([]);
});
