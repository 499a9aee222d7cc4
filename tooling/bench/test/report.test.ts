import { describe, expect, it } from "vitest";
import { type EntryReport, entryReport, table } from "../src/report.js";
import { atLeast } from "../src/suite.js";
import { aRun, anEntry, aReport } from "./builders.js";

const keen = { peer: "redlock@5.0.0", id: "keen", settings: "keen" };
const usual = { peer: "redlock@5.0.0", id: "usual", settings: "usual", isDefaults: true };

describe("an entry's report", () => {
  it("holds medians with their least and most, of ours, of each peer and of the floor", () => {
    const report = entryReport(anEntry(), [
      aRun({ peer: "kit" }, [90, 100, 120]),
      aRun({ peer: "redis-semaphore@5.8.0" }, [200, 190, 210]),
      aRun({ peer: "floor" }, [400, 400, 400]),
    ]);
    expect(report.kit).toEqual({ median: 100, min: 90, max: 120 });
    expect(report.peers).toEqual({ "redis-semaphore@5.8.0": { median: 200, min: 190, max: 210 } });
    expect(report.floor).toEqual({ median: 400, min: 400, max: 400 });
    expect(report.rounds).toBe(3);
  });

  it.each([
    ["higher", 0.5],
    ["lower", 2],
  ] as const)("writes ratios so that more than 1 means ours is better (%s)", (better, expected) => {
    const runs = [aRun({ peer: "kit" }, [100]), aRun({ peer: "peer@1.0.0" }, [200])];
    const { ratio } = entryReport(anEntry({ better }), runs);
    expect(ratio["peer@1.0.0"]).toBe(expected);
    expect(ratio["peer"]).toBe(expected);
  });

  it.each([
    ["higher", 300, "usual"],
    ["lower", 200, "keen"],
  ] as const)("lets a peer stand with those of its settings that do best (%s)", (better, best, settings) => {
    const runs = [aRun({ peer: "kit" }, [100]), aRun(keen, [200]), aRun(usual, [300])];
    const report = entryReport(anEntry({ better }), runs);
    expect(report.peers["redlock@5.0.0"]).toMatchObject({ median: best });
    expect(report.settings["redlock@5.0.0"]).toBe(settings);
    expect(report.peers["redlock@5.0.0 defaults"]).toMatchObject({ median: 300 });
  });

  it("means the harder of two versions by a name without a version", () => {
    const runs = [
      aRun({ peer: "kit" }, [100]),
      aRun({ peer: "redlock@4.2.0" }, [50]),
      aRun({ peer: "redlock@5.0.0" }, [80]),
    ];
    const { ratio } = entryReport(anEntry(), runs);
    expect(ratio["redlock"]).toBe(1.25);
    expect(ratio["best peer"]).toBe(1.25);
  });

  it.each([
    [0, 500, 500],
    [0, 0, 1],
    [5, 0, 0.2],
  ])("takes a count of nothing as one: %d of ours against %d", (ours, theirs, expected) => {
    const runs = [aRun({ peer: "kit" }, [ours]), aRun({ peer: "peer@1.0.0" }, [theirs])];
    const { ratio, kit } = entryReport(anEntry({ better: "lower" }), runs);
    expect(ratio["peer"]).toBe(expected);
    expect(kit).toMatchObject({ median: ours });
  });

  it("says what a peer could not do, and leaves it out of the ratios", () => {
    const runs = [aRun({ peer: "kit" }, [100]), aRun({ peer: "peer@1.0.0" }, [], "gave up")];
    const report = entryReport(anEntry(), runs);
    expect(report.peers["peer@1.0.0"]).toEqual({ error: "gave up" });
    expect(report.ratio).toEqual({});
  });

  it.each([
    [{ than: "peer", atLeast: 0.5 }, true],
    [{ than: "peer", atLeast: 0.6 }, false],
    [{ than: "nobody", atLeast: 0.1 }, false],
    [{ atMost: 100 }, true],
    [{ atMost: 99 }, false],
    [{ atMost: 100, of: "max" }, false],
  ] as const)("holds ours to %j", (check, met) => {
    const runs = [aRun({ peer: "kit" }, [90, 100, 120]), aRun({ peer: "peer@1.0.0" }, [200])];
    const report = entryReport(anEntry({ goal: [check] }), runs);
    expect(report.met).toBe(met);
    expect(report.checks).toHaveLength(1);
  });

  it("misses its goal when ours gave no figure", () => {
    const goal = [{ atMost: 5 }];
    expect(entryReport(anEntry({ goal }), [aRun({ peer: "kit" }, [], "broken")]).met).toBe(false);
    expect(entryReport(anEntry(), [aRun({ peer: "kit" }, [], "broken")]).met).toBeNull();
  });
});

describe("two builds of ours", () => {
  const before = (values: readonly number[], isSliced: boolean): EntryReport =>
    entryReport(anEntry({ goal: atLeast({ before: 0.95 }) }), [
      { ...aRun({ peer: "kit" }, [110, 300, 98, 200]), isSliced },
      aRun({ peer: "before", opens: "before" }, values),
    ]);

  it("are compared turn by turn: the middle ratio and the quartiles", () => {
    // A noisy moment hit both in the second turn; the ratio of the medians would be 1.55.
    const { ratio, turns, met } = before([100, 600, 100, 100], true);
    expect(turns).toEqual({ of: "slices", pairs: 4, median: (1.1 + 0.98) / 2, lower: 0.5, upper: 1.1 });
    expect(ratio["before"]).toBe(turns?.median);
    expect(met).toBe(true);
    expect(before([100, 600, 100, 100], false).turns?.of).toBe("rounds");
  });

  it("have as many pairs as both have turns", () => {
    expect(before([100], true).turns?.pairs).toBe(1);
    expect(before([], true).turns).toBeUndefined();
  });

  it("stand in the table with the way they were compared", () => {
    expect(table(aReport([before([100, 600, 100, 100], true)]))).toContain(
      "by turns, 4 pairs of slices: kit 1.04 × before, quartiles 0.50 – 1.10",
    );
  });
});

describe("the table", () => {
  const entry = entryReport(anEntry({ goal: [{ than: "peer", atLeast: 1 }] }), [
    aRun({ peer: "kit" }, [100, 110, 120]),
    aRun({ peer: "peer@1.0.0" }, [220]),
    aRun({ peer: "slow@1.0.0" }, [55]),
    aRun({ peer: "odd@1.0.0" }, [], "cannot do it"),
  ]);
  const text = table(aReport([{ ...entry, profile: [{ name: "hot", place: "core/dist/index.js:7", share: 0.25 }] }]));

  it("tells unit, direction, rounds, machine, versions and settings", () => {
    for (const part of [
      "pairs/s, more is better; 3 rounds",
      "2 × a CPU",
      "redis 7.0.15",
      "v20.20.2",
      "settings of kit",
    ])
      expect(text).toContain(part);
  });

  it("shows the wins of others as plainly as ours", () => {
    expect(text).toMatch(/peer@1\.0\.0 .*kit 2\.00 × worse/);
    expect(text).toMatch(/slow@1\.0\.0 .*kit 2\.00 × better/);
    expect(text).toMatch(/odd@1\.0\.0 .*cannot do it/);
  });

  it("marks a missed goal, with what was reached and where the time went", () => {
    expect(text).toContain("goal ≥ 1 × peer: MISSED");
    expect(text).toContain("✗ ≥ 1 × peer: 0.50");
    expect(text).toMatch(/25\.0 % {2}hot {2}core\/dist\/index\.js:7/);
    expect(text).toContain("0 of 1 goals met; missed: speed");
  });

  it("reports it when the measurements were cut short", () => {
    expect(text).not.toContain("CUT SHORT");
    expect(table(aReport([entry], { scale: 0.1 }))).toContain("CUT SHORT to 0.1");
  });
});
