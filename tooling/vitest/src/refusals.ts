import { expect } from "vitest";

/** What options of a kind refuse, and what the error says that was wanted. */
export type Refusals = readonly (readonly [option: string, value: unknown, wanted: string])[];

const milliseconds = "an integer from 10 to 86400000";

/** Of the options that every lease has. */
const leaseRefusals: Refusals = [
  ["leaseMs", 9, milliseconds],
  ["leaseMs", 86_400_001, milliseconds],
  ["leaseMs", 1.5, milliseconds],
  ["leaseMs", Number.NaN, milliseconds],
  ["leaseMs", "1000", milliseconds],
  ["leaseMs", null, milliseconds],
  ["leaseMs", 1_000n, milliseconds],
  ["renew", 1, "a boolean"],
  ["renew", "true", "a boolean"],
  ["renew", null, "a boolean"],
  ["maxHoldMs", 9, "an integer from 10"],
  ["maxHoldMs", Infinity, "an integer from 10"],
  ["maxHoldMs", "1s", "an integer from 10"],
  ["maxHoldMs", null, "an integer from 10"],
  ["holder", "", "1 to 128 characters"],
  ["holder", "x".repeat(129), "1 to 128 characters"],
  ["holder", 42, "a string"],
  ["holder", null, "a string"],
];

/** Of an object that makes leases. */
export const leaserRefusals: Refusals = [
  ...leaseRefusals,
  ["prefix", "", "1 to 64 characters"],
  ["prefix", "x".repeat(65), "1 to 64 characters"],
  ["prefix", "a{b", "no braces, white space or control characters"],
  ["prefix", "a\nb", "no braces, white space or control characters"],
  ["prefix", "two words", "no braces, white space or control characters"],
  ["prefix", 42, "a string"],
  ["prefix", null, "a string"],
  ["isolate", "yes", "a boolean"],
  ["isolate", null, "a boolean"],
  ["deadlineMs", 0, "an integer from 1 to 86400000"],
  ["deadlineMs", 2.5, "an integer from 1 to 86400000"],
  ["deadlineMs", "2000", "an integer from 1 to 86400000"],
  ["deadlineMs", null, "an integer from 1 to 86400000"],
  ["maxWaiters", -1, "an integer from 0 to 1000000"],
  ["maxWaiters", 1e9, "an integer from 0 to 1000000"],
  ["maxWaiters", null, "an integer from 0 to 1000000"],
];

/** Of an acquire. */
export const acquireRefusals: Refusals = [
  ...leaseRefusals,
  ["waitMs", -1, "an integer from 0"],
  ["waitMs", Infinity, "an integer from 0"],
  ["waitMs", "5s", "an integer from 0"],
  ["waitMs", null, "an integer from 0"],
  ["signal", {}, "an AbortSignal"],
  ["signal", new AbortController(), "an AbortSignal"],
  ["signal", null, "an AbortSignal"],
];

/** The error says what was wanted, what was given, and of what type that is. */
export const expectRefusal = (error: unknown, option: string, value: unknown, wanted: string): void => {
  expect(error).toBeInstanceOf(Error);
  const { constructor, message } = error as Error;
  expect([TypeError, RangeError]).toContain(constructor);
  expect(message).toContain(`\`${option}\``);
  expect(message).toContain(wanted);
  const isTooLong = typeof value === "string" && constructor === RangeError;
  if (!isTooLong) expect(message).toMatch(new RegExp(`\\(${value === null ? "null" : typeof value}\\)$`));
};
