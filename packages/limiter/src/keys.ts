import { keyspace } from "@kit/core";

/**
 * Every key that this package writes. All keys of one limiter share the hash tag `{name}`, so they are in one slot. Braces, colons,
 * percent signs and control characters of a name or key are percent-encoded: `:` is `%3A`.
 *
 * | Key                            | Type   | Content                                                                                              | Life                              |
 * | ------------------------------ | ------ | ---------------------------------------------------------------------------------------------------- | --------------------------------- |
 * | `kit:limiter:{name}:key:KEY`   | string | how much KEY has used: `1 micros block kind,count,perMs,burst,use …`                                 | until its tokens are free and its block ends |
 * | `kit:limiter:{name}:all`       | string | how much all keys have used of the shared limits: in the same form                                   | until all tokens are free        |
 * | `kit:limiter:{name}:limits`    | string | the limits of `setLimits()`: `1 changedAt name,kind,count,perMs,burst,shared …`                      | no expiry; 1 day after `setLimits(null)` |
 */
export interface LimiterKeys {
  readonly limits: string;
  readonly all: string;
  /**
   * The key of one limited key.
   *
   * @throws {KitError} `KIT_NAME`: it is empty, over 512 bytes, or not well-formed Unicode.
   */
  rate(key: string): string;
}

/** The keys of one limiter. */
export const limiterKeys = (prefix: string, name: string): LimiterKeys => {
  const space = keyspace("limiter", prefix);
  const head = space.base(name);
  // The text around the escaped name in a base: `…{` and `}:`.
  const start = space.base("x").length - 3;
  return {
    limits: `${head}limits`,
    all: `${head}all`,
    rate: (key) => `${head}key:${space.base(key).slice(start, -2)}`,
  };
};
