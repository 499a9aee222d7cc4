import {
  boolean,
  choice,
  custom,
  integer,
  matching,
  type Resolved,
  type RulesOf,
  signal,
  text,
} from "@kit/core/toolkit";
import { wellFormedText } from "../metric/labels.js";
import { deliveries, optionsOf, settingsOf, type StatsSettings } from "../send/options.js";
import type { Delivery } from "../send/outbox.js";
import { type Precision, precisionsOption, type RangeOptions, rangeRules, type Step } from "../time/buckets.js";
import { dayMs, hourMs } from "../time/days.js";
import { type Level, levelNames } from "./levels.js";

/** Settings of a message log. */
export interface MessagesOptions {
  /**
   * How many entries of each level are kept.
   *
   * @default 100
   */
  readonly keepEntries?: number | undefined;
  /**
   * How long the entries of a level are kept after its last entry, in milliseconds.
   *
   * @default 604800000 (7 days)
   */
  readonly keepMs?: number | undefined;
  /**
   * The width of the windows in which messages are counted, and how long each is kept.
   *
   * @default { stepMs: 3_600_000, keepMs: 172_800_000 }
   */
  readonly window?: Precision | undefined;
  /**
   * How many different messages of each level a window counts. Frequent messages replace rare ones.
   *
   * @default 1000
   */
  readonly maxDistinct?: number | undefined;
  /**
   * Whether messages are compared without their numbers, ids, addresses, times and quoted parts.
   *
   * @default true
   */
  readonly mask?: boolean | undefined;
  /**
   * The longest text, in bytes of UTF-8. Longer texts are cut between characters.
   *
   * @default 8192
   */
  readonly maxTextBytes?: number | undefined;
  /**
   * What happens to a message whose reply is lost.
   *
   * @default the statistics object's `delivery`
   */
  readonly delivery?: Delivery | undefined;
}

export const messagesRules = {
  keepEntries: integer(1, 100_000, 100),
  keepMs: integer(1_000, 3_660 * dayMs, 7 * dayMs),
  window: custom((name, given: Precision) => precisionsOption(name, [given], 1)[0] as Step, {
    stepMs: hourMs,
    keepMs: 2 * dayMs,
  }),
  maxDistinct: integer(1, 10_000, 1_000),
  mask: boolean(true),
  maxTextBytes: integer(1, 1_048_576, 8_192),
  delivery: choice(deliveries),
} satisfies RulesOf<MessagesOptions>;

export type MessagesSettings = Resolved<typeof messagesRules> & Pick<StatsSettings, "delivery">;

/** @throws {TypeError | RangeError} an option is invalid. */
export const messagesSettings = (options: MessagesOptions, settings: StatsSettings): MessagesSettings =>
  settingsOf(options, messagesRules, settings);

/** Details of one message. */
export interface LogOptions {
  /**
   * An object that JSON can represent, up to `maxTextBytes` long. An `Error` among its values is written as name, message and
   * stack.
   *
   * @default {}
   */
  readonly fields?: Readonly<Record<string, unknown>> | undefined;
  /**
   * The text under which the message is counted, 1 to 200 characters.
   *
   * @default its text, masked
   */
  readonly fingerprint?: string | undefined;
}

export const logRules = {
  fields: custom((name, fields: Readonly<Record<string, unknown>>) => {
    if (typeof fields !== "object" || fields === null || Array.isArray(fields))
      throw new TypeError(`Expected \`${name}\` to be an object`);
    return fields;
  }),
  fingerprint: wellFormedText(200),
} satisfies RulesOf<LogOptions>;

/** An error has no own fields that JSON would write. */
const withErrors = (_key: string, value: unknown): unknown =>
  value instanceof Error ? { name: value.name, message: value.message, stack: value.stack } : value;

/** @throws {TypeError | RangeError} an option is invalid, or the fields are not JSON or are too long. */
export const logOptions = (
  options: LogOptions,
  maxBytes: number,
): { readonly fields: string; readonly fingerprint: string | undefined } => {
  const { fields, fingerprint } = optionsOf(options, logRules);
  let json = "";
  try {
    // `toJSON` may return undefined.
    if (fields !== undefined) json = (JSON.stringify(fields, withErrors) as string | undefined) ?? "";
  } catch {
    // The error may contain the fields.
    throw new TypeError("Expected `fields` to be JSON, got a bigint, a cycle, or a toJSON or getter that throws");
  }
  if (Buffer.byteLength(json) > maxBytes)
    throw new RangeError(`Expected \`fields\` to have at most ${String(maxBytes)} bytes as JSON`);
  return { fields: json, fingerprint };
};

/** A page of entries. */
export interface RecentOptions {
  /** Only this level. */
  readonly level?: Level | undefined;
  /**
   * This level and higher levels.
   *
   * @default all levels
   */
  readonly minLevel?: Level | undefined;
  /**
   * The maximum number of entries, 1 to 1,000.
   *
   * @default 100
   */
  readonly limit?: number | undefined;
  /** The `next` of the previous page. */
  readonly before?: string | undefined;
}

export const recentRules = {
  level: choice(levelNames),
  minLevel: choice(levelNames),
  limit: integer(1, 1_000, 100),
  before: matching(text(100), /^(trace|debug|info|warn|error|fatal) \d+-\d+$/, "to be the `next` of a page"),
} satisfies RulesOf<RecentOptions>;

/** @throws {TypeError | RangeError} an option is invalid. */
export const recentOptions = (options: RecentOptions): Resolved<typeof recentRules> => {
  const settings = optionsOf(options, recentRules);
  if (settings.level !== undefined && settings.minLevel !== undefined)
    throw new TypeError("Expected either `level` or `minLevel`, got both");
  return settings;
};

/** How to follow a log. */
export interface TailOptions {
  /**
   * This level and higher levels.
   *
   * @default all levels
   */
  readonly minLevel?: Level | undefined;
  /**
   * How many existing entries are delivered first, 0 to 1,000.
   *
   * @default 0
   */
  readonly last?: number | undefined;
  /** Ends the iteration. */
  readonly signal?: AbortSignal | undefined;
}

export const tailRules = {
  minLevel: choice(levelNames),
  last: integer(0, 1_000, 0),
  signal,
} satisfies RulesOf<TailOptions>;

/** A span of time, and the messages to list. */
export interface FrequentOptions extends Omit<RangeOptions, "stepMs"> {
  /**
   * Only this level.
   *
   * @default all
   */
  readonly level?: Level | undefined;
  /**
   * The maximum number of messages, 1 to 1,000.
   *
   * @default 20
   */
  readonly limit?: number | undefined;
}

const { stepMs: _, ...spanRules } = rangeRules;
export const frequentRules = {
  ...spanRules,
  level: choice(levelNames),
  limit: integer(1, 1_000, 20),
} satisfies RulesOf<FrequentOptions>;
