import { hostname } from "node:os";
import {
  clientRules,
  custom,
  defaultsOf,
  integer,
  matching,
  resolve,
  type Resolved,
  type Rule,
  type RulesOf,
  signal,
  text,
} from "../toolkit/index.js";
import { type ConfigVersion, versionText } from "./scripts.js";
import type { StandardSchema } from "./schema.js";

const longestMs = 86_400_000;
/** Each write searches the history, and blocks the server meanwhile. */
export const mostHistory = 100;
const mostHistoryBytes = 16_777_216;
const defaultAuthor = `${hostname().slice(0, 100)}:${String(process.pid)}`;

/** Text that each line of the history contains, and that is shown on one line. */
const line = <Default extends string | undefined = undefined>(usual?: Default): Rule<string | Default, string> =>
  matching(text(128, usual), /^\P{C}*$/u, "to have no control characters");

const versionOption = (version: ConfigVersion): string => {
  const written = typeof version === "object" ? versionText(version) : "";
  if (!/^\d+:\d+:\d+$/.test(written)) throw new TypeError("Expected `expected` to be a version, null or undefined");
  return written;
};

/** @throws {TypeError} it is no Standard Schema. */
export const schemaOption = <Schema>(name: string, schema: Schema): Schema => {
  const standard = (schema as { "~standard"?: { validate?: unknown } } | null)?.["~standard"];
  if (typeof standard?.validate !== "function") throw new TypeError(`Expected \`${name}\` to be a Standard Schema`);
  return schema;
};

/** How an object follows its entry. */
export interface WatchOptions {
  /**
   * The beginning of all keys.
   *
   * @default "kit"
   */
  readonly prefix?: string | undefined;
  /**
   * How often the entry is read when nothing was pushed, in milliseconds, ± 50 %: 100 to 86,400,000 (a day). A change whose
   * message was lost is seen by then.
   *
   * @default 30000
   */
  readonly pollMs?: number | undefined;
  /**
   * Every single command settles within this many milliseconds, whatever the network does. If the event loop
   * stands still at that instant, the command has up to the same time again when it turns, at most a second.
   *
   * @default 2000
   */
  readonly deadlineMs?: number | undefined;
}

export const watchRules = {
  prefix: clientRules.prefix,
  pollMs: integer(100, longestMs, 30_000),
  deadlineMs: clientRules.deadlineMs,
} satisfies RulesOf<WatchOptions>;

export type WatchSettings = Resolved<typeof watchRules>;

/** Settings of a configuration object. */
export interface ConfigOptions<Input = unknown, Value = Input> extends WatchOptions {
  /**
   * The schema of a value: any Standard Schema. It sees the value as the stored JSON reads back, before it is stored and after
   * it was read. Undefined: any JSON value.
   *
   * @default undefined
   */
  readonly schema?: StandardSchema<Input, Value> | undefined;
  /**
   * The value until the first one is set. It never replaces a value that was seen and is gone.
   *
   * @default undefined
   */
  readonly default?: NoInfer<Input> | undefined;
  /**
   * How `ready()` acts when nothing is set and there is no default: it rejects with ConfigMissingError, or waits until
   * somebody sets it.
   *
   * @default "throw"
   */
  readonly onMissing?: "throw" | "wait" | undefined;
  /**
   * How many writes the history keeps, the newest included: 1 to 100. `maxHistory` × `maxBytes` is at most 16 MiB, since each
   * write searches the history for its `op`.
   *
   * @default 20
   */
  readonly maxHistory?: number | undefined;
  /**
   * The largest value, in bytes of JSON. Each reader reads all of it at each change. Above 838,860 a smaller `maxHistory` than
   * the default is needed.
   *
   * @default 65536
   */
  readonly maxBytes?: number | undefined;
}

const configRules = {
  ...watchRules,
  schema: custom(schemaOption),
  default: custom((_name, value: unknown) => value),
  onMissing: custom((name, onMissing: "throw" | "wait") => {
    if (onMissing === "throw" || onMissing === "wait") return onMissing;
    throw new TypeError(`Expected \`${name}\` to be "throw" or "wait"`);
  }, "throw"),
  maxHistory: integer(1, mostHistory, 20),
  maxBytes: integer(1, mostHistoryBytes, 65_536),
} satisfies RulesOf<ConfigOptions>;

/** How to wait for the first value. */
export interface ReadyOptions {
  /**
   * How long to wait, in milliseconds, outages included. Undefined: the first reply or error decides; with `onMissing: "wait"`
   * it waits without an end for an entry that is missing or refused.
   *
   * @default undefined
   */
  readonly waitMs?: number | undefined;
  /** Ends the wait, with `signal.reason`. */
  readonly signal?: AbortSignal | undefined;
}

export const readyRules = { waitMs: integer(0), signal } satisfies RulesOf<ReadyOptions>;

/** One call to the server. */
export interface AskOptions {
  /**
   * The promise settles within this many milliseconds.
   *
   * @default the object's own `deadlineMs`
   */
  readonly deadlineMs?: number | undefined;
  /** Rejects with `signal.reason`; a write that was sent may still happen. */
  readonly signal?: AbortSignal | undefined;
}

/** `deadlineMs`: by default the object's own. */
export const askRules = { deadlineMs: integer(1, longestMs), signal } satisfies RulesOf<AskOptions>;

/** Checked; options that were not given are left out. */
export type Question = Resolved<typeof askRules> & Pick<WatchSettings, "deadlineMs">;

/** One write. */
export interface SetOptions extends AskOptions {
  /**
   * Writes only if this version is stored; null: only if no value is stored. Undefined: in every case.
   *
   * @default undefined
   */
  readonly expected?: ConfigVersion | null | undefined;
  /**
   * The author, for people who read the history: at most 128 characters. Everyone who may read the entry can read it.
   *
   * @default host name and process id, as in "web-3:4711"
   */
  readonly author?: string | undefined;
  /**
   * The operation id: one that you made, or that of a KitUnknownOutcomeError. A write that is repeated with it happens once, as long as it
   * is among the last `maxHistory` writes. The repeated call returns the first write's version, also for another value.
   *
   * @default a random one
   */
  readonly op?: string | undefined;
}

export const setRules = {
  ...askRules,
  // In the form of the script's argument.
  expected: custom(
    (_name, expected: ConfigVersion | null) => (expected === null ? "none" : versionOption(expected)),
    "",
  ),
  author: line(defaultAuthor),
  op: line(),
} satisfies RulesOf<SetOptions>;

/** A checked write. */
export type ResolvedWrite = Resolved<typeof setRules> & Question;

/** The part of the history to read. */
export interface HistoryOptions extends AskOptions {
  /**
   * How many writes, at most.
   *
   * @default 100 (all that are kept)
   */
  readonly limit?: number | undefined;
}

export const historyRules = {
  ...askRules,
  limit: integer(1, mostHistory, mostHistory),
} satisfies RulesOf<HistoryOptions>;

/** Checked, with every default filled in. */
export interface ConfigSettings extends WatchSettings {
  readonly waitsForMissing: boolean;
  readonly maxHistory: number;
  readonly maxBytes: number;
  /** The longest time between two reads, in milliseconds, whatever `pollMs` is. */
  readonly longestPollMs: number;
}

/** @throws {TypeError | RangeError} an option is not what it should be. */
export const configSettings = (options: ConfigOptions): ConfigSettings => {
  const { onMissing, ...own } = resolve("options", options, configRules);
  if (own.maxHistory * own.maxBytes > mostHistoryBytes)
    throw new RangeError(`Expected \`maxHistory\` × \`maxBytes\` to be at most ${String(mostHistoryBytes)}`);
  return { ...own, waitsForMissing: onMissing === "wait", longestPollMs: Infinity };
};

/** The settings of a call, with the object's own deadline where no other is given. */
export const callSettings = <Table extends typeof askRules>(
  options: { readonly [Name in keyof Table]?: unknown },
  rules: Table,
  { deadlineMs }: WatchSettings,
): Resolved<Table> & Question => resolve("options", options, rules, { ...defaultsOf(rules), deadlineMs });
