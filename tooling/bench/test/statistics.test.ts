import { describe, expect, it } from "vitest";
import { median, percentile, shuffled, spread } from "../src/statistics.js";

describe("statistics", () => {
  it("takes the middle value, or the mean of the two in the middle", () => {
    expect(median([9, 1, 5])).toBe(5);
    expect(median([9, 1, 5, 6])).toBe(5.5);
  });

  it("gives a percentile that was measured, in numerical order", () => {
    const values = Array.from({ length: 100 }, (_, index) => 100 - index);
    expect(percentile(values, 0.5)).toBe(50);
    expect(percentile(values, 0.99)).toBe(99);
    expect(percentile([7], 0.99)).toBe(7);
    expect(percentile([100, 20, 3], 1)).toBe(100);
  });

  it("keeps the least and the most", () => {
    expect(spread([3, 10, 2])).toEqual({ median: 3, min: 2, max: 10 });
  });

  it("refuses to make a figure of nothing", () => {
    expect(() => median([])).toThrow(RangeError);
    expect(() => percentile([], 0.5)).toThrow(RangeError);
  });

  it("shuffles without losing anybody, and leaves the original alone", () => {
    const original = [1, 2, 3, 4, 5];
    const result = shuffled(original, () => 0);
    expect(result).not.toEqual(original);
    expect(result.toSorted((one, other) => one - other)).toEqual(original);
    expect(original).toEqual([1, 2, 3, 4, 5]);
  });
});
