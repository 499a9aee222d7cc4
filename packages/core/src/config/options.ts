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
/** The maximum length of the history. Each write searches the history, which blocks the server meanwhile. */
export const mostHistory = 100;
const mostHistoryBytes = 16_777_216;
const defaultAuthor = `${hostname().slice(0, 100)}:${String(process.pid)}`;

/** Text for one line of the history. It must not contain control characters. */
const line = <Default extends string | undefined = undefined>(usual?: Default): Rule<string | Default, string> =>
  matching(text(128, usual), /^\P{C}*$/u, "to have no control characters");

const versionOption = (version: ConfigVersion): string => {
  const written = typeof version === "object" ? versionText(version) : "";
  if (!/^\d+:\d+:\d+$/.test(written)) throw new TypeError("Expected `expected` to be a version, null or undefined");
  return written;
};

/** @throws {TypeError} it is not a Standard Schema. */
export const schemaOption = <Schema>(name: string, schema: Schema): Schema => {
  const standard = (schema as { "~standard"?: { validate?: unknown } } | null)?.["~standard"];
  if (typeof standard?.validate !== "function") throw new TypeError(`Expected \`${name}\` to be a Standard Schema`);
  return schema;
};

/** How an object follows its entry. */
export interface WatchOptions {
  /**
   * The start of all keys.
   *
   * @default "kit"
   */
  readonly prefix?: string | undefined;
  /**
   * How often to read the entry, in milliseconds, ± 50 %: 100 to 86,400,000 (a day). Changes normally arrive as messages. If a
   * message is lost, the next read finds the change.
   *
   * @default 30000
   */
  readonly pollMs?: number | undefined;
  /**
   * The time within which each command settles, in milliseconds. If the event loop was blocked when this time ended, the command
   * gets extra time: another `deadlineMs`, up to one second.
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

/** Options of `createConfig()`. */
export interface ConfigOptions<Input = unknown, Value = Input> extends WatchOptions {
  /**
   * The schema of the value: any Standard Schema. It validates the value, as parsed from JSON, before every write and after every
   * read. Undefined: any JSON value is valid.
   *
   * @default undefined
   */
  readonly schema?: StandardSchema<Input, Value> | undefined;
  /**
   * The value until the first one is set. It never replaces a value that was read and then deleted.
   *
   * @default undefined
   */
  readonly default?: NoInfer<Input> | undefined;
  /**
   * What `ready()` does when no value is set and there is no default: `"throw"` rejects with ConfigMissingError, `"wait"` waits
   * until a value is set.
   *
   * @default "throw"
   */
  readonly onMissing?: "throw" | "wait" | undefined;
  /**
   * How many writes the history keeps, including the newest: 1 to 100. `maxHistory` × `maxBytes` must not exceed 16 MiB, because
   * each write searches the history for its `op`.
   *
   * @default 20
   */
  readonly maxHistory?: number | undefined;
  /**
   * The maximum size of a value, in bytes of JSON. After each change, each reader reads the whole value. Above 838,860 bytes you
   * must lower `maxHistory`.
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
   * How long to wait, in milliseconds, including outages. Undefined: the first reply or error settles the call. With
   * `onMissing: "wait"`, the call waits without a limit while the entry is missing or invalid.
   *
   * @default undefined
   */
  readonly waitMs?: number | undefined;
  /** Ends the wait: the call rejects with `signal.reason`. */
  readonly signal?: AbortSignal | undefined;
}

export const readyRules = { waitMs: integer(0), signal } satisfies RulesOf<ReadyOptions>;

/** Options of one call to the server. */
export interface AskOptions {
  /**
   * The promise settles within this many milliseconds.
   *
   * @default the object's own `deadlineMs`
   */
  readonly deadlineMs?: number | undefined;
  /** Rejects the call with `signal.reason`. A write that was already sent may still happen. */
  readonly signal?: AbortSignal | undefined;
}

/** `deadlineMs` defaults to the object's `deadlineMs`. */
export const askRules = { deadlineMs: integer(1, longestMs), signal } satisfies RulesOf<AskOptions>;

/** Checked options, without options that were not given. */
export type Question = Resolved<typeof askRules> & Pick<WatchSettings, "deadlineMs">;

/** Options of one write. */
export interface SetOptions extends AskOptions {
  /**
   * Write only if this version is stored. Null: only if no value is stored. Undefined: always.
   *
   * @default undefined
   */
  readonly expected?: ConfigVersion | null | undefined;
  /**
   * Who writes, for people who read the history: up to 128 characters. Anyone who can read the entry can read it.
   *
   * @default host name and process id, as in "web-3:4711"
   */
  readonly author?: string | undefined;
  /**
   * The operation id: your own, or the `op` of a KitUnknownOutcomeError. A second write with the same `op` has no effect while the
   * first is among the last `maxHistory` writes. It returns the first write's version, even if you pass another value.
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
   * The maximum number of writes.
   *
   * @default 100 (all that are kept)
   */
  readonly limit?: number | undefined;
}

export const historyRules = {
  ...askRules,
  limit: integer(1, mostHistory, mostHistory),
} satisfies RulesOf<HistoryOptions>;

/** Checked options, with every default filled in. */
export interface ConfigSettings extends WatchSettings {
  readonly waitsForMissing: boolean;
  readonly maxHistory: number;
  readonly maxBytes: number;
  /** The maximum time between two reads, in milliseconds, whatever `pollMs` is. */
  readonly longestPollMs: number;
}

/** @throws {TypeError | RangeError} an option is invalid. */
export const configSettings = (options: ConfigOptions): ConfigSettings => {
  const { onMissing, ...own } = resolve("options", options, configRules);
  if (own.maxHistory * own.maxBytes > mostHistoryBytes)
    throw new RangeError(`Expected \`maxHistory\` × \`maxBytes\` to be at most ${String(mostHistoryBytes)}`);
  return { ...own, waitsForMissing: onMissing === "wait", longestPollMs: Infinity };
};

/** The settings of a call. The default `deadlineMs` is the object's. */
export const callSettings = <Table extends typeof askRules>(
  options: { readonly [Name in keyof Table]?: unknown },
  rules: Table,
  { deadlineMs }: WatchSettings,
): Resolved<Table> & Question => resolve("options", options, rules, { ...defaultsOf(rules), deadlineMs });
