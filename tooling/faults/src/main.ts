import { parseArgs } from "node:util";
import { clientNames, isClientName } from "@tooling/lab";
import { campaign, type CampaignReport, controlCampaign, faultsOf, someSeed } from "./campaign.js";
import type { Control } from "./lab/control.js";
import { inOwnNetwork } from "./lab/network.js";
import { noteRejection } from "./lab/rejections.js";
import { keep } from "./kept.js";
import { configurations } from "./rotation/configurations.js";
import { controls as rotationControls } from "./rotation/controls.js";
import { runRotation } from "./rotation/index.js";
import type { Workload } from "./workload.js";
import { loadWorkload, workloadNames } from "./workloads.js";

const names = workloadNames();

const usage = `npm run faults -- <package> [--fault NAME] [--server NAME] [--seed N] [--seconds N] [--injections N] [--control NAME] [--client NAME] [--json] [--save] [--list]
npm run faults -- logship --writer NAME [--seconds N | --lines N] [--seed N] [--control NAME]

  <package>   ${names.join(", ")}, or all
  --fault     only the fault NAME, or all whose names start with it (see --list)
  --server    redis, valkey, or the path of a server program; else REDIS_SERVER_BIN or what is on PATH
  --seed      plays the same plan again; printed with every run
  --seconds   the budget for each package; its controls come on top (default 120)
  --injections  how many must take effect, instead of --seconds
  --control   runs a package with one bug in it, which must be reported: exit code 1
  --client    the client of Redis on which the package runs: ${clientNames.join(", ")} (default ioredis)
  --json      one object on stdout, and nothing else
  --save      keeps the results of whole runs for the page of faults; then: npm run reference
  --list      what there is, without running it
  --writer    of logship: instead of the faults above, logs that real programs rotate: those whose names start with NAME, or all
  --lines     with --writer: the number of lines of each log, instead of --seconds (default 10 s)
  --help      this text`;

const fail = (message: string): never => {
  process.stderr.write(`${message}\n\n${usage}\n`);
  process.exit(1);
};

const numberOf = (name: string, text: string | undefined, least: number): number | undefined => {
  if (text === undefined) return undefined;
  const value = Number(text);
  if (!Number.isSafeInteger(value) || value < least)
    fail(`Expected --${name} to be an integer from ${String(least)}, got ${text}`);
  return value;
};

const parse = (): { readonly values: Record<string, string | boolean | undefined>; readonly positionals: string[] } => {
  try {
    return parseArgs({
      allowPositionals: true,
      options: {
        fault: { type: "string" },
        server: { type: "string" },
        seed: { type: "string" },
        seconds: { type: "string" },
        injections: { type: "string" },
        control: { type: "string" },
        client: { type: "string", default: "ioredis" },
        json: { type: "boolean" },
        save: { type: "boolean" },
        list: { type: "boolean" },
        lines: { type: "string" },
        writer: { type: "string" },
        help: { type: "boolean", short: "h" },
      },
    });
  } catch (error) {
    return fail(error instanceof Error ? error.message : String(error));
  }
};

const list = (chosen: readonly Workload[]): void => {
  for (const workload of chosen) {
    const kinds = faultsOf(workload).map(({ kind }) => `  ${kind}`);
    const controls = workload.controls.map(({ name, invariants }) => `  ${name} (breaks ${invariants.join(", ")})`);
    process.stdout.write(`${workload.name}\n${kinds.join("\n")}\ncontrols\n${controls.join("\n")}\n`);
    if (workload.name !== "logship") continue;
    const writers = configurations.map(({ name }) => `  ${name}`);
    const ofWriters = rotationControls.map(({ name }) => `  ${name}`);
    process.stdout.write(`writers\n${writers.join("\n")}\ncontrols of writers\n${ofWriters.join("\n")}\n`);
  }
};

const table = (report: CampaignReport): string => {
  const recovery = (kind: string): string => {
    const figures = report.recoveryMs[kind];
    return figures ? `${String(figures.p50)} / ${String(figures.p99)} / ${String(figures.max)}` : "";
  };
  const faults = Object.entries(report.faults).map(
    ([kind, count]) => `  ${kind.padEnd(34)}${String(count).padStart(6)}  ${recovery(kind)}`,
  );
  const invariants = report.invariants.map(
    ({ name, checked, violated }) =>
      `  ${name.padEnd(34)}${String(checked).padStart(8)}${String(violated).padStart(8)}`,
  );
  const remarks = Object.entries(report.remarks).map(([what, count]) => `  ${what.padEnd(50)}${String(count)}`);
  const controls = report.controls.map(({ name, caught }) => `  ${name.padEnd(34)}${caught ? "caught" : "NOT CAUGHT"}`);
  const notRun = Object.entries(report.notRun).map(([kind, why]) => `  ${kind.padEnd(34)}not run: ${why}`);
  const broken = report.broken.map(
    ({ invariant, what, seed, kept }) =>
      `  ${invariant}: ${what} (seed ${String(seed)}${kept === "" ? "" : `, ${kept}`})`,
  );
  const head = `${report.package} by ${report.client} on ${report.redis}, seed ${String(report.seed)}: ${String(report.operations)} operations in ${String(report.seconds)} s`;
  const lines = [
    head,
    "faults, times in effect, and milliseconds until work went on (p50 / p99 / max)",
    ...faults,
    ...notRun,
    "invariants, times judged, times broken",
    ...invariants,
    `unhandled rejections: ${String(report.unhandledRejections)}; longest time without work: ${String(report.worstStallMs)} ms`,
    ...(remarks.length > 0 ? ["remarks", ...remarks] : []),
    ...(controls.length > 0 ? ["controls", ...controls] : []),
    ...broken,
    report.failures.length === 0 ? "passed" : `FAILED: ${report.failures.join("; ")}`,
  ];
  return `${lines.join("\n")}\n`;
};

const say = (line: string): void => void process.stderr.write(`${line}\n`);

const controlOf = (chosen: readonly Workload[], name: string): { workload: Workload; control: Control } => {
  const all = chosen.flatMap((workload) => workload.controls.map((control) => ({ workload, control })));
  const there = all.map(({ control }) => control.name).join(", ");
  return (
    all.find(({ control }) => control.name === name) ?? fail(`There is no control "${name}". There are: ${there}.`)
  );
};

/** Logs that real programs rotate. Not a workload: nothing is injected except kills and lost replies, and each log is judged by itself. */
const rotation = async (values: Readonly<Record<string, string | boolean | undefined>>): Promise<void> => {
  const { writer: chosen, control } = values as { writer?: string; control?: string };
  const writer = chosen === "all" ? undefined : chosen;
  const number = (name: string): number | undefined => numberOf(name, values[name] as string | undefined, 1);
  const lines = number("lines");
  const seconds = number("seconds") ?? (lines === undefined ? 10 : undefined);
  const seed = numberOf("seed", values["seed"] as string | undefined, 0) ?? someSeed();
  // Children and servers end on the exit of this process.
  for (const [signal, status] of [
    ["SIGINT", 130],
    ["SIGTERM", 143],
  ] as const)
    process.on(signal, () => process.exit(status));
  say(`seed ${String(seed)}`);
  const print = (line: string): void => void process.stdout.write(`${line}\n`);
  const isRight = await runRotation({ seconds, lines, seed, writer, control, say: print });
  process.exit(isRight ? 0 : 1);
};

const main = async (): Promise<void> => {
  const { values, positionals } = parse();
  if (values["help"] === true) return void process.stdout.write(`${usage}\n`);
  const isOfWriters = values["writer"] !== undefined || rotationControls.some(({ name }) => name === values["control"]);
  if (positionals.join() === "logship" && isOfWriters) return await rotation(values);
  const {
    fault,
    server,
    control,
    client,
    json,
    list: isList,
  } = values as { fault?: string; server?: string; control?: string; client: string; json?: boolean; list?: boolean };
  const [name = ""] = positionals;
  const wanted = names.filter((one) => name === "all" || one === name);
  if (wanted.length === 0 || positionals.length !== 1)
    fail(`There is no package "${positionals.join(" ")}" to run. There are: ${names.join(", ")}, all.`);
  const chosen = await Promise.all(wanted.map(loadWorkload));
  if (isList === true) return list(chosen);
  if (fault !== undefined && chosen.every((workload) => faultsOf(workload, fault).length === 0))
    fail(`There is no fault "${fault}". See --list.`);
  if (!isClientName(client)) return fail(`Expected --client to be ${clientNames.join(" or ")}, got "${client}"`);
  const fixed = chosen.filter(({ needsIoredis }) => client !== "ioredis" && needsIoredis);
  if (fixed.length > 0) fail(`These workloads need ioredis: ${fixed.map((workload) => workload.name).join(", ")}`);
  const seed = numberOf("seed", values["seed"] as string | undefined, 0) ?? someSeed();
  const seconds = numberOf("seconds", values["seconds"] as string | undefined, 1) ?? 120;
  const injections = numberOf("injections", values["injections"] as string | undefined, 1);

  const broken = control === undefined ? undefined : controlOf(chosen, control);

  const code = await inOwnNetwork();
  if (code !== undefined) {
    process.exitCode = code;
    return;
  }
  if (server !== undefined)
    process.env["REDIS_SERVER_BIN"] = server === "redis" || server === "valkey" ? `${server}-server` : server;
  process.on("unhandledRejection", noteRejection);
  // All clean-up runs on the exit of this process.
  for (const [signal, status] of [
    ["SIGINT", 130],
    ["SIGTERM", 143],
    ["SIGHUP", 129],
  ] as const)
    process.on(signal, () => process.exit(status));
  // Nothing is open then. Left to end by itself, Node 20 has been seen to spin for ever in `Environment::CleanupHandles`.
  process.once("beforeExit", () => process.exit());

  const isKept = values["save"] === true && fault === undefined && control === undefined;
  const print = (report: CampaignReport): void => {
    process.stdout.write(json === true ? `${JSON.stringify(report)}\n` : table(report));
    if (isKept) keep(report, seconds);
    if (report.failures.length > 0) process.exitCode = 1;
  };
  if (json !== true) say(`seed ${String(seed)}`);
  if (broken) return print(await controlCampaign(broken.workload, broken.control, seed, client));
  const options = { seconds, seed, only: fault, injections, client, say: json === true ? () => undefined : say };
  for (const workload of chosen) print(await campaign(workload, options));
};

try {
  await main();
} catch (error) {
  // For example a missing server program. The message suffices; a stack would hide it.
  process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`);
  process.exitCode = 1;
}
