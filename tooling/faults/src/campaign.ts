import { randomInt } from "node:crypto";
import { mkdirSync, writeFileSync } from "node:fs";
import { freemem, loadavg } from "node:os";
import { join } from "node:path";
import { startRedis } from "@kit/testing";
import type { Control } from "./lab/control.js";
import { workspaceFolder } from "./lab/paths.js";
import { takeRejections } from "./lab/rejections.js";
import { type ClientName, seeded } from "@tooling/lab";
import type { Fault } from "./faults/fault.js";
import type { PhaseOptions, PhaseReport, Workload } from "./workload.js";

export interface CampaignOptions {
  readonly seconds: number;
  readonly seed: number;
  /** The only fault to inject. If no fault has this name, all faults whose name begins with it. */
  readonly only?: string | undefined;
  /** Injections that take effect, in place of the time. */
  readonly injections?: number | undefined;
  /** The client on which the packages run. @default "ioredis" */
  readonly client?: ClientName | undefined;
  /** Receives lines of progress. */
  readonly say: (line: string) => void;
}

/** The report that `faults --json` prints. */
export interface CampaignReport {
  readonly package: string;
  readonly redis: string;
  readonly client: ClientName;
  readonly seconds: number;
  readonly seed: number;
  readonly operations: number;
  readonly faults: Readonly<Record<string, number>>;
  readonly violations: number;
  readonly invariants: readonly { readonly name: string; readonly checked: number; readonly violated: number }[];
  readonly controls: readonly { readonly name: string; readonly caught: boolean }[];
  readonly recoveryMs: Readonly<Record<string, { readonly p50: number; readonly p99: number; readonly max: number }>>;
  readonly opsByOutcome: Readonly<Record<string, number>>;
  /** Rejections that nobody handled: in workers, those of controls included, and in the lab itself. */
  readonly unhandledRejections: number;
  readonly worstStallMs: number;
  readonly duplicates: number;
  /** Remarks that break no invariant, each with its count. */
  readonly remarks: Readonly<Record<string, number>>;
  /** Faults that this machine cannot inject, each with the reason. */
  readonly notRun: Readonly<Record<string, string>>;
  /** Broken invariants, each with the file that keeps the run. */
  readonly broken: readonly {
    readonly invariant: string;
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

/** The length of a round, which has one run of each setting. The records of one run must fit into memory. */
const roundSeconds = 120;

/** The faults that `only` names. */
export const faultsOf = ({ faults }: Workload, only?: string): readonly Fault[] => {
  if (only === undefined) return faults;
  const exact = faults.filter(({ kind }) => kind === only);
  return exact.length > 0 ? exact : faults.filter(({ kind }) => kind.startsWith(only));
};

/** The parts of a report besides sums. */
interface Facts extends Pick<
  CampaignReport,
  "redis" | "client" | "seconds" | "seed" | "controls" | "notRun" | "failures"
> {
  readonly kinds: readonly string[];
  readonly before: readonly number[];
}

const resultsFolder = join(workspaceFolder, "test-results");

/** Stores the facts of a run that broke an invariant; returns the file. */
const keepRun = (name: string, run: unknown): string => {
  const plain = (_: string, value: unknown): unknown =>
    typeof value === "bigint" ? String(value) : value instanceof Map ? Object.fromEntries(value) : value;
  mkdirSync(resultsFolder, { recursive: true });
  const file = join(resultsFolder, `${name}.json`);
  writeFileSync(file, JSON.stringify(run, plain, 1));
  return file;
};

/** Adds up the results of single runs. */
class Sum {
  operations = 0;
  worstStallMs = 0;
  duplicates = 0;
  readonly effects = new Map<string, number>();
  readonly outcomes: Record<string, number> = {};
  readonly checked: Record<string, number> = {};
  readonly remarks: Record<string, number> = {};
  readonly unhandled: string[] = [];
  readonly recoveries = new Map<string, number[]>();
  readonly broken: { invariant: string; what: string; seed: number; kept: string }[] = [];

  /** `workload`: whose run it is, if runs that broke an invariant are to be kept. Other packages have runs of the same seed. */
  add(report: PhaseReport, seed: number, workload?: Workload): void {
    this.operations += report.operations;
    this.worstStallMs = Math.max(this.worstStallMs, report.worstStallMs);
    this.duplicates += report.duplicates;
    this.unhandled.push(...(report.unhandled ?? []));
    for (const [kind, count] of report.effects) this.effects.set(kind, (this.effects.get(kind) ?? 0) + count);
    for (const [outcome, count] of Object.entries(report.opsByOutcome))
      this.outcomes[outcome] = (this.outcomes[outcome] ?? 0) + count;
    for (const [invariant, count] of Object.entries(report.checked))
      this.checked[invariant] = (this.checked[invariant] ?? 0) + count;
    for (const [remark, count] of Object.entries(report.remarks ?? {}))
      this.remarks[remark] = (this.remarks[remark] ?? 0) + count;
    for (const { kind, ms } of report.recoveries) this.recoveries.set(kind, [...(this.recoveries.get(kind) ?? []), ms]);
    if (report.violations.length === 0) return;
    const kept = workload === undefined ? "" : keepRun(`${workload.name}-${String(seed)}`, report);
    for (const { invariant, what } of report.violations) this.broken.push({ invariant, what, seed, kept });
  }

  report(workload: Workload, { kinds, before, ...facts }: Facts): CampaignReport {
    const counted = kinds.filter((kind) => !(kind in facts.notRun));
    return {
      package: workload.name,
      ...facts,
      operations: this.operations,
      faults: Object.fromEntries(counted.map((kind) => [kind, this.effects.get(kind) ?? 0])),
      violations: this.broken.length,
      invariants: workload.invariants.map((name) => ({
        name,
        checked: this.checked[name] ?? 0,
        violated: this.broken.filter(({ invariant }) => invariant === name).length,
      })),
      recoveryMs: Object.fromEntries([...this.recoveries].map(([kind, values]) => [kind, quantiles(values)])),
      opsByOutcome: this.outcomes,
      unhandledRejections: this.unhandled.length,
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

/** A control's fault may not show in one run, since that depends on the instants of the injections. */
const mostControlRuns = 4;

/** Runs one control until its fault shows. Resolves with the last run and whether the fault showed. */
const runControl = async (
  workload: Workload,
  control: Control,
  seed: number,
  client: ClientName,
): Promise<{ readonly report: PhaseReport; readonly isCaught: boolean; readonly unhandled: readonly string[] }> => {
  const unhandled: string[] = [];
  const faults = workload.faults.filter(({ kind }) => kind === control.kind);
  const setting = faults[0]?.setting ?? "kept";
  for (let run = 0; ; run++) {
    const wanted = run === 0 ? (control.injections ?? 3) : 8;
    const isOver = (effective: number): boolean => effective >= wanted;
    const report = await workload.run({ seed: seed + run, setting, faults, isOver, control, client });
    unhandled.push(...(report.unhandled ?? []));
    const isCaught = report.violations.some(({ invariant }) => control.invariants.includes(invariant));
    if (isCaught || run + 1 === mostControlRuns) return { report, isCaught, unhandled };
  }
};

const unhandledIn = (rejections: readonly string[]): string[] =>
  rejections.length === 0
    ? []
    : [`${String(rejections.length)} unhandled rejections, such as ${rejections[0]?.split("\n", 1)[0] ?? ""}`];

/** One control alone. Broken invariants are reported like those of any run, so its report never passes. */
export const controlCampaign = async (
  workload: Workload,
  control: Control,
  seed: number,
  client: ClientName = "ioredis",
): Promise<CampaignReport> => {
  const before = loadavg();
  const startedAt = performance.now();
  const sum = new Sum();
  const { report, isCaught } = await runControl(workload, control, seed, client);
  sum.add(report, seed);
  return sum.report(workload, {
    redis: await serverName(),
    client,
    seconds: Math.ceil((performance.now() - startedAt) / 1_000),
    seed,
    kinds: [control.kind],
    controls: [{ name: control.name, caught: isCaught }],
    notRun: {},
    // A control that breaks no invariant is a failure as well.
    failures: [isCaught ? "a control breaks invariants" : `the control ${control.name} was not caught`],
    before,
  });
};

/** One package under every requested fault, and its controls. */
export const campaign = async (
  workload: Workload,
  { seconds, seed, only, injections, client = "ioredis", say }: CampaignOptions,
): Promise<CampaignReport> => {
  const before = loadavg();
  const random = seeded(seed);
  const sum = new Sum();
  const startedAt = performance.now();
  const redis = await serverName();
  const named = faultsOf(workload, only);
  const notRun = Object.fromEntries(
    named.flatMap((fault) => (fault.whyNot?.() === undefined ? [] : [[fault.kind, fault.whyNot() ?? ""]])),
  );
  const faults = named.filter(({ kind }) => !(kind in notRun));

  const shares = Object.entries(workload.shares) as [PhaseOptions["setting"], number][];
  const wanted = shares.filter(([setting]) => faults.some((fault) => fault.setting === setting));
  const whole = wanted.reduce((sum, [, share]) => sum + share, 0);
  const rounds = injections === undefined ? Math.max(1, Math.round(seconds / roundSeconds)) : 1;
  const leftMs = seconds * 1_000 - (performance.now() - startedAt);
  let dueAt = performance.now();
  const brokenOff: string[] = [];
  for (let round = 0; round < rounds; round++)
    for (const [setting, share] of wanted) {
      const phaseSeed = Math.floor(random() * 2 ** 31);
      dueAt += ((leftMs / rounds) * share) / whole;
      const isOver = (effective: number): boolean =>
        injections === undefined ? performance.now() + wayOutMs > dueAt : effective >= injections;
      const until = `${(dueAt / 1_000 - startedAt / 1_000).toFixed(0)} s`;
      const end = injections === undefined ? until : `${String(injections)} injections`;
      say(`seed ${String(phaseSeed)}, ${setting}: until ${end}`);
      const injected = faults.filter((fault) => fault.setting === setting);
      try {
        const report = await workload.run({ seed: phaseSeed, setting, faults: injected, isOver, client });
        sum.add(report, phaseSeed, workload);
        say(`${setting}: ${String(report.operations)} operations, ${String(report.violations.length)} violations`);
      } catch (error) {
        // The campaign goes on, so that the findings of the other runs are reported.
        brokenOff.push(`seed ${String(phaseSeed)}, ${setting} broke off: ${String(error)}`);
      }
    }

  const controls: { name: string; caught: boolean }[] = [];
  const isRun = ({ needsIoredis = false }: Control): boolean => client === "ioredis" || !needsIoredis;
  for (const control of only === undefined ? workload.controls.filter(isRun) : []) {
    const { isCaught: caught, unhandled } = await runControl(workload, control, Math.floor(random() * 2 ** 31), client);
    sum.unhandled.push(...unhandled);
    say(`control ${control.name}: ${caught ? "caught" : "NOT CAUGHT"}`);
    controls.push({ name: control.name, caught });
  }

  const kinds = named.map(({ kind }) => kind);
  const never = kinds.filter((kind) => !(kind in notRun) && (sum.effects.get(kind) ?? 0) === 0);
  const isWorked = wanted.length > 0;
  const least = isWorked && injections === undefined ? 100 * seconds : 0;
  // An invariant that was never judged fails the campaign. A short run may have no occasion to judge it.
  const isLong = only === undefined && seconds >= 60;
  const exempt = workload.controls.filter((control) => !isRun(control)).flatMap(({ invariants }) => invariants);
  const unjudged = isLong
    ? workload.invariants.filter((invariant) => (sum.checked[invariant] ?? 0) === 0 && !exempt.includes(invariant))
    : [];
  sum.unhandled.push(...takeRejections());
  const failures = [
    ...brokenOff,
    ...unhandledIn(sum.unhandled),
    ...(sum.broken.length > 0 ? [`${String(sum.broken.length)} violations`] : []),
    ...controls.filter(({ caught }) => !caught).map(({ name }) => `the control ${name} was not caught`),
    ...never.map((kind) => `"${kind}" never took effect`),
    ...unjudged.map((invariant) => `${invariant} could never be judged`),
    ...(sum.operations < least ? [`only ${String(sum.operations)} operations, of ${String(least)}`] : []),
    // A fault that `only` names must run. Without `only`, faults that this machine cannot inject are left out.
    ...(only === undefined ? [] : Object.entries(notRun).map(([kind, why]) => `"${kind}" was not run: ${why}`)),
  ];
  const tookSeconds = injections === undefined ? seconds : Math.ceil((performance.now() - startedAt) / 1_000);
  return sum.report(workload, { redis, client, seconds: tookSeconds, seed, kinds, controls, notRun, failures, before });
};

/** The time for the workers to recover and leave, and for the checker. */
const wayOutMs = 5_500;
