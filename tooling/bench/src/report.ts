// From rounds to the report: the JSON object and the table. Ratios above 1 mean that ours is better; where a peer is
// better, the table says so as plainly.
import type { HotFunction } from "./profile.js";
import { type CaseRun, medianOf, valuesOf } from "./rounds.js";
import { median, percentile, type Spread, spread } from "./statistics.js";
import { type Better, betterOf, type Check, type Entry } from "./suite.js";

export type Figure = Spread | { readonly error: string };

interface CheckResult {
  readonly wanted: string;
  readonly got: number | null;
  readonly met: boolean;
}

/** The ratios of two builds that took turns: the middle one and the quartiles. `ratio` has the middle one, too. */
interface Turns {
  readonly of: "slices" | "rounds";
  readonly pairs: number;
  readonly median: number;
  readonly lower: number;
  readonly upper: number;
}

export interface EntryReport {
  readonly case: string;
  /** The run that measured this case, if another run made the report. */
  readonly run?: Run;
  readonly unit: string;
  readonly better: Better;
  readonly about: string;
  readonly rounds: number;
  readonly kit: Figure;
  readonly peers: Readonly<Record<string, Figure>>;
  readonly floor: Spread | null;
  /** Two builds of ours, compared turn by turn. */
  readonly turns?: Turns;
  readonly ratio: Readonly<Record<string, number>>;
  readonly goal: string | null;
  /** Null if there is no goal. */
  readonly met: boolean | null;
  readonly checks: readonly CheckResult[];
  /** The rest is by implementation: `kit`, `floor`, and the names of `peers`. */
  readonly settings: Readonly<Record<string, string>>;
  readonly serverCpuMicros: Readonly<Record<string, number>>;
  readonly innerCommands: Readonly<Record<string, number>>;
  readonly details: Readonly<Record<string, Readonly<Record<string, number>>>>;
  /** The profile of ours from the same run, if the goal is missed. */
  readonly profile?: readonly HotFunction[];
}

/** When and on what cases were measured. */
interface Run {
  readonly node: string;
  readonly redis: string;
  readonly date: string;
  readonly machine: {
    readonly cpu: string;
    readonly cores: number;
    readonly memoryMb: number;
    readonly system: string;
    /** The one-minute load average before and after; the benchmark itself is in the latter. */
    readonly loadBefore: number;
    readonly loadAfter: number;
  };
}

export interface Report extends Run {
  readonly package: string;
  readonly rounds: number;
  /** Below 1 the measurements were cut short and the figures say nothing. */
  readonly scale: number;
  readonly cases: readonly EntryReport[];
}

const isSpread = (figure: Figure | null | undefined): figure is Spread => figure != null && "median" in figure;

/** A count of 0 is treated as 1, so that ratios stay finite. */
const atLeastOne = (value: number): number => (value === 0 ? 1 : value);

const ratioOf = (better: Better, ours: number, theirs: number): number =>
  better === "higher" ? ours / atLeastOne(theirs) : atLeastOne(theirs) / atLeastOne(ours);

const isBetter = (better: Better, one: number, other: number): boolean =>
  better === "higher" ? one > other : one < other;

/** `redlock@4.2.0` → `redlock`; a scope keeps its sign. */
const plainName = (peer: string): string => peer.replace(/(?<=.)@.*$/, "");

const medianFor = (run: CaseRun, entry: Entry): number | undefined => {
  const values = valuesOf(run, entry.name);
  return values.length > 0 ? spread(values).median : undefined;
};

/** The meaning of each name in the report: a peer at its best, and its defaults beside it. */
const named = (runs: readonly CaseRun[], entry: Entry): Map<string, CaseRun> => {
  const byName = new Map<string, CaseRun>();
  for (const run of runs) {
    const { peer, isDefaults } = run.implementation;
    if (isDefaults) byName.set(`${peer} defaults`, run);
    const best = byName.get(peer);
    const [ours, theirs] = [best && medianFor(best, entry), medianFor(run, entry)];
    if (!best || (theirs !== undefined && (ours === undefined || isBetter(betterOf(entry), theirs, ours))))
      byName.set(peer, run);
  }
  return byName;
};

const figureOf = (run: CaseRun, { name }: Entry): Figure => {
  const values = valuesOf(run, name);
  if (run.error !== undefined) return { error: run.error };
  return values.length > 0 ? spread(values) : { error: "gave no figure" };
};

const checkResult = (check: Check, kit: Figure, ratios: ReadonlyMap<string, number>): CheckResult => {
  if ("atMost" in check) {
    const got = isSpread(kit) ? kit[check.of ?? "median"] : null;
    const every = check.of === "max" ? " in every round" : "";
    return { wanted: `≤ ${String(check.atMost)}${every}`, got, met: got !== null && got <= check.atMost };
  }
  const got = ratios.get(check.than) ?? null;
  const wanted = `≥ ${String(check.atLeast)} × ${check.than}`;
  return { wanted, got, met: got !== null && got >= check.atLeast };
};

/** Undefined unless two sides of ours were measured. */
const turnsOf = (runs: readonly CaseRun[], entry: Entry): Turns | undefined => {
  const other = runs.find(({ implementation }) => implementation.opens !== undefined);
  const ours = runs.find((run) => run !== other);
  if (!other || !ours) return undefined;
  const theirs = valuesOf(other, entry.name);
  const ratios = valuesOf(ours, entry.name)
    .slice(0, theirs.length)
    .map((value, turn) => ratioOf(betterOf(entry), value, theirs[turn] as number));
  if (ratios.length === 0) return undefined;
  const [lower, upper] = [percentile(ratios, 0.25), percentile(ratios, 0.75)];
  return { of: ours.isSliced ? "slices" : "rounds", pairs: ratios.length, median: median(ratios), lower, upper };
};

export const entryReport = (entry: Entry, runs: readonly CaseRun[]): EntryReport => {
  const { name, unit, about, goal } = entry;
  const better = betterOf(entry);
  const byName = named(runs, entry);
  const figures = new Map([...byName].map(([who, run]) => [who, figureOf(run, entry)]));
  const kit = figures.get("kit") ?? { error: "was not measured" };
  if (entry.floor !== undefined) figures.set("floor", { median: entry.floor, min: entry.floor, max: entry.floor });
  const floor = figures.get("floor");

  const turns = turnsOf(runs, entry);
  const ratios = new Map<string, number>();
  if (isSpread(kit)) {
    // The hardest of several: what `redlock` without a version, and the best of all peers, mean.
    const keepHardest = (who: string, ratio: number): void => {
      ratios.set(who, Math.min(ratio, ratios.get(who) ?? Infinity));
    };
    for (const [who, figure] of figures) {
      if (who === "kit" || !isSpread(figure)) continue;
      // With two sides of ours there are no peers beside the other one.
      const ratio = turns?.median ?? ratioOf(better, kit.median, figure.median);
      ratios.set(who, ratio);
      if (who === "floor" || who.endsWith(" defaults")) continue;
      if (plainName(who) !== who) keepHardest(plainName(who), ratio);
      keepHardest("best peer", ratio);
    }
  }
  const checks = (goal ?? []).map((check) => checkResult(check, kit, ratios));
  const perName = <T>(pick: (run: CaseRun) => T | undefined): Record<string, T> =>
    Object.fromEntries(
      [...byName].flatMap(([who, run]) => {
        const value = pick(run);
        return value === undefined ? [] : [[who, value]];
      }),
    );
  return {
    case: name,
    unit,
    better,
    about,
    rounds: Math.max(...runs.map(({ rounds }) => rounds.length)),
    kit,
    peers: Object.fromEntries([...figures].filter(([who]) => who !== "kit" && who !== "floor")),
    floor: isSpread(floor) ? floor : null,
    ...(turns && { turns }),
    ratio: Object.fromEntries(ratios),
    goal: goal ? checks.map(({ wanted }) => wanted).join(", ") : null,
    met: goal ? checks.every(({ met }) => met) : null,
    checks,
    settings: perName(({ implementation }) => implementation.settings),
    serverCpuMicros: perName((run) => medianOf(run, (ran) => ran.serverCpuMicros)),
    innerCommands: perName((run) => medianOf(run, (ran) => ran.innerCommands)),
    details: perName(detailsOf),
  };
};

const detailsOf = (run: CaseRun): Record<string, number> | undefined => {
  const names = new Set(run.rounds.flatMap(({ details }) => Object.keys(details ?? {})));
  if (names.size === 0) return undefined;
  return Object.fromEntries([...names].map((name) => [name, medianOf(run, ({ details }) => details?.[name]) ?? 0]));
};

/** Three significant figures, without an exponent. */
export const short = (value: number): string => {
  if (!Number.isFinite(value)) return String(value);
  const size = Math.abs(value);
  if (size >= 1_000) return Math.round(value).toLocaleString("en-GB");
  if (size >= 100) return value.toFixed(0);
  if (size >= 10) return value.toFixed(1);
  return size >= 1 || size === 0 ? value.toFixed(2) : value.toPrecision(2);
};

const columns = (rows: readonly (readonly string[])[], isRight: readonly boolean[]): string[] => {
  const widths = isRight.map((_, column) => Math.max(...rows.map((row) => (row[column] ?? "").length)));
  return rows.map((row) =>
    row
      .map((cell, column) => (isRight[column] ? cell.padStart(widths[column] ?? 0) : cell.padEnd(widths[column] ?? 0)))
      .join("  ")
      .trimEnd(),
  );
};

/** In words: which of two is ahead, and by how much. */
const verdict = (ratio: number | undefined): string => {
  if (ratio === undefined) return "";
  if (ratio >= 1) return `kit ${short(ratio)} × better`;
  return `kit ${short(1 / atLeastOne(ratio))} × worse`;
};

const entryLines = (report: EntryReport): string[] => {
  const figures: [string, Figure][] = [
    ["kit", report.kit],
    ...Object.entries(report.peers),
    ...(report.floor ? [["floor", report.floor] as [string, Figure]] : []),
  ];
  const rows = figures.map(([who, figure]) => {
    const cpu = report.serverCpuMicros[who];
    const cost = cpu === undefined ? "" : `${short(cpu)} µs`;
    return isSpread(figure)
      ? [who, short(figure.median), `[${short(figure.min)} – ${short(figure.max)}]`, cost, verdict(report.ratio[who])]
      : [who, "–", figure.error.slice(0, 60), cost, ""];
  });
  const head = [["", report.unit, "[min – max]", "server CPU/op", ""]];
  const direction = report.better === "higher" ? "more is better" : "less is better";
  const lines = [
    `${report.case}`,
    `  ${report.unit}, ${direction}; ${String(report.rounds)} rounds; ${report.about}`,
    ...columns([...head, ...rows], [false, true, false, true, false]).map((line) => `    ${line}`),
  ];
  if (report.turns) {
    const { of, pairs, median: middle, lower, upper } = report.turns;
    lines.push(
      `  by turns, ${String(pairs)} pairs of ${of}: kit ${short(middle)} × before, quartiles ${short(lower)} – ${short(upper)}`,
    );
  }
  if (report.goal !== null) {
    lines.push(`  goal ${report.goal}: ${report.met ? "met" : "MISSED"}`);
    for (const { wanted, got, met } of report.checks)
      lines.push(`    ${met ? "✓" : "✗"} ${wanted}: ${got === null ? "no figure" : short(got)}`);
  }
  if (report.profile) {
    lines.push("  where our own process spent its time in this run:");
    for (const { share, name, place } of report.profile)
      lines.push(`    ${(share * 100).toFixed(1).padStart(5)} %  ${name}  ${place}`);
  }
  return [...lines, ""];
};

/** The report as text. */
export const table = (report: Report): string => {
  const { machine } = report;
  const settings = new Map<string, Set<string>>();
  for (const entry of report.cases)
    for (const [who, text] of Object.entries(entry.settings))
      settings.set(who, (settings.get(who) ?? new Set()).add(text));
  const withGoal = report.cases.filter(({ met }) => met !== null);
  const missed = withGoal.filter(({ met }) => !met);
  return [
    `${report.package}: ${report.redis}, Node ${report.node}, ${String(machine.cores)} × ${machine.cpu}, ` +
      `load ${short(machine.loadBefore)} before and ${short(machine.loadAfter)} after, ${report.date}`,
    "Medians over the rounds. A peer stands with those of its measured settings that do best in the case.",
    ...(report.scale < 1 ? [`CUT SHORT to ${String(report.scale)} of the time: no figure here says anything.`] : []),
    "",
    ...report.cases.flatMap(entryLines),
    "Settings",
    ...[...settings].flatMap(([who, texts]) => [...texts].map((text) => `  ${who}: ${text}`)),
    "",
    `${String(withGoal.length - missed.length)} of ${String(withGoal.length)} goals met` +
      (missed.length > 0 ? `; missed: ${missed.map((entry) => entry.case).join(", ")}` : ""),
    "",
  ].join("\n");
};
