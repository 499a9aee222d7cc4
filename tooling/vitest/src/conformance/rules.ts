/** The values that an option refuses, and the valid values as its error names them. */
export interface OptionRule {
  readonly refused: readonly unknown[];
  wanted?(value: unknown): string;
}

export type OptionRules = Readonly<Record<string, OptionRule>>;

/** Whole numbers from `min` to `max`. */
export const integer = (min: number, max: number = Number.MAX_SAFE_INTEGER): OptionRule => ({
  refused: [
    min - 1,
    min + 0.5,
    ...(max === Number.MAX_SAFE_INTEGER ? [] : [max + 1]),
    ...[Number.NaN, Infinity, String(min), "5s", null, BigInt(min), {}],
  ],
  wanted: () => `an integer from ${String(min)}${max === Number.MAX_SAFE_INTEGER ? "" : ` to ${String(max)}`}`,
});

/** The same, but fractions are rounded up. */
export const milliseconds = (min: number, max?: number): OptionRule => {
  const rule = integer(min, max);
  return { ...rule, refused: rule.refused.filter((value) => value !== min + 0.5) };
};

export const boolean: OptionRule = { refused: [1, "true", null], wanted: () => "a boolean" };

/** Text of 1 to `max` characters. */
export const text = (max: number): OptionRule => ({
  refused: ["", "x".repeat(max + 1), 42, null, {}],
  wanted: (value) => (typeof value === "string" ? `1 to ${String(max)} characters` : "a string"),
});

export const choice = (...choices: readonly string[]): OptionRule => ({
  refused: ["nonsense", 1, null],
  wanted: () => choices.map((one) => JSON.stringify(one)).join(" or "),
});

export const signal: OptionRule = {
  refused: [{}, new AbortController(), null, 1],
  wanted: () => "an AbortSignal",
};

/** Any other option: values that are refused with the option's name. */
export const refusing = (...refused: readonly unknown[]): OptionRule => ({ refused });

const dayMs = 86_400_000;
const prefixRule: OptionRule = {
  refused: ["", "x".repeat(65), "a{b", "a\nb", "two words", 42, null],
  wanted: (value) => {
    if (typeof value !== "string") return "a string";
    return /^x*$/.test(value) ? "1 to 64 characters" : "no braces, white space or control characters";
  },
};

/** The options of every object on a client. */
export const clientRules: OptionRules = { prefix: prefixRule, isolate: boolean, deadlineMs: integer(1, dayMs) };

/** The options of every lease. */
export const leaseRules: OptionRules = {
  leaseMs: integer(10, dayMs),
  renew: boolean,
  maxHoldMs: integer(10),
  holder: text(128),
};

/** The options of an object that grants leases, and of one acquire. */
export const leaserRules: OptionRules = { ...clientRules, ...leaseRules, maxWaiters: integer(0, 1_000_000) };
export const acquireRules: OptionRules = { ...leaseRules, waitMs: integer(0), signal };
