/** The figures kept of the rounds of one implementation. */
export interface Spread {
  readonly median: number;
  readonly min: number;
  readonly max: number;
}

const sorted = (values: readonly number[]): number[] => values.toSorted((one, other) => one - other);

/** The value that `share` of all values do not exceed (nearest rank): always one that was measured. */
export const percentile = (values: readonly number[], share: number): number => {
  const inOrder = sorted(values);
  const value = inOrder[Math.max(0, Math.ceil(share * inOrder.length) - 1)];
  if (value === undefined) throw new RangeError("Nothing was measured");
  return value;
};

/** The middle value, or the mean of the two in the middle. */
export const median = (values: readonly number[]): number => {
  const inOrder = sorted(values);
  const half = inOrder.length / 2;
  const upper = inOrder[Math.floor(half)];
  const lower = inOrder[Math.ceil(half) - 1];
  if (upper === undefined || lower === undefined) throw new RangeError("Nothing was measured");
  return (upper + lower) / 2;
};

export const spread = (values: readonly number[]): Spread => {
  const inOrder = sorted(values);
  return { median: median(inOrder), min: inOrder[0] ?? NaN, max: inOrder.at(-1) ?? NaN };
};

/** A new array with the same elements in random order. */
export const shuffled = <T>(items: readonly T[], random: () => number = Math.random): T[] => {
  const result = [...items];
  for (let last = result.length - 1; last > 0; last--) {
    const other = Math.floor(random() * (last + 1));
    [result[last], result[other]] = [result[other] as T, result[last] as T];
  }
  return result;
};
