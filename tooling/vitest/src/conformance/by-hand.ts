import type { OptionRule, OptionRules } from "./rules.js";

/** Rules of packages that have no table of their own yet. */
export const integer = (min: number, max?: number): OptionRule => ({
  kind: "integer",
  min,
  ...(max === undefined ? {} : { max }),
});
export const milliseconds = (min: number, max?: number): OptionRule => ({
  ...integer(min, max),
  kind: "milliseconds",
});
export const boolean: OptionRule = { kind: "boolean" };
export const text = (max: number): OptionRule => ({ kind: "text", max });
export const choice = (...choices: readonly string[]): OptionRule => ({ kind: "choice", choices });
export const signal: OptionRule = { kind: "signal" };
export const refusing = (...refused: readonly unknown[]): OptionRule => ({ kind: "checked", refused });

const dayMs = 86_400_000;

export const clientRules: OptionRules = {
  prefix: {
    kind: "text",
    max: 64,
    pattern: /^[^{}\s\p{C}]+$/u,
    wanted: "no braces, white space or control characters",
  },
  isolate: boolean,
  deadlineMs: integer(1, dayMs),
};
export const leaseRules: OptionRules = {
  leaseMs: integer(10, dayMs),
  renew: boolean,
  maxHoldMs: integer(10),
  holder: text(128),
};
export const leaserRules: OptionRules = { ...clientRules, ...leaseRules, maxWaiters: integer(0, 1_000_000) };
export const acquireRules: OptionRules = { ...leaseRules, waitMs: integer(0), signal };
