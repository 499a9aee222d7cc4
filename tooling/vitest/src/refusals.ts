import { expect } from "vitest";

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
