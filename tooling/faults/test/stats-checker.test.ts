import { describe, expect, it } from "vitest";
import { seeded } from "@tooling/lab";
import { type Invariant, verdictOn } from "../src/workloads/stats/checker.js";
import type { Found, LogRecord, Quantiles, RunHistory, WorkerHistory } from "../src/workloads/stats/history.js";

// A run that keeps every invariant is made up from a seed; then one thing in it is put wrong, and the checker has to say which
// invariant that breaks.

type Mutable<T> = { -readonly [K in keyof T]: T[K] };

interface Draft {
  readonly run: Mutable<RunHistory>;
  readonly workers: (Mutable<Omit<WorkerHistory, "records">> & { records: LogRecord[] })[];
  readonly found: Mutable<Found>[];
}

const epoch = 1_700_000_000_000;
const deliveries = ["effectively-once", "at-most-once", "at-least-once"] as const;

const aRun = (seed: number): Draft => {
  const random = seeded(seed);
  const below = (most: number): number => Math.floor(random() * most);
  const workers = ["w1", "w2", "w3"].map((id) => ({ id, printed: "", end: "exit 0", records: [] as LogRecord[] }));
  const totals = new Map<string, number>();
  const add = (series: string, units: number): number => {
    totals.set(series, (totals.get(series) ?? 0) + units);
    return totals.get(series) ?? 0;
  };
  for (const { records } of workers) {
    const upTo: Record<string, number> = {};
    for (let at = epoch; at < epoch + 20_000; at += 500) {
      for (const series of deliveries) {
        const units = 1 + below(100);
        records.push({ kind: "gives", series, units, calls: 1 });
        upTo[series] = (upTo[series] ?? 0) + units;
        if (series === "at-most-once" && random() < 0.3) {
          records.push({ kind: "dropped", series, reason: "unknown", count: units });
          if (random() < 0.5) add(series, units);
        } else add(series, units);
      }
      const flush = { what: "flush", name: "", startedAt: at, settledAt: at + 5, dueMs: 300, stalledMs: 0 } as const;
      records.push({ kind: "call", ...flush, outcome: "ok" });
      records.push({ kind: "sure", from: at - 10, to: at + 5, upTo: { ...upTo }, sums: {} });
      const series = "effectively-once";
      records.push({ kind: "gives", series, units: 7, calls: 1 });
      const span = { from: at + 6, to: at + 8 };
      if (random() < 0.2) records.push({ kind: "fate", series, units: 7, fate: "not", ...span });
      else records.push({ kind: "fate", series, units: 7, fate: "counted", ...span, total: add(series, 7) });
    }
    const lost = records.reduce((sum, record) => (record.kind === "dropped" ? sum + record.count : sum), 0);
    records.push({ kind: "report", pending: 0, dropped: { unknown: lost, full: 0 } });
    records.push({ kind: "left", open: [], stalledMs: 0 });
  }
  const found = deliveries.map((delivery): Found => {
    const total = totals.get(delivery) ?? 0;
    return { series: delivery, delivery, total, parts: { buckets: total } };
  });
  const values = Array.from({ length: 1_000 }, () => Math.floor(10 ** (9 * random())));
  workers[0]!.records.push({ kind: "gives", series: "spread", units: values.length, values, calls: values.length });
  // Not all of them are counted.
  const counted = values.slice(below(10)).toSorted((one, other) => one - other);
  const shares = [0.01, 0.5, 0.99].map((share) => {
    const exact = counted[Math.ceil(share * counted.length) - 1]!;
    return [share, exact * (0.99 + 0.02 * random())] as const;
  });
  found.push({
    series: "spread",
    delivery: "effectively-once",
    total: counted.length,
    parts: {},
    quantiles: [{ of: "all", count: counted.length, values: Object.fromEntries(shares) }],
  });
  const heals = [{ kind: "scripts flushed", at: epoch + 10_000 }];
  const facts = { leaseMs: 400, heals, outages: [], losses: [], losesNothing: true, echoes: 0 };
  const run = { ...facts, workers, isWhole: true, found, copied: {}, leftovers: [] };
  return { run, workers, found };
};

const seeds = Array.from({ length: 20 }, (_, index) => index + 1);
const brokenBy = (seed: number, spoil: (draft: Draft) => void): Invariant[] => {
  const draft = aRun(seed);
  spoil(draft);
  return [...new Set(verdictOn(draft.run).violations.map(({ invariant }) => invariant))];
};
const of = ({ found }: Draft, delivery: string): Mutable<Found> => found.find((one) => one.delivery === delivery)!;
/** With its buckets. */
const more = (one: Mutable<Found>, by: number): void => {
  one.total += by;
  one.parts = { buckets: one.total };
};

describe("a run of stats that keeps every invariant", () => {
  it.each(seeds)("passes, and every invariant that it can break is judged (seed %i)", (seed) => {
    const { violations, checked } = verdictOn(aRun(seed).run);
    expect(violations).toEqual([]);
    for (const invariant of ["E1", "E2", "E3", "E4", "E5", "E6", "Q1", "U1", "U3", "U4"] as const)
      expect(checked[invariant]).toBeGreaterThan(0);
  });

  it("may lack counts that the server lost or a killed worker had not flushed", () => {
    const lost = (draft: Draft): void => {
      draft.run.losses = [{ from: epoch, to: epoch + 9_000, what: "all" }];
      for (const one of draft.found) more(one, -900);
    };
    const killed = (draft: Draft): void => {
      const [worker] = draft.workers as [Draft["workers"][number]];
      worker.killedAt = epoch + 30_000;
      worker.records = worker.records.filter(({ kind }) => kind !== "left" && kind !== "report");
      worker.records.push({ kind: "gives", series: "effectively-once", units: 50, calls: 1 });
      more(of(draft, "effectively-once"), 20);
    };
    for (const seed of seeds) expect([brokenBy(seed, lost), brokenBy(seed, killed)]).toEqual([[], []]);
  });
});

describe("the checker of stats finds", () => {
  it.each<[string, Invariant, (draft: Draft) => void]>([
    ["one that was counted twice", "E1", (draft) => more(of(draft, "effectively-once"), 1)],
    ["one that was not counted", "E1", (draft) => more(of(draft, "effectively-once"), -1)],
    [
      "a quantile that is too high",
      "Q1",
      (draft) => {
        const one = draft.found.find(({ series }) => series === "spread")!;
        const [{ of: all, count, values }] = one.quantiles as [Quantiles];
        one.quantiles = [{ of: all, count, values: { ...values, 0.5: 1.4 * values["0.5"]! } }];
      },
    ],
    ["more than was given", "E2", (draft) => more(of(draft, "at-most-once"), 5_000)],
    ["a loss without a report", "E2", (draft) => more(of(draft, "at-most-once"), -5_000)],
    ["fewer than were given", "E3", (draft) => more(of(draft, "at-least-once"), -1)],
    ["buckets that are no total", "E4", (draft) => void (draft.found[0]!.parts = { buckets: 3 })],
    [
      "twice, though data was lost",
      "E1",
      (draft) => {
        draft.run.losses = [{ from: epoch, to: epoch + 9_000, what: "all" }];
        more(of(draft, "effectively-once"), 1);
      },
    ],
    [
      "an answer that forgets",
      "E5",
      ({ workers }) => {
        const answer = workers[1]!.records.findLast((record) => record.kind === "fate" && record.fate === "counted");
        (answer as { total: number }).total = 8;
      },
    ],
    [
      "a report that differs from the events",
      "E6",
      ({ workers }) => {
        workers[0]!.records.push({ kind: "dropped", series: "at-least-once", reason: "full", count: 1 });
      },
    ],
    [
      "pending counts after a close",
      "E6",
      ({ workers }) => {
        const report = workers[0]!.records.find(({ kind }) => kind === "report");
        (report as { pending: number }).pending = 1;
      },
    ],
    [
      "flushes that do not go on",
      "U3",
      ({ workers }) => {
        for (const worker of workers)
          worker.records = worker.records.filter(
            (record) =>
              record.kind !== "call" || record.startedAt < epoch + 10_000 || record.startedAt > epoch + 12_000,
          );
      },
    ],
  ])("%s (%s)", (_, invariant, spoil) => {
    for (const seed of seeds) expect(brokenBy(seed, spoil)).toContain(invariant);
  });

  it("a drop that the way of delivery forbids", () => {
    const giveUp = ({ workers }: Draft): void => {
      workers[0]!.records.push({ kind: "dropped", series: "at-least-once", reason: "unknown", count: 1 });
    };
    for (const seed of seeds) expect(brokenBy(seed, giveUp)).toContain("E3");
  });
});
