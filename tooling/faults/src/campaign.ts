import { randomInt } from "node:crypto";
import { freemem, loadavg } from "node:os";
import { join } from "node:path";
import { startRedis } from "@kit/testing";
import { keepRun } from "./lab/lab.js";
import { workspaceFolder } from "./lab/paths.js";
import { seeded } from "./lab/random.mjs";
import type { Row } from "./rows/row.js";
import type { Control, LegOptions, LegReport, Workload } from "./workload.js";

export interface CampaignOptions {
  readonly seconds: number;
  readonly seed: number;
  /** Only the kinds that this names: a number of the matrix, or the beginning of a kind. */
  readonly fault?: string | undefined;
  /** Hears of what is being done. */
  readonly say: (line: string) => void;
}

/** What `faults --json` prints. */
export interface CampaignReport {
  readonly package: string;
  readonly redis: string;
  readonly seconds: number;
  readonly seed: number;
  readonly operations: number;
  readonly faults: Readonly<Record<string, number>>;
  readonly violations: number;
  readonly invariants: readonly { readonly name: string; readonly checked: number; readonly violated: number }[];
  readonly controls: readonly { readonly name: string; readonly caught: boolean }[];
  readonly recoveryMs: Readonly<Record<string, { readonly p50: number; readonly p99: number; readonly max: number }>>;
  readonly opsByOutcome: Readonly<Record<string, number>>;
  readonly worstStallMs: number;
  readonly duplicates: number;
  /** What is worth telling and breaks no law: how often it was so. */
  readonly remarks: Readonly<Record<string, number>>;
  /** Kinds that this machine cannot have, and why. */
  readonly notRun: Readonly<Record<string, string>>;
  /** Where a law was broken: which, and where the run is kept. */
  readonly broken: readonly {
    readonly law: string;
    readonly what: string;
    readonly seed: number;
    readonly kept: string;
  }[];
  /** Why the run failed, if it did. */
  readonly failures: readonly string[];
  readonly load: {
    readonly before: readonly number[];
    readonly after: readonly number[];
    readonly freeMegabytes: number;
  };
}

export const someSeed = (): number => randomInt(2 ** 31);

/** How long a round may be that has one run of each setting: what one run knows must fit into memory. */
const roundSeconds = 120;

const isNamed = (
  fault: string | undefined,
  { number, kind }: { readonly number: number; readonly kind: string },
): boolean => fault === undefined || fault === String(number) || (!/^\d+$/.test(fault) && kind.startsWith(fault));

/** The kinds that `fault` names. */
export const kindsOf = (workload: Workload, fault?: string): readonly (Row | Workload["edges"][number])[] =>
  [...workload.rows, ...workload.edges].filter((row) => isNamed(fault, row)).toSorted((a, b) => a.number - b.number);

/** What a report says besides sums. */
interface Facts extends Pick<CampaignReport, "redis" | "seconds" | "seed" | "controls" | "notRun" | "failures"> {
  readonly kinds: readonly string[];
  readonly before: readonly number[];
}

const resultsFolder = join(workspaceFolder, "test-results");

/** Adds up what single runs came to. */
class Sum {
  operations = 0;
  worstStallMs = 0;
  duplicates = 0;
  readonly bites = new Map<string, number>();
  readonly outcomes: Record<string, number> = {};
  readonly checked: Record<string, number> = {};
  readonly remarks: Record<string, number> = {};
  readonly recoveries = new Map<string, number[]>();
  readonly broken: { law: string; what: string; seed: number; kept: string }[] = [];

  /** `folder`: where a run that broke a law is kept; empty: nowhere. */
  add(report: LegReport, seed: number, folder: string): void {
    this.operations += report.operations;
    this.worstStallMs = Math.max(this.worstStallMs, report.worstStallMs);
    this.duplicates += report.duplicates;
    for (const [kind, count] of report.bites) this.bit(kind, count);
    for (const [outcome, count] of Object.entries(report.opsByOutcome))
      this.outcomes[outcome] = (this.outcomes[outcome] ?? 0) + count;
    for (const [law, count] of Object.entries(report.checked)) this.judged(law, count);
    for (const [remark, count] of Object.entries(report.remarks ?? {}))
      this.remarks[remark] = (this.remarks[remark] ?? 0) + count;
    for (const { kind, ms } of report.recoveries) this.recoveries.set(kind, [...(this.recoveries.get(kind) ?? []), ms]);
    if (report.violations.length === 0) return;
    const kept = folder === "" ? "" : keepRun(folder, `run-${String(seed)}`, report);
    for (const { law, what } of report.violations) this.broken.push({ law, what, seed, kept });
  }

  bit(kind: string, count: number): void {
    this.bites.set(kind, (this.bites.get(kind) ?? 0) + count);
  }

  judged(law: string, count: number): void {
    this.checked[law] = (this.checked[law] ?? 0) + count;
  }

  report(workload: Workload, { kinds, before, ...facts }: Facts): CampaignReport {
    const counted = kinds.filter((kind) => !(kind in facts.notRun));
    return {
      package: workload.name,
      ...facts,
      operations: this.operations,
      faults: Object.fromEntries(counted.map((kind) => [kind, this.bites.get(kind) ?? 0])),
      violations: this.broken.length,
      invariants: workload.laws.map((name) => ({
        name,
        checked: this.checked[name] ?? 0,
        violated: this.broken.filter(({ law }) => law === name).length,
      })),
      recoveryMs: Object.fromEntries([...this.recoveries].map(([kind, values]) => [kind, quantiles(values)])),
      opsByOutcome: this.outcomes,
      worstStallMs: Math.round(this.worstStallMs),
      duplicates: this.duplicates,
      remarks: this.remarks,
      broken: this.broken.slice(0, 50),
      load: { before, after: loadavg(), freeMegabytes: Math.round(freemem() / 1e6) },
    };
  }
}

const quantiles = (values: readonly number[]): { p50: number; p99: number; max: number } => {
  const sorted = values.toSorted((a, b) => a - b);
  const at = (share: number): number => Math.round((sorted[Math.ceil(share * sorted.length) - 1] ?? 0) * 10) / 10;
  return { p50: at(0.5), p99: at(0.99), max: at(1) };
};

const serverName = async (): Promise<string> => {
  await using server = await startRedis();
  return `${server.version.server} ${server.version.version}`;
};

/** Whether a fault shows depends on where the strikes fall. */
const mostControlRuns = 4;

/** Runs one control until its fault shows; resolves with the last run, and whether it did. */
const runControl = async (
  workload: Workload,
  control: Control,
  seed: number,
): Promise<{ readonly report: LegReport; readonly isCaught: boolean }> => {
  const rows = workload.rows.filter(({ kind }) => kind === control.kind);
  const setting = rows[0]?.setting ?? "kept";
  for (let run = 0; ; run++) {
    const strikes = run === 0 ? (control.strikes ?? 3) : 8;
    const isOver = (struck: number): boolean => struck >= strikes;
    const report = await workload.run({ seed: seed + run, setting, rows, isOver, control });
    const isCaught = report.violations.some(({ law }) => control.laws.includes(law));
    if (isCaught || run + 1 === mostControlRuns) return { report, isCaught };
  }
};

/** One control alone. What it breaks is reported as of any run, so its report never passes. */
export const controlCampaign = async (workload: Workload, control: Control, seed: number): Promise<CampaignReport> => {
  const before = loadavg();
  const startedAt = performance.now();
  const sum = new Sum();
  const { report, isCaught } = await runControl(workload, control, seed);
  sum.add(report, seed, "");
  return sum.report(workload, {
    redis: await serverName(),
    seconds: Math.ceil((performance.now() - startedAt) / 1_000),
    seed,
    kinds: [control.kind],
    controls: [{ name: control.name, caught: isCaught }],
    notRun: {},
    // A control that breaks no law is a failure of another kind, and no less one.
    failures: [isCaught ? "a control breaks laws" : `the control ${control.name} was not caught`],
    before,
  });
};

const edgesOf = async (workload: Workload, fault: string | undefined, seed: number, sum: Sum): Promise<void> => {
  for (const { number, kind, run } of workload.edges) {
    if (!isNamed(fault, { number, kind })) continue;
    const { bites, checked, broken } = await run();
    sum.bit(kind, bites);
    sum.judged("U6", checked);
    sum.operations += checked;
    for (const what of broken) sum.broken.push({ law: "U6", what: `${kind}: ${what}`, seed, kept: "" });
  }
};

/** One package under every fault that is asked for, and its controls. */
export const campaign = async (
  workload: Workload,
  { seconds, seed, fault, say }: CampaignOptions,
): Promise<CampaignReport> => {
  const before = loadavg();
  const random = seeded(seed);
  const sum = new Sum();
  const startedAt = performance.now();
  const redis = await serverName();
  const named = workload.rows.filter((row) => isNamed(fault, row));
  const notRun = Object.fromEntries(
    named.flatMap((row) => (row.whyNot?.() === undefined ? [] : [[row.kind, row.whyNot() ?? ""]])),
  );
  const rows = named.filter(({ kind }) => !(kind in notRun));

  await edgesOf(workload, fault, seed, sum);
  const shares = Object.entries(workload.shares) as [LegOptions["setting"], number][];
  const wanted = shares.filter(([setting]) => rows.some((row) => row.setting === setting));
  const whole = wanted.reduce((sum, [, share]) => sum + share, 0);
  const rounds = Math.max(1, Math.round(seconds / roundSeconds));
  const leftMs = seconds * 1_000 - (performance.now() - startedAt);
  let dueAt = performance.now();
  const brokenOff: string[] = [];
  for (let round = 0; round < rounds; round++)
    for (const [setting, share] of wanted) {
      const legSeed = Math.floor(random() * 2 ** 31);
      dueAt += ((leftMs / rounds) * share) / whole;
      const isOver = (): boolean => performance.now() + wayOutMs > dueAt;
      say(`seed ${String(legSeed)}, ${setting}: until ${(dueAt / 1_000 - startedAt / 1_000).toFixed(0)} s`);
      const struck = rows.filter((row) => row.setting === setting);
      try {
        const report = await workload.run({ seed: legSeed, setting, rows: struck, isOver });
        sum.add(report, legSeed, resultsFolder);
        say(`${setting}: ${String(report.operations)} operations, ${String(report.violations.length)} violations`);
      } catch (error) {
        // What the other runs found is worth telling all the same.
        brokenOff.push(`seed ${String(legSeed)}, ${setting} broke off: ${String(error)}`);
      }
    }

  const controls: { name: string; caught: boolean }[] = [];
  for (const control of fault === undefined ? workload.controls : []) {
    const { isCaught: caught } = await runControl(workload, control, Math.floor(random() * 2 ** 31));
    say(`control ${control.name}: ${caught ? "caught" : "NOT CAUGHT"}`);
    controls.push({ name: control.name, caught });
  }

  const kinds = kindsOf(workload, fault).map(({ kind }) => kind);
  const never = kinds.filter((kind) => !(kind in notRun) && (sum.bites.get(kind) ?? 0) === 0);
  const isWorked = wanted.length > 0;
  const least = isWorked ? 100 * seconds : 0;
  // A checker that has gone blind finds nothing either. In a short run there may have been no occasion.
  const isLong = fault === undefined && seconds >= 60;
  const unjudged = isLong ? workload.laws.filter((law) => (sum.checked[law] ?? 0) === 0) : [];
  const failures = [
    ...brokenOff,
    ...(sum.broken.length > 0 ? [`${String(sum.broken.length)} violations`] : []),
    ...controls.filter(({ caught }) => !caught).map(({ name }) => `the control ${name} was not caught`),
    ...never.map((kind) => `"${kind}" never bit`),
    ...unjudged.map((law) => `${law} could never be judged`),
    ...(sum.operations < least ? [`only ${String(sum.operations)} operations, of ${String(least)}`] : []),
    // Who asks for one fault wants that one; the others may be missing on a poor machine.
    ...(fault === undefined ? [] : Object.entries(notRun).map(([kind, why]) => `"${kind}" was not run: ${why}`)),
  ];
  return sum.report(workload, { redis, seconds, seed, kinds, controls, notRun, failures, before });
};

/** What the contenders need for a calm end and to leave, and the checker to judge. */
const wayOutMs = 5_500;
