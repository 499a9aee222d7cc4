import { afterEach, expect } from "vitest";

export const hostileNames: readonly string[] = [
  "__proto__",
  "constructor",
  "prototype",
  "toString",
  "hasOwnProperty",
  "__defineGetter__",
];

/** Random choices. */
export interface Drawing {
  below(limit: number): number;
  oneOf<T>(values: readonly T[]): T;
  /** JSON of up to three levels, whose objects have hostile names. */
  json(depth?: number): string;
}

/** Draws the same sequence in every run (mulberry32). */
export const drawing = (seed: number): Drawing => {
  let state = seed;
  const below = (limit: number): number => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) % limit;
  };
  const oneOf = <T>(values: readonly T[]): T => values[below(values.length)]!;
  const json = (depth = 3): string => {
    const leaf = ['"polluted"', "true", "1", "null", '"lock"', "[]"];
    if (depth === 0 || below(3) === 0) return oneOf(leaf);
    const names = [...hostileNames, "polluted", "leaseMs", "kit"];
    const fields = Array.from({ length: 1 + below(3) }, () => `${JSON.stringify(oneOf(names))}:${json(depth - 1)}`);
    return below(5) === 0 ? `[{${fields.join()}}]` : `{${fields.join()}}`;
  };
  return { below, oneOf, json };
};

/** The members of the built-in prototypes, to be compared one by one. */
const members = (): unknown[] =>
  [Object.prototype, Array.prototype, Function.prototype].flatMap((prototype) =>
    Reflect.ownKeys(prototype).flatMap((key) => {
      const { value, get, set } = Object.getOwnPropertyDescriptor(prototype, key)!;
      return [key, value as unknown, get, set];
    }),
  );

/** Fails each test of the file that changes a built-in prototype. */
export const guardPrototypes = (): void => {
  const untouched = members();
  afterEach(() => {
    const now = members();
    expect(now.length).toBe(untouched.length);
    expect(now.every((member, index) => Object.is(member, untouched[index]))).toBe(true);
  });
};

/** The result of `look` while `Object.prototype` has a foreign property. */
export const polluted = <T>(name: string, value: unknown, look: () => T): T => {
  // Writable, since Node assigns to names such as `id` meanwhile.
  Object.defineProperty(Object.prototype, name, { value, configurable: true, writable: true });
  try {
    return look();
  } finally {
    Reflect.deleteProperty(Object.prototype, name);
  }
};
