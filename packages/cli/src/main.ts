#!/usr/bin/env node
import { createRequire } from "node:module";
import { connect, type Connection, KitError } from "@kit/core";
import { Command, CommanderError } from "commander";
import doctorPage from "../../../apps/docs/doctor.md";
import { examine } from "./doctor/index.js";
import { strangerOf } from "./doctor/reachability.js";
import { exitCodes, Failure } from "./exit-codes.js";
import { plainText, sectionsOf } from "./explain.js";
import { inspectLock, lockFacts } from "./inspect/lock.js";
import type { Facts, InspectOptions } from "./inspect/report.js";
import { inspectSemaphore, semaphoreFacts } from "./inspect/semaphore.js";
import { checkLines, countsOf, factLines, summaryLine } from "./print.js";
import { givenUrl, withoutCredentials } from "./target.js";

/** Of what `--json` prints; grows when a field goes or changes its meaning. */
const jsonVersion = 1;

interface Target {
  readonly url?: string;
  readonly prefix: string;
  readonly json?: true;
}

const print = (text: string): void => void process.stdout.write(text);
const printJson = (value: object): void => print(`${JSON.stringify({ version: jsonVersion, ...value })}\n`);

const doctor = async (options: Target & { readonly strict?: true }): Promise<number> => {
  const url = givenUrl(options.url);
  const isStrict = options.strict === true;
  if (options.json) {
    const report = await examine(url, options.prefix, isStrict, () => undefined);
    const { checks, exitCode } = report;
    printJson({ url: report.url, checks, summary: { ...countsOf(report), exitCode } });
    return exitCode;
  }
  const report = await examine(url, options.prefix, isStrict, (result) => print(checkLines(result)));
  print(summaryLine(report));
  return report.exitCode;
};

/** How something is looked at, and told in words. */
type Inspected<Report> = [
  look: (redis: Connection, name: string, options: InspectOptions) => Promise<Report>,
  factsOf: (report: Report) => Facts,
];

const inspect = async <Report extends object>(
  [look, factsOf]: Inspected<Report>,
  name: string,
  options: Target & InspectOptions,
): Promise<number> => {
  const url = givenUrl(options.url);
  if (name === "") throw new Failure("A name must be text of 1 to 512 bytes, got 0 bytes", exitCodes.usage);
  const redis = await connect({ url, connectionName: "kit-inspect" }).catch(async (error: unknown) => {
    const stranger = await strangerOf(error, url);
    throw stranger === undefined ? error : new Failure(stranger, exitCodes.noConnection);
  });
  try {
    const report = await look(redis, name, options);
    if (options.json) printJson({ url: withoutCredentials(url), ...report });
    else print(factLines(factsOf(report)));
    return exitCodes.fine;
  } finally {
    await redis.close();
  }
};

/** A check of the doctor, or a command by its words; without a topic the whole program. */
const help = (topic: readonly string[], kit: Command): void => {
  const checks = sectionsOf(doctorPage);
  const section = topic.length === 1 ? checks.get(topic[0] ?? "") : undefined;
  if (section !== undefined) return print(plainText(topic.join(""), section));
  let command: Command | undefined = kit;
  for (const word of topic) command = command?.commands.find((one) => one.name() === word);
  if (!command) {
    const commands = kit.commands.map((one) => one.name()).join(", ");
    const ids = [...checks.keys()].join(", ");
    throw new Failure(
      `No help on ${JSON.stringify(topic.join(" "))}. Commands: ${commands}. Checks: ${ids}`,
      exitCodes.usage,
    );
  }
  command.outputHelp();
};

const targetOptions = (command: Command): Command =>
  command
    .option("--url <url>", "which Redis (default: $REDIS_URL, else redis://127.0.0.1:6379)")
    .option("--prefix <prefix>", "what the packages' keys begin with", "kit")
    .option("--json", "one JSON object on stdout");

const { version } = createRequire(import.meta.url)("../package.json") as { version: string };

const program = (finish: (exitCode: number) => void): Command => {
  const kit = new Command("kit")
    .description("Looks after what the kit packages keep in Redis. Changes nothing.")
    .version(version)
    .exitOverride()
    .showHelpAfterError("Try: kit help");
  targetOptions(kit.command("doctor"))
    .description("looks for what is wrong with a Redis, and says how to mend it")
    .option("--strict", "exit 1 when there are warnings")
    .addHelpText(
      "after",
      "\nExit codes: 0 fine, 1 warnings (with --strict), 2 a problem, 3 cannot connect, 64 used wrongly",
    )
    .action(async (options: Target & { strict?: true }) => finish(await doctor(options)));
  const inspected = kit.command("inspect").description("one thing in words: who has it, since when, who waits");
  const inspectable = <Report extends object>(what: string, how: Inspected<Report>): Command =>
    targetOptions(inspected.command(`${what} <name>`))
      .description(`a ${what} of @kit/${what}`)
      .option("--keys", "the keys behind it, too")
      .action(async (name: string, options: Target & InspectOptions) => finish(await inspect(how, name, options)));
  inspectable("lock", [inspectLock, lockFacts]);
  inspectable("semaphore", [inspectSemaphore, semaphoreFacts]).option("--tenant <tenant>", "one tenant of a group");
  kit
    .command("help [topic...]")
    .description("a command, or what a check of the doctor looks at, as in: kit help round-trip")
    .action((topic: readonly string[]) => help(topic, kit));
  return kit;
};

const exitCodeOf = (error: unknown): number => {
  if (error instanceof Failure) return error.exitCode;
  if (error instanceof TypeError || error instanceof RangeError) return exitCodes.usage;
  if (!KitError.is(error)) return exitCodes.problem;
  if (error.code === "KIT_TARGET" || error.code === "KIT_NAME") return exitCodes.usage;
  return error.code === "KIT_UNAVAILABLE" || error.code === "KIT_AUTH" ? exitCodes.noConnection : exitCodes.problem;
};

// `kit doctor | head -1` has seen enough, and there is nobody to tell that to.
for (const stream of [process.stdout, process.stderr])
  stream.on("error", (error: NodeJS.ErrnoException) => {
    if (error.code === "EPIPE") process.exit(exitCodes.fine);
    throw error;
  });
process.once("SIGINT", () => process.exit(130));

try {
  await program((exitCode) => {
    process.exitCode = exitCode;
  }).parseAsync();
} catch (error) {
  // commander has said everything by then.
  if (error instanceof CommanderError) process.exitCode = error.exitCode === 0 ? exitCodes.fine : exitCodes.usage;
  else {
    process.stderr.write(`kit: ${error instanceof Error ? error.message : String(error)}\n`);
    process.exitCode = exitCodeOf(error);
  }
}

// What was written to a pipe is read when its callback runs. A server that stands still may hold a connection open.
const flushed = (stream: NodeJS.WriteStream): Promise<void> =>
  new Promise((resolve) => stream.write("", () => resolve()));
await Promise.all([flushed(process.stdout), flushed(process.stderr)]);
process.exit();
