import { type Moments } from "./moments.js";
import type { Sketch } from "./sketch.js";

/** Figures of some values. Without values, `count` and `sum` are 0 and the other figures are NaN. */
export class Summary {
  readonly count: number;
  readonly sum: number;
  readonly mean: number;
  /**
   * The standard deviation of the values themselves (divided by `count`). Infinity if the squares exceed the range of a
   * double.
   */
  readonly stddev: number;
  readonly min: number;
  readonly max: number;
  /**
   * `quantile(q)` is accurate for every `q` above this number. It is 0, unless the values had more than `maxBins`
   * different magnitudes (by default, over more than nine decades). Then it is the share of values whose magnitude is
   * lost.
   */
  readonly accurateAbove: number;
  readonly #sketch: Sketch | undefined;

  /** For this package only. */
  constructor(moments: Moments, sketch?: Sketch) {
    const { count, mean, m2, min, max, sum, compensation, rest } = moments;
    const none = count === 0 ? Number.NaN : 0;
    this.count = count;
    this.sum = sum + compensation;
    this.mean = mean + rest + none;
    this.stddev = Math.sqrt(Math.max(0, m2) / count);
    this.min = min + none;
    this.max = max + none;
    this.accurateAbove = (sketch?.vague ?? 0) / Math.max(1, count);
    this.#sketch = sketch;
  }

  /**
   * Returns the value that a share `q` of the values does not exceed: number `ceil(q * count)` of the sorted values. The
   * result is within 1.09 % of the exact value, over any nine decades of values; see {@link accurateAbove}. NaN without
   * values.
   *
   * @throws {RangeError} `q` is not from 0 to 1.
   * @throws {TypeError} `q` is not a number, or this summary has no sketch, such as a summary from `record()`.
   */
  quantile(q: number): number {
    if (typeof q !== "number") throw new TypeError(`Expected \`q\` to be a number, got ${typeof q}`);
    if (!(q >= 0 && q <= 1)) throw new RangeError(`Expected \`q\` to be from 0 to 1, got ${String(q)}`);
    if (!this.#sketch) throw new TypeError("The result of `record()` has no quantiles. Call `summary()`");
    // 0.07 * 100 is a little above 7 in doubles.
    const rank = Math.ceil(q * this.count * (1 - Number.EPSILON));
    if (rank <= 1) return this.min;
    if (rank >= this.count) return this.max;
    return Math.min(this.max, Math.max(this.min, this.#sketch.at(rank)));
  }
}
