import { momentNames } from "../store/scripts/records.js";

/**
 * The count, mean, sum of squared distances from the mean (m2), extremes and sum of some values.
 *
 * One value is added by Welford's method (1962). Two samples are combined by the method of Chan, Golub and LeVeque (1979).
 * Neither method subtracts large, nearly equal numbers, as a sum of squares does. The sum is Neumaier's (1974):
 * `compensation` holds what additions to `sum` have cut off. `rest` does the same for the mean. Without it, the deviation of
 * large values that are close together loses most of its digits.
 */
export interface Moments {
  count: number;
  mean: number;
  m2: number;
  min: number;
  max: number;
  sum: number;
  compensation: number;
  rest: number;
}

export const noMoments = (): Moments => ({
  count: 0,
  mean: 0,
  m2: 0,
  min: Infinity,
  max: -Infinity,
  sum: 0,
  compensation: 0,
  rest: 0,
});

export const addValue = (to: Moments, value: number): void => {
  to.count++;
  const delta = value - to.mean - to.rest;
  moveMean(to, delta, 1 / to.count, value);
  to.m2 += Math.abs(delta * (value - to.mean - to.rest));
  if (value < to.min) to.min = value;
  if (value > to.max) to.max = value;
  addToSum(to, value, 0);
};

export const addMoments = (to: Moments, from: Moments): void => {
  if (from.count === 0) return;
  const count = to.count + from.count;
  const delta = from.mean - to.mean + (from.rest - to.rest);
  const share = from.count / count;
  if (to.count > 0) moveMean(to, delta, share, from.mean);
  else [to.mean, to.rest] = [from.mean, from.rest];
  to.m2 += from.m2 + (to.count === 0 ? 0 : delta * delta * (to.count * share));
  to.count = count;
  to.min = Math.min(to.min, from.min);
  to.max = Math.max(to.max, from.max);
  addToSum(to, from.sum, from.compensation);
};

/** Moves the mean towards another one at the distance `delta` by a share of that. */
const moveMean = (to: Moments, delta: number, share: number, other: number): void => {
  const step = delta * share;
  let mean = to.mean + step;
  to.rest += step - (mean - to.mean);
  // The distance between two huge values of opposite sign exceeds the range of a double.
  if (!Number.isFinite(delta)) [mean, to.rest] = [to.mean * (1 - share) + other * share, 0];
  to.mean = mean;
};

const addToSum = (to: Moments, value: number, compensation: number): void => {
  const sum = to.sum + value;
  to.compensation += compensation;
  if (!Number.isFinite(sum)) to.compensation = 0;
  else if (Math.abs(to.sum) >= Math.abs(value)) to.compensation += to.sum - sum + value;
  else to.compensation += value - sum + to.sum;
  to.sum = sum;
};

/** A number as the scripts read it: Lua's C library and JavaScript write infinity differently. */
const numberText = (value: number): string =>
  value === Infinity ? "inf" : value === -Infinity ? "-inf" : String(value);

const numberOf = (text = "0"): number => (text === "inf" ? Infinity : text === "-inf" ? -Infinity : Number(text));

/** The record of a plan. */
export const momentsPlan = (moments: Moments): string[] => momentNames.map((name) => numberText(moments[name]));

/** Moments from their texts in the order of the record. */
export const momentsOf = (texts: readonly (string | undefined)[]): Moments =>
  Object.fromEntries(momentNames.map((name, index) => [name, numberOf(texts[index])])) as unknown as Moments;
