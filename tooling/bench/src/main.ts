// npm run bench -- <package>: see `usage` in options.ts.
import { cpus, loadavg, platform, release, totalmem } from "node:os";
import { keep, keepProfile, redraw } from "./keep.js";
import { Lab } from "./lab.js";
import { type Options, parseOptions, usage, UsageError } from "./options.js";
import { hottest, profileOurs } from "./profile.js";
import { type EntryReport, entryReport, type Report, table } from "./report.js";
import { type Plan, runCase } from "./rounds.js";
import type { Case, Suite } from "./suite.js";
import { loadSuite, suiteNames } from "./suites.js";
import { againstBefore, againstIoredis, runSlices } from "./turns.js";

const matches = ({ entries }: Case, pattern: string): boolean =>
  entries.some(({ name }) => name.toLowerCase().includes(pattern.toLowerCase()));

const chosenCases = ({ cases }: Suite, pattern: string | undefined): readonly Case[] => {
  if (pattern === undefined) return cases;
  const chosen = cases.filter((one) => matches(one, pattern));
  if (chosen.length > 0) return chosen;
  const names = cases.flatMap(({ entries }) => entries.map(({ name }) => `  ${name}`));
  throw new UsageError(`No case contains "${pattern}". There are:\n${names.join("\n")}`);
};

const loadNow = (): number => loadavg()[0] ?? 0;

const run = async (options: Options, suite: Suite, say: Plan["say"]): Promise<Report> => {
  const { rounds, scale } = options;
  const cases = chosenCases(suite, options.pattern);
  // A pattern that matches nothing is reported at once, not after minutes.
  chosenCases(suite, options.profile);
  const loadBefore = loadNow();
  await using lab = await Lab.open(suite.package);
  const reports: EntryReport[] = [];
  for (const one of cases) {
    const plan = { rounds, scale, say };
    const isSliced = one.operation !== undefined && one.implementations.some(({ opens }) => opens !== undefined);
    const runs = await (isSliced ? runSlices(lab, one, one.operation, plan) : runCase(lab, one, plan));
    const entries = one.entries.map((entry) => entryReport(entry, runs));
    const isAskedFor = options.profile !== undefined && matches(one, options.profile);
    // A missed goal is profiled in the same run, under the same conditions. If ours failed completely, its error is
    // reported instead, and there is nothing to profile.
    if (!isAskedFor && entries.every(({ met, kit }) => met !== false || "error" in kit)) {
      reports.push(...entries);
      continue;
    }
    const name = one.entries[0]?.name ?? "";
    say(`${name}: a profile of ours`);
    const cpuProfile = await profileOurs(lab, one, scale).catch((error: unknown) => {
      if (isAskedFor) throw error;
    });
    // The figures stand without it.
    if (!cpuProfile) {
      reports.push(...entries);
      continue;
    }
    if (isAskedFor) process.stderr.write(`CPU profile: ${keepProfile(suite.package, name, cpuProfile)}\n`);
    const profile = hottest(cpuProfile);
    reports.push(...entries.map((entry) => (isAskedFor || entry.met === false ? { ...entry, profile } : entry)));
  }
  const { server, version } = lab.server.version;
  return {
    package: suite.package,
    node: process.version,
    redis: `${server} ${version}`,
    rounds,
    date: new Date().toISOString(),
    scale,
    machine: {
      cpu: cpus()[0]?.model.trim() ?? "unknown",
      cores: cpus().length,
      memoryMb: Math.round(totalmem() / 2 ** 20),
      system: `${platform()} ${release()}`,
      loadBefore,
      loadAfter: loadNow(),
    },
    cases: reports,
  };
};

// Progress goes to stderr; stdout is for the result.
const say = (text: string): void => void (process.stderr.isTTY && process.stderr.write(`\r\x1b[2K${text}`));

/** The part of a suite that is measured. */
const measured = (suite: Suite, { before, client }: Options): Suite => {
  if (before !== undefined) return againstBefore(suite, before);
  if (client === "ioredis") return suite;
  if (suite.needsIoredis) throw new UsageError(`The benchmarks of ${suite.package} need ioredis`);
  return againstIoredis(suite, client);
};

const main = async (args: readonly string[]): Promise<void> => {
  const [first, ...rest] = args;
  if (first === "costs" && !rest.includes("--help")) {
    // All packages of ours, which a suite loads in processes of their own.
    const { costs } = await import("./costs/program.js");
    process.exitCode = await costs(rest, say);
    return;
  }
  if (args.length === 1 && first === "plots") return void process.stderr.write(`Drawn in ${redraw()}\n`);
  const options = parseOptions(args, suiteNames());
  if (!options) return void process.stdout.write(usage);
  const whole = await loadSuite(options.package);
  const suite = measured(whole, options);
  const report = await run(options, suite, say);
  say("");
  if (options.save) process.stderr.write(`Kept in ${keep(report, options.pattern !== undefined)}\n`);
  process.stdout.write(options.json ? `${JSON.stringify(report, null, 2)}\n` : table(report));
};

try {
  await main(process.argv.slice(2));
} catch (error) {
  if (!(error instanceof UsageError)) throw error;
  process.stderr.write(`${error.message}\n\n${usage}`);
  process.exitCode = 2;
}
