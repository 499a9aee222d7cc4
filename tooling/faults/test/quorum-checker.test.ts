import { expect, it } from "vitest";
import type { QuorumRun } from "../src/workloads/quorum/history.js";
import { type Invariant, verdictOn } from "../src/workloads/quorum/checker.js";

// A run that keeps every invariant; then one thing in it is put wrong, and the checker has to say which invariant that breaks.

const epoch = 1_700_000_000_000;

/** Instants of a grant: its worker, its number, its name. */
type Held = readonly [worker: "w1" | "w2", grant: number, name: string, ...at: readonly number[]];

const runOf = (held: readonly Held[], facts: Partial<QuorumRun> = {}): QuorumRun => ({
  leaseMs: 500,
  losesNothing: true,
  echoes: 0,
  outages: [],
  losses: [],
  heals: [],
  withoutMajority: [{ from: epoch + 1_000, to: epoch + 2_000 }],
  leftovers: [],
  workers: (["w1", "w2"] as const).map((id) => ({
    id,
    printed: "",
    end: "exit 0",
    records: [
      ...held.flatMap(([worker, grant, name, ...at]) =>
        worker === id
          ? at.map((ms) => ({ kind: "held", name, grant: `${id}-${String(grant)}`, at: epoch + ms }) as const)
          : [],
      ),
      { kind: "left", open: [], stalledMs: 0 },
    ],
  })),
  ...facts,
});

const kept: readonly Held[] = [
  ["w1", 1, "red", 100, 200, 300],
  ["w2", 1, "green", 150, 250],
  ["w2", 2, "red", 310, 400],
  // Granted by votes that were under way, and renewed just before.
  ["w1", 2, "green", 1_050, 1_300, 1_490],
  ["w2", 3, "green", 2_010, 2_100],
];

const brokenIn = (run: QuorumRun): Invariant[] => [
  ...new Set(verdictOn(run).violations.map(({ invariant }) => invariant)),
];

it("finds nothing in a run that keeps every invariant", () => {
  const { violations, checked } = verdictOn(runOf(kept));
  expect(violations).toEqual([]);
  expect(checked).toMatchObject({ exclusion: kept.length, majority: 2, U4: 6 });
});

const spoilt: Readonly<Record<string, readonly [Invariant, QuorumRun]>> = {
  "a name that two hold at once": ["exclusion", runOf([...kept, ["w2", 9, "red", 250]])],
  "a span within a longer one, after another": [
    "exclusion",
    runOf([
      ["w1", 1, "red", 100, 500],
      ["w2", 1, "red", 200],
      ["w2", 2, "red", 450],
    ]),
  ],
  "a grant while two servers are away": ["majority", runOf([...kept, ["w2", 9, "red", 1_900]])],
  "a name that is held for longer than a lease without a majority": [
    "majority",
    runOf([...kept, ["w2", 9, "red", 990, 1_600]]),
  ],
  "a key that stays": ["U4", runOf(kept, { leftovers: ["kit:lock:{red}:quorum"] })],
};

it.each(Object.entries(spoilt))("sees %s", (_, [invariant, run]) => {
  expect(brokenIn(run)).toEqual([invariant]);
});
