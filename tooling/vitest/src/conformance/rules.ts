/** One option, as the table of a package has it: the data of a rule of core. */
interface OptionRule {
  readonly kind: string;
  readonly min?: number;
  readonly max?: number;
  readonly choices?: readonly string[];
  readonly pattern?: RegExp;
  readonly wanted?: string;
  readonly required?: true;
  readonly nullable?: true;
}

export type OptionRules = Readonly<Record<string, OptionRule>>;

/** The options of an object or a call, and the values that those refuse whose rules have no data about it. */
export interface Described {
  readonly options?: OptionRules;
  readonly refused?: Readonly<Record<string, readonly unknown[]>>;
}

/** Values that an option refuses, and the valid values as its error names them; undefined: it has to name the option only. */
export interface Refusals {
  readonly refused: readonly unknown[];
  wanted?(value: unknown): string;
}

const mismatches = ["a{b", "a\nb", "two words", "…", "\ud800"];

/** By the kinds of rules. */
const refusalsOf: Readonly<Record<string, (rule: OptionRule) => Refusals>> = {
  integer: ({ min = 0, max = Number.MAX_SAFE_INTEGER }) => ({
    refused: [
      min - 1,
      min + 0.5,
      ...(max === Number.MAX_SAFE_INTEGER ? [] : [max + 1]),
      ...[Number.NaN, Infinity, String(min), "5s", null, BigInt(min), {}],
    ],
    wanted: () => `an integer from ${String(min)}${max === Number.MAX_SAFE_INTEGER ? "" : ` to ${String(max)}`}`,
  }),
  /** As integers, but fractions are rounded up. */
  milliseconds: (rule) => {
    const integers = refusalsOf["integer"]!(rule);
    return { ...integers, refused: integers.refused.filter((value) => value !== rule.min! + 0.5) };
  },
  boolean: () => ({ refused: [1, "true", null], wanted: () => "a boolean" }),
  text: ({ max = 0, pattern = /^/, wanted = "" }) => ({
    refused: ["", "x".repeat(max + 1), 42, null, {}, ...mismatches.filter((text) => !pattern.test(text))],
    wanted: (value) =>
      typeof value !== "string" ? "a string" : /^x*$/.test(value) ? `1 to ${String(max)} characters` : wanted,
  }),
  choice: ({ choices = [] }) => ({
    refused: ["nonsense", 1, null],
    wanted: () => choices.map((one) => JSON.stringify(one)).join(" or "),
  }),
  signal: () => ({ refused: [{}, new AbortController(), null, 1], wanted: () => "an AbortSignal" }),
};

/** The refusals of each option of an object or a call. */
export const refusals = ({ options = {}, refused = {} }: Described): readonly (readonly [string, Refusals])[] =>
  Object.entries(options).map(([option, rule]) => {
    const own = refused[option];
    const found = own ? { refused: own } : refusalsOf[rule.kind]?.(rule);
    if (!found) throw new Error(`The rule of \`${option}\` has no data: name values in \`refused\` of its description`);
    return [option, rule.nullable ? { ...found, refused: found.refused.filter((value) => value !== null) } : found];
  });

/** The names of the options that have no default. */
export const requiredNames = (options: OptionRules = {}): readonly string[] =>
  Object.keys(options).filter((name) => options[name]?.required);
