import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync, mkdirSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { keep, redraw, slug } from "../src/keep.js";
import { plot } from "../src/plot.js";
import { entryReport, type Report } from "../src/report.js";
import { aRun, anEntry, aReport } from "./builders.js";

const entry = entryReport(anEntry({ name: "burst <50> & more", about: `from "asking" to running` }), [
  aRun({ peer: "kit" }, [90, 100, 120]),
  aRun({ peer: "peer@1.0.0" }, [200]),
  aRun({ peer: "odd@1.0.0" }, [], "gave up after <10> tries"),
  aRun({ peer: "floor" }, [400]),
]);
// The builder's rounds are of another entry's name, so figures are put in by hand.
const withFigures = {
  ...entry,
  kit: { median: 100, min: 90, max: 120 },
  peers: { ...entry.peers, "peer@1.0.0": { median: 200, min: 200, max: 200 } },
  floor: { median: 400, min: 400, max: 400 },
};

/** Fails unless every tag is closed in its turn and no bare `<` or `&` is left. */
const assertWellFormed = (xml: string): void => {
  const open: string[] = [];
  const rest = xml.replace(
    /<(\/?)([a-z]+)((?: [a-zA-Z]+="[^"<>&]*")*)(\/?)>/g,
    (_, closes, name: string, _attributes, empty) => {
      if (closes) expect(open.pop()).toBe(name);
      else if (!empty) open.push(name);
      return "";
    },
  );
  expect(open).toEqual([]);
  expect(rest.replace(/&(amp|lt|gt|quot);/g, "")).not.toMatch(/[<&]/);
};

const widths = (svg: string): number[] =>
  [...svg.matchAll(/class="(?:kit|peer|floor)"[^>]* width="([\d.]+)"/g)].map(([, width]) => Number(width));

describe("a plot", () => {
  const svg = plot(withFigures, aReport([withFigures]));

  it("is well-formed, whatever stands in names and errors", () => {
    assertWellFormed(svg);
    expect(svg).toContain("burst &lt;50&gt; &amp; more");
  });

  it("carries unit, direction, settings, versions and the date", () => {
    for (const part of ["pairs/s, more is better", "settings of kit", "redis 7.0.15", "v20.20.2", "2026-11-20"])
      expect(svg).toContain(part);
  });

  it("draws bars in proportion, with whiskers from the least to the most", () => {
    const [kit = 0, peer = 0, floor = 0] = widths(svg);
    expect(peer / kit).toBeCloseTo(2, 1);
    expect(floor / kit).toBeCloseTo(4, 1);
    expect(svg.match(/class="whisker"/g)).toHaveLength(3);
  });

  it("has room for the longest range, rounds against us, and names no goal", () => {
    const spread = { median: 6_891_999, min: 5_937_918, max: 7_469_887 };
    const long = { ...withFigures, kit: spread, peers: { "peer@1.0.0": spread }, goal: "≥ 2 × peer", met: false };
    const drawn = plot(long, aReport([long]));
    const [, x = "", range = ""] = /<text x="([\d.]+)"[^>]*class="value ours">([^<]*)/.exec(drawn) ?? [];
    expect(range).toBe("6,890,000  [5,930,000 – 7,470,000]");
    expect(drawn).toContain(">6,900,000  [5,930,000 – 7,470,000]");
    expect(Number(x) + 8 * range.length).toBeLessThan(920);
    expect(drawn).not.toContain("Goal");
  });

  it("leaves out defaults that are the settings already shown", () => {
    const figure = { median: 200, min: 200, max: 200 };
    const peers = { x: figure, "x defaults": figure, y: figure, "y defaults": { ...figure, max: 300 } };
    const twice = { ...withFigures, peers, settings: { x: "fast", "x defaults": "slow" } };
    const drawn = plot(twice, aReport([twice]));
    expect(drawn).not.toContain("x defaults");
    expect(drawn).toContain("y defaults");
  });

  it("takes a logarithmic axis, and reports it, where short bars could not be seen", () => {
    const steep = { ...withFigures, floor: { median: 100_000, min: 100_000, max: 100_000 } };
    const drawn = plot(steep, aReport([steep]));
    expect(drawn).toContain("logarithmic");
    expect(svg).not.toContain("logarithmic");
    expect(Math.min(...widths(drawn))).toBeGreaterThan(20);
  });
});

describe("what is kept", () => {
  it("is drawn again from its figures alone", () => {
    const folder = mkdtempSync(join(tmpdir(), "kit-bench-"));
    try {
      keep(aReport([withFigures]), false, folder);
      writeFileSync(join(folder, "costs.json"), "{}");
      const file = join(folder, "lock", "burst-50-more.svg");
      const before = readFileSync(file, "utf8");
      writeFileSync(file, "");
      redraw(folder);
      expect(readFileSync(file, "utf8")).toBe(before);
    } finally {
      rmSync(folder, { recursive: true });
    }
  });

  it("is one file of figures and one plot per case; plots of cases that are no more go", () => {
    const folder = mkdtempSync(join(tmpdir(), "kit-bench-"));
    try {
      mkdirSync(join(folder, "lock"));
      writeFileSync(join(folder, "lock", "old.svg"), "");
      const report = aReport([withFigures]);
      keep(report, false, folder);
      expect(JSON.parse(readFileSync(join(folder, "lock.json"), "utf8"))).toEqual(report);
      expect(readdirSync(join(folder, "lock"))).toEqual(["burst-50-more.svg"]);
    } finally {
      rmSync(folder, { recursive: true });
    }
  });

  it("takes single cases of another run, which they name", () => {
    const folder = mkdtempSync(join(tmpdir(), "kit-bench-"));
    try {
      const whole = aReport([withFigures, { ...withFigures, case: "other" }]);
      keep(whole, false, folder);
      const later = aReport([
        { ...withFigures, case: "other", rounds: 9 },
        { ...withFigures, case: "new" },
      ]);
      const machine = { ...later.machine, loadBefore: 7.25 };
      keep({ ...later, machine, date: "2030-01-02T00:00:00Z" }, true, folder);
      const { date, cases } = JSON.parse(readFileSync(join(folder, "lock.json"), "utf8")) as Report;
      expect(date).toBe(whole.date);
      expect(cases.map((one) => [one.case, one.rounds, one.run?.date])).toEqual([
        [withFigures.case, withFigures.rounds, undefined],
        ["other", 9, "2030-01-02T00:00:00Z"],
        ["new", withFigures.rounds, "2030-01-02T00:00:00Z"],
      ]);
      const drawn = readFileSync(join(folder, "lock", "other.svg"), "utf8").replace(/<[^>]+>|\s+/g, " ");
      expect(drawn.replace(/ +/g, " ")).toContain("load 7.25 before the run, 2030-01-02");
    } finally {
      rmSync(folder, { recursive: true });
    }
  });

  it("has file names of letters, digits and hyphens", () => {
    expect(slug("holder SIGKILL → next running p99")).toBe("holder-sigkill-next-running-p99");
    expect(slug("uncontended c=1")).toBe("uncontended-c-1");
  });
});
