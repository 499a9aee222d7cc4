import { KitError } from "./errors.js";

/**
 * The values that one option accepts. Only `check` decides; the other fields are used for the reference page and the conformance
 * tests. Undefined means `default`, and is checked only if the option is `required`.
 */
export interface Rule<Value = unknown, Given = never> {
  /** `integer`, `boolean`, `text`, `choice` or `signal`. For any other kind, the reference shows only the type. */
  readonly kind: string;
  /** The setting if the option is not given. It is not checked. */
  readonly default?: Value | undefined;
  /** The option has no default. */
  readonly required?: true;
  /** Null is valid as well. */
  readonly nullable?: true;
  /** The bounds, inclusive. For a text they count UTF-16 units. */
  readonly min?: number;
  readonly max?: number;
  readonly choices?: readonly string[];
  /** A text must match the pattern. `wanted` is the end of the error "Expected `name` …". */
  readonly pattern?: RegExp;
  readonly wanted?: string;
  /**
   * Returns the setting for a value.
   *
   * @throws {TypeError | RangeError} the value is not valid.
   */
  readonly check: (name: string, value: Given) => Value;
}

/** A table of rules: one for each option of an object or call, by name. Make it a constant of a module. */
export type Rules = Readonly<Record<string, Rule>>;

/**
 * A table that must have a rule for each option of an interface. Otherwise `{ … } satisfies RulesOf<Options>` does not compile.
 */
export type RulesOf<Options> = {
  readonly [Name in keyof Options]-?: Rule<unknown, Exclude<Options[Name], undefined>>;
};

/** The settings that a table returns. */
export type Resolved<Table extends Rules> = { readonly [Name in keyof Table]: ReturnType<Table[Name]["check"]> };

const show = (value: unknown): string => {
  if (value === null) return "`null` (null)";
  if (value instanceof Promise) return "a promise; await it";
  // The text of an object may be anything, including a secret.
  const isPlain = typeof value !== "object" && typeof value !== "function";
  const text =
    typeof value === "string"
      ? JSON.stringify(value)
      : isPlain
        ? String(value as number | bigint | symbol | undefined)
        : Object.prototype.toString.call(value);
  return `\`${text.length > 80 ? `${text.slice(0, 80)}…` : text}\` (${typeof value})`;
};

/** The error for an invalid value. It never contains the text of an object, which may be anything. */
export const wrong = (name: string, wanted: string, value: unknown, isRightType = false): Error =>
  new (isRightType ? RangeError : TypeError)(`Expected \`${name}\` to be ${wanted}, got ${show(value)}`);

const unknownName = (name: string, known: readonly string[], key: string): Error =>
  new TypeError(
    `Unknown option ${JSON.stringify(key.slice(0, 80))} in \`${name}\`. Known options: ${known.join(", ")}`,
  );

/**
 * Checks an option that must be an integer in a range, and returns it.
 *
 * @throws {TypeError} it is not a number.
 * @throws {RangeError} it is not an integer, or out of range.
 */
export const integerOption = (
  name: string,
  value: unknown,
  min: number,
  max: number = Number.MAX_SAFE_INTEGER,
): number => {
  if (Number.isSafeInteger(value) && (value as number) >= min && (value as number) <= max) return value as number;
  const end = max === Number.MAX_SAFE_INTEGER ? "" : ` to ${String(max)}`;
  throw wrong(name, `an integer from ${String(min)}${end}`, value, typeof value === "number");
};

/** @throws {TypeError} it is not a boolean. */
export const booleanOption = (name: string, value: unknown): boolean => {
  if (typeof value !== "boolean") throw wrong(name, "a boolean", value);
  return value;
};

/**
 * @throws {TypeError} it is not text.
 * @throws {RangeError} it is empty or longer than `maxLength` characters.
 */
export const textOption = (name: string, value: unknown, maxLength: number): string => {
  if (typeof value !== "string") throw wrong(name, "a string", value);
  if (value.length === 0 || value.length > maxLength)
    throw new RangeError(
      `Expected \`${name}\` to have 1 to ${String(maxLength)} characters, got ${String(value.length)}`,
    );
  return value;
};

/** @throws {TypeError} it is neither undefined nor an AbortSignal. */
export const signalOption = (name: string, value: unknown): AbortSignal | undefined => {
  if (value !== undefined && !(value instanceof AbortSignal)) throw wrong(name, "an AbortSignal", value);
  return value;
};

/**
 * Checks an option that must be one of a few texts, and returns it.
 *
 * @throws {TypeError} it is not text.
 * @throws {RangeError} it is none of the choices.
 */
export const choiceOption = <const T extends string>(name: string, value: unknown, choices: readonly T[]): T => {
  const found = choices.find((choice) => choice === value);
  if (found !== undefined) return found;
  const wanted = choices.map((choice) => JSON.stringify(choice)).join(" or ");
  throw wrong(name, wanted, value, typeof value === "string");
};

/**
 * Checks that the options are an object with known names only. Otherwise a misspelled option would be silently ignored. Returns a
 * copy without a prototype, because a property of `Object.prototype` is not an option.
 *
 * @throws {TypeError} it is not an object, or has names other than `known`.
 */
export const optionsObject = <T extends object>(name: string, value: T, known: readonly string[]): T => {
  const given: unknown = value;
  if (typeof given !== "object" || given === null || Array.isArray(given)) throw wrong(name, "an object", given);
  for (const key of Object.keys(given)) if (!known.includes(key)) throw unknownName(name, known, key);
  return Object.assign(Object.create(null) as T, value);
};

/** An integer from `min` to `max`. */
export const integer = <Default extends number | undefined = undefined>(
  min: number,
  max: number = Number.MAX_SAFE_INTEGER,
  usual?: Default,
): Rule<number | Default, number> => ({
  kind: "integer",
  min,
  max,
  default: usual,
  check: (name, value) => integerOption(name, value, min, max),
});

export const boolean = <Default extends boolean | undefined = undefined>(
  usual?: Default,
): Rule<boolean | Default, boolean> => ({ kind: "boolean", default: usual, check: booleanOption });

/** Text of 1 to `max` UTF-16 units. */
export const text = <Default extends string | undefined = undefined>(
  max: number,
  usual?: Default,
): Rule<string | Default, string> => ({
  kind: "text",
  max,
  default: usual,
  check: (name, value) => textOption(name, value, max),
});

/** One of a few texts. */
export const choice = <const Choice extends string, Default extends Choice | undefined = undefined>(
  choices: readonly Choice[],
  usual?: Default,
): Rule<Choice | Default, Choice> => ({
  kind: "choice",
  choices,
  default: usual,
  check: (name, value) => choiceOption(name, value, choices),
});

export const signal: Rule<AbortSignal | undefined, AbortSignal> = { kind: "signal", check: signalOption };

/** An option with a custom check. */
export const custom = <Value, Given = Value, Default extends Value | undefined = undefined>(
  check: (name: string, value: Given) => Value,
  usual?: Default,
): Rule<Value | Default, Given> => ({ kind: "custom", default: usual, check });

/** An option that is itself an object of options. Errors show the path: `durable.replicas`. */
export const nested = <Table extends Rules, Default extends Resolved<Table> | undefined = undefined>(
  rules: Table,
  usual?: Default,
): Rule<Resolved<Table> | Default, { readonly [Name in keyof Table]?: unknown }> =>
  custom((name, options) => resolve(name, options, rules, undefined, `${name}.`), usual);

/** A text that must also match `pattern`. `wanted` is the end of its error: "Expected `name` …". */
export const matching = <Value>(rule: Rule<Value, string>, pattern: RegExp, wanted: string): Rule<Value, string> => ({
  ...rule,
  pattern,
  wanted,
  check: (name, value) => {
    const setting = rule.check(name, value);
    if (!pattern.test(value)) throw new RangeError(`Expected \`${name}\` ${wanted}`);
    return setting;
  },
});

/** The same rule, but null is valid and kept. */
export const nullable = <Value, Given>(rule: Rule<Value, Given>): Rule<Value | null, Given | null> => ({
  ...rule,
  nullable: true,
  check: (name, value) => (value === null ? null : rule.check(name, value)),
});

/** The same option without a default. */
export const required = <Value, Given>(rule: Rule<Value, Given>): Rule<Exclude<Value, undefined>, Given> =>
  ({ ...rule, required: true }) as Rule<Exclude<Value, undefined>, Given>;

interface Facts {
  readonly defaults: object;
  readonly required: readonly string[];
}

/** The facts of each table, computed once. */
const factsOfTables = new WeakMap<Rules, Facts>();

const factsOf = (rules: Rules): Facts => {
  let facts = factsOfTables.get(rules);
  if (facts === undefined) {
    const defaults = Object.fromEntries(Object.entries(rules).map(([name, rule]) => [name, rule.default]));
    facts = { defaults, required: Object.keys(rules).filter((name) => rules[name]?.required) };
    factsOfTables.set(rules, facts);
  }
  return facts;
};

/**
 * The settings of a call without options: the values in `own`, and the table's defaults for all other names. Use it for calls whose
 * defaults are the settings of their object. Call it once per object.
 */
export const defaultsOf = <Table extends Rules>(rules: Table, own: object = {}): Resolved<Table> => {
  const { defaults } = factsOf(rules);
  const kept = Object.entries(own).filter(([name]) => Object.hasOwn(rules, name));
  return { ...defaults, ...Object.fromEntries(kept) } as Resolved<Table>;
};

/**
 * The settings for `options`: the given values, checked by their rules, and `defaults` for all others and for undefined. Each own
 * property is read once and never written. Prototype properties are ignored. Only given options cost time.
 *
 * @param name The name of the object in errors, as in "Expected `options` to be an object".
 * @param path The text before option names in errors.
 * @throws {TypeError} it is not an object, or has a name that is not in the table: a misspelled option would have no effect.
 * @throws {TypeError | RangeError} an option is invalid.
 */
export const resolve = <Table extends Rules, Settings extends Resolved<Table> = Resolved<Table>>(
  name: string,
  options: { readonly [Name in keyof Table]?: unknown },
  rules: Table,
  defaults?: Settings,
  path = "",
): Settings => {
  const given: unknown = options;
  if (typeof given !== "object" || given === null || Array.isArray(given)) throw wrong(name, "an object", given);
  const facts = factsOf(rules);
  // One shape for all calls of a table: V8 copies it in a few nanoseconds, and adding names would cost microseconds.
  const settings = { ...(defaults ?? facts.defaults) } as Record<string, unknown>;
  for (const key of Object.keys(given)) {
    if (!Object.hasOwn(rules, key)) throw unknownName(name, Object.keys(rules), key);
    const value: unknown = (given as Record<string, unknown>)[key];
    if (value !== undefined) settings[key] = rules[key]?.check(path + key, value as never);
  }
  for (const key of facts.required) if (settings[key] === undefined) rules[key]?.check(path + key, undefined as never);
  return settings as Settings;
};

/**
 * Checks numbers and texts that were read from a key, with the rules used to write them, and returns them. Unknown names, which a
 * newer version may write, are ignored.
 *
 * @throws {KitError} `KIT_LAYOUT`: a value differs from what its rule returns.
 */
export const stored = <Values extends object>(key: string, values: Values, rules: Rules): Values => {
  try {
    for (const [name, { check }] of Object.entries(rules)) {
      const value = (values as Record<string, unknown>)[name];
      if (value !== undefined && check(name, value as never) !== value) throw wrong(name, "exact", value, true);
    }
    return values;
  } catch (cause) {
    throw new KitError("KIT_LAYOUT", `The data of ${JSON.stringify(key)} is damaged`, { cause });
  }
};
