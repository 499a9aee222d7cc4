import { type Connection, KitError } from "@kit/core";
import {
  type CliCommand,
  type CliOption,
  type InspectCall,
  type Inspector,
  isForbidden,
  type PackageDescriptor,
  type Report,
} from "@kit/core/toolkit";

/** Where calls go. */
export interface Ground {
  readonly redis: Connection;
  readonly prefix: string;
}

/** The values of options by name, as a form sends them. */
export type Values = Readonly<Record<string, string | number | boolean | undefined>>;

/** The person's mistake, in words for the page. */
export class InputError extends Error {
  override name = "InputError";
}

/** How long a command may take. */
const commandMs = 20_000;
/** The lines that a page shows of a command that prints many. */
const maxLines = 200;

const integerOf = (name: string, value: string | number | boolean | undefined): number | undefined => {
  if (value === undefined) return undefined;
  const number = Number(value);
  if (!/^\d{1,15}$/.test(String(value))) throw new InputError(`${name} must be an integer of 0 or more`);
  return number;
};

const callOf = ({ redis, prefix }: Ground, options: readonly CliOption[] = [], values: Values): InspectCall => {
  const valueOf = (name: string): string | number | boolean | undefined => {
    const value = options.some((one) => one.name === name) ? values[name] : undefined;
    return value === "" ? undefined : value;
  };
  return {
    redis,
    prefix,
    text: (name) => valueOf(name)?.toString(),
    integer: (name) => integerOf(name, valueOf(name)),
    isSet: (name) => valueOf(name) !== undefined && valueOf(name) !== false,
  };
};

/** The facts about a thing, or why they cannot be read: one damaged thing does not hide the others. */
export const look = async (
  ground: Ground,
  inspector: Inspector,
  names: readonly string[],
  values: Values = {},
): Promise<Report> => {
  try {
    return await inspector.look(callOf(ground, inspector.options, values), ...names);
  } catch (error) {
    const isDamaged = KitError.is(error) && damages.includes(error.code);
    if (!isDamaged && !isForbidden(error)) throw error;
    const text = isDamaged ? error.message : "this user has no permission";
    return { data: {}, facts: [["damaged", text]], summary: `damaged: ${text}`, hasProblem: true };
  }
};

const damages: readonly string[] = ["KIT_KEY_TYPE", "KIT_LAYOUT", "KIT_NO_PERMISSION"];
/** The reports and lines of a command. */
export interface Outcome {
  readonly reports: readonly Report[];
  /** Single answers and messages. */
  readonly lines: readonly string[];
}

/** Runs a command of a package. It is aborted after 20 s. */
export const run = async (
  ground: Ground,
  command: CliCommand,
  args: readonly string[],
  values: Values,
): Promise<Outcome> => {
  const reports: Report[] = [];
  const lines: string[] = [];
  const keep = (text: string): Promise<void> => {
    if (lines.length < maxLines) lines.push(text);
    return Promise.resolve();
  };
  await command.run(
    {
      ...callOf(ground, command.options, values),
      signal: AbortSignal.timeout(commandMs),
      output: {
        report: (report) => {
          reports.push(report);
          return Promise.resolve();
        },
        line: (_data, text) => keep(text),
        bytes: () => Promise.resolve(),
        note: keep,
      },
    },
    ...args,
  );
  return { reports, lines };
};

export const inspectorOf = (packages: readonly PackageDescriptor[], thing: string): Inspector | undefined =>
  packages.flatMap(({ inspectors = [] }) => inspectors).find((one) => one.thing === thing);

export const commandOf = (packages: readonly PackageDescriptor[], path: string): CliCommand | undefined =>
  packages.flatMap(({ commands = [] }) => commands).find((one) => one.path === path);

/** The report of a command that only reads, such as `queue workers`. Empty if the command is not there. */
export const read = async <Data extends object>(
  ground: Ground & { readonly packages: readonly PackageDescriptor[] },
  path: string,
  args: readonly string[],
  values: Values = {},
): Promise<Report & { readonly data: Partial<Data> }> => {
  const command = commandOf(ground.packages, path);
  const { reports } = command ? await run(ground, command, args, values) : { reports: [] };
  return reports[0] ?? { data: {} };
};
