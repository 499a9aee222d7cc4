import type { Connection } from "../connect/connect.js";

/**
 * The description of a package for the tools: the command line builds its commands, reports and checks from it. A package exports
 * it as `descriptor` from its entry `@kit/<name>/descriptor`.
 */
export interface PackageDescriptor {
  /** The package's name without its scope, which is also the second part of its keys. */
  readonly name: string;
  /** The objects that the package keeps in Redis, in the plural, as in "locks cannot work". */
  readonly things: string;
  readonly permissions: Permissions;
  /** The package's keys without expiry. `kit doctor` warns of every other one. */
  readonly endlessKeys?: readonly EndlessKeys[];
  readonly inspectors?: readonly Inspector[];
  readonly commands?: readonly CliCommand[];
  readonly checks?: readonly DoctorCheck[];
}

/** A command and its arguments. */
export type CommandForm = readonly [command: string, ...args: (string | number)[]];

/**
 * The rights of the package's least-privilege ACL user, beyond those that core needs for every package. The tests make that user
 * from this list, and the package's documents show it.
 */
export interface Permissions {
  /**
   * The channels that the package publishes and subscribes to, without the prefix: `inbox:*` where it waits for pushes.
   * With any it also needs PING, PUBLISH, PUBSUB NUMSUB, SUBSCRIBE and UNSUBSCRIBE.
   *
   * @default none
   */
  readonly channels?: readonly string[];
  /**
   * `kit doctor` runs these to see whether the server permits them. `key` exists nowhere, is the package's own, and has
   * a hash tag. Each form must change nothing: read, remove, or write only to what exists (`XX`).
   */
  readonly tried: (key: string) => readonly CommandForm[];
  /** Commands that always write. They are never run: where the server permits it, ACL DRYRUN checks them. */
  readonly asked?: (key: string) => readonly CommandForm[];
}

/** Keys that have no expiry. */
export interface EndlessKeys {
  /** Matches what follows `<prefix>:<name>:` in such a key, as in `/^\{.*\}:entry$/s`. */
  readonly key: RegExp;
  /** The problem if such a key has no expiry; without it such keys are permanent by design. */
  readonly problem?: { readonly text: string; readonly fix: string };
}

/** The options given at a terminal, or by a script. */
export interface InspectCall {
  /** A connection of the call's own; the command line closes it. */
  readonly redis: Connection;
  readonly prefix: string;
  /** The value of an option that takes text; undefined when it is not given. */
  readonly text: (option: string) => string | undefined;
  /** The value of an option that takes an integer; undefined when it is not given. */
  readonly integer: (option: string) => number | undefined;
  /** Whether an option without a value is given. */
  readonly isSet: (option: string) => boolean;
}

/** The same for a command, which may take long and write much. */
export interface CommandCall extends InspectCall {
  readonly output: CliOutput;
  /** Aborts on Ctrl-C and SIGTERM. The process exits when the command has settled, and after 10 s in any case. */
  readonly signal: AbortSignal;
}

/** An argument; they stand in the order of the list, and reach the function as text in that order. */
export interface CliArgument {
  readonly name: string;
  readonly about: string;
  /** `optional` and `many` (one or more) can only be the last. @default "one" */
  readonly count?: "one" | "optional" | "many";
  /** The list that has what it can name, as in `queues`. Without a name the command fails, and prints that list. */
  readonly listedIn?: string;
  /** The names that there are, where they depend on the arguments before it. Without a name the command fails, and prints them. */
  readonly namesOf?: (call: InspectCall, ...before: string[]) => Promise<readonly string[]>;
}

/** An option. `--url`, `--prefix`, `--json`, `--keys` and `--help` are the command line's own. */
export interface CliOption {
  /** Without the dashes. */
  readonly name: string;
  readonly about: string;
  /** The kind of its value; without it the option is a switch. An integer is 0 or more. */
  readonly takes?: "text" | "integer";
}

/** Names and values. */
export type Facts = readonly (readonly [name: string, value: string])[];

/** One answer in two forms. */
export interface Report {
  /**
   * Plain data for `--json`, without secrets. Its fields are an interface: later versions only add some. `version` (of that form), `url` and
   * `isUnknown` are the command line's own.
   */
  readonly data: object;
  /** The same in words. */
  readonly facts?: Facts;
  /** The state in about fifty characters, for the overview of `kit list`. */
  readonly summary?: string;
  /** Nothing of that name is stored. The facts say so, and the exit code is 1. */
  readonly isUnknown?: boolean;
  /** Some or all of what was requested was refused. The facts say why, and the exit code is 2. */
  readonly hasProblem?: boolean;
  /** Rows of text, printed below the facts. */
  readonly table?: { readonly columns: readonly string[]; readonly rows: readonly (readonly string[])[] } | undefined;
}

/** `kit inspect <thing> <arguments>`: one thing at one instant. It must change nothing. */
export interface Inspector {
  readonly thing: string;
  /** One line for `kit inspect`, which lists what there is. */
  readonly about: string;
  /** @default one argument, `name` */
  readonly args?: readonly CliArgument[];
  readonly options?: readonly CliOption[];
  readonly look: (call: InspectCall, ...args: string[]) => Promise<Report>;
  /** How `kit list` finds all there are; of a thing whose one argument is its name. */
  readonly listed?: Listed;
  /** The keys behind it. With it the inspector has the option `--keys`, which adds their types and expiries. */
  readonly keys?: (prefix: string, ...args: string[]) => readonly string[];
}

/** The output of `kit list <things>`: a row for each thing, from one scan of all keys. */
export interface Listed {
  /** In the plural, as one word. */
  readonly things: string;
  /**
   * A thing is there while one of these keys is, each without `<prefix>:<package>:`. `NAME` stands for its name and `*` for
   * any text without braces, as in `{NAME}:meta`.
   */
  readonly keys: readonly string[];
  /** Which of the inspector's facts the rows show beside the name. */
  readonly columns: readonly string[];
  /**
   * The meaning of the text at `NAME`, where that is not the name alone: the name, still encoded as in the key, and the value of the
   * inspector's options.
   */
  readonly thingOf?: (text: string) => { readonly name: string; readonly options?: Readonly<Record<string, number>> };
}

/** A further command. */
export interface CliCommand {
  /** The words after `kit`: `"queue retry"`, `"ship"`. */
  readonly path: string;
  readonly about: string;
  readonly args?: readonly CliArgument[];
  readonly options?: readonly CliOption[];
  /**
   * A `TypeError` or `RangeError` is the caller's mistake (exit code 64), any other error a problem (2). Resolves with `resumable` if a signal has
   * ended it in order and the same command goes on where it was: after SIGTERM the exit code is 0 then.
   */
  readonly run: (call: CommandCall, ...args: string[]) => Promise<void | "resumable">;
}

/** Where a command writes. Each function resolves when the reader has taken the text. */
export interface CliOutput {
  /** The command's one answer: words, or with `--json` one object. */
  report(report: Report): Promise<void>;
  /** One of many answers that come over time: a line of words, or with `--json` a line of JSON. */
  line(data: object, text: string): Promise<void>;
  /** Raw data on stdout, whether `--json` is given or not. */
  bytes(chunk: Uint8Array): Promise<void>;
  /** A message to the user, on stderr. */
  note(text: string): Promise<void>;
  /** A line on the terminal in place of the one before; empty, it goes. Not there where stderr is no terminal, or `--json` is given. */
  readonly progress?: ((text: string) => void) | undefined;
}

/** From good to bad; `skipped` when a check could not look. */
export type Severity = "skipped" | "ok" | "warning" | "problem";

/** One result of a check, in words. */
export interface Finding {
  readonly severity: Severity;
  readonly text: string;
  /** How to mend a warning or a problem. */
  readonly fix?: string;
}

/** One check of `kit doctor`. It must change nothing, and has 5 s. */
export interface DoctorCheck {
  /** Stable, for scripts; begins with the package's name: `queue-dead-letters`. At most 19 characters. */
  readonly id: string;
  /** The text that `kit help <id>` prints: when it warns, why that matters, how to fix it. Markdown. */
  readonly about: string;
  /** An error becomes a `skipped` finding with its message. */
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

/** A count with its noun: `1 message`, `2 messages`. `several`: the plural, where it is not the noun and an s. */
export const counted = (count: number, one: string, several = `${one}s`): string =>
  `${String(count)} ${count === 1 ? one : several}`;

/** How many there are, and the names of the first: `3: web-2, web-3, …`. */
export const countText = (count: number, first: readonly string[], none = "nobody"): string =>
  count === 0 ? none : `${String(count)}: ${first.join(", ")}${count > first.length ? ", …" : ""}`;
