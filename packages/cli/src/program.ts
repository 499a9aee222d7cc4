import type { DoctorCheck, PackageDescriptor } from "@kit/core/toolkit";
import { Command } from "commander";
import doctorPage from "../docs/doctor.md";
import { addBoard } from "./board.js";
import { addCommand, addInspector, addList, addOverview } from "./commands.js";
import { type Target, targetOptions } from "./connection.js";
import { examine } from "./doctor/index.js";
import { exitCodes, Failure } from "./exit-codes.js";
import { plainText, sectionsOf } from "./explain.js";
import { kindsOf } from "./list.js";
import { manifest } from "./manifest.js";
import { serveReports } from "./mcp.js";
import { write, writeJson } from "./output.js";
import { descriptorOf, installedDescriptors, knownPackages } from "./packages.js";
import { checkLines, countsOf, harmlessLines, summaryLine, tableLines, width, wrap } from "./print.js";
import { givenUrl } from "./target.js";

type Finish = (exitCode: number) => void;
type Descriptors = readonly PackageDescriptor[];

const print = (text: string): void => void process.stdout.write(text);

interface DoctorOptions extends Target {
  readonly strict?: true;
  readonly skip?: string;
}

/** The explanations of the doctor's checks by their ids. The explanations of the packages' checks come last. */
const explanationsOf = (descriptors: Descriptors): ReadonlyMap<string, string> => {
  const ofPackages = descriptors.flatMap(({ checks = [] }): readonly DoctorCheck[] => checks);
  return new Map([...sectionsOf(doctorPage), ...ofPackages.map(({ id, about }) => [id, about.trim()] as const)]);
};

/** @throws {Failure} there is no check of that name. */
const skippedBy = (option: string | undefined, packages: Descriptors): readonly string[] => {
  const skip = option?.split(",") ?? [];
  const ids = [...explanationsOf(packages).keys()];
  const unknown = skip.find((id) => !ids.includes(id));
  if (unknown === undefined) return skip;
  throw new Failure(`--skip: unknown check ${JSON.stringify(unknown)}. Checks: ${ids.join(", ")}`, exitCodes.usage);
};

const doctor = async (options: DoctorOptions): Promise<number> => {
  const url = givenUrl(options.url);
  const isStrict = options.strict === true;
  const packages = await installedDescriptors();
  const skip = skippedBy(options.skip, packages);
  const examined = { url, prefix: options.prefix, isStrict, skip, packages };
  if (options.json) {
    const report = await examine(examined, () => undefined);
    const { checks, exitCode } = report;
    await writeJson({ url: report.url, checks, summary: { ...countsOf(report), exitCode } });
    return exitCode;
  }
  const report = await examine(examined, (result) => print(checkLines(result)));
  print(summaryLine(report));
  return report.exitCode;
};

/** All that can be inspected, and the packages that are not installed. */
const listInspectors = async (descriptors: Descriptors): Promise<void> => {
  const rows = descriptors.flatMap(({ name, inspectors = [] }) =>
    inspectors.map(({ thing, about, args }) => {
      const names = args ? args.map((one) => one.name.toUpperCase()).join(" ") : "NAME";
      return [`${thing} ${names}`, `@kit/${name}`, about];
    }),
  );
  const absent = knownPackages.filter((name) => !descriptors.some((one) => one.name === name));
  if (rows.length > 0) print(`${tableLines(["kit inspect …", "package", "shows"], rows).join("\n")}\n`);
  if (absent.length > 0)
    await write(
      process.stdout,
      `${wrap(`Not installed, or too old: ${absent.map((name) => `@kit/${name}`).join(", ")}`, width()).join("\n")}\n`,
    );
};

/** A check of the doctor, or a command by its words; without a topic the whole program. */
const help = (topic: readonly string[], kit: Command, descriptors: Descriptors): void => {
  const checks = explanationsOf(descriptors);
  const section = topic.length === 1 ? checks.get(topic[0] ?? "") : undefined;
  if (section !== undefined) return print(plainText(topic.join(""), section));
  let command: Command | undefined = kit;
  for (const word of topic) command = command?.commands.find((one) => one.name() === word);
  if (!command) {
    const commands = kit.commands.map((one) => one.name()).join(", ");
    const ids = [...checks.keys()].join(", ");
    throw new Failure(
      `No help for ${JSON.stringify(topic.join(" "))}. Commands: ${commands}. Checks: ${ids}`,
      exitCodes.usage,
    );
  }
  command.outputHelp();
};

const offers = (descriptor: PackageDescriptor, isInspected: boolean, word: string): boolean =>
  isInspected
    ? (descriptor.inspectors ?? []).some(({ thing }) => thing === word)
    : (descriptor.commands ?? []).some(({ path }) => path.split(" ")[0] === word);

/**
 * The descriptors of the packages that the words can mean. Loading a descriptor loads its package. So if a package has the
 * name of the command, only its descriptor is loaded.
 *
 * @throws {Failure} the package with that name is not installed.
 */
const descriptorsFor = async (words: readonly string[]): Promise<Descriptors> => {
  const [first = "help", second] = words;
  if (first === "doctor") return [];
  const isInspected = first === "inspect";
  const word = isInspected ? second : first;
  if (word === undefined || !knownPackages.includes(word)) return await installedDescriptors();
  const named = await descriptorOf(word);
  if (!named) {
    const name = `@kit/${word}`;
    const command = isInspected ? `kit inspect ${word}` : `kit ${word}`;
    throw new Failure(`${command} needs ${name}. Run: npm install ${name}`, exitCodes.usage);
  }
  return offers(named, isInspected, word) ? [named] : await installedDescriptors();
};

/** The program that understands these arguments. */
export const programFor = async (argv: readonly string[], finish: Finish): Promise<Command> => {
  const descriptors = await descriptorsFor(argv.filter((word) => !word.startsWith("-")));
  const kit = new Command("kit")
    .description(
      "Inspect, diagnose and manage the data of kit packages in Redis. `doctor`, `inspect` and `list` change nothing.",
    )
    .version(manifest.version)
    .exitOverride()
    // The usage of some commands leaves 38 columns of 80 for the descriptions.
    .configureHelp({ minWidthToWrap: 30 })
    .configureOutput({ writeErr: (text) => void process.stderr.write(harmlessLines(text)) })
    .showHelpAfterError("Try: kit help");
  targetOptions(kit.command("doctor"))
    .description("check a Redis server and suggest fixes")
    .option("--strict", "exit with 1 if there are warnings")
    .option("--skip <checks>", "skip these checks, such as throughput,slow-log")
    .addHelpText(
      "after",
      "\nExit codes: 0 fine, 1 warning (with --strict), 2 problem, 3 no connection,\n64 invalid usage",
    )
    .action(async (options: DoctorOptions) => finish(await doctor(options)));
  const inspected = kit
    .command("inspect")
    .description("show the state of one lock, queue, chat and so on; without a kind, list the kinds")
    .argument("[thing]")
    // The options of an unknown thing are unknown as well, and a message about them would hide the mistake.
    .allowUnknownOption()
    .allowExcessArguments()
    .action(async (thing: string | undefined) => {
      if (thing === undefined) return await listInspectors(descriptors);
      if (thing.startsWith("-"))
        inspected.error(`error: unknown option '${thing}'`, { code: "commander.unknownOption" });
      const things = descriptors.flatMap(({ inspectors = [] }) => inspectors.map((one) => one.thing)).join(", ");
      throw new Failure(`Cannot inspect ${JSON.stringify(thing)}. Choose one of: ${things}`, exitCodes.usage);
    });
  const listed = kit
    .command("list")
    .description("list all locks, queues, chats and so on, or one kind in detail; scans up to a million keys per node");
  addBoard(kit, descriptors);
  const kinds = kindsOf(descriptors);
  addOverview(listed, kinds);
  targetOptions(kit.command("mcp"))
    .description(
      "serve the reports to an assistant by MCP over stdio; changes nothing, needs @modelcontextprotocol/sdk",
    )
    .action(async (options: Target) => await serveReports(options, descriptors));
  kit
    .command("help [topic...]")
    .description("explain a command or a doctor check, such as round-trip")
    .action((topic: readonly string[]) => help(topic, kit, descriptors));
  for (const descriptor of descriptors) {
    for (const one of descriptor.inspectors ?? []) addInspector(inspected, descriptor, one);
    for (const one of kindsOf([descriptor])) addList(listed, descriptor, one);
    for (const one of descriptor.commands ?? []) addCommand(kit, descriptor, one);
  }
  const checks = [...explanationsOf(descriptors).keys()].join(", ");
  return kit.addHelpText("after", () => `\n${wrap(`Doctor checks: ${checks}`, width()).join("\n")}`);
};
