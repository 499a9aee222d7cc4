import { type Moments } from "./moments.js";
import type { Sketch } from "./sketch.js";

/** Figures of some values. Without any, `count` and `sum` are 0 and the rest is NaN. */
export class Summary {
  readonly count: number;
  readonly sum: number;
  readonly mean: number;
  /** Standard deviation of the values themselves (divided by `count`). Infinity where the squares are beyond a double. */
  readonly stddev: number;
  readonly min: number;
  readonly max: number;
  readonly #sketch: Sketch | undefined;

  /** Made by this package only. */
  constructor(moments: Moments, sketch?: Sketch) {
    const { count, mean, m2, min, max, sum, compensation } = moments;
    const isEmpty = count === 0;
    this.count = count;
    this.sum = sum + compensation;
    this.mean = isEmpty ? Number.NaN : mean;
    this.stddev = isEmpty ? Number.NaN : Math.sqrt(Math.max(0, m2) / count);
    this.min = isEmpty ? Number.NaN : min;
    this.max = isEmpty ? Number.NaN : max;
    this.#sketch = sketch;
  }

  /**
   * The value below which a share `q` of the values lies: within 1.09 % of a true one, as long as the sketch had bins
   * enough (`maxBins`). NaN without values.
   *
   * @throws {RangeError} `q` is not from 0 to 1.
   * @throws {TypeError} this summary has no sketch: that of `record()` is only a part of the answer.
   */
  quantile(q: number): number {
    if (!(q >= 0 && q <= 1)) throw new RangeError(`Expected \`q\` to be from 0 to 1, got ${String(q)}`);
    if (!this.#sketch) throw new TypeError("This summary has no quantiles; take the one of `summary()`");
    if (q === 0) return this.min;
    if (q === 1) return this.max;
    const rank = q * (this.count - 1);
    let seen = 0;
    for (const { value, count } of this.#sketch.bins()) {
      seen += count;
      if (seen > rank) return Math.min(this.max, Math.max(this.min, value));
    }
    return this.max;
  }
}
