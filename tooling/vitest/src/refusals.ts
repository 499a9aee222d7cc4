import { expect } from "vitest";

/** Expects that an error names the valid values, the given value and its type. */
export const expectRefusal = (error: unknown, option: string, value: unknown, wanted: string): void => {
  expect(error).toBeInstanceOf(Error);
  const { constructor, message } = error as Error;
  expect([TypeError, RangeError]).toContain(constructor);
  expect(message).toContain(`\`${option}\``);
  expect(message).toContain(wanted);
  const isTooLong = typeof value === "string" && constructor === RangeError;
  if (!isTooLong) expect(message).toMatch(new RegExp(`\\(${value === null ? "null" : typeof value}\\)$`));
};
