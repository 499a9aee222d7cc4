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
import { find, type Kind, kindsOf, listOf, type Look, overviewOf } from "./list.js";
import { keyFacts, keysOf, type RawKey } from "./keys.js";
import { outputOf } from "./output.js";
import { endedResumable, shutdownSignal } from "./shutdown.js";
import { withoutCredentials } from "./target.js";

type Values = Readonly<Record<string, unknown>>;

export const nameArgument: readonly CliArgument[] = [{ name: "name", about: "" }];

/** The maximum number of names in a message that lists the existing ones. */
const mostNamed = 20;

const integerOf = (text: string): number => {
  const value = Number(text);
  if (!/^\d+$/.test(text) || !Number.isSafeInteger(value)) throw new InvalidArgumentError("Expected an integer.");
  return value;
};

export const optionOf = ({ name, about, takes }: CliOption): Option => {
  if (takes === undefined) return new Option(`--${name}`, about);
  const option = new Option(`--${name} <${takes === "integer" ? "n" : name}>`, about);
  return takes === "integer" ? option.argParser(integerOf) : option;
};

const placeOf = ({ name, count = "one" }: CliArgument): string =>
  count === "optional" ? `[${name}]` : count === "many" ? `<${name}...>` : `<${name}>`;

interface Spec {
  readonly from?: PackageDescriptor;
  readonly args: readonly CliArgument[] | undefined;
  readonly options: readonly CliOption[] | undefined;
}

/** The arguments and options of one run of a command. */
export interface Given {
  readonly target: Target;
  readonly args: readonly string[];
  readonly values: Values;
}

/** @throws {Failure} with the names that the argument could be. */
const askWhich = async (target: Target, { name }: CliArgument, kind: Kind): Promise<void> => {
  await withConnection(target, "kit-list", async (redis) => {
    const [{ things, isWhole } = { things: [], isWhole: true }] = await find(redis, target.prefix, [kind]);
    const names = things.slice(0, mostNamed).map((one) => one.name);
    const { things: plural } = kind.listed;
    const more = names.length < things.length || !isWhole ? `, and more. To list all: kit list ${plural}` : "";
    const there =
      names.length === 0 ? `The prefix ${target.prefix} has no ${plural}` : `Known ${plural}: ${names.join(", ")}`;
    const which = name === "name" ? kind.inspector.thing : name;
    throw new Failure(`Missing argument: ${which}. ${there}${more}`, exitCodes.usage);
  });
};

const declare = (
  command: Command,
  { from, args = [], options = [] }: Spec,
  run: (given: Given) => Promise<void>,
): Command => {
  // Commander would refuse a missing argument. Here the command lists the existing names.
  for (const one of args) command.argument(`[${one.name}${one.count === "many" ? "..." : ""}]`, one.about);
  command.usage(["[options]", ...args.map(placeOf)].join(" "));
  for (const one of options) command.addOption(optionOf(one));
  return targetOptions(command).action(async () => {
    // `kit list` takes the same options as each of its commands, and commander gives them to it.
    const values: Values = command.optsWithGlobals();
    // An argument that may occur several times is a list.
    const texts = (command.processedArgs as (string | readonly string[] | undefined)[]).flat();
    const given: Given = {
      target: values as unknown as Target,
      args: texts.filter((one) => one !== undefined),
      values,
    };
    const missing = args[given.args.length];
    if (missing && missing.count !== "optional") {
      const kind = kindsOf(from ? [from] : []).find(({ listed }) => listed.things === missing.listedIn);
      if (kind) await askWhich(given.target, missing, kind);
      const { namesOf } = missing;
      if (namesOf)
        await withConnection(given.target, "kit-list", async (redis) => {
          const names = await namesOf(callOf(redis, given, options), ...given.args);
          const more = names.length > mostNamed ? " …" : "";
          const there = names.length === 0 ? "none yet" : names.slice(0, mostNamed).join(", ");
          throw new Failure(`Missing argument: ${missing.name}. Known names: ${there}${more}`, exitCodes.usage);
        });
      const about = missing.about === "" ? "" : `: ${missing.about}`;
      command.error(`error: missing required argument '${missing.name}'${about}`, {
        code: "commander.missingArgument",
      });
    }
    await run(given);
  });
};

export const callOf = (
  redis: Connection,
  { target, values }: Given,
  options: readonly CliOption[] = [],
): InspectCall => {
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
  const { thing, about, options, look, keys, listed } = inspector;
  const all = inspector.args ?? nameArgument;
  const args = listed ? all.map((one) => ({ ...one, listedIn: listed.things })) : all;
  const command = declare(parent.command(thing), { from, args, options }, async (given) => {
    const { target, args: names, values } = given;
    if (names.includes("")) throw new Failure("A name must be text of 1 to 512 bytes, got 0 bytes", exitCodes.usage);
    await withConnection(target, "kit-inspect", async (redis, url) => {
      const report = await look(callOf(redis, given, options), ...names);
      const output = outputOf(target.json === true, withoutCredentials(url));
      if (!keys || values["keys"] !== true) return await output.report(report);
      await output.report(withKeys(report, await keysOf(redis, keys(target.prefix, ...names))));
    });
  });
  command.description(`${about} (@kit/${from.name})`);
  if (keys) command.option("--keys", "include its Redis keys");
};

/** Inspects things for a list. */
export const lookBy =
  (redis: Connection, given: Given): Look =>
  ({ inspector }, { name, options: values }) =>
    inspector.look(callOf(redis, { ...given, args: [name], values }, inspector.options), name);

/** `kit list <things>`. */
export const addList = (parent: Command, from: PackageDescriptor, kind: Kind): void => {
  const { things } = kind.listed;
  declare(parent.command(things), { args: [], options: [] }, async (given) => {
    const { target } = given;
    await withConnection(target, "kit-list", async (redis, url) => {
      const report = await listOf(redis, target.prefix, kind, lookBy(redis, given));
      await outputOf(target.json === true, withoutCredentials(url)).report(report);
    });
  }).description(`list ${things} and their state (@kit/${from.name})`);
};

/** `kit list`: all existing things. */
export const addOverview = (listed: Command, kinds: readonly Kind[]): void => {
  const args: readonly CliArgument[] = [{ name: "things", about: "list only this kind", count: "optional" }];
  declare(listed, { args, options: [] }, async (given) => {
    const { target } = given;
    const [unknown] = given.args;
    if (unknown !== undefined) {
      const there = kinds.map((kind) => kind.listed.things).join(", ");
      throw new Failure(`Cannot list ${JSON.stringify(unknown)}. Choose one of: ${there}`, exitCodes.usage);
    }
    await withConnection(target, "kit-list", async (redis, url) => {
      const report = await overviewOf(redis, target.prefix, kinds, lookBy(redis, given));
      await outputOf(target.json === true, withoutCredentials(url)).report(report);
    });
  });
};

const withKeys = (report: Report, keys: readonly RawKey[]): Report => ({
  ...report,
  data: { ...report.data, keys },
  facts: [...(report.facts ?? []), ...keyFacts(keys)],
});

/** A command of a package, below a command for each of its words but the last. */
export const addCommand = (kit: Command, from: PackageDescriptor, command: CliCommand): void => {
  const { path, about, args, options, run } = command;
  const words = path.split(" ");
  let parent = kit;
  for (const word of words.slice(0, -1))
    parent =
      parent.commands.find((one) => one.name() === word) ??
      parent.command(word).description(`commands of @kit/${from.name}`);
  declare(parent.command(words.at(-1) ?? ""), { from, args, options }, async (given) => {
    const { target } = given;
    const runCommand = async (redis: Connection, url: string): Promise<void> => {
      const signal = shutdownSignal();
      const output = outputOf(target.json === true, withoutCredentials(url));
      const call = { ...callOf(redis, given, options), output, signal };
      try {
        if ((await run(call, ...given.args)) === "resumable") endedResumable();
      } catch (error) {
        // A command that the user ended may fail in its current step.
        if (!signal.aborted) throw error;
      }
    };
    await withConnection(target, `kit-${words.join("-")}`, runCommand, { mayChange: true });
  }).description(about);
};
