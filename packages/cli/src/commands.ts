import type { Connection } from "@kit/core";
import type {
  CliArgument,
  CliCommand,
  CliOption,
  InspectCall,
  Inspector,
  PackageDescriptor,
  Report,
} from "@kit/core/toolkit";
import { type Command, InvalidArgumentError, Option } from "commander";
import { exitCodes, Failure } from "./exit-codes.js";
import { type Target, targetOptions, withConnection } from "./connection.js";
import { listOf } from "./list.js";
import { keyFacts, keysOf, type RawKey } from "./keys.js";
import { outputOf } from "./output.js";
import { endedResumable, shutdownSignal } from "./shutdown.js";
import { withoutCredentials } from "./target.js";

type Values = Readonly<Record<string, unknown>>;

const nameArgument: readonly CliArgument[] = [{ name: "name", about: "" }];

const integerOf = (text: string): number => {
  const value = Number(text);
  if (!/^\d+$/.test(text) || !Number.isSafeInteger(value)) throw new InvalidArgumentError("Expected an integer.");
  return value;
};

const optionOf = ({ name, about, takes }: CliOption): Option => {
  if (takes === undefined) return new Option(`--${name}`, about);
  const option = new Option(`--${name} <${takes === "integer" ? "n" : name}>`, about);
  return takes === "integer" ? option.argParser(integerOf) : option;
};

const placeOf = ({ name, count = "one" }: CliArgument): string =>
  count === "optional" ? `[${name}]` : count === "many" ? `<${name}...>` : `<${name}>`;

interface Spec {
  readonly args: readonly CliArgument[] | undefined;
  readonly options: readonly CliOption[] | undefined;
}

/** The arguments and options of one run of a command. */
interface Given {
  readonly target: Target;
  readonly args: readonly string[];
  readonly values: Values;
}

const declare = (
  command: Command,
  { args = [], options = [] }: Spec,
  run: (given: Given) => Promise<void>,
): Command => {
  for (const one of args) command.argument(placeOf(one), one.about);
  for (const one of options) command.addOption(optionOf(one));
  return targetOptions(command).action(async () => {
    const values: Values = command.opts();
    // One argument that may be several comes as a list.
    const given = (command.processedArgs as (string | readonly string[] | undefined)[]).flat();
    await run({ target: values as unknown as Target, args: given.filter((one) => one !== undefined), values });
  });
};

const callOf = (redis: Connection, { target, values }: Given, options: readonly CliOption[] = []): InspectCall => {
  const valueOf = (name: string, takes: CliOption["takes"]): unknown => {
    const option = options.find((one) => one.name === name && one.takes === takes);
    if (!option) throw new Error(`The command declares no option ${name} of that kind`);
    return values[optionOf(option).attributeName()];
  };
  return {
    redis,
    prefix: target.prefix,
    text: (name) => valueOf(name, "text") as string | undefined,
    integer: (name) => valueOf(name, "integer") as number | undefined,
    isSet: (name) => valueOf(name, undefined) === true,
  };
};

/** `kit inspect <thing>`. */
export const addInspector = (parent: Command, from: PackageDescriptor, inspector: Inspector): void => {
  const { thing, about, args = nameArgument, options, look, keys } = inspector;
  const command = declare(parent.command(thing), { args, options }, async (given) => {
    const { target, args: names, values } = given;
    if (names.includes("")) throw new Failure("A name must be text of 1 to 512 bytes, got 0 bytes", exitCodes.usage);
    await withConnection(target, "kit-inspect", async (redis, url) => {
      const report = await look(callOf(redis, given, options), ...names);
      const output = outputOf(target.json === true, withoutCredentials(url));
      if (!keys || values["keys"] !== true) return await output.report(report);
      await output.report(withKeys(report, await keysOf(redis, keys(target.prefix, ...names))));
    });
  });
  command.description(`a ${thing} of @kit/${from.name}: ${about}`);
  if (keys) command.option("--keys", "the keys behind it, too");
};

/** `kit list <things>`. */
export const addList = (parent: Command, from: PackageDescriptor, { listed, options, look }: Inspector): void => {
  if (!listed) return;
  declare(parent.command(listed.things), { args: [], options: [] }, async (given) => {
    await withConnection(given.target, "kit-list", async (redis, url) => {
      const report = await listOf(callOf(redis, given), from.name, listed, (name) =>
        look(callOf(redis, { ...given, args: [name] }, options), name),
      );
      await outputOf(given.target.json === true, withoutCredentials(url)).report(report);
    });
  }).description(`the ${listed.things} of @kit/${from.name} that are there now`);
};

const withKeys = ({ data, facts = [], table }: Report, keys: readonly RawKey[]): Report => ({
  data: { ...data, keys },
  facts: [...facts, ...keyFacts(keys)],
  table,
});

/** A command of a package, below a command for each of its words but the last. */
export const addCommand = (kit: Command, from: PackageDescriptor, command: CliCommand): void => {
  const { path, about, args, options, run } = command;
  const words = path.split(" ");
  let parent = kit;
  for (const word of words.slice(0, -1))
    parent =
      parent.commands.find((one) => one.name() === word) ?? parent.command(word).description(`of @kit/${from.name}`);
  declare(parent.command(words.at(-1) ?? ""), { args, options }, async (given) => {
    const { target } = given;
    await withConnection(target, `kit-${words.join("-")}`, async (redis, url) => {
      const signal = shutdownSignal();
      const output = outputOf(target.json === true, withoutCredentials(url));
      const call = { ...callOf(redis, given, options), output, signal };
      try {
        if ((await run(call, ...given.args)) === "resumable") endedResumable();
      } catch (error) {
        // Ended by the person, a command may fail in what it was doing.
        if (!signal.aborted) throw error;
      }
    });
  }).description(about);
};
