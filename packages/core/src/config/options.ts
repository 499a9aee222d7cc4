import { hostname } from "node:os";
import { integerOption, optionsObject, signalOption, textOption } from "../toolkit/index.js";
import { type ConfigVersion, versionText } from "./scripts.js";
import type { StandardSchema } from "./schema.js";

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
   * Every single command settles within this many milliseconds, whatever the network does.
   *
   * @default 2000
   */
  readonly deadlineMs?: number | undefined;
}

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

/** How to wait for the first value. */
export interface ReadyOptions {
  /**
   * How long to wait, in milliseconds, outages included. Undefined: the first reply or error decides; with
   * `onMissing: "wait"` an entry that is missing or refused is waited for without an end.
   *
   * @default undefined
   */
  readonly waitMs?: number | undefined;
  /** Ends the wait, with `signal.reason`. */
  readonly signal?: AbortSignal | undefined;
}

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

/** One write. */
export interface SetOptions extends AskOptions {
  /**
   * Writes only if this version is stored; null: only if nothing is. Undefined: in every case.
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
   * The operation id, as a KitUnknownOutcomeError reports it. A write that is repeated with it happens once, as long as it is
   * among the last `maxHistory` writes. The repeated call returns the first write's version, also for another value.
   *
   * @default a random one
   */
  readonly op?: string | undefined;
}

/** The part of the history to read. */
export interface HistoryOptions extends AskOptions {
  /**
   * How many writes, at most.
   *
   * @default all that are kept
   */
  readonly limit?: number | undefined;
}

/** Checked, with every default filled in. */
export interface WatchSettings {
  readonly prefix: string | undefined;
  readonly pollMs: number;
  readonly deadlineMs: number;
}

/** Checked, with every default filled in. */
export interface ConfigSettings extends WatchSettings {
  readonly waitsForMissing: boolean;
  readonly maxHistory: number;
  readonly maxBytes: number;
  /** The most between two looks, in milliseconds, whatever `pollMs` comes to. */
  readonly longestPollMs: number;
}

/** Checked; what was not given is left out. */
export interface Question {
  readonly deadlineMs: number;
  readonly signal: AbortSignal | undefined;
}

export const watchNames: readonly string[] = ["prefix", "pollMs", "deadlineMs"];
const configNames = [...watchNames, "schema", "default", "onMissing", "maxHistory", "maxBytes"];
const askNames = ["deadlineMs", "signal"];

const longestMs = 86_400_000;
/** Each write looks through the history, and meanwhile the server does nothing else. */
export const mostHistory = 100;
const mostHistoryBytes = 16_777_216;
/** Written into each entry of the history, and shown on one line. */
const control = /\p{C}/u;
const defaultAuthor = `${hostname().slice(0, 100)}:${String(process.pid)}`;

/** @throws {TypeError | RangeError} an option is not what it should be. */
const watchSettings = ({ prefix, pollMs = 30_000, deadlineMs = 2_000 }: WatchOptions): WatchSettings => ({
  prefix,
  pollMs: integerOption("pollMs", pollMs, 100, longestMs),
  deadlineMs: integerOption("deadlineMs", deadlineMs, 1, longestMs),
});

/** @throws {TypeError | RangeError} an option is not what it should be. */
export const configSettings = (options: ConfigOptions): ConfigSettings => {
  const own = optionsObject("options", options, configNames);
  const { onMissing = "throw", maxHistory = 20, maxBytes = 65_536, schema } = own;
  if (onMissing !== "throw" && onMissing !== "wait")
    throw new TypeError('Expected `onMissing` to be "throw" or "wait"');
  schemaOption(schema);
  integerOption("maxHistory", maxHistory, 1, mostHistory);
  integerOption("maxBytes", maxBytes, 1, mostHistoryBytes);
  if (maxHistory * maxBytes > mostHistoryBytes)
    throw new RangeError(`Expected \`maxHistory\` × \`maxBytes\` to be at most ${String(mostHistoryBytes)}`);
  return {
    ...watchSettings(own),
    waitsForMissing: onMissing === "wait",
    maxHistory,
    maxBytes,
    longestPollMs: Infinity,
  };
};

/** @throws {TypeError} it is no Standard Schema. */
export const schemaOption = (schema: unknown): void => {
  if (schema === undefined) return;
  const standard = (schema as { "~standard"?: { validate?: unknown } } | null)?.["~standard"];
  if (typeof standard?.validate !== "function") throw new TypeError("Expected `schema` to be a Standard Schema");
};

/** @throws {TypeError | RangeError} an option is not what it should be. */
export const resolveReady = (options: ReadyOptions): ReadyOptions => {
  const { waitMs, signal } = optionsObject("options", options, ["waitMs", "signal"]);
  if (waitMs !== undefined) integerOption("waitMs", waitMs, 0);
  return { waitMs, signal: signalOption("signal", signal) };
};

/** @throws {TypeError | RangeError} an option is not what it should be. */
export const question = (options: AskOptions, { deadlineMs: usual }: WatchSettings): Question => {
  const { deadlineMs = usual, signal } = optionsObject("options", options, askNames);
  return {
    deadlineMs: integerOption("deadlineMs", deadlineMs, 1, longestMs),
    signal: signalOption("signal", signal),
  };
};

const lineOption = (name: string, value: string): string => {
  textOption(name, value, 128);
  if (control.test(value)) throw new RangeError(`Expected \`${name}\` to have no control characters`);
  return value;
};

export const authorOption = (author: string = defaultAuthor): string => lineOption("author", author);

/** A write as it goes out: checked. */
export interface ResolvedWrite extends Question {
  /** As the script wants it. */
  readonly expected: string;
  readonly author: string;
  readonly op: string | undefined;
}

/** @throws {TypeError | RangeError} an option is not what it should be. */
export const resolveWrite = (options: SetOptions, settings: WatchSettings): ResolvedWrite => {
  const { expected, author, op, ...rest } = optionsObject("options", options, [
    ...askNames,
    "expected",
    "author",
    "op",
  ]);
  return {
    ...question(rest, settings),
    expected: expected === undefined ? "" : expected === null ? "none" : versionOption(expected),
    author: authorOption(author),
    op: op === undefined ? undefined : lineOption("op", op),
  };
};

const versionOption = (version: ConfigVersion): string => {
  const text = typeof version === "object" ? versionText(version) : "";
  if (!/^\d+:\d+:\d+$/.test(text)) throw new TypeError("Expected `expected` to be a version, null or undefined");
  return text;
};

/** @throws {TypeError | RangeError} an option is not what it should be. */
export const resolveHistory = (
  options: HistoryOptions,
  settings: WatchSettings,
): Question & { readonly limit: number } => {
  const { limit = mostHistory, ...rest } = optionsObject("options", options, [...askNames, "limit"]);
  return { ...question(rest, settings), limit: integerOption("limit", limit, 1, mostHistory) };
};
