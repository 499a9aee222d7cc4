import type { Connection } from "../connect/connect.js";

/**
 * The description of a package for the tools. The command line builds its commands, reports and checks from it. A package exports
 * it as `descriptor` from its entry `@kit/<name>/descriptor`.
 */
export interface PackageDescriptor {
  /** The package's name without its scope, which is also the second part of its keys. */
  readonly name: string;
  /** The objects that the package keeps in Redis, in the plural, as in "locks do not work". */
  readonly things: string;
  readonly permissions: Permissions;
  /** The package's keys without expiry. `kit doctor` warns about any other key without expiry. */
  readonly endlessKeys?: readonly EndlessKeys[];
  readonly inspectors?: readonly Inspector[];
  readonly commands?: readonly CliCommand[];
  readonly checks?: readonly DoctorCheck[];
}

/** A command and its arguments. */
type CommandForm = readonly [command: string, ...args: (string | number)[]];

/**
 * The permissions of the package's least-privilege ACL user, in addition to core's permissions for every package. The tests create
 * that user from this list, and the package's documentation shows it.
 */
interface Permissions {
  /**
   * The channels that the package publishes and subscribes to, without the prefix: `inbox:*` if it waits for pushes. With any
   * channel it also needs PING, PUBLISH, PUBSUB NUMSUB, SUBSCRIBE and UNSUBSCRIBE.
   *
   * @default none
   */
  readonly channels?: readonly string[];
  /**
   * `kit doctor` runs these commands to see whether the server permits them. `key` does not exist, belongs to the package, and has
   * a hash tag. Each command must change nothing: read, remove, or write only to existing data (`XX`).
   */
  readonly tried: (key: string) => readonly CommandForm[];
  /** Commands that always write. They are never run; ACL DRYRUN checks them if the server permits it. */
  readonly asked?: (key: string) => readonly CommandForm[];
}

/** Keys that have no expiry. */
interface EndlessKeys {
  /** Matches the text after `<prefix>:<name>:` in such a key, as in `/^\{.*\}:entry$/s`. */
  readonly key: RegExp;
  /** The problem if such a key has no expiry. If not set, such keys are permanent by design. */
  readonly problem?: { readonly text: string; readonly fix: string };
}

/** The options given at a terminal, or by a script. */
export interface InspectCall {
  /** A separate connection for this call. The command line closes it. */
  readonly redis: Connection;
  readonly prefix: string;
  /** The value of an option that accepts text. Undefined if it is not given. */
  readonly text: (option: string) => string | undefined;
  /** The value of an option that accepts an integer. Undefined if it is not given. */
  readonly integer: (option: string) => number | undefined;
  /** Whether an option without a value is given. */
  readonly isSet: (option: string) => boolean;
}

/** The same for a command, which may run long and write much output. */
export interface CommandCall extends InspectCall {
  readonly output: CliOutput;
  /** Aborts on Ctrl-C and SIGTERM. The process exits when the command has settled, and after 10 s in any case. */
  readonly signal: AbortSignal;
}

/** An argument. Arguments are given in the order of the list, and passed to the function as text in that order. */
export interface CliArgument {
  readonly name: string;
  readonly about: string;
  /** `optional` and `many` (one or more) can only be the last. @default "one" */
  readonly count?: "one" | "optional" | "many";
  /** The list that shows the possible names, such as `queues`. Without a name the command fails, and prints that list. */
  readonly listedIn?: string;
  /** Returns the existing names, if they depend on the arguments before. Without a name the command fails, and prints them. */
  readonly namesOf?: (call: InspectCall, ...before: string[]) => Promise<readonly string[]>;
}

/** An option. `--url`, `--prefix`, `--json`, `--keys` and `--help` belong to the command line itself. */
export interface CliOption {
  /** Without the dashes. */
  readonly name: string;
  readonly about: string;
  /** The kind of its value. If not set, the option is a switch. An integer is 0 or more. */
  readonly takes?: "text" | "integer";
}

/** Names and values. */
export type Facts = readonly (readonly [name: string, value: string])[];

/** One answer in two forms. */
export interface Report {
  /**
   * Plain data for `--json`, without secrets. Its fields are an interface: later versions only add fields. The command line
   * adds `version` (of this interface), `url` and `isUnknown`.
   */
  readonly data: object;
  /** The same in words. */
  readonly facts?: Facts;
  /** The state in about fifty characters, for the overview of `kit list`. */
  readonly summary?: string;
  /** Nothing with that name is stored. The facts must report that, and the exit code is 1. */
  readonly isUnknown?: boolean;
  /** Some or all of the request was refused. The facts must report why, and the exit code is 2. */
  readonly hasProblem?: boolean;
  /** Rows of text, printed below the facts. */
  readonly table?: { readonly columns: readonly string[]; readonly rows: readonly (readonly string[])[] } | undefined;
}

/** `kit inspect <thing> <arguments>`: one thing at one instant. It must change nothing. */
export interface Inspector {
  readonly thing: string;
  /** One line for `kit inspect`, which lists all inspectors. */
  readonly about: string;
  /** @default one argument, `name` */
  readonly args?: readonly CliArgument[];
  readonly options?: readonly CliOption[];
  readonly look: (call: InspectCall, ...args: string[]) => Promise<Report>;
  /**
   * The maximum number of commands that one `look` sends, so that a page that shows many things has a bound.
   *
   * @default 10
   */
  readonly cost?: number;
  /** How `kit list` finds all things of this kind. Only for a thing whose one argument is its name. */
  readonly listed?: Listed;
  /** The keys of the thing. If set, the inspector has the option `--keys`, which adds their types and expiries. */
  readonly keys?: (prefix: string, ...args: string[]) => readonly string[];
}

/** The output of `kit list <things>`: a row for each thing, from one scan of all keys. */
interface Listed {
  /** In the plural, as one word. */
  readonly things: string;
  /**
   * A thing exists while one of these keys exists. Write each key without `<prefix>:<package>:`. `NAME` is the thing's name and `*`
   * is any text without braces, as in `{NAME}:meta`.
   */
  readonly keys: readonly string[];
  /** Which of the inspector's facts the rows show next to the name. */
  readonly columns: readonly string[];
  /**
   * Parses the text at `NAME`, if it is not only the name. Returns the name, still encoded as in the key, and the values of the
   * inspector's options.
   */
  readonly thingOf?: (text: string) => { readonly name: string; readonly options?: Readonly<Record<string, number>> };
}

/** A button on the page of a thing. The names of the thing are the first arguments of the command. */
interface Button {
  /** The `thing` of the inspector. */
  readonly thing: string;
  /** In the imperative: `Release`. */
  readonly text: string;
  /** Whether the command can do something, by the inspector's `data`. @default always */
  readonly when?: (data: Readonly<Record<string, unknown>>) => boolean;
}

/** An additional command. */
export interface CliCommand {
  /** The words after `kit`: `"queue retry"`, `"ship"`. */
  readonly path: string;
  readonly about: string;
  readonly args?: readonly CliArgument[];
  readonly options?: readonly CliOption[];
  /** The buttons for the command in a browser (`@kit/board`). With the switch `run`, the board first shows what would change. */
  readonly buttons?: readonly Button[];
  /**
   * Runs the command. A `TypeError` or `RangeError` is the caller's mistake (exit code 64); any other error is a problem (2).
   * Resolve with `resumable` if a signal has ended it cleanly and the same command would continue where it stopped. After SIGTERM
   * the exit code is then 0.
   */
  readonly run: (call: CommandCall, ...args: string[]) => Promise<void | "resumable">;
}

/** Where a command writes. Each function resolves when the reader has accepted the text. */
interface CliOutput {
  /** The command's one answer: words, or one object with `--json`. */
  report(report: Report): Promise<void>;
  /** One of many answers over time: a line of words, or a line of JSON with `--json`. */
  line(data: object, text: string): Promise<void>;
  /** Raw data on stdout, with or without `--json`. */
  bytes(chunk: Uint8Array): Promise<void>;
  /** A message to the user, on stderr. */
  note(text: string): Promise<void>;
  /**
   * Shows a line on the terminal in place of the previous one; empty text removes it. Undefined if stderr is not a terminal, or
   * with `--json`.
   */
  readonly progress?: ((text: string) => void) | undefined;
}

/** From good to bad. `skipped` means that a check could not run. */
type Severity = "skipped" | "ok" | "warning" | "problem";

/** One result of a check, in words. */
export interface Finding {
  readonly severity: Severity;
  readonly text: string;
  /** How to fix a warning or a problem. */
  readonly fix?: string;
}

/** One check of `kit doctor`. It must change nothing, and has 5 s. */
export interface DoctorCheck {
  /** Stable, for scripts. Starts with the package's name: `queue-dead-letters`. Up to 19 characters. */
  readonly id: string;
  /** The text of `kit help <id>`: when the check warns, why that matters, how to fix it. Markdown. */
  readonly about: string;
  /** Runs the check. An error becomes a `skipped` finding with its message. */
  readonly look: (context: {
    readonly redis: Connection;
    readonly prefix: string;
    /** Aborts when the result is no longer awaited. */
    readonly signal: AbortSignal;
  }) => Promise<readonly Finding[]>;
}

const longerUnits = [
  ["days", 86_400_000],
  ["h", 3_600_000],
  ["min", 60_000],
] as const;

/** A duration for people: `8.1 s`, `42 s`, `10 min`, `7 days`. */
export const secondsText = (ms: number): string => {
  const longer = longerUnits.find(([, one]) => ms >= 2 * one);
  if (longer) return `${String(Math.round(ms / longer[1]))} ${longer[0]}`;
  return ms < 10_000 ? `${(ms / 1_000).toFixed(1)} s` : `${String(Math.round(ms / 1_000))} s`;
};

/** ISO text of an instant in epoch ms. Null if there is no such time, for example because the stored number is damaged. */
export const dated = (ms: number | null): string | null =>
  ms === null || !(Math.abs(ms) <= 8.64e15) ? null : new Date(ms).toISOString();

/** A count with its noun: `1 message`, `2 messages`. `several`: the plural, if it is not the noun and an s. */
export const counted = (count: number, one: string, several = `${one}s`): string =>
  `${String(count)} ${count === 1 ? one : several}`;

/** A count and the first names: `3: web-2, web-3, …`. */
export const countText = (count: number, first: readonly string[], none = "none"): string =>
  count === 0 ? none : `${String(count)}: ${first.join(", ")}${count > first.length ? ", …" : ""}`;
